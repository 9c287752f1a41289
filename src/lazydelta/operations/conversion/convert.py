"""CONVERT: a directory of Parquet files becomes a table, in place.

Only footers are read, for schema and statistics; no data file is written.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import orjson
import pyarrow as pa
import pyarrow.compute as pc

from lazydelta._arrow import from_numpy
from lazydelta._parallel import ordered_map
from lazydelta.checkpoint import post_commit_hooks
from lazydelta.errors import ConfigError, SchemaError, TableExistsError, TableNotFoundError
from lazydelta.formats import num_records
from lazydelta.operations.conversion.footer_statistics import footer_statistics
from lazydelta.operations.create import new_table
from lazydelta.operations.dml.row_deletion import total_size
from lazydelta.parquet import DataFile
from lazydelta.scan.read import threads_for
from lazydelta.schema import PrimitiveType, StructField, StructType, from_arrow_schema
from lazydelta.schema.values import build_array, parse_partition_values
from lazydelta.snapshot import load_snapshot
from lazydelta.store import list_tree
from lazydelta.transaction import ADDS, Transaction, commit
from lazydelta.writer.files import DataLayout, encode_path, partition_values_of
from lazydelta.writer.properties import MAPPING_MODE

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from lazydelta.config import Config
    from lazydelta.protocol import TableMetadata, TableProtocol
    from lazydelta.store import Store

__all__ = ["ConvertResult", "check_no_table", "convert_files"]

_HIDDEN = r"(^|/)[._][^=]*(/|$)"
_STRING, _BOOLEAN = PrimitiveType("string"), PrimitiveType("boolean")


@dataclass(frozen=True, slots=True, kw_only=True)
class ConvertResult:
    """Result of a conversion."""

    table: str
    version: int
    """The version that the conversion created; 0."""
    files: int
    rows: int
    bytes: int
    """Total size of the files."""
    dry_run: bool = False
    """Whether nothing was written."""
    warnings: tuple[str, ...] = ()

    def to_dict(self) -> dict[str, Any]:
        """Return plain values, for JSON."""
        return asdict(self)


def convert_files(
    store: Store,
    config: Config,
    *,
    partition_by: StructType,
    properties: Mapping[str, Any],
    dry_run: bool,
) -> ConvertResult:
    """Commit version 0 of a table with all Parquet files below a directory.

    Args:
        store: The store of the directory.
        config: Settings of the engine.
        partition_by: The partition columns, which directories name (`day=2026-01-01`).
        properties: Properties of the table.
        dry_run: Whether to only validate the files.

    Raises:
        TableExistsError: There is a table already.
        ConfigError: There are no files, or directories do not fit the partition columns.
        SchemaError: Files have different columns.
        DataFileError: A file is not a Parquet file, or damaged.
    """
    if properties.get(MAPPING_MODE, "none") != "none":
        reason = "the files have the names of columns; enable it afterwards with table.alter"
        raise ConfigError(MAPPING_MODE, reason)
    check_no_table(store, config, "convert")
    listed = _listed(store)
    values = _partition_values(store, listed.column("path").to_pylist(), partition_by)
    schemas = _schemas(store, config, listed)
    schema = _merged(store, schemas, partition_by)
    protocol, metadata = new_table(
        schema, partition_by=partition_by.names, properties=properties, table=store.root
    )
    adds = _adds(store, config, listed, values, (schema, protocol, metadata))
    rows = int(pc.sum(num_records(adds.column("stats").combine_chunks())).as_py() or 0)
    facts = {"table": store.root, "files": adds.num_rows, "rows": rows, "bytes": total_size(adds)}
    if dry_run:
        return ConvertResult(**facts, version=0, dry_run=True)
    transaction = Transaction(
        operation="CONVERT",
        parameters={
            "numFiles": adds.num_rows,
            "partitionedBy": orjson.dumps(partition_by.names).decode(),
            "collectStats": "true",
            "sourceFormat": "parquet",
        },
        metrics={"numConvertedFiles": adds.num_rows},
        adds=adds,
        protocol=protocol,
        metadata=metadata,
    )
    hooks = post_commit_hooks(config)
    done = commit(transaction, store=store, config=config, base=None, hooks=hooks)
    return ConvertResult(**facts, version=done.version, warnings=done.warnings)


def check_no_table(store: Store, config: Config, operation: Literal["convert", "clone"]) -> None:
    """Raise `TableExistsError` if there is a table."""
    try:
        load_snapshot(store, config)
    except TableNotFoundError:
        return
    raise TableExistsError(store.root, operation)


def _listed(store: Store) -> pa.Table:
    """Return the visible Parquet files below the directory."""
    batches = []
    for batch in list_tree(store):
        paths = batch.column("path")
        is_data = pc.and_(
            pc.ends_with(pc.utf8_lower(paths), ".parquet"),
            pc.invert(pc.match_substring_regex(paths, _HIDDEN)),
        )
        batches.append(batch.filter(is_data))
    listed = pa.Table.from_batches(batches) if batches else None
    if listed is None or not listed.num_rows:
        raise ConfigError("url", f"there are no .parquet files in {store.root}")
    return listed.combine_chunks()


def _partition_values(
    store: Store, paths: Sequence[str], columns: StructType
) -> dict[str, list[str | None]]:
    """Return the partition values of files, from their directories."""
    found: dict[str, list[str | None]] = {name: [] for name in columns.names}
    for path in paths:
        values = partition_values_of(path.rpartition("/")[0])
        if values.keys() != found.keys():
            named = ", ".join(values) or "none"
            reason = (
                f"{path} has the partition columns {named}, not {', '.join(found) or 'none'}; "
                "give them as in 'day date, country string'"
            )
            raise ConfigError("partition_by", reason)
        for name, value in values.items():
            found[name].append(value or None)
    for field in columns:
        try:
            parse_partition_values(build_array(found[field.name], _STRING), field.type)
        except SchemaError as error:
            reason = f"partition column {field.name!r}: {error.reason}"
            raise SchemaError(reason, store.root) from None
    return found


def _open(store: Store, config: Config, path: str, size: int) -> DataFile:
    limit = config.read.max_inflated_bytes
    return DataFile(store, path, size, max_decoded_bytes=limit)


def _schemas(store: Store, config: Config, listed: pa.Table) -> Iterable[tuple[str, StructType]]:
    """Yield each file with its columns."""

    def read(file: tuple[str, int]) -> tuple[str, StructType]:
        opened = _open(store, config, *file)
        try:
            schema = pa.schema([_plain(field) for field in opened.schema])
            return file[0], from_arrow_schema(schema)
        finally:
            opened.close()

    files = zip(listed.column("path").to_pylist(), listed.column("size").to_pylist(), strict=True)
    return ordered_map(read, files, width=threads_for(store, None))


def _plain(field: pa.Field) -> pa.Field:
    return field.remove_metadata().with_nullable(True)


def _merged(
    store: Store, schemas: Iterable[tuple[str, StructType]], partition_by: StructType
) -> StructType:
    """Return all columns of all files; a column that a file lacks is null in it."""
    columns: dict[str, tuple[str, StructField]] = {}
    for path, schema in schemas:
        for field in schema:
            if field.name in partition_by.names:
                reason = f"{path} has the partition column {field.name!r} as a column"
                raise SchemaError(reason, store.root)
            before = columns.setdefault(field.name, (path, field))
            if before[1].type != field.type:
                reason = (
                    f"column {field.name!r} is {before[1].type} in {before[0]}, but {field.type} "
                    f"in {path}; convert files of one schema, or write the rows to a new table"
                )
                raise SchemaError(reason, store.root)
    data = tuple(field for _, field in columns.values())
    return StructType((*data, *(replace(field, nullable=True) for field in partition_by)))


def _adds(
    store: Store,
    config: Config,
    listed: pa.Table,
    values: Mapping[str, list[str | None]],
    definition: tuple[StructType, TableProtocol, TableMetadata],
) -> pa.Table:
    schema, protocol, metadata = definition
    layout = DataLayout.of(schema, protocol, metadata, config.write)
    statistics = partial(_statistics, store, config, layout)
    paths, sizes = (listed.column(name).to_pylist() for name in ("path", "size"))
    stats = ordered_map(statistics, zip(paths, sizes, strict=True), width=threads_for(store, None))
    count, names = len(paths), list(values)
    rows = zip(*values.values(), strict=True) if names else ((),) * count
    columns = {
        "path": build_array([encode_path(path) for path in paths], _STRING),
        "partitionValues": pa.MapArray.from_arrays(
            from_numpy(np.arange(count + 1, dtype=np.int32) * np.int32(len(names))),
            build_array(names * count, _STRING),
            build_array([value for row in rows for value in row], _STRING),
        ),
        "size": listed.column("size"),
        "modificationTime": listed.column("modified").cast(pa.int64()),
        "dataChange": build_array([True] * count, _BOOLEAN),
        "stats": build_array(list(stats), _STRING),
    }
    arrays = [columns.get(field.name, pa.nulls(count, field.type)) for field in ADDS]
    return pa.Table.from_arrays(arrays, schema=ADDS)


def _statistics(store: Store, config: Config, layout: DataLayout, file: tuple[str, int]) -> str:
    opened = _open(store, config, *file)
    try:
        return footer_statistics(opened, layout)
    finally:
        opened.close()
