"""How a table wants its data files: columns, partitions, statistics, sizes and encoding.

Decided once for a write, from the table's metadata and the caller's options; it pickles, so that
executors write files alike. Pure.
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

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from lazydelta.config import WriteOptions
    from lazydelta.protocol import TableMetadata, TableProtocol

__all__ = ["DataLayout", "statistics_columns"]

_INDEXED_COLUMNS = 32
_TARGET_FILE_BYTES = 128 * 1024 * 1024
_CODEC = "snappy"
_SIZE = re.compile(r"(\d+)\s*(b|k|kb|kib|m|mb|mib|g|gb|gib|t|tb|tib)?", re.IGNORECASE)
_UNITS = {"": 0, "b": 0, "k": 1, "m": 2, "g": 3, "t": 4}
_COLUMN = re.compile(r"\s*((?:`(?:[^`]|``)*`|[^`,.]+)(?:\.(?:`(?:[^`]|``)*`|[^`,.]+))*)\s*(?:,|$)")
_NAME = re.compile(r"`((?:[^`]|``)*)`|([^`.]+)")


@dataclass(frozen=True, slots=True, kw_only=True)
class DataLayout:
    """How the data files of a write are laid out."""

    schema: StructType
    """The table's logical schema after the write."""
    partition_columns: tuple[str, ...]
    mapping_mode: str
    indexed: tuple[tuple[str, ...], ...]
    """Physical paths of the columns with statistics."""
    target_file_bytes: int
    encoding: Encoding
    options: WriteOptions

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
        """Decide on the files of a table.

        Args:
            schema: Of `metadata`, parsed.
            protocol: The table's after the write.
            metadata: The table's after the write.
            options: The caller's wishes; they come before the table's properties.
            clustered_by: Physical paths of clustering columns, which always have statistics.

        Raises:
            SchemaError: A property of the table cannot be followed.
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
        )

    def of_change_files(self) -> DataLayout:
        """Return the layout of files that tell what became of rows: no log has bounds of those."""
        told = file_only_column(CHANGE_COLUMNS[0], "string")
        return replace(self, schema=StructType((*self.schema, told)), indexed=())

    def statistics(self, physical: StructType) -> StatisticsPlan:
        """Return which columns of a file have statistics."""
        return StatisticsPlan.of(physical, self.indexed)


def _indexed(
    data: StructType, configuration: Mapping[str, str], mode: str
) -> list[tuple[str, ...]]:
    leaves = [path for path, _ in to_physical(data, mode).leaves()]
    chosen = configuration.get("delta.dataSkippingStatsColumns")
    if chosen is not None:
        wanted = [_physical(data, path, mode) for path in statistics_columns(chosen)]
        return [leaf for leaf in leaves if any(leaf[: len(path)] == path for path in wanted)]
    key = "delta.dataSkippingNumIndexedCols"
    text = configuration.get(key, str(_INDEXED_COLUMNS))
    if not re.fullmatch(r"-1|\d+", text):
        raise SchemaError(f"{key} cannot be {text!r}")
    return leaves if text == "-1" else leaves[: int(text)]


def _physical(data: StructType, path: tuple[str, ...], mode: str) -> tuple[str, ...]:
    try:
        return physical_path(data, path, mode)
    except SchemaError:
        return ("",)  # of a column that is gone, or a partition column: there is nothing to index


def statistics_columns(text: str) -> list[tuple[str, ...]]:
    """Read `a, b.c, `odd name`` as paths.

    Raises:
        SchemaError: It is no list of columns.
    """
    found, at = [], 0
    while at < len(text):
        match = _COLUMN.match(text, at)
        if match is None:
            raise SchemaError(f"delta.dataSkippingStatsColumns cannot be {text!r}")
        names = _NAME.findall(match[1])
        found.append(tuple(quoted.replace("``", "`") or plain.strip() for quoted, plain in names))
        at = match.end()
    return found


def _target_size(configuration: Mapping[str, str]) -> int:
    text = configuration.get("delta.targetFileSize")
    if text is None:
        return _TARGET_FILE_BYTES
    match = _SIZE.fullmatch(text.strip())
    if match is None or int(match[1]) == 0:
        raise SchemaError(f"delta.targetFileSize cannot be {text!r}")
    return int(match[1]) * 1024 ** _UNITS[(match[2] or "")[:1].lower()]


def _codec(configuration: Mapping[str, str]) -> str:
    text = configuration.get("delta.parquet.compression.codec", _CODEC).lower()
    text = {"uncompressed": "none", "lz4_raw": "lz4"}.get(text, text)
    if text not in CODECS:
        raise ConfigError(
            "delta.parquet.compression.codec", f"cannot be {text!r}; known: {', '.join(CODECS)}"
        )
    return text


def _page_version(configuration: Mapping[str, str]) -> Literal["1.0", "2.0"]:
    key = "delta.parquet.format.version"
    text = configuration.get(key, "1.0.0")
    if not re.fullmatch(r"1\.0\.0|2\.\d+\.\d+", text):
        raise ConfigError(key, f"cannot be {text!r}; known: 1.0.0, 2.x.y")
    return "1.0" if text.startswith("1") else "2.0"


def _level(codec: str, level: int | None) -> int | None:
    """Return the level if the codec has it."""
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
