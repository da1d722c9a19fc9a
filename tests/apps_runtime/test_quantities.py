"""CPU and memory as people write them."""

from __future__ import annotations

import pytest

from apps_runtime.quantities import format_cpu, format_memory, parse_cpu, parse_memory


@pytest.mark.parametrize(
    ("text", "millis"), [("500m", 500), ("4", 4000), ("1.5", 1500), (0.5, 500), (2, 2000), ("0.001", 1), (" 1 ", 1000)]
)
def test_cpu_is_cores_or_millicores(text, millis):
    assert parse_cpu(text) == millis


@pytest.mark.parametrize(
    "text", ["", "m", "-1", "0", "0m", "1.5m", "0.0001", "1e3", "1_0", "inf", "nan", "١", "1 2", "1M", True, "9" * 16]
)
def test_what_is_no_cpu_is_refused_in_words(text):
    with pytest.raises(ValueError, match="CPU"):
        parse_cpu(text)


@pytest.mark.parametrize(
    ("text", "mib"),
    [
        ("16Gi", 16384),
        ("512Mi", 512),
        ("1.5Gi", 1536),
        ("1G", 954),
        ("1000000k", 954),
        ("17179869184", 16384),
        (17179869184, 16384),
        ("64Ti", 64 * 1024 * 1024),
    ],
)
def test_memory_has_a_unit_or_is_bytes_and_is_rounded_up(text, mib):
    assert parse_memory(text) == mib


@pytest.mark.parametrize(
    "text", ["", "Gi", "-1Gi", "5Mi", "1Ki", "65Ti", "16gi", "1 Gi", "1e9", "16GB", True, "9" * 16]
)
def test_what_is_no_memory_is_refused_in_words(text):
    with pytest.raises(ValueError, match="memory"):
        parse_memory(text)


@pytest.mark.parametrize("millis", [1, 500, 1000, 1500, 64000])
def test_cpu_is_written_as_it_can_be_read(millis):
    assert parse_cpu(format_cpu(millis)) == millis


@pytest.mark.parametrize("mib", [6, 512, 1024, 1536, 16384])
def test_memory_is_written_as_it_can_be_read(mib):
    assert parse_memory(format_memory(mib)) == mib
