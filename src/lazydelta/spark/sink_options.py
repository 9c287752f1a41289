"""Options of `df.write` and `df.writeStream` with `format("lazydelta")`.

The names are those of Delta on Spark, where it has the option.
"""

from __future__ import annotations

from dataclasses import dataclass, field, fields, replace
from typing import TYPE_CHECKING

from lazydelta.config import Config, WriteOptions
from lazydelta.errors import ConfigError
from lazydelta.operations import WriteRequest
from lazydelta.spark.option_parsing import (
    OptionParser,
    boolean,
    column_names,
    credential,
    integer,
    parse_options,
    size,
    string_map,
)
from lazydelta.spark.serialized_snapshot import TableLocation
from lazydelta.spark.source_options import SourceOptions

if TYPE_CHECKING:
    from collections.abc import Mapping

    from lazydelta.store.cloud import Credential
    from lazydelta.writer.enforcement import SchemaMode

__all__ = ["SinkOptions"]


@dataclass(frozen=True, slots=True, kw_only=True)
class SinkOptions:
    """Options of a write; the option names are the field names in camelCase."""

    path: str
    merge_schema: bool = False
    overwrite_schema: bool = False
    replace_where: str | None = None
    partition_by: tuple[str, ...] | None = None
    properties: Mapping[str, str] = field(default_factory=dict)
    """Of a new table. A JSON object, because Spark lowers the case of option names."""
    txn_app_id: str | None = None
    txn_version: int | None = None
    user_metadata: str | None = None
    partition_overwrite_mode: str | None = None
    """`dynamic` is for `lazydelta.spark.write`, which looks at the rows first."""
    max_records_per_file: int | None = None
    data_change: bool = True
    target_file_size: int | None = None
    compression: str | None = None
    storage_options_file: str | None = None
    credential: Credential | None = None
    """Given by the dotted name of a function."""
    checkpoint_location: str | None = None
    """Spark's own option of a stream; Spark passes it along."""

    @classmethod
    def parse(cls, options: Mapping[str, str], options_file: str | None) -> SinkOptions:
        """Parse options.

        Args:
            options: As Spark passes them.
            options_file: Default of `storageOptionsFile`.

        Raises:
            ConfigError: An unknown name or an invalid value.
        """
        parsed = cls(**parse_options(cls, options, _PARSERS, call="save()", elsewhere=_OF_READS))
        if parsed.storage_options_file is None:
            return replace(parsed, storage_options_file=options_file)
        return parsed

    def refuse_batch_options(self) -> None:
        """Refuse options of batch writes."""
        if self.txn_version is not None:
            raise ConfigError("txnVersion", "is not an option of a stream, which uses the batch id")
        if self.replace_where is not None:
            raise ConfigError("replaceWhere", "is not an option of a stream")

    def location(self) -> TableLocation:
        """Return the table's location."""
        return TableLocation(
            root=self.path,
            config=Config.from_env(),
            options_file=self.storage_options_file,
            credential=self.credential,
        )

    def request(self, *, overwrite: bool) -> WriteRequest:
        """Return the requested write.

        Raises:
            ConfigError: Options exclude each other.
        """
        if self.partition_overwrite_mode == "dynamic":
            reason = "dynamic needs lazydelta.spark.write(df, url, 'overwrite', options={...})"
            raise ConfigError("partitionOverwriteMode", reason)
        if (self.txn_app_id is None) != (self.txn_version is None):
            raise ConfigError("txnAppId", "and txnVersion need each other: give both of them")
        if self.merge_schema and self.overwrite_schema:
            raise ConfigError("overwriteSchema", "excludes mergeSchema: give one of them")
        schema_mode: SchemaMode = "merge" if self.merge_schema else None
        metadata = {} if self.user_metadata is None else {"userMetadata": self.user_metadata}
        return WriteRequest(
            mode="overwrite" if overwrite else "append",
            partition_by=self.partition_by,
            schema_mode="overwrite" if self.overwrite_schema else schema_mode,
            where=self.replace_where,
            properties=self.properties,
            app_id=self.txn_app_id,
            app_version=self.txn_version,
            commit_metadata=metadata,
            options=WriteOptions(
                target_file_bytes=self.target_file_size,
                max_rows_per_file=self.max_records_per_file,
                codec=self.compression,
                files_at_once=1,
            ),
        )


def _overwrite_mode(name: str, value: str) -> str:
    if value.lower() not in ("static", "dynamic"):
        raise ConfigError(name, f"must be static or dynamic, not {value!r}")
    return value.lower()


def _data_change(name: str, value: str) -> bool:
    if not boolean(name, value):
        raise ConfigError(name, "false is not supported: rewrite files by lazydelta.spark.optimize")
    return True


_PARSERS: dict[str, OptionParser] = {
    **dict.fromkeys(("merge_schema", "overwrite_schema"), boolean),
    "partition_by": column_names,
    "credential": credential,
    "properties": string_map,
    "txn_version": integer(0),
    "partition_overwrite_mode": _overwrite_mode,
    "max_records_per_file": integer(1),
    "data_change": _data_change,
    "target_file_size": size,
}
_OF_READS = {
    **{
        one.name.replace("_", ""): "is an option of reads"
        for one in fields(SourceOptions)
        if one.metadata.get("option", True)
    },
    **dict.fromkeys(("versionasof", "timestampasof"), "pins a version, which can only be read"),
}
