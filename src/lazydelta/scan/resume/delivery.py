"""Batches with resume tokens: any process continues a stream exactly after a batch."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, NamedTuple

from lazydelta._stream import Stream
from lazydelta.errors import ResumeTokenError
from lazydelta.scan.resume.token import ResumeToken, digest, table_name

if TYPE_CHECKING:
    from collections.abc import Generator, Iterator

    import pyarrow as pa

__all__ = ["Delivered", "check_token", "delivered", "scan_digest"]


class Delivered(NamedTuple):
    """A batch, and the token to continue after it."""

    batch: pa.RecordBatch
    token: str
    """Any process continues exactly after this batch with it: `Scan.resume(token)`."""


def delivered(
    batches: Iterator[tuple[pa.RecordBatch, Any]], state: ResumeToken, key: bytes
) -> Generator[Delivered]:
    """Yield batches with their tokens.

    Args:
        batches: Each batch with the position after it.
        state: The token of the start.
        key: Signs the tokens.
    """
    count = state.delivered

    def with_token(placed: tuple[pa.RecordBatch, Any]) -> Delivered:
        nonlocal count
        batch, position = placed
        count += batch.num_rows
        token = replace(state, position=position, delivered=count)
        return Delivered(batch, token.to_text(key))

    with Stream(batches) as stream:
        yield from map(with_token, stream)  # a loop would hold the last batch


def scan_digest(kind: str, predicate: object, *facts: object) -> str:
    """Return the digest of what decides which files or rows a scan has."""
    return digest(kind, None if predicate is None else str(predicate), facts)


def check_token(
    token: ResumeToken, *, table: str, table_id: str, kind: str, scan: str, strategy: str = "auto",
    limit: int | None = None,
) -> None:  # fmt: skip
    """Validate that a token is of a table and a scan.

    Args:
        token: The token.
        table: The address of the table, for errors.
        table_id: The id of the table.
        kind: `files`, `rows` or `changes`.
        scan: Digest of the scan.
        strategy: The requested strategy.
        limit: The requested limit; None is that of the token.

    Raises:
        ResumeTokenError: It is not.
    """
    if token.table != table_name(table_id):
        raise ResumeTokenError(table, "it is of another table", "Open the table it was made from.")
    if token.kind != kind:
        cure = f"Continue with the kind that it was made for: {token.kind}."
        raise ResumeTokenError(table, f"it is of {token.kind}, not of {kind}", cure)
    is_same = strategy in ("auto", token.strategy) and limit in (None, token.limit)
    if token.scan != scan or not is_same:
        cure = "Scan with the predicate, columns, limit and strategy that it was made with."
        raise ResumeTokenError(table, "it is of another scan", cure)
