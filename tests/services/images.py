"""Container images without a registry: a static busybox, imported under the names the tests use."""

from __future__ import annotations

import io
import struct
import subprocess
import tarfile
from pathlib import Path

import docker

from tests.services.service import ServiceMissing, find_program

BUSYBOX = "miabi-test/busybox:1"
EVERY_CARD = "miabi-test/every-card:1"
"""Asks by itself for every card, as CUDA images do."""
PROBE = "nvidia/cuda:12.4.1-base-ubuntu22.04"
"""The default of ``MIABI_GPU_PROBE_IMAGE``."""
SHORT = "busybox:test"


def load_images(client: docker.APIClient) -> None:
    """Raises ServiceMissing without a static busybox."""
    rootfs = busybox_rootfs(Path(find_program("busybox", package="busybox-static")))
    import_image(client, rootfs, BUSYBOX)
    import_image(client, rootfs, EVERY_CARD, changes=["ENV NVIDIA_VISIBLE_DEVICES=all"])
    for name in (PROBE, SHORT):
        repository, _, tag = name.partition(":")
        client.tag(BUSYBOX, repository, tag)


def import_image(client: docker.APIClient, rootfs: bytes, name: str, changes: list[str] | None = None) -> None:
    repository, _, tag = name.partition(":")
    client.import_image_from_data(rootfs, repository=repository, tag=tag, changes=changes)


def busybox_rootfs(busybox: Path) -> bytes:
    """A tar of a root file system with nothing but busybox and its applets."""
    program = busybox.read_bytes()
    if needs_loader(program):
        raise ServiceMissing(f"{busybox} needs shared libraries (Debian package busybox-static has one that does not)")
    applets = subprocess.run([busybox, "--list"], capture_output=True, text=True, check=True).stdout.split()
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as tar:
        for folder, mode in [
            ("bin", 0o755),
            ("usr/bin", 0o755),
            ("etc", 0o755),
            ("root", 0o700),
            ("tmp", 0o1777),
        ]:
            entry = tarfile.TarInfo(folder)
            entry.type, entry.mode = tarfile.DIRTYPE, mode
            tar.addfile(entry)
        add_file(tar, "bin/busybox", program, 0o755)
        add_file(
            tar,
            "etc/passwd",
            b"root:x:0:0:root:/root:/bin/sh\nnobody:x:65534:65534:nobody:/:/bin/sh\n",
            0o644,
        )
        add_file(tar, "etc/group", b"root:x:0:\nnogroup:x:65534:\n", 0o644)
        for applet in applets:
            if applet != "busybox":
                link = tarfile.TarInfo(f"bin/{applet}")
                link.type, link.linkname = tarfile.SYMTYPE, "busybox"
                tar.addfile(link)
    return buffer.getvalue()


def needs_loader(elf: bytes) -> bool:
    """Whether a 64-bit little-endian ELF program asks for a dynamic loader (a PT_INTERP header)."""
    (table,) = struct.unpack_from("<Q", elf, 32)
    size, count = struct.unpack_from("<HH", elf, 54)
    return any(struct.unpack_from("<I", elf, table + number * size) == (3,) for number in range(count))


def add_file(tar: tarfile.TarFile, name: str, content: bytes, mode: int) -> None:
    entry = tarfile.TarInfo(name)
    entry.size, entry.mode = len(content), mode
    tar.addfile(entry, io.BytesIO(content))
