"""``python -m engines.virtual --listen unix:///path/node.sock --cards 4``: a node until stopped."""

from __future__ import annotations

import argparse
import asyncio
import signal
import sys
from pathlib import Path

from engines.virtual.cards import make_cards
from engines.virtual.node import VirtualNode
from engines.virtual.server import listen
from engines.virtual.state_file import load, save


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m engines.virtual", description=__doc__)
    parser.add_argument("--listen", help="unix:///path or tcp://host:port, for one node.")
    parser.add_argument("--name", default="virtual")
    parser.add_argument("--cards", type=int, default=4)
    parser.add_argument("--model", default="NVIDIA L4")
    parser.add_argument("--memory", type=int, default=23034, help="MiB of each card.")
    parser.add_argument("--state", type=Path, help="Keep containers in this file over restarts.")
    parser.add_argument("--nodes", type=int, help="A fleet of this many nodes instead, in --socket-dir.")
    parser.add_argument("--socket-dir", type=Path)
    options = parser.parse_args()
    if bool(options.listen) == bool(options.nodes):
        parser.error("say either --listen or --nodes with --socket-dir")
    if options.nodes and not options.socket_dir:
        parser.error("--nodes needs --socket-dir")
    asyncio.run(_serve(options))
    return 0


async def _serve(options: argparse.Namespace) -> None:
    stop = asyncio.Event()
    for asked in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(asked, stop.set)
    servers = []
    if options.nodes:
        options.socket_dir.mkdir(parents=True, exist_ok=True)
        for number in range(options.nodes):
            name = f"{options.name}-{number}"
            node = VirtualNode(name, make_cards(name, options.cards, options.model, options.memory))
            servers.append(await listen(node, f"unix://{options.socket_dir / name}.sock"))
        print(f"{options.nodes} virtual nodes with {options.cards} cards each in {options.socket_dir}")  # noqa: T201
    else:
        node = VirtualNode(options.name, make_cards(options.name, options.cards, options.model, options.memory))
        if options.state:
            load(node, options.state)
            node.on_change = lambda: save(node, options.state)
        servers.append(await listen(node, options.listen))
        print(f"virtual node {options.name} with {options.cards} cards at {options.listen}")  # noqa: T201
    sys.stdout.flush()
    await stop.wait()
    for server in servers:
        server.close()
    for task in asyncio.all_tasks() - {asyncio.current_task()}:
        task.cancel()


if __name__ == "__main__":
    sys.exit(main())
