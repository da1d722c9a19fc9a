"""The virtual node: a server that speaks the Docker Engine API, with simulated cards.

The product reaches it through ``engines.docker`` like any engine, so there is no second
way through its code. It makes a first look possible without Docker, and fleets and faults
possible on one machine. No Django import.

As a process (``--help`` tells the rest)::

    python -m engines.virtual --listen unix:///tmp/node.sock --cards 4
    python -m engines.virtual --socket-dir /tmp/fleet --nodes 1000 --cards 10

In a test::

    node = VirtualNode.with_cards("n1", 4)                          # engines.virtual.node
    with serve([node]) as serving:                                  # engines.virtual.serving
        client = docker.APIClient(serving.urls[0], version="auto")
        node.faults.add(Fault("act_then_drop", "create", times=2))  # engines.virtual.faults
        serving.call(lambda: node.restart(lost=[node.cards[0].uuid]))

From another process: ``GET /_virtual/state``, ``PUT /_virtual/faults``, ``PATCH
/_virtual/node``, ``POST /_virtual/restart``, ``POST /_virtual/containers/{id}/end`` at the
node's own address (``control_routes``).
"""
