"""A private Docker Engine with virtual NVIDIA cards: its own containerd, folders, socket and bridge."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from dataclasses import dataclass
from enum import Enum
from pathlib import Path

import docker
from docker.errors import DockerException

from tests.services.images import load_images
from tests.services.service import ServerProcess, Service, ServiceMissing, find_program, private_folder

GPU_HOOK = Path(__file__).parent.parent / "engine" / "gpu_hook"
REMOVE_ALL = Path(__file__).with_name("remove_all_containers.py")
SYSTEM_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"

CONTAINERD_CONFIG = """version = 2
root = "{folder}/containerd"
state = "{folder}/containerd-state"
disabled_plugins = ["io.containerd.grpc.v1.cri"]
[grpc]
  address = "{folder}/containerd.sock"
"""


class Toolkit(Enum):
    """How the NVIDIA toolkit is set up on the engine."""

    INSTALLED = "installed"
    DEFAULT_RUNTIME = "default runtime"
    ABSENT = "absent"


@dataclass
class DockerEngine:
    service: Service
    url: str

    def stop(self) -> None:
        self.service.stop()


def start_docker_engine(toolkit: Toolkit, fleet: Path) -> DockerEngine:
    """An engine with the images of ``images``; its cards are those in the file ``fleet``.

    Raises:
        ServiceMissing: not root, or Docker is not installed.
        ServiceFailed: it did not come up.
    """
    if os.geteuid() != 0:
        raise ServiceMissing("a private Docker Engine needs root")
    containerd = find_program("containerd", package="docker.io")
    dockerd = find_program("dockerd", package="docker.io")
    find_program("runc", package="docker.io")
    find_program("ip", package="iproute2")
    folder = private_folder("docker")
    url = f"unix://{folder}/docker.sock"
    bridge = make_bridge()
    environment = {"PATH": SYSTEM_PATH, "MIABI_TEST_FLEET": str(fleet)}
    if toolkit is not Toolkit.ABSENT:
        environment["PATH"] = f"{install_hook(folder)}:{SYSTEM_PATH}"
    (folder / "containerd.toml").write_text(CONTAINERD_CONFIG.format(folder=folder))
    (folder / "daemon.json").write_text(json.dumps(daemon_config(toolkit, folder, bridge)))
    processes = [
        ServerProcess(
            [containerd, "--config", f"{folder}/containerd.toml"],
            log=f"{folder}/containerd.log",
            env=environment,
            ready_path=f"{folder}/containerd.sock",
        ),
        ServerProcess(
            [dockerd, "--config-file", f"{folder}/daemon.json", "--host", url],
            log=f"{folder}/dockerd.log",
            env=environment,
            # A container that ignores its stop signal would hold the daemon up.
            before_stop=[sys.executable, str(REMOVE_ALL), url],
        ),
    ]
    service = Service(processes, folder, at_the_end=[["ip", "link", "delete", bridge]])
    service.start(lambda: answers(url))
    try:
        client = docker.APIClient(url, version="auto", timeout=60)
        load_images(client)
        client.close()
    except BaseException:
        service.stop()
        raise
    return DockerEngine(service, url)


def answers(url: str) -> bool:
    try:
        docker.APIClient(url, version="auto", timeout=5).close()
    except DockerException:
        return False
    return True


def daemon_config(toolkit: Toolkit, folder: Path, bridge: str) -> dict[str, object]:
    config: dict[str, object] = {
        "data-root": f"{folder}/data",
        "exec-root": f"{folder}/exec",
        "pidfile": f"{folder}/docker.pid",
        "containerd": f"{folder}/containerd.sock",
        "bridge": bridge,
        # The host's firewall is not ours; ports are published by Docker's own proxy process.
        "iptables": False,
        "ip6tables": False,
        "ip-masq": False,
        "ip-forward": False,
        "shutdown-timeout": 5,
    }
    if toolkit is not Toolkit.ABSENT:
        config["runtimes"] = {"nvidia": {"path": f"{folder}/bin/nvidia-container-runtime"}}
    if toolkit is Toolkit.DEFAULT_RUNTIME:
        config["default-runtime"] = "nvidia"
    return config


def install_hook(folder: Path) -> Path:
    """A folder for the PATH with the hook, run by a Python that is there and starts fast."""
    programs = folder / "bin"
    shutil.copytree(GPU_HOOK, programs)
    hook = programs / "nvidia-container-runtime-hook"
    lines = hook.read_text().splitlines(keepends=True)
    hook.write_text(f"#!{os.path.realpath(sys.executable)} -sSE\n" + "".join(lines[1:]))
    for program in (hook, programs / "nvidia-container-runtime"):
        program.chmod(0o755)
    return programs


def make_bridge() -> str:
    """A network bridge of our own, on a subnet that no other interface has; its name."""
    taken = subprocess.run(["ip", "-o", "-4", "address"], capture_output=True, text=True, check=True).stdout
    start = os.getpid()
    for attempt in range(200):
        number = (start + attempt) % 250
        if f"10.213.{number}.1/" in taken:
            continue
        name = f"miabi-test{number}"
        if subprocess.run(["ip", "link", "add", name, "type", "bridge"], capture_output=True, check=False).returncode:
            continue
        subprocess.run(["ip", "address", "add", f"10.213.{number}.1/24", "dev", name], check=True)
        subprocess.run(["ip", "link", "set", name, "up"], check=True)
        return name
    raise ServiceMissing("no network bridge can be made here (ip link add type bridge)")
