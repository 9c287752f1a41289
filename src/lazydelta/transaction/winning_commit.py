"""Summary of a winning commit, the input of conflict detection. Reads one commit file."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeVar

import pyarrow as pa

from lazydelta.errors import LogCorruptError
from lazydelta.protocol import (
    CommitInfo,
    DomainMetadata,
    MalformedActionError,
    SetTransaction,
    TableMetadata,
    TableProtocol,
)
from lazydelta.protocol.schemas import ADD
from lazydelta.transaction.table_state import NO_ROW_IDS, row_id_high_water_mark

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from lazydelta.log import CommitReader, LogFile

__all__ = ["WinningCommit", "read_txn_id", "read_winning_commit"]

_KINDS = ("commitInfo", "protocol", "metaData", "txn", "domainMetadata")
_NO_ADDS = pa.RecordBatch.from_arrays([pa.nulls(0, f.type) for f in ADD], schema=pa.schema(ADD))
_NO_PATHS = pa.nulls(0, pa.string())

A = TypeVar("A")


@dataclass(frozen=True, slots=True, kw_only=True)
class WinningCommit:
    """The actions of a commit that another writer made at the attempted version."""

    version: int
    txn_id: str | None = None
    operation: str = ""
    is_blind_append: bool = False
    """Only if `commitInfo` states it: otherwise the commit may have read anything."""
    in_commit_timestamp: int | None = None
    info_timestamp: int | None = None
    """`commitInfo.timestamp`."""
    protocol: TableProtocol | None = None
    metadata: TableMetadata | None = None
    txns: tuple[SetTransaction, ...] = ()
    domains: tuple[DomainMetadata, ...] = ()
    row_id_high_water_mark: int = NO_ROW_IDS
    """The highest row id that it assigned, if any."""
    adds: pa.RecordBatch = field(default_factory=lambda: _NO_ADDS)
    """Added files: the fields of the `add` action as columns."""
    removed: pa.Array = field(default_factory=lambda: _NO_PATHS)
    """Paths of the removed files."""


def read_txn_id(reader: CommitReader, file: LogFile) -> str | None:
    """Return `commitInfo.txnId` of a commit, if it has one."""
    return _txn_id(_commit_info(reader.find(file, ("commitInfo",))))


def read_winning_commit(
    reader: CommitReader, file: LogFile, *, table: str, files: bool
) -> WinningCommit:
    """Read a commit.

    Args:
        reader: The commit reader of the table.
        file: The commit.
        table: The table's address, for errors.
        files: Whether to decode file actions.
    """
    actions = reader.find(file, _KINDS)

    def parsed(kind: str, parse: Callable[[Mapping[str, Any]], A]) -> tuple[A, ...]:
        try:
            return tuple(parse(action) for action in actions[kind])
        except MalformedActionError as error:
            raise LogCorruptError(table, file.path, str(error), file.version) from None

    def single(kind: str, parse: Callable[[Mapping[str, Any]], A]) -> A | None:
        values = parsed(kind, parse)
        if len(values) > 1:
            raise LogCorruptError(table, file.path, f"more than one {kind}", file.version)
        return values[0] if values else None

    domains = parsed("domainMetadata", DomainMetadata.from_json)
    try:
        mark = row_id_high_water_mark(domains)
    except MalformedActionError as error:
        raise LogCorruptError(table, file.path, str(error), file.version) from None
    stated = _commit_info(actions)
    info = CommitInfo.from_json(stated, version=file.version)
    adds, removed = _files(reader, file) if files else (_NO_ADDS, _NO_PATHS)
    return WinningCommit(
        version=file.version,
        txn_id=_txn_id(stated),
        operation=info.operation or "",
        is_blind_append=stated.get("isBlindAppend") is True,
        in_commit_timestamp=info.in_commit_timestamp,
        info_timestamp=info.timestamp,
        protocol=single("protocol", TableProtocol.from_json),
        metadata=single("metaData", TableMetadata.from_json),
        txns=parsed("txn", SetTransaction.from_json),
        domains=domains,
        row_id_high_water_mark=mark,
        adds=adds,
        removed=removed,
    )


def _commit_info(actions: Mapping[str, list[dict[str, Any]]]) -> Mapping[str, Any]:
    return next(iter(actions["commitInfo"]), {})


def _txn_id(info: Mapping[str, Any]) -> str | None:
    stated = info.get("txnId")
    return stated if isinstance(stated, str) else None


def _files(reader: CommitReader, file: LogFile) -> tuple[pa.RecordBatch, pa.Array]:
    adds, removed = [], []
    for batch in reader.batches([file]):
        adds.append(batch.add.filter(batch.add.is_valid()))
        removed.append(batch.remove.filter(batch.remove.is_valid()).field("path"))
    return pa.RecordBatch.from_struct_array(pa.concat_arrays(adds)), pa.concat_arrays(removed)
