"""The health of a table: facts from one replay of its log, and a verdict for each of them."""

from __future__ import annotations

import time
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from lazydelta.operations.maintenance import verdicts
from lazydelta.operations.maintenance.file_facts import HEALTH_FIELDS, FileFacts
from lazydelta.operations.maintenance.log_facts import log_facts
from lazydelta.replay.skipping import Pruner
from lazydelta.scan.plan import live_adds
from lazydelta.snapshot import load_snapshot
from lazydelta.writer.files import DataLayout

if TYPE_CHECKING:
    from collections.abc import Mapping

    from lazydelta.config import Config
    from lazydelta.operations.maintenance.verdicts import Finding, Severity
    from lazydelta.snapshot import SnapshotState
    from lazydelta.store import Store

__all__ = ["HealthReport", "table_health"]


@dataclass(frozen=True, slots=True, kw_only=True)
class HealthReport:
    """Facts about a table, and what they mean."""

    table: str
    version: int
    findings: tuple[Finding, ...]
    """One for each check, the most severe first."""
    facts: Mapping[str, Mapping[str, Any]]
    """Numbers by section: files, partitions, statistics, deletion_vectors, clustering, ghosts,
    log, checkpoint, tombstones, commits, plan."""

    @property
    def severity(self) -> Severity:
        """The most severe finding's."""
        return self.findings[0].severity if self.findings else "ok"

    def to_dict(self) -> dict[str, Any]:
        """Return plain values, for JSON."""
        return {**asdict(self), "severity": self.severity}


def table_health(
    store: Store, config: Config, *, known: SnapshotState | None = None
) -> HealthReport:
    """Return facts and verdicts about the newest version; nothing is written.

    Data files are not read.
    """
    snapshot = load_snapshot(store, config, previous=known)
    layout = DataLayout.of(snapshot.schema, snapshot.protocol, snapshot.metadata, config.write)
    files = FileFacts(snapshot, layout.target_file_bytes)
    batches = live_adds(snapshot, HEALTH_FIELDS, Pruner())
    seconds = 0.0
    while True:
        started = time.perf_counter()
        batch = next(batches, None)
        seconds += time.perf_counter() - started
        if batch is None:
            break
        files.add(batch)
    facts = {
        **files.to_dict(),
        **log_facts(snapshot),
        "plan": _plan(seconds, files.files, files.files_after_optimize(layout.target_file_bytes)),
    }
    return HealthReport(
        table=store.root,
        version=snapshot.version,
        findings=verdicts.findings(facts),
        facts=facts,
    )


def _plan(seconds: float, files: int, files_after: int) -> dict[str, Any]:
    """Return what a plan of all files takes, and about what it would take after OPTIMIZE."""
    after = seconds * files_after / max(files, 1)
    return {
        "replay_seconds": round(seconds, 3),
        "files_after_optimize": files_after,
        "seconds_after_optimize": round(after, 3),
    }
