"""References of container images. Pure.

Grammar: the distribution project's reference.go (name components in lower case, optional
host with port, tag of 128 characters, sha256 digest).
"""

from __future__ import annotations

import re

_COMPONENT = r"[a-z0-9]+(?:(?:\.|_|__|-+)[a-z0-9]+)*"
_HOST = r"(?:[A-Za-z0-9](?:[A-Za-z0-9-]*[A-Za-z0-9])?)(?:\.[A-Za-z0-9](?:[A-Za-z0-9-]*[A-Za-z0-9])?)*(?::\d{1,5})?"
_NAME = re.compile(rf"(?:{_HOST}/)?{_COMPONENT}(?:/{_COMPONENT})*\Z", re.ASCII)
_SERVER = re.compile(rf"{_HOST}\Z", re.ASCII)
_TAG = re.compile(r"[\w][\w.-]{0,127}\Z", re.ASCII)
DOCKER_HUB = "docker.io"
_DIGEST = re.compile(r"sha256:[0-9a-f]{64}\Z", re.ASCII)


def check_image(name: str) -> str:
    """An image's name without tag and digest.

    Raises:
        ValueError: with a sentence.
    """
    if "://" in name:
        raise ValueError("An image's name has no scheme: write registry.example.com/team/image.")
    if "@" in name:
        raise ValueError("Write the digest in its own field, not in the image's name.")
    if (":" in name.rsplit("/", 1)[-1] and "/" in name) or (":" in name and "/" not in name):
        raise ValueError("Write the tag in its own field, not in the image's name.")
    if len(name) > 255 or not _NAME.match(name):
        raise ValueError(
            f"{name[:80]!r} is no image name. Use lower case, for example registry.example.com/team/image."
        )
    return name


def registry_of(reference: str) -> str:
    """The server an image comes from; a name without one is Docker Hub's, as engines read it."""
    first, slash, _ = reference.partition("/")
    if slash and ("." in first or ":" in first or first == "localhost" or first != first.lower()):
        return first
    return DOCKER_HUB


def check_server(server: str) -> str:
    """A registry's host and optional port, as image names begin with it.

    Raises:
        ValueError: with a sentence.
    """
    port = server.rpartition(":")[2] if ":" in server else "443"
    if len(server) > 255 or not _SERVER.match(server) or not 1 <= int(port) <= 65535:
        raise ValueError(f"{server[:80]!r} is no registry: write its host or host:port, without scheme and path.")
    return server


def check_tag(tag: str) -> str:
    """Raises ValueError."""
    if not _TAG.match(tag):
        raise ValueError(f"{tag[:80]!r} is no tag: letters, digits, '_', '.' and '-', at most 128.")
    return tag


def check_digest(digest: str) -> str:
    """Raises ValueError."""
    if not _DIGEST.match(digest):
        raise ValueError("A digest is sha256: and 64 hexadecimal digits in lower case.")
    return digest
