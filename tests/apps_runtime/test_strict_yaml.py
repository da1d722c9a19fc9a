"""YAML is read as it stands on the page, and no text keeps the reader busy."""

from __future__ import annotations

import pytest
import yaml

from apps_runtime.strict_yaml import MAX_DEPTH, MAX_VALUES, YamlError, documents, value


def read(text: str) -> object:
    return value(next(documents(text)), "top")


@pytest.mark.parametrize(
    "text",
    ["1.10", "0755", "0o17", "0x1F", "1_000", "12:30:45", "yes", "No", "on", "true", "2024-01-01", "1e3", ".inf", "+1"],
)
def test_a_plain_scalar_is_its_own_text(text):
    assert read(f"a: {text}") == {"a": text}


@pytest.mark.parametrize(("text", "read_as"), [("0", 0), ("8000", 8000), ("-1", -1), ('"8000"', "8000"), ("'0'", "0")])
def test_only_whole_decimal_numbers_are_numbers(text, read_as):
    assert read(f"a: {text}") == {"a": read_as}


def test_a_number_reads_back_as_the_text_it_was():
    for text in ("0", "-7", "123456789012345678", "1234567890123456789012345678901234567890"):
        assert str(read(f"- {text}")) == f"[{text if len(text) <= 18 else repr(text)}]"


@pytest.mark.parametrize("text", ["~", "null", "Null", "NULL", ""])
def test_null_is_null(text):
    assert read(f"a: {text}") == {"a": None}


def test_a_text_that_looks_like_null_is_text_when_quoted():
    assert read("a: 'null'") == {"a": "null"}


def test_a_merge_key_is_a_key_like_any_other():
    assert read("<<: {a: b}") == {"<<": {"a": "b"}}


def test_what_the_writer_quotes_reads_back_the_same():
    texts = ["1.10", "yes", "~", "null", "0755", "8000", "", " a ", "a: b", "#", "\n", "é😀", "\x01\x7f", "2024-01-01"]
    assert read(yaml.safe_dump(texts, allow_unicode=True)) == texts


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("a: &x b\nc: *x", "line 2: YAML aliases are not allowed"),
        ("a: !!binary aGk=", "line 1: the YAML tag !!binary is not allowed"),
        ("a: !!float 1", "the YAML tag !!float"),
        ("a: !custom b", "the YAML tag !custom"),
        ("a: !!int x", "line 1: top.a is no whole number"),
        ("a: 1\nb: 2\na: 3", "line 3: top.a stands here twice"),
        ("a: {1: b, '1': c}", "top.a.1 stands here twice"),
        ("~: a", "a key is no text"),
        ("{a: b}: c", "a key is no text"),
        ("a: [", "line 1"),
        ("a: \x07", "special characters are not allowed"),
        ("\ttab", "line 1"),
        ("%YAML 9.9\n---\na", "line 1"),
    ],
)
def test_what_is_not_plain_is_refused_with_its_line(text, words):
    with pytest.raises(YamlError) as refused:
        read(text)
    assert words in str(refused.value)


def test_depth_is_bounded():
    assert read("[" * MAX_DEPTH + "]" * MAX_DEPTH)
    with pytest.raises(YamlError, match="nested too deeply"):
        read("[" * 100_000)


@pytest.mark.timeout(60)
def test_many_keys_in_one_mapping_are_refused_before_they_are_compared():
    with pytest.raises(YamlError, match=f"more than {MAX_VALUES} values"):
        read("{" + ",".join(f"k{number}: a" for number in range(MAX_VALUES)) + "}")


def test_empty_documents_are_passed_over():
    assert len(list(documents("---\n---\na: b\n---\n# nothing\n"))) == 1
