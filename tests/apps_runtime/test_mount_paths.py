"""Where volumes may be mounted."""

from __future__ import annotations

import pytest

from apps_runtime.mounts import check_mount_path


@pytest.mark.parametrize("path", ["/models", "/var/lib/app", "/home/user/.cache", "/usr/local/share", "/developer"])
def test_a_directory_of_ones_own_is_taken(path):
    assert check_mount_path(path) == path


@pytest.mark.parametrize(
    "path",
    [
        "",
        "models",
        "./models",
        "/",
        "//models",
        "/models/",
        "/a/../etc",
        "/a/./b",
        "/..",
        "/proc",
        "/proc/1",
        "/sys/fs",
        "/dev",
        "/dev/nvidia0",
        "/usr",
        "/usr/bin",
        "/etc",
        "/a:ro",
        "/a\x00b",
        "/a\n",
        "/" + "a" * 255,
    ],
)
def test_the_systems_own_and_what_is_no_plain_path_are_refused(path):
    with pytest.raises(ValueError, match=r"path|system"):
        check_mount_path(path)
