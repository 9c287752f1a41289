"""A transaction: the actions of a commit before its version is known.

Immutable, so that every attempt is prepared from the same actions. File actions are Arrow tables;
the few others are dataclasses.
"""

from __future__ import annotations

import uuid
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal

import pyarrow as pa
import pyarrow.compute as pc

from lazydelta._arrow import empty_table
from lazydelta.protocol.schemas import ADD, CHANGE_FILE, REMOVE_ACTION

if TYPE_CHECKING:
    from collections.abc import Mapping

    from lazydelta.expressions import Predicate
    from lazydelta.protocol import DomainMetadata, SetTransaction, TableMetadata, TableProtocol

__all__ = ["ADDS", "CHANGE_FILES", "REMOVES", "Isolation", "Reads", "Transaction"]

Isolation = Literal["Serializable", "WriteSerializable"]

ADDS = pa.schema(list(ADD))
"""Files to add: the fields of the `add` action as columns."""
REMOVES = pa.schema(list(REMOVE_ACTION))
"""Files to remove: the fields of the `remove` action as columns."""
CHANGE_FILES = pa.schema(list(CHANGE_FILE))
"""Change data files: the fields of the `cdc` action as columns."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Reads:
    """What a transaction read; conflict detection compares winning commits with it."""

    whole_table: bool = False
    predicates: tuple[Predicate, ...] = ()
    """Predicates of the rows that it read, bound to the schema of the read version."""
    paths: pa.Array | None = None
    """Paths of the files that it read, as the log has them."""
    app_ids: frozenset[str] = frozenset()
    """Applications whose `txn` version it read."""

    @property
    def anything(self) -> bool:
        """Whether any rows were read; a blind append reads none."""
        return self.whole_table or bool(self.predicates) or bool(self.paths)


@dataclass(frozen=True, slots=True, kw_only=True)
class Transaction:
    """The actions of one commit, without version and timestamp."""

    operation: str
    """`commitInfo.operation`: WRITE, CREATE TABLE, ..."""
    parameters: Mapping[str, Any] = field(default_factory=dict)
    """`commitInfo.operationParameters`."""
    metrics: Mapping[str, int] = field(default_factory=dict)
    """`commitInfo.operationMetrics`."""
    user_metadata: Mapping[str, Any] = field(default_factory=dict)
    """Additional fields of `commitInfo`, from the caller."""
    adds: pa.Table = field(default_factory=lambda: empty_table(ADDS))
    removes: pa.Table = field(default_factory=lambda: empty_table(REMOVES))
    change_files: pa.Table = field(default_factory=lambda: empty_table(CHANGE_FILES))
    """Read by the change data feed instead of `adds` and `removes`: all changes, or none."""
    protocol: TableProtocol | None = None
    metadata: TableMetadata | None = None
    txns: tuple[SetTransaction, ...] = ()
    domains: tuple[DomainMetadata, ...] = ()
    reads: Reads = field(default_factory=Reads)
    data_change: bool = True
    """Whether the operation changes rows, and does not only rearrange them."""
    isolation: Isolation | None = None
    """None is that of the table (`delta.isolationLevel`), Serializable by default."""
    keeps_row_ids: bool = False
    """Whether the new files store the row ids of all rows that were copied or updated."""
    txn_id: str = field(default_factory=lambda: str(uuid.uuid4()))

    @property
    def is_blind_append(self) -> bool:
        """Whether it only adds files, and read nothing."""
        return self.removes.num_rows == 0 and not self.reads.anything

    @property
    def has_files(self) -> bool:
        """Whether it adds or removes any file."""
        return bool(self.adds.num_rows or self.removes.num_rows)

    @property
    def has_only_files(self) -> bool:
        """Whether it has only file actions; row ids count as part of them."""
        own_domains = [name for d in self.domains if (name := d.domain) != "delta.rowTracking"]
        return not (self.protocol or self.metadata or self.txns or own_domains)

    @property
    def changes_rows(self) -> bool:
        """Whether any file action has `dataChange`."""
        return self.changes_removed_rows or _any(self.adds, self.data_change)

    @property
    def changes_removed_rows(self) -> bool:
        """Whether any remove has `dataChange`: its rows are not kept in other files."""
        return _any(self.removes, self.data_change)


def _any(files: pa.Table, default: bool) -> bool:
    flags = files.column("dataChange")
    return (default and flags.null_count > 0) or pc.any(flags).as_py() is True
