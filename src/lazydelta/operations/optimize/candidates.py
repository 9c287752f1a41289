"""Live files that OPTIMIZE may rewrite, and the predicate that selects their partitions."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc

from lazydelta.errors import PredicateError
from lazydelta.expressions import as_predicate, bind
from lazydelta.expressions.nodes import Column
from lazydelta.operations.dml.matched_files import deleted_rows
from lazydelta.operations.optimize import tuning
from lazydelta.protocol.features import supported_features
from lazydelta.protocol.schemas import ADD
from lazydelta.replay import file_keys
from lazydelta.replay.skipping import Pruner
from lazydelta.scan.plan import live_adds

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from lazydelta.expressions import Predicate
    from lazydelta.scan import Where
    from lazydelta.snapshot import SnapshotState

__all__ = [
    "FILES",
    "file_identities",
    "is_sparse",
    "live_files",
    "live_paths",
    "may_rewrite",
    "partition_predicate",
]

_FIELDS = (
    "path", "partitionValues", "size", "modificationTime", "tags", "deletionVector", "baseRowId",
    "defaultRowCommitVersion", "clusteringProvider",
)  # fmt: skip
FILES = pa.schema([*(ADD.field(name) for name in _FIELDS), pa.field("numRecords", pa.int64())])
"""Live files: the fields of `add` that a rewrite needs. Statistics stay in the log, where they are
most of the bytes; only their row counts are read, and only for tables with deletion vectors."""


def partition_predicate(snapshot: SnapshotState, where: Where) -> Predicate | None:
    """Return the bound predicate that selects partitions.

    Raises:
        PredicateError: It uses a column that is not a partition column.
        ColumnNotFoundError: It uses a column that does not exist.
    """
    predicate = as_predicate(where)
    if predicate is None:
        return None
    bound = bind(predicate, snapshot.schema, snapshot.partition_columns)
    columns = {node.path[0] for node in bound.walk() if isinstance(node, Column)}
    others = sorted(columns - set(snapshot.partition_columns))
    if others:
        raise PredicateError(
            str(predicate),
            f"Predicate references non-partition column '{others[0]}'. Only the partition "
            f"columns may be referenced: [{', '.join(snapshot.partition_columns)}]",
        )
    return bound


def live_files(
    snapshot: SnapshotState, predicate: Predicate | None, *, stats: bool = False
) -> pa.Table:
    """Return the live files of the selected partitions.

    They have the schema of `FILES`, and with `stats` their statistics as a further column.
    """
    schema = FILES.append(ADD.field("stats")) if stats else FILES
    return pa.Table.from_batches(list(_live_batches(snapshot, predicate, schema)), schema)


def _live_batches(
    snapshot: SnapshotState, predicate: Predicate | None, schema: pa.Schema
) -> Iterator[pa.RecordBatch]:
    pruner = Pruner.build(
        predicate,
        schema=snapshot.schema,
        partition_columns=snapshot.partition_columns,
        mapping_mode=snapshot.column_mapping_mode,
        generated=snapshot.generates_columns,
    )
    has_vectors = "deletionVectors" in supported_features(snapshot.protocol)
    fields = schema if has_vectors else schema.remove(schema.get_field_index("numRecords"))
    for batch in live_adds(snapshot, fields, pruner):
        yield _conformed(batch, schema)


def _conformed(batch: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    names = batch.schema.names
    arrays = [
        batch.column(field.name) if field.name in names else pa.nulls(batch.num_rows, field.type)
        for field in schema
    ]
    return pa.RecordBatch.from_arrays(arrays, schema=schema)


def may_rewrite(files: pa.Table, min_size: int) -> pa.Table:
    """Return the files that are small, or of which many rows are deleted."""
    is_small = pc.less(files.column("size"), min_size)
    return files.filter(pc.or_(is_small, is_sparse(files)))


def is_sparse(files: pa.Table) -> pa.BooleanArray:
    """Return whether many rows of a file are deleted, or an unknown share of them.

    A file with a vector and without a row count is rewritten at most once: the new file has both.
    """
    counts = files.column("numRecords").combine_chunks()
    share = pc.divide(pc.cast(deleted_rows(files), pa.float64()), counts)
    return pc.and_(
        files.column("deletionVector").combine_chunks().is_valid(),
        pc.fill_null(pc.greater(share, tuning.MAX_DELETED_SHARE), True),
    )


def file_identities(snapshot: SnapshotState, files: pa.Table) -> pa.Array:
    """Return the key of each file: its path and deletion vector."""
    paths = snapshot.resolver.keys(files.column("path").combine_chunks())
    return file_keys(paths, files.column("deletionVector").combine_chunks())


def live_paths(snapshot: SnapshotState, tables: Sequence[pa.Table]) -> pa.Table:
    """Return the live files of a snapshot with the paths of these files."""
    resolver = snapshot.resolver
    wanted = pa.concat_arrays([
        resolver.keys(table.column("path").combine_chunks()) for table in tables
    ])  # fmt: skip
    found = [
        batch.filter(pc.is_in(resolver.keys(batch.column("path")), value_set=wanted))
        for batch in _live_batches(snapshot, None, FILES)
    ]
    return pa.Table.from_batches(found, FILES).combine_chunks()
