"""Names of the `deltalake` package that lazydelta does not have, and what to use instead.

One table, with three uses: the message of `AttributeError`, the page
docs/how-to/coming-from-deltalake.md, and the test that keeps the page complete.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["MODULE_NAMES", "TABLE_NAMES", "no_attribute"]

MODULE_NAMES = {
    "DeltaTable": "Table.open(url)",
    "write_deltalake": "write(url, rows)",
    "convert_to_deltalake": "convert(url, partition_by)",
    "CommitProperties": "write(..., commit_metadata={...}, app_id=..., app_version=...)",
    "Transaction": "write(..., app_id=..., app_version=...)",
    "PostCommitHookProperties": "Config(write_checkpoints=..., write_checksums=...)",
    "WriterProperties": "WriteOptions(codec=..., row_group_rows=...)",
    "ColumnProperties": "",
    "BloomFilterProperties": "",
    "TableFeatures": "table.alter.add_feature(name)",
    "Schema": "a pyarrow.Schema, or SQL as in 'id bigint not null, day date'",
    "Field": "a pyarrow.Field",
    "DataType": "a pyarrow.DataType",
    "VariantType": "",
    "Metadata": "table.metadata",
}
"""Names of the module `deltalake`; an empty string marks what is not available yet."""

TABLE_NAMES = {
    "cleanup_metadata": "table.cleanup_log()",
    "compact_logs": "table.compact_log(start, end)",
    "create_checkpoint": "table.checkpoint()",
    "create_write_transaction": "",
    "deletion_vectors": "file.deletion_vector of table.scan().files()",
    "file_uris": "[file.uri for file in table.scan(where).files()]",
    "files": "table.scan(where).files()",
    "generate": "table.generate_manifest()",
    "get_add_actions": "table.scan(where).file_batches(all_fields=True)",
    "is_deltatable": "Table.open(url).snapshot(), which raises TableNotFoundError",
    "load_as_version": "table.snapshot(version) or table.snapshot(timestamp=...)",
    "load_cdf": "table.changes(starting_version=..., ending_version=...)",
    "partitions": "table.scan(where).partition_values()",
    "protocol": "table.snapshot().protocol",
    "table_config": "table.metadata.configuration",
    "table_uri": "table.url",
    "to_pyarrow_table": "table.to_arrow(), or table.scan(where, columns).to_arrow()",
    "transaction_version": "table.snapshot().transactions()[app_id].version",
    "update_incremental": "table.snapshot(); a table handle keeps no version",
}
"""Attributes of `DeltaTable`; an empty string marks what is not available yet."""


def no_attribute(owner: str, name: str, names: Mapping[str, str]) -> AttributeError:
    """Return the error for a missing attribute; it names ours where deltalake has the attribute."""
    message = f"{owner} has no attribute {name!r}"
    if name in names:
        message += f": use {names[name]}" if names[name] else ": lazydelta does not have it yet"
    return AttributeError(message)
