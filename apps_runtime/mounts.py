"""Where a tenant's volumes may be mounted. Pure."""

from __future__ import annotations

import posixpath

_PLATFORM = ("/proc", "/sys", "/dev")
# What the driver's hook puts in is found through these; a volume on top would hide it.
_WHOLE = ("/", "/bin", "/sbin", "/lib", "/lib64", "/usr", "/usr/bin", "/usr/lib", "/usr/lib64", "/etc")


def check_mount_path(path: str) -> str:
    """An absolute, plain path inside the container.

    Raises:
        ValueError: with a sentence.
    """
    if not path.startswith("/") or path.startswith("//") or posixpath.normpath(path) != path:
        raise ValueError(f"{path[:80]!r} is no plain absolute path, for example /models.")
    if len(path) > 255 or ":" in path or any(ord(letter) < 32 for letter in path):
        raise ValueError("A mount path has at most 255 characters, no colon and no control characters.")
    if path in _WHOLE or any(path == top or path.startswith(top + "/") for top in _PLATFORM):
        raise ValueError(f"{path} belongs to the system. Mount below a directory of your own, for example /models.")
    return path
