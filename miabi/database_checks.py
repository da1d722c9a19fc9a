"""A start-up check that reads the database's settings back instead of trusting the file.

A misplaced option (one level too high in ``DATABASES``) has no effect and no error, so
the running connection is asked.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from django.core.checks import CheckMessage, Error, Tags, register
from django.db import connections


@register(Tags.database)
def check_sqlite_pragmas(databases: Sequence[str] | None = None, **kwargs: Any) -> list[CheckMessage]:
    """WAL, foreign keys, the busy timeout and immediate transactions are really on."""
    problems: list[CheckMessage] = []
    for alias in databases or []:
        connection = connections[alias]
        if connection.vendor != "sqlite":
            continue
        with connection.cursor() as cursor:
            pragmas = {
                name: cursor.execute(f"PRAGMA {name}").fetchone()[0]
                for name in ("journal_mode", "foreign_keys", "busy_timeout")
            }
        in_memory = connection.is_in_memory_db()  # type: ignore[attr-defined]
        if pragmas["journal_mode"] != "wal" and not in_memory:
            problems.append(_error("E001", f"journal_mode is {pragmas['journal_mode']}, not wal"))
        if pragmas["foreign_keys"] != 1:
            problems.append(_error("E002", "foreign keys are not enforced"))
        if pragmas["busy_timeout"] < 5000:
            problems.append(_error("E003", f"busy_timeout is {pragmas['busy_timeout']} ms, under 5000"))
        if getattr(connection, "transaction_mode", None) != "IMMEDIATE":
            problems.append(_error("E004", "transactions do not begin IMMEDIATE"))
    return problems


def _error(code: str, what: str) -> Error:
    return Error(
        f"SQLite: {what}.",
        hint="Set OPTIONS of the database: transaction_mode, timeout and init_command as in miabi/settings.py.",
        id=f"miabi.{code}",
    )
