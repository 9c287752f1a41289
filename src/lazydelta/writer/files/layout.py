"""Layout of a table's data files: columns, partitioning, statistics, sizes and encoding.

Derived once per write from the table's metadata and the caller's options. It pickles, so that all
Spark executors write the same layout. Pure.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Literal

import pyarrow as pa

from lazydelta.config import CODECS
from lazydelta.errors import ConfigError, SchemaError
from lazydelta.parquet.write import Encoding, StatisticsPlan
from lazydelta.protocol import TableProperties
from lazydelta.protocol.features import allows_column_mapping
from lazydelta.protocol.schemas import CHANGE_COLUMNS
from lazydelta.schema import StructType
from lazydelta.schema.mapping import file_only_column, physical_path, to_physical
from lazydelta.writer import tuning

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from lazydelta.config import WriteOptions
    from lazydelta.protocol import TableMetadata, TableProtocol

__all__ = ["DataLayout", "statistics_columns"]

_DEFAULT_INDEXED_COLUMNS = 32
_DEFAULT_CODEC = "snappy"
_SIZE = re.compile(r"(\d+)\s*(b|k|kb|kib|m|mb|mib|g|gb|gib|t|tb|tib)?", re.IGNORECASE)
_UNITS = {"": 0, "b": 0, "k": 1, "m": 2, "g": 3, "t": 4}
_COLUMN = re.compile(r"\s*((?:`(?:[^`]|``)*`|[^`,.]+)(?:\.(?:`(?:[^`]|``)*`|[^`,.]+))*)\s*(?:,|$)")
_NAME = re.compile(r"`((?:[^`]|``)*)`|([^`.]+)")


@dataclass(frozen=True, slots=True, kw_only=True)
class DataLayout:
    """Layout of the data files of one write."""

    schema: StructType
    """The table's logical schema after the write."""
    partition_columns: tuple[str, ...]
    mapping_mode: str
    indexed: tuple[tuple[str, ...], ...]
    """Physical paths of the columns with statistics."""
    target_file_bytes: int
    encoding: Encoding
    options: WriteOptions
    optimizes_writes: bool
    """Whether rows of many partitions are gathered before they are written."""

    @classmethod
    def of(
        cls,
        schema: StructType,
        protocol: TableProtocol,
        metadata: TableMetadata,
        options: WriteOptions,
        *,
        clustered_by: Sequence[tuple[str, ...]] = (),
    ) -> DataLayout:
        """Derive the layout of a table's data files.

        Args:
            schema: The schema of `metadata`, parsed.
            protocol: The table's protocol after the write.
            metadata: The table's metadata after the write.
            options: The caller's options; they override the table's properties.
            clustered_by: Physical paths of clustering columns, which always have statistics.

        Raises:
            SchemaError: A table property has an invalid value.
        """
        configuration = metadata.configuration
        mode = TableProperties.parse(configuration).column_mapping_mode
        mode = mode if allows_column_mapping(protocol) else "none"
        columns = metadata.partition_columns
        data = StructType(tuple(part for part in schema if part.name not in columns))
        indexed = [*_indexed(data, configuration, mode), *clustered_by]
        codec = options.codec or _codec(configuration)
        return cls(
            schema=schema,
            partition_columns=columns,
            mapping_mode=mode,
            indexed=tuple(dict.fromkeys(indexed)),
            target_file_bytes=options.target_file_bytes or _target_size(configuration),
            encoding=Encoding(
                codec=codec,
                level=_level(codec, options.compression_level),
                row_group_rows=options.row_group_rows,
                page_version=_page_version(configuration),
            ),
            options=options,
            optimizes_writes=_optimizes_writes(configuration, options),
        )

    def for_change_files(self) -> DataLayout:
        """Return the layout of change data files, whose actions have no statistics."""
        change_type = file_only_column(CHANGE_COLUMNS[0], "string")
        return replace(self, schema=StructType((*self.schema, change_type)), indexed=())

    def with_file_columns(self, *names: str) -> DataLayout:
        """Return the layout with columns of longs that neither schema nor statistics have."""
        columns = (file_only_column(name, "long") for name in names)
        return replace(self, schema=StructType((*self.schema, *columns)))

    def statistics(self, physical: StructType) -> StatisticsPlan:
        """Return the statistics to collect for a file of a physical schema."""
        return StatisticsPlan.of(physical, self.indexed)


def _indexed(
    data: StructType, configuration: Mapping[str, str], mode: str
) -> list[tuple[str, ...]]:
    leaves = [path for path, _ in to_physical(data, mode).leaves()]
    names = configuration.get("delta.dataSkippingStatsColumns")
    if names is not None:
        paths = [_physical(data, path, mode) for path in statistics_columns(names)]
        return [leaf for leaf in leaves if any(leaf[: len(path)] == path for path in paths)]
    key = "delta.dataSkippingNumIndexedCols"
    value = configuration.get(key, str(_DEFAULT_INDEXED_COLUMNS))
    if not re.fullmatch(r"-1|\d+", value):
        raise SchemaError(f"{key} cannot be {value!r}")
    return leaves if value == "-1" else leaves[: int(value)]


def _physical(data: StructType, path: tuple[str, ...], mode: str) -> tuple[str, ...]:
    try:
        return physical_path(data, path, mode)
    except SchemaError:
        return ("",)  # a dropped column or a partition column: matches no leaf


def statistics_columns(value: str) -> list[tuple[str, ...]]:
    """Parse `delta.dataSkippingStatsColumns`, as in "a, b.c, `odd name`", into paths.

    Raises:
        SchemaError: The value is not a list of columns.
    """
    paths, position = [], 0
    while position < len(value):
        match = _COLUMN.match(value, position)
        if match is None:
            raise SchemaError(f"delta.dataSkippingStatsColumns cannot be {value!r}")
        names = _NAME.findall(match[1])
        paths.append(tuple(quoted.replace("``", "`") or plain.strip() for quoted, plain in names))
        position = match.end()
    return paths


def _target_size(configuration: Mapping[str, str]) -> int:
    value = configuration.get("delta.targetFileSize")
    if value is None:
        return tuning.TARGET_FILE_BYTES
    match = _SIZE.fullmatch(value.strip())
    if match is None or int(match[1]) == 0:
        raise SchemaError(f"delta.targetFileSize cannot be {value!r}")
    return int(match[1]) * 1024 ** _UNITS[(match[2] or "")[:1].lower()]


def _optimizes_writes(configuration: Mapping[str, str], options: WriteOptions) -> bool:
    if options.optimize_write is not None:
        return options.optimize_write
    return configuration.get("delta.autoOptimize.optimizeWrite", "false").lower() == "true"


def _codec(configuration: Mapping[str, str]) -> str:
    value = configuration.get("delta.parquet.compression.codec", _DEFAULT_CODEC).lower()
    value = {"uncompressed": "none", "lz4_raw": "lz4"}.get(value, value)
    if value not in CODECS:
        raise ConfigError(
            "delta.parquet.compression.codec",
            f"cannot be {value!r}; supported: {', '.join(CODECS)}",
        )
    return value


def _page_version(configuration: Mapping[str, str]) -> Literal["1.0", "2.0"]:
    key = "delta.parquet.format.version"
    value = configuration.get(key, "1.0.0")
    if not re.fullmatch(r"1\.0\.0|2\.\d+\.\d+", value):
        raise ConfigError(key, f"cannot be {value!r}; supported: 1.0.0, 2.x.y")
    return "1.0" if value.startswith("1") else "2.0"


def _level(codec: str, level: int | None) -> int | None:
    """Validate a compression level for a codec."""
    if level is None:
        return None
    if codec == "none" or not pa.Codec.supports_compression_level(codec):
        raise ConfigError("compression_level", f"{codec} has no levels")
    least, most = (
        pa.Codec.minimum_compression_level(codec),
        pa.Codec.maximum_compression_level(codec),
    )
    if not least <= level <= most:
        reason = f"{codec} has the levels {least} to {most}, not {level}"
        raise ConfigError("compression_level", reason)
    return level
