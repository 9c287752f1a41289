"""`write`: one call from rows to a table, for callers that have only an address."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal

from lazydelta.errors import ConfigError
from lazydelta.table.table import Table

if TYPE_CHECKING:
    import os
    from collections.abc import Mapping, Sequence

    from lazydelta.config import Config, WriteOptions
    from lazydelta.operations import WriteMode, WriteResult
    from lazydelta.scan import Where
    from lazydelta.store.cloud import Credential

__all__ = ["write"]


def write(
    url_or_table: str | os.PathLike[str] | Table,
    data: Any,
    mode: WriteMode = "append",
    *,
    where: Where = None,
    partition_by: Sequence[str] | str | None = None,
    schema_mode: Literal["merge", "overwrite"] | None = None,
    properties: Mapping[str, Any] | None = None,
    name: str | None = None,
    description: str | None = None,
    app_id: str | None = None,
    app_version: int | None = None,
    commit_metadata: Mapping[str, Any] | None = None,
    options: WriteOptions | None = None,
    storage_options: Mapping[str, Any] | None = None,
    config: Config | None = None,
    credential: Credential | None = None,
) -> WriteResult:
    """Write rows to the table at an address as one new version; the first write creates it.

    The arguments after the address, their defaults and the errors are those of `Table.write`.

    Args:
        url_or_table: A path or URL, as for `Table.open`, or a table.
        data: The rows, in any form that `Table.write` accepts.
        mode: "append" (the default), "overwrite", "error" or "ignore".
        where: Which rows an overwrite replaces.
        partition_by: The partition columns of a new table.
        schema_mode: How rows with other columns are handled: None, "merge" or "overwrite".
        properties: Table properties of a new table.
        name: The name of a new table, for display.
        description: The description of a new table, for display.
        app_id: With `app_version`: makes the write idempotent.
        app_version: The version of the application's transaction.
        commit_metadata: User metadata for the commit.
        options: How data files are written.
        storage_options: Options of the object store; only with an address.
        config: Engine settings; only with an address.
        credential: Signs in, as for `Table.open`; only with an address.
    """
    own = {"storage_options": storage_options, "config": config, "credential": credential}
    if not isinstance(url_or_table, Table):
        table = Table.open(url_or_table, storage_options, config, credential=credential)
    elif given := [name for name, value in own.items() if value is not None]:
        raise ConfigError(given[0], "is only for an address; the table has its own already")
    else:
        table = url_or_table
    return table.write(
        data,
        mode,
        where=where,
        partition_by=partition_by,
        schema_mode=schema_mode,
        properties=properties,
        name=name,
        description=description,
        app_id=app_id,
        app_version=app_version,
        commit_metadata=commit_metadata,
        options=options,
    )
