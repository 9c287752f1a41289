"""Explanation of a scan: its plan, and what each level read and pruned."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from lazydelta._html import explanation_html

if TYPE_CHECKING:
    from collections.abc import Mapping

    from lazydelta.scan.plan.scan_metrics import ScanMetrics
    from lazydelta.scan.plan.strategy import Choice
    from lazydelta.snapshot import SnapshotState

__all__ = ["Explanation", "explain"]


class Explanation(dict[str, Any]):
    """Plan and counters of a scan: a dictionary that prints as a report."""

    def __str__(self) -> str:
        lines = []
        for level, facts in self.items():
            if not isinstance(facts, dict):
                lines.append(f"{level}: {facts}")
                continue
            lines.append(f"{level}")
            lines += [f"  {name.replace('_', ' '):<22} {_format(v)}" for name, v in facts.items()]
        return "\n".join(lines)

    _repr_html_ = explanation_html


def _format(value: object) -> str:
    if isinstance(value, bool) or value is None:
        return {True: "yes", False: "no", None: "-"}[value]
    if isinstance(value, int):
        return f"{value:,}"
    return f"{value:.3f}" if isinstance(value, float) else str(value)


def _files(snapshot: SnapshotState, run: ScanMetrics) -> dict[str, object]:
    return {
        "scanned": run.files_scanned,
        **_pruned(run),
        "emitted": run.files_emitted,
        "superseded": run.files_superseded,
        "in_snapshot": snapshot.num_files if run.live_files is None else run.live_files,
        "in_snapshot_about": snapshot.estimated_files(),
    }


def _requests(run: ScanMetrics) -> dict[str, object]:
    """Return the requests to a remote store; nothing for a store that does not count them."""
    if run.requests is None:
        return {}
    requests, bytes_read, depth = run.requests
    return {"store": {"requests": requests, "bytes": bytes_read, "dependency_depth": depth}}


def _pruned(run: ScanMetrics) -> dict[str, object]:
    """Return how many files of the version were pruned, or why that is unknown."""
    if run.live_files is not None and run.files_scanned <= run.live_files:
        return {"pruned": run.live_files - run.files_scanned}
    if run.live_files is not None:
        reason = f"a checksum states {run.live_files} files, fewer than there are"
    elif run.reached_end:
        reason = "the files of the version were not counted"
    elif run.complete or run.files_emitted:
        reason = "the scan ended before it had read the whole log"
    else:
        reason = "the scan has not run"
    return {"pruned": None, "pruned_unknown": reason}


def explain(
    snapshot: SnapshotState, choice: Choice, plan: Mapping[str, object], run: ScanMetrics
) -> Explanation:
    """Return the plan of a scan and the counters of its latest run."""
    segment, checkpoint = snapshot.segment, snapshot.segment.checkpoint
    return Explanation(
        table=snapshot.store.root,
        version=snapshot.version,
        plan={"strategy": choice.strategy, "reason": choice.reason, **plan},
        log={
            "checkpoint": checkpoint and checkpoint.name,
            "tail_commits": len(segment.commits),
            "tail_files": len(segment.tail),
            "commits_read": run.commits_scanned,
            "commit_bytes": run.commit_bytes,
        },
        checkpoint={
            "leaves_opened": run.checkpoint_leaves,
            "sidecars_skipped": run.sidecars_skipped,
            "row_groups": run.row_groups,
            "row_groups_read": run.row_groups_read,
            "bytes": run.checkpoint_bytes,
        },
        files=_files(snapshot, run),
        seen_set={
            "keys": run.remove_set_size,
            "memory_bytes": run.remove_set_bytes,
            "spilled_runs": run.remove_set_spilled_runs,
        },
        **_requests(run),
        run={
            "complete": run.complete,
            "fallbacks": run.fallback_triggered,
            "first_file_ms": run.time_to_first_file_ms,
            "seconds": run.seconds,
        },
    )
