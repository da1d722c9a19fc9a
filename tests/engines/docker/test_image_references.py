"""References and progress of a pull."""

from __future__ import annotations

import base64
import json

import pytest

from engines.contract import EngineError, ImageUnavailable, RegistryLogin
from engines.docker.images import progress, registry_auth, split_reference


@pytest.mark.parametrize(
    ("image", "repository", "tag"),
    [
        ("busybox", "busybox", "latest"),
        ("busybox:1.36", "busybox", "1.36"),
        ("registry.example.com:5000/acme/app", "registry.example.com:5000/acme/app", "latest"),
        ("registry.example.com:5000/acme/app:2", "registry.example.com:5000/acme/app", "2"),
        ("acme/app@sha256:ab", "acme/app", "sha256:ab"),
        ("acme/app:1@sha256:ab", "acme/app:1", "sha256:ab"),
    ],
)
def test_a_reference_always_names_one_image(image: str, repository: str, tag: str) -> None:
    assert split_reference(image) == (repository, tag)


def test_an_empty_reference_is_refused() -> None:
    with pytest.raises(EngineError):
        split_reference("")


def test_progress_is_a_sentence() -> None:
    line = {"id": "a3ed", "status": "Downloading", "progress": "[=>  ] 1MB/9MB", "progressDetail": {}}

    assert progress(json.dumps(line).encode()) == "a3ed Downloading [=>  ] 1MB/9MB"


def test_an_error_in_the_stream_fails_the_pull() -> None:
    with pytest.raises(ImageUnavailable, match="manifest unknown"):
        progress(b'{"errorDetail":{"message":"manifest unknown"},"error":"manifest unknown"}')


def test_a_login_is_sent_as_url_safe_base64() -> None:
    header = registry_auth(RegistryLogin("registry.example.com", "ann", "p?~ss"))

    assert json.loads(base64.urlsafe_b64decode(header)) == {
        "username": "ann",
        "password": "p?~ss",
        "serveraddress": "registry.example.com",
    }
