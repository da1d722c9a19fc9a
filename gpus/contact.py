"""Whether a node answered when it was last spoken to."""

from __future__ import annotations

from django.utils import timezone

from gpus.models import Node


def record_contact(node_id: int, *, reachable: bool) -> None:
    """Note that the node answered just now, or did not."""
    seen = {"last_seen_at": timezone.now()} if reachable else {}
    Node.objects.filter(pk=node_id).update(reachable=reachable, **seen)
