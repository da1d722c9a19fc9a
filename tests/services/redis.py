"""A private Redis server that keeps nothing on disk."""

from __future__ import annotations

from dataclasses import dataclass

from redis import Redis
from redis.exceptions import ConnectionError as NoConnection

from tests.services.service import ServerProcess, Service, find_program, free_port, private_folder


@dataclass
class RedisServer:
    service: Service
    url: str
    """For ``MIABI_BROKER_URL``."""

    def stop(self) -> None:
        self.service.stop()


def start_redis() -> RedisServer:
    """Raises ServiceMissing or ServiceFailed."""
    program = find_program("redis-server", package="redis-server")
    folder, port = private_folder("redis"), free_port()
    options = ["--bind", "127.0.0.1", "--save", "", "--appendonly", "no", "--dir", str(folder)]
    process = ServerProcess([program, "--port", str(port), *options], log=f"{folder}/log")
    service = Service([process], folder)
    service.start(lambda: answers(port))
    return RedisServer(service, f"redis://127.0.0.1:{port}/0")


def answers(port: int) -> bool:
    try:
        with Redis("127.0.0.1", port, socket_connect_timeout=1) as client:
            return bool(client.ping())
    except NoConnection:
        return False
