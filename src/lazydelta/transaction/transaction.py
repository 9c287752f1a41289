"""What a writer wants to happen to a table, before any version number is known.

Immutable: losing a race makes a new one (`rebased`), so an attempt can never see half of the
next. File actions are Arrow; the few others are their dataclasses.
"""

from __future__ import annotations

import uuid
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal

import pyarrow as pa
import pyarrow.compute as pc

from lazydelta._arrow import empty_table
from lazydelta.protocol import ADD, CHANGE_FILE, REMOVE_ACTION

if TYPE_CHECKING:
    from collections.abc import Mapping

    from lazydelta.expr import Predicate
    from lazydelta.protocol import DomainMetadata, SetTransaction, TableMetadata, TableProtocol

__all__ = ["ADDS", "CHANGE_FILES", "REMOVES", "Isolation", "Reads", "Transaction"]

Isolation = Literal["Serializable", "WriteSerializable"]

ADDS = pa.schema(list(ADD))
"""Files to add: the fields of the `add` action as columns."""
REMOVES = pa.schema(list(REMOVE_ACTION))
"""Files to remove: the fields of the `remove` action as columns."""
CHANGE_FILES = pa.schema(list(CHANGE_FILE))
"""Files that tell what changed: the fields of the `cdc` action as columns."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Reads:
    """What the writer looked at to decide what to write; conflicts are judged against it."""

    whole_table: bool = False
    predicates: tuple[Predicate, ...] = ()
    """Of the rows it read, bound to the schema of the version it read; any of them counts."""
    paths: pa.Array | None = None
    """Paths of the files it read, as the log has them."""
    app_ids: frozenset[str] = frozenset()
    """Applications whose progress it looked at."""

    @property
    def anything(self) -> bool:
        """Whether rows were read at all; a blind append reads none."""
        return self.whole_table or bool(self.predicates) or bool(self.paths)


@dataclass(frozen=True, slots=True, kw_only=True)
class Transaction:
    """Everything one commit says, but for its version and time."""

    operation: str
    """As in `commitInfo.operation`: WRITE, CREATE TABLE, ..."""
    parameters: Mapping[str, Any] = field(default_factory=dict)
    """Of the operation, for the history."""
    metrics: Mapping[str, int] = field(default_factory=dict)
    """What the operation did, for the history."""
    user_metadata: Mapping[str, Any] = field(default_factory=dict)
    """The caller's own words in `commitInfo`."""
    adds: pa.Table = field(default_factory=lambda: empty_table(ADDS))
    removes: pa.Table = field(default_factory=lambda: empty_table(REMOVES))
    change_files: pa.Table = field(default_factory=lambda: empty_table(CHANGE_FILES))
    """Told to readers of the change feed instead of `adds` and `removes`: all changes, or none."""
    protocol: TableProtocol | None = None
    metadata: TableMetadata | None = None
    txns: tuple[SetTransaction, ...] = ()
    domains: tuple[DomainMetadata, ...] = ()
    reads: Reads = field(default_factory=Reads)
    data_change: bool = True
    """Whether the operation changes the table's rows, and not only how they lie."""
    isolation: Isolation | None = None
    """None: the table's own (`delta.isolationLevel`), Serializable by default."""
    txn_id: str = field(default_factory=lambda: str(uuid.uuid4()))

    @property
    def is_blind_append(self) -> bool:
        """Whether it only adds, and looked at nothing to decide what."""
        return self.removes.num_rows == 0 and not self.reads.anything

    @property
    def has_files(self) -> bool:
        """Whether it adds or removes any file."""
        return bool(self.adds.num_rows or self.removes.num_rows)

    @property
    def has_only_files(self) -> bool:
        """Whether it says nothing but which files there are; row ids are part of that."""
        own_domains = [name for d in self.domains if (name := d.domain) != "delta.rowTracking"]
        return not (self.protocol or self.metadata or self.txns or own_domains)

    @property
    def changes_rows(self) -> bool:
        """Whether any of its file actions is marked as a change of data."""
        return self.changes_removed_rows or _any(self.adds, self.data_change)

    @property
    def changes_removed_rows(self) -> bool:
        """Whether any file is removed for good, and not only replaced by others with its rows."""
        return _any(self.removes, self.data_change)


def _any(files: pa.Table, default: bool) -> bool:
    flags = files.column("dataChange")
    return (default and flags.null_count > 0) or pc.any(flags).as_py() is True
