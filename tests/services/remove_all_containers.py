"""Remove every container of the engine whose address is given: it is about to be thrown away."""

from __future__ import annotations

import contextlib
import sys

import docker
from docker.errors import APIError


def main() -> None:
    client = docker.APIClient(sys.argv[1], version="auto", timeout=30)
    for container in client.containers(all=True):
        with contextlib.suppress(APIError):
            client.remove_container(container["Id"], force=True, v=True)


if __name__ == "__main__":
    main()
