"""Rows and tokens the benchmarks start from."""

from __future__ import annotations

from typing import Any

import requests


def prepare(engine: str, apps: int) -> tuple[str, list[str]]:
    """A workspace with ``apps`` apps of one GPU each on one node whose cards are shared widely enough.

    Returns a tenant's token and the apps' names.
    """
    from gpus.inventory import probe_node
    from gpus.models import GpuDevice, Node
    from tests.factories import make_app, make_member, make_node, make_workspace
    from tests.services.images import BUSYBOX
    from workspaces.audit import PLATFORM
    from workspaces.tokens import create_token

    node = make_node("bench", engine=Node.Engine.DOCKER, address=engine)
    outcome = probe_node(node.pk)
    if outcome.code:
        raise RuntimeError(f"the probe failed: {outcome}")
    GpuDevice.objects.filter(node=node).update(enabled=True, mode="shared", max_shares=16)
    workspace = make_workspace("bench")
    image, _, tag = BUSYBOX.partition(":")
    names = [
        make_app(workspace, f"bench-{number}", image=image, tag=tag, command=COMMAND, gpu=1, node=node).name
        for number in range(apps)
    ]
    token = create_token(make_member(workspace), name="bench", workspace=workspace, scope="write", actor=PLATFORM)[1]
    return token, names


# Ends at once when asked to, so that stopping measures the platform and not the grace period.
COMMAND = ["sh", "-c", "trap 'exit 0' TERM; sleep 1000 & wait"]


class Api:
    def __init__(self, url: str, token: str) -> None:
        self.base = f"{url}/api/v1/workspaces/bench/apps"
        self.session = requests.Session()
        self.session.headers["Authorization"] = f"Bearer {token}"

    def ask(self, app: str, verb: str) -> dict[str, Any]:
        answer = self.session.post(f"{self.base}/{app}/{verb}", timeout=60)
        if answer.status_code != 202:
            raise RuntimeError(f"{verb} {app}: {answer.status_code} {answer.text[:300]}")
        told: dict[str, Any] = answer.json()
        return told
