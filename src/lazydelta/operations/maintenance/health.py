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
    started = time.perf_counter()
    for batch in live_adds(snapshot, HEALTH_FIELDS, Pruner()):
        files.add(batch)
    seconds = time.perf_counter() - started
    facts = {
        **files.to_dict(),
        **log_facts(snapshot),
        "plan": {"replay_seconds": round(seconds, 3)},
    }
    return HealthReport(
        table=store.root,
        version=snapshot.version,
        findings=verdicts.findings(facts),
        facts=facts,
    )
