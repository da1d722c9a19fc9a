"""A run is green only when each collected test has run.

Some of pytest-xdist's ways to hand out tests go by their ids, and of several tests with one id they
run one, without a word. So ids are made unique where a plugin leaves them alike, and the tests that
ran are counted.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field

import pytest


def make_ids_unique(items: Sequence[pytest.Item]) -> None:
    """Give tests of one id the ids that their names make; an error where the names are alike too."""
    for item, count in with_count(items):
        if count > 1 and item.parent is not None:
            # schemathesis names each test after its operation, and that gets lost from the id.
            item._id = item.parent.id.child(item.name)
    alike = sorted({item.nodeid for item, count in with_count(items) if count > 1})
    if alike:
        raise pytest.UsageError(f"Several tests have one id, and only one of them would run: {', '.join(alike)}")


def with_count(items: Sequence[pytest.Item]) -> list[tuple[pytest.Item, int]]:
    counts = Counter(item.nodeid for item in items)
    return [(item, counts[item.nodeid]) for item in items]


@dataclass(eq=False)
class CompleteRun:
    """Counts, in the process that reports, what was collected and what began to run."""

    collected: int = 0
    ran: int = field(default=0)

    def pytest_collection_finish(self, session: pytest.Session) -> None:
        self.collected = max(self.collected, len(session.items))

    @pytest.hookimpl(optionalhook=True)
    def pytest_xdist_node_collection_finished(self, node: object, ids: Sequence[str]) -> None:
        self.collected = max(self.collected, len(ids))

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        self.ran += report.when == "setup"

    @pytest.hookimpl(tryfirst=True)
    def pytest_sessionfinish(self, session: pytest.Session, exitstatus: int) -> None:
        if exitstatus == 0 and self.ran < self.collected and not session.config.option.collectonly:
            session.exitstatus = pytest.ExitCode.TESTS_FAILED

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter, exitstatus: int) -> None:
        collect_only = terminalreporter.config.option.collectonly
        if self.ran < self.collected and not collect_only:
            terminalreporter.write_line(f"{self.collected - self.ran} of {self.collected} tests did not run", red=True)
