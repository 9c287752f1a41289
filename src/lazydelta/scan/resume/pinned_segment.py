"""The log segment of a token: found again, whatever checkpoints were written in between."""

from __future__ import annotations

from dataclasses import replace

from lazydelta.errors import ResumeTokenExpiredError
from lazydelta.log import LogFileKind, LogSegment, list_log
from lazydelta.scan import tuning
from lazydelta.scan.plan.log_positions import FIRST_ROW, START
from lazydelta.scan.resume.token import ResumeToken, digest, table_name
from lazydelta.snapshot import SnapshotState, load_snapshot

__all__ = ["first_token", "resumed_snapshot", "snapshot_to_resume"]


def snapshot_to_resume(snapshot: SnapshotState) -> SnapshotState:
    """Return a snapshot whose segment a token can name: with few log compactions, or none."""
    segment = snapshot.segment
    if len(_compactions(segment)) <= tuning.TOKEN_COMPACTIONS:
        return snapshot
    return replace(snapshot, segment=replace(segment, tail=segment.commits))


def first_token(
    snapshot: SnapshotState, *, kind: str, scan: str, strategy: str, limit: int | None
) -> ResumeToken:
    """Return the token of the start of a scan of files or rows."""
    segment = snapshot.segment
    return ResumeToken(
        kind=kind,
        table=table_name(snapshot.metadata.id),
        version=snapshot.version,
        log=_log_digest(segment),
        checkpoint=None if segment.checkpoint is None else segment.checkpoint.name,
        compacted=_compactions(segment),
        scan=scan,
        strategy=strategy,
        limit=limit,
        position=START if kind == "files" else FIRST_ROW,
    )


def resumed_snapshot(snapshot: SnapshotState, token: ResumeToken) -> SnapshotState:
    """Return the version of a token, with the log segment that the token was made from.

    Args:
        snapshot: Any version of the table; it is returned if it is the one.
        token: The token.

    Raises:
        ResumeTokenExpiredError: Log cleanup has removed a file of the segment.
    """
    store, table = snapshot.store, snapshot.store.root
    if token.version == snapshot.version and token.log == _log_digest(snapshot.segment):
        return snapshot
    name = token.checkpoint or ""
    segment = LogSegment.from_names(
        table,
        list_log(
            store,
            from_version=int(name[:20]) if name[:20].isdecimal() else 0,
            to_version=token.version,
        ),
        version=token.version,
        checkpoint=token.checkpoint,
        compacted=token.compacted,
    )
    if segment is None:
        reason = f"log cleanup has removed files of version {token.version} that it continues in"
        raise ResumeTokenExpiredError(table, reason)
    found = load_snapshot(store, snapshot.config, segment=segment)
    if token.log != _log_digest(found.segment):
        reason = f"the log files of version {token.version} were replaced or damaged"
        raise ResumeTokenExpiredError(table, reason)
    return found


def _compactions(segment: LogSegment) -> tuple[tuple[int, int], ...]:
    compacted = [file for file in segment.tail if file.kind is LogFileKind.COMPACTED]
    return tuple((file.version, file.end_version) for file in compacted)


def _log_digest(segment: LogSegment) -> str:
    """Return the digest of a segment's files. Log files never change: names and sizes suffice."""
    files = () if segment.checkpoint is None else segment.checkpoint.files
    return digest([(file.name, file.size) for file in (*files, *segment.tail)])
