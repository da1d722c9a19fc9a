"""Names of images, tags, digests and registries."""

from __future__ import annotations

import pytest

from apps_runtime.images import check_digest, check_image, check_server, check_tag


@pytest.mark.parametrize(
    "name",
    ["busybox", "library/busybox", "nvidia/cuda", "registry.example.com/acme/web", "localhost:5000/a/b_c.d__e-f"],
)
def test_image_names_are_taken(name):
    assert check_image(name) == name


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("https://registry.example.com/web", "scheme"),
        ("web@sha256:" + "0" * 64, "digest"),
        ("web:1", "tag"),
        ("registry.example.com/web:1", "tag"),
        ("Web", "no image name"),
        ("a//b", "no image name"),
        ("a b", "no image name"),
        ("-a", "no image name"),
        ("../etc", "no image name"),
        ("web\n", "no image name"),
        ("a" * 256, "no image name"),
    ],
)
def test_what_is_no_image_name_is_refused_in_words(name, words):
    with pytest.raises(ValueError, match=words):
        check_image(name)


@pytest.mark.parametrize("tag", ["1.4.0", "latest", "_x", "a" * 128])
def test_tags_are_taken(tag):
    assert check_tag(tag) == tag


@pytest.mark.parametrize("tag", ["-x", ".x", "a b", "a/b", "a:b", "a" * 129, "é", "a\n"])
def test_what_is_no_tag_is_refused(tag):
    with pytest.raises(ValueError, match="no tag"):
        check_tag(tag)


def test_a_digest_is_sha256_in_lower_case():
    assert check_digest("sha256:" + "a0" * 32)
    for wrong in ("sha256:" + "A0" * 32, "sha256:" + "a" * 63, "md5:" + "a" * 32, "a0" * 32):
        with pytest.raises(ValueError, match="sha256"):
            check_digest(wrong)


@pytest.mark.parametrize("server", ["registry.example.com", "registry.example.com:5000", "localhost", "10.0.0.7:443"])
def test_registries_are_hosts_with_an_optional_port(server):
    assert check_server(server) == server


@pytest.mark.parametrize(
    "server",
    ["https://registry.example.com", "registry.example.com/team", "a:0", "a:65536", "a:", "a:b", "", "a b", "user@a"],
)
def test_what_is_no_registry_is_refused(server):
    with pytest.raises(ValueError, match="no registry"):
        check_server(server)
