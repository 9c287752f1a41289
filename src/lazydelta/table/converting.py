"""`convert`: a directory of Parquet files becomes a table, in place."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from lazydelta import operations
from lazydelta.config import Config
from lazydelta.log import open_log_store
from lazydelta.operations import conversion

if TYPE_CHECKING:
    import os
    from collections.abc import Mapping

    from lazydelta.operations import Columns
    from lazydelta.operations.conversion import ConvertResult
    from lazydelta.store.cloud import Credential

__all__ = ["convert"]


def convert(
    url: str | os.PathLike[str],
    partition_by: Columns = (),
    *,
    properties: Mapping[str, Any] | None = None,
    storage_options: Mapping[str, Any] | None = None,
    config: Config | None = None,
    credential: Credential | None = None,
    dry_run: bool = False,
) -> ConvertResult:
    """Make a table of a directory of Parquet files, without copying them.

    All files `*.parquet` below the directory belong to the table, but those in directories whose
    name starts with `_` or `.`. Columns and statistics come from the footers; a column that a file
    lacks is null in its rows.

    Args:
        url: The directory, as for `Table.open`.
        partition_by: The partition columns with their types, which directories name: for
            `day=2026-01-01/country=AT` it is `"day date, country string"`.
        properties: Properties of the table.
        storage_options: Options of the object store.
        config: Engine settings.
        credential: Signs in, as for `Table.open`.
        dry_run: Whether to validate the files, and write nothing.

    Raises:
        TableExistsError: There is a table already.
        ConfigError: There are no files, or directories do not fit the partition columns.
        SchemaError: Files have different types for one column.
        DataFileError: A file is not a Parquet file, or damaged.
    """
    config = Config.from_env() if config is None else config
    store = open_log_store(url, storage_options, config, credential=credential)
    return conversion.convert_files(
        store,
        config,
        partition_by=operations.as_schema(partition_by, where=store.root),
        properties=properties or {},
        dry_run=dry_run,
    )
