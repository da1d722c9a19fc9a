"""``python -m engines.virtual --listen unix:///path/node.sock --cards 4``: a node until stopped."""

from __future__ import annotations

import argparse
import asyncio
import json
import signal
import sys
from pathlib import Path
from typing import Any

from engines.virtual import settings
from engines.virtual.cards import make_cards
from engines.virtual.faults import Fault
from engines.virtual.node import VirtualNode
from engines.virtual.server import Listener, listen
from engines.virtual.state_file import StateUnreadable, load, save


def main() -> int:
    parser = _parser()
    options = parser.parse_args()
    if bool(options.listen) == bool(options.socket_dir):
        parser.error("say either --listen (one node) or --socket-dir (a fleet, with --nodes or --fleet)")
    try:
        nodes = make_nodes(options)
    except (OSError, ValueError) as error:
        parser.error(str(error))
    if options.listen and len(nodes) != 1:
        parser.error(f"--listen is for one node, and there are {len(nodes)}")
    if options.state and len(nodes) != 1:
        parser.error("--state is for one node")
    try:
        asyncio.run(_serve(nodes, options))
    except (OSError, ValueError) as error:
        print(f"cannot listen: {error}", file=sys.stderr)  # noqa: T201
        return 1
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m engines.virtual", description=__doc__)
    parser.add_argument("--listen", help="unix:///path or tcp://host:port, for one node")
    parser.add_argument("--socket-dir", type=Path, help="folder of a fleet's sockets, NAME.sock each")
    parser.add_argument("--nodes", type=int, default=1, help="how many equal nodes (default 1)")
    parser.add_argument("--name", default="virtual", help="the node's name; of many: NAME-0, NAME-1, ...")
    parser.add_argument("--cards", type=int, default=4, help="cards in each node (default 4)")
    parser.add_argument("--model", default="NVIDIA L4")
    parser.add_argument("--memory", type=int, default=23034, help="MiB of each card (default 23034)")
    parser.add_argument("--fleet", type=Path, help='JSON: {"nodes": [{"name": ..., "cards": [...], ...}]}')
    parser.add_argument("--latency", type=float, default=0.0, help="seconds before each call is acted on")
    parser.add_argument("--jitter", type=float, default=0.0, help="up to so many more")
    parser.add_argument("--state", type=Path, help="keep the node's containers in this file over restarts")
    return parser


def make_nodes(options: argparse.Namespace) -> list[VirtualNode]:
    """The nodes asked for. Raises ValueError for what cannot be, and OSError for an unreadable file."""
    if options.cards < 0 or options.nodes < 1 or options.memory < 1:
        raise ValueError("there are at least one node, no card, and 1 MiB of memory")
    if options.fleet:
        nodes = read_fleet(options.fleet.read_text())
    else:
        names = (
            [f"{options.name}-{number}" for number in range(options.nodes)] if options.socket_dir else [options.name]
        )
        nodes = [VirtualNode(name, make_cards(name, options.cards, options.model, options.memory)) for name in names]
    if options.latency or options.jitter:
        for node in nodes:
            node.faults.add(Fault("latency", seconds=options.latency, jitter=options.jitter))
    return nodes


def read_fleet(text: str) -> list[VirtualNode]:
    """Nodes from a fleet file's text; see ``settings``. Raises ValueError, saying where."""
    document: Any = json.loads(text)
    entries = document.get("nodes") if isinstance(document, dict) else None
    if not isinstance(entries, list) or not entries:
        raise ValueError('a fleet file is {"nodes": [...]}, with one node at least')
    nodes: list[VirtualNode] = []
    for number, entry in enumerate(entries):
        if not isinstance(entry, dict) or not isinstance(entry.get("name"), str):
            raise ValueError(f"nodes[{number}] has no name")
        node = VirtualNode(entry["name"])
        try:
            settings.apply_settings(node, {key: value for key, value in entry.items() if key != "name"})
        except ValueError as error:
            raise ValueError(f"nodes[{number}] ({node.name}): {error}") from error
        nodes.append(node)
    if len({node.name for node in nodes}) != len(nodes):
        raise ValueError("two nodes have the same name")
    return nodes


async def _serve(nodes: list[VirtualNode], options: argparse.Namespace) -> None:
    stop = asyncio.Event()
    for asked in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(asked, stop.set)
    if options.socket_dir:
        options.socket_dir.mkdir(parents=True, exist_ok=True)
    if options.state:
        _keep(nodes[0], options.state)
    listeners: list[Listener] = []
    try:
        for node in nodes:
            url = options.listen or f"unix://{options.socket_dir.resolve() / node.name}.sock"
            listeners.append(await listen(node, url))
        cards = sum(len(node.cards) for node in nodes)
        where = listeners[0].url if options.listen else str(options.socket_dir)
        print(f"{len(nodes)} virtual node(s) with {cards} card(s) at {where}", flush=True)  # noqa: T201
        await stop.wait()
    finally:
        for listener in listeners:
            listener.close()
        if options.state:
            nodes[0].on_change = None
            save(nodes[0], options.state)
        tasks = asyncio.all_tasks() - {asyncio.current_task()}
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


def _keep(node: VirtualNode, path: Path) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    try:
        load(node, path)
    except StateUnreadable as error:
        aside = path.with_suffix(".unreadable")
        path.replace(aside)
        print(f"starting empty; the state cannot be read and is now {aside}: {error}", file=sys.stderr)  # noqa: T201
    node.on_change = lambda: save(node, path)


if __name__ == "__main__":
    sys.exit(main())
