"""Bring the database up to date, seed it, and tell which virtual nodes it has.

``python -m scripts.prepare VIRTUAL_ADDRESS REPORT``: in a process of its own, so that what
supervises the others stays small.
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path


def main() -> None:
    virtual_address, report = sys.argv[1:]
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "miabi.settings")
    import django
    from django.core.management import call_command

    django.setup()
    from gpus.models import Node

    call_command("migrate", verbosity=0, interactive=False)
    call_command("seed", virtual_address=virtual_address)
    addresses = Node.objects.filter(engine=Node.Engine.VIRTUAL).values_list("address", flat=True)
    Path(report).write_text(json.dumps(sorted(addresses)))


if __name__ == "__main__":
    main()
