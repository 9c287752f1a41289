"""Batches with resume tokens: any process continues a stream exactly after a batch."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from lazydelta._arrow import from_numpy
from lazydelta.errors import ResumeTokenError, ResumeTokenExpiredError
from lazydelta.log import LogFileKind, LogSegment, list_log
from lazydelta.scan.resume.token import ResumeToken, digest
from lazydelta.snapshot import load_snapshot

if TYPE_CHECKING:
    from collections.abc import Iterator

    import pyarrow as pa

    from lazydelta.snapshot import SnapshotState

__all__ = ["Delivered", "opened", "sliced"]


class Delivered(NamedTuple):
    """A batch, and the token to continue after it."""

    batch: pa.RecordBatch
    token: str
    """Any process continues exactly after this batch with it: `Scan.resume(token)`."""


def opened(
    snapshot: SnapshotState,
    text: str | None,
    *,
    kind: str,
    scan: str,
    strategy: str,
    limit: int | None,
) -> tuple[SnapshotState, ResumeToken]:
    """Return the version and the position that a token names; without one, those of the start.

    Args:
        snapshot: The version of the scan.
        text: The token.
        kind: `files`, `rows` or `changes`.
        scan: Digest of the predicate and columns.
        strategy: The strategy of a new scan.
        limit: The limit of a new scan.

    Raises:
        ResumeTokenError: The token is not valid, or of another table or scan.
        ResumeTokenExpiredError: Log cleanup has removed files of the log segment.
    """
    if text is None:
        return snapshot, _start(snapshot, kind, scan, strategy, limit)
    table = snapshot.store.root
    token = ResumeToken.from_text(text, snapshot.config.resume_key, table)
    if token.table != snapshot.metadata.id:
        raise ResumeTokenError(table, "it is of another table", "Open the table it was made from.")
    if token.kind != kind:
        cure = f"Continue with the kind that it was made for: resume(token) or {token.kind}."
        raise ResumeTokenError(table, f"it is of {token.kind}, not of {kind}", cure)
    if token.scan != scan:
        cure = "Scan with the predicate, columns, limit and strategy that it was made with."
        raise ResumeTokenError(table, "it is of another scan", cure)
    return _same_segment(snapshot, token), token


def sliced(
    batches: Iterator[pa.RecordBatch], *, skip: int, share: tuple[int, int] | None = None
) -> Iterator[tuple[pa.RecordBatch, int]]:
    """Yield the rows of batches after the first `skip` ones, each batch with the position after it.

    Args:
        batches: The batches of a whole run.
        skip: The position to start at.
        share: Index and number of shares: only every n-th row is of a share.
    """
    end = 0
    for batch in batches:
        start, end = end, end + batch.num_rows
        if end <= skip:
            continue
        part = batch.slice(max(0, skip - start))
        if share is not None:
            first = end - part.num_rows
            rows = np.arange((share[0] - first) % share[1], part.num_rows, share[1])
            part = part.take(from_numpy(rows))
        if part.num_rows:
            yield part, end


def _start(
    snapshot: SnapshotState, kind: str, scan: str, strategy: str, limit: int | None
) -> ResumeToken:
    segment = snapshot.segment
    compacted = [file for file in segment.tail if file.kind is LogFileKind.COMPACTED]
    return ResumeToken(
        kind=kind,
        table=snapshot.metadata.id,
        version=snapshot.version,
        log=_log_digest(segment),
        checkpoint=None if segment.checkpoint is None else segment.checkpoint.name,
        compacted=tuple((file.version, file.end_version) for file in compacted),
        scan=scan,
        strategy=strategy,
        limit=limit,
        delivered=0,
        share=None,
        position=(),
    )


def _same_segment(snapshot: SnapshotState, token: ResumeToken) -> SnapshotState:
    """Return the version of a token, with the log segment that the token was made from."""
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


def _log_digest(segment: LogSegment) -> str:
    """Return the digest of a segment's files. Log files never change: names and sizes suffice."""
    files = () if segment.checkpoint is None else segment.checkpoint.files
    return digest([(file.name, file.size) for file in (*files, *segment.tail)])
