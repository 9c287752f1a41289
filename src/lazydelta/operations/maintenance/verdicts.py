"""Verdicts about the facts of a table: how severe, which command cures it, at what cost. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    Facts = Mapping[str, Mapping[str, Any]]

__all__ = ["SEVERITIES", "Finding", "Severity", "findings"]

Severity = Literal["ok", "advice", "warning", "critical"]
SEVERITIES: tuple[Severity, ...] = ("ok", "advice", "warning", "critical")


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """One check of a table's health."""

    check: str
    severity: Severity
    message: str
    cure: str = ""
    """The call that cures it; the command of the same name does the same."""
    cost: str = ""
    """About what the cure reads and writes."""


def findings(facts: Facts) -> tuple[Finding, ...]:
    """Return the findings, the most severe first."""
    found = [check(facts) for check in _CHECKS]
    return tuple(sorted(found, key=lambda finding: -SEVERITIES.index(finding.severity)))


def _small_files(facts: Facts) -> Finding:
    files = facts["files"]
    share, count, size = files["small_share"], files["small"], files["small_bytes"]
    per_partition = count / max(facts["partitions"]["count"], 1)
    if per_partition < 2 or share < 0.2:  # nothing to join
        message = f"{count:,} of {files['count']:,} files are small"
        return Finding(check="small files", severity="ok", message=message)
    severe: Severity = "warning" if share >= 0.5 and count >= 100 else "advice"
    return Finding(
        check="small files",
        severity=severe,
        message=f"{count:,} of {files['count']:,} files ({share:.0%}) are small: {_size(size)}",
        cure="table.optimize()",
        cost=f"reads and writes {_size(size)}; leaves about {_planned(facts)}",
    )


def _planned(facts: Facts) -> str:
    plan = facts["plan"]
    before, after = plan["replay_seconds"], plan["seconds_after_optimize"]
    return f"{plan['files_after_optimize']:,} files, planned in {after:g} s instead of {before:g} s"


def _partitioning(facts: Facts) -> Finding:
    found = facts["partitions"]
    count = found["count"]
    if not found["columns"] or count < 2:
        return Finding(check="partitioning", severity="ok", message=f"{count} partitions")
    small, median, largest = found["below_minimum"], found["median_bytes"], found["largest_bytes"]
    message = f"{count:,} partitions, median {_size(median)}, largest {_size(largest)}"
    if small > count / 2 and count > 100:
        return Finding(
            check="partitioning",
            severity="warning",
            message=f"{message}: {small:,} hold less than 1 GiB, so files stay small",
            cure="write a new table with fewer partition columns, or with clustering",
            cost=f"reads and writes {_size(facts['files']['bytes'])}",
        )
    if largest > 20 * max(median, 1) and largest > 1 << 30:
        return Finding(
            check="partitioning",
            severity="advice",
            message=f"{message}: the partition {found['largest']} is much larger than others",
            cure="partition by another column, or use clustering",
        )
    return Finding(check="partitioning", severity="ok", message=message)


def _statistics(facts: Facts) -> Finding:
    found, files = facts["statistics"], facts["files"]
    missing = found["files_without_row_count"]
    if not missing:
        without = found["columns_without_bounds"]
        more = f"; without bounds: {', '.join(without[:5])}" if without else ""
        return Finding(
            check="statistics", severity="ok", message=f"all files have statistics{more}"
        )
    share = missing / max(files["count"], 1)
    return Finding(
        check="statistics",
        severity="warning" if share > 0.5 else "advice",
        message=f"{missing:,} of {files['count']:,} files have no statistics: scans read them",
        cure="table.optimize(), which writes statistics for the files that it rewrites",
        cost=f"reads and writes about {_size(int(files['bytes'] * share))}",
    )


def _clustering(facts: Facts) -> Finding:
    depths = facts["clustering"]["overlap_depth"]
    if not depths:
        return Finding(check="clustering", severity="ok", message="no clustering columns")
    shown = ", ".join(f"{name} {depth}" for name, depth in depths.items())
    files = facts["clustering"]["compared_files"]
    message = f"files that hold one value, on average: {shown} (of {files:,})"
    worst = max(depths.values())
    if worst <= max(10, files / 100):
        return Finding(check="clustering", severity="ok", message=message)
    return Finding(
        check="clustering",
        severity="warning" if worst > files / 2 else "advice",
        message=message,
        cure="table.optimize(cluster=True)",
        cost=f"reads and writes up to {_size(facts['files']['bytes'])}",
    )


def _vectors(facts: Facts) -> Finding:
    found = facts["deletion_vectors"]
    message = f"{found['files']:,} files have deletion vectors, {found['row_share']:.1%} of rows"
    if found["row_share"] < 0.05 and found["file_share"] < 0.5:
        return Finding(check="deletion vectors", severity="ok", message=message)
    share = min(1.0, found["file_share"])
    return Finding(
        check="deletion vectors",
        severity="warning" if found["row_share"] > 0.2 else "advice",
        message=f"{message}: readers read deleted rows",
        cure="table.purge()",
        cost=f"reads and writes about {_size(int(facts['files']['bytes'] * share))}",
    )


def _tombstones(facts: Facts) -> Finding:
    found, live = facts["tombstones"], facts["files"]["bytes"]
    expired = found["expired"]
    message = (
        f"{found['count']:,} removed files in the log, {expired:,} of them beyond the retention "
        f"({_size(found['expired_bytes'])})"
    )
    if not expired:
        return Finding(check="dead files", severity="ok", message=message)
    return Finding(
        check="dead files",
        severity="warning" if found["expired_bytes"] > live else "advice",
        message=message,
        cure="table.vacuum(dry_run=False)",
        cost=f"{expired:,} deletes; frees up to {_size(found['expired_bytes'])}",
    )


def _log(facts: Facts) -> Finding:
    found = facts["log"]
    message = (
        f"{found['commits']:,} commits in {found['kept_days']:g} days, {_size(found['bytes'])}, "
        f"{_size(found['bytes_per_day'])} a day"
    )
    if found["kept_days"] <= 1.5 * found["retention_days"] + 1:
        return Finding(check="log", severity="ok", message=message)
    return Finding(
        check="log",
        severity="advice",
        message=f"{message}: older than the retention of {found['retention_days']:g} days",
        cure="table.cleanup_log()",
        cost="deletes of log files",
    )


def _checkpoint(facts: Facts) -> Finding:
    found = facts["checkpoint"]
    since = found["commits_since"]
    where = "none" if found["version"] is None else f"version {found['version']}"
    message = f"{where}, {since:,} commits since ({_size(found['bytes_since'])})"
    if since <= 100:
        return Finding(check="checkpoint", severity="ok", message=message)
    return Finding(
        check="checkpoint",
        severity="critical" if since > 5000 else "warning",
        message=f"{message}: every reader replays them",
        cure="table.checkpoint()",
        cost="one replay of the log",
    )


def _ghosts(facts: Facts) -> Finding:
    found = facts["ghosts"]
    twice, bare = found["files_live_twice"], found["removes_without_vector"]
    if not twice and not bare:
        return Finding(check="ghosts", severity="ok", message="no file is live twice")
    parts = [f"{twice:,} files are live twice"] if twice else []
    if bare:
        names = ", ".join(found["examples"][:3])
        parts.append(f"{bare:,} files are live although a newer remove names them: {names}")
    return Finding(
        check="ghosts",
        severity="critical",
        message=f"{'; '.join(parts)}. Their rows may be read twice",
        cure="find the commit in table.history(), and table.restore() a version before it",
        cost="one commit",
    )


def _conflicts(facts: Facts) -> Finding:
    found = facts["commits"]
    share = found["rebased"] / max(found["read"], 1)
    message = f"{found['rebased']:,} of the last {found['read']:,} commits lost a race first"
    if share < 0.2 or found["read"] < 20:
        return Finding(check="concurrency", severity="ok", message=message)
    return Finding(
        check="concurrency",
        severity="advice",
        message=message,
        cure="write larger batches less often",
    )


def _size(count: int) -> str:
    size, units = float(count), ["B", "KiB", "MiB", "GiB", "TiB"]
    while size >= 1024 and len(units) > 1:
        size /= 1024
        units.pop(0)
    return f"{size:.1f} {units[0]}" if units[0] != "B" else f"{count} B"


_CHECKS: tuple[Callable[[Facts], Finding], ...] = (
    _ghosts,
    _checkpoint,
    _small_files,
    _partitioning,
    _statistics,
    _clustering,
    _vectors,
    _tombstones,
    _log,
    _conflicts,
)
