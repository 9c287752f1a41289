"""Which objects of a table's directory VACUUM may consider: inside, visible and in scope. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lazydelta._arrow import true_mask
from lazydelta.errors import ConfigError
from lazydelta.expressions import as_predicate
from lazydelta.expressions.nodes import Column, IsTrue, Not
from lazydelta.log import LOG_DIRECTORY
from lazydelta.replay.skipping import Pruner
from lazydelta.schema import PrimitiveType
from lazydelta.schema.values import build_array
from lazydelta.writer.files import escape_name, partition_values_of

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from lazydelta.scan import Where
    from lazydelta.snapshot import SnapshotState

__all__ = ["PartitionScope", "below_mask", "inside_mask", "nested_tables", "visible_mask"]

_OUTSIDE = r"^(?:/|\.\.(?:/|$)|[A-Za-z][A-Za-z0-9+.-]*:/)"
_HIDDEN = r"(?:^|/)[._]"
_OTHER_CHANGE_DATA = r"(?:^|/)_change_data[^/]"
_OTHER_LOG = f"/{LOG_DIRECTORY}/"
_ICEBERG_FORMATS = "delta.universalFormat.enabledFormats"
_INT, _STRING, _BOOLEAN = (PrimitiveType(name) for name in ("integer", "string", "boolean"))


def inside_mask(keys: pa.Array) -> pa.BooleanArray:
    """Return which canonical paths are in the table's own directory.

    A shallow clone refers to files of its source by absolute paths.
    """
    return pc.invert(pc.match_substring_regex(keys, _OUTSIDE))


def visible_mask(keys: pa.Array, snapshot: SnapshotState) -> pa.BooleanArray:
    r"""Return which paths have no hidden name: one that starts with `_` or `.`.

    Change data and partition directories (`_p=1`) are not hidden. The metadata of Iceberg is, if
    the table is an Iceberg table as well.
    """
    hidden = pc.match_substring_regex(keys, _HIDDEN)
    if hidden.true_count:
        hidden = _hidden_mask(keys, snapshot)
    formats = snapshot.metadata.configuration.get(_ICEBERG_FORMATS, "")
    if "iceberg" in formats:
        hidden = pc.or_(hidden, pc.starts_with(keys, "metadata/"))
    return pc.invert(hidden)


def _hidden_mask(keys: pa.Array, snapshot: SnapshotState) -> pa.BooleanArray:
    columns = [name for name in snapshot.partition_columns if name[:1] in ("_", ".")]
    names = [rf"\Q{spelling}\E=" for name in columns for spelling in (name, escape_name(name))]
    visible = "|".join(["_change_data", *names])
    plain = pc.replace_substring_regex(keys, rf"(^|/)(?:{visible})", r"\1v")
    return pc.or_(
        pc.match_substring_regex(plain, _HIDDEN), pc.match_substring_regex(keys, _OTHER_CHANGE_DATA)
    )


def nested_tables(paths: pa.Array) -> list[str]:
    """Return the directories in which some of the paths are the log of another Delta table.

    >>> nested_tables(pa.array(["a/b/_delta_log/0.json", "a/x", "_delta_log/1.json"]))
    ['a/b']
    """
    in_log = pc.match_substring(paths, _OTHER_LOG)
    if not in_log.true_count:
        return []
    first = rf"^(.+?){_OTHER_LOG}.*$"
    found = pc.replace_substring_regex(paths.filter(in_log), first, r"\1")
    return [str(name) for name in found.unique().to_pylist()]


def below_mask(paths: pa.Array, directories: Collection[str]) -> np.ndarray:
    """Return which paths are below one of the directories."""
    starts = tuple(f"{name}/" for name in directories)
    return np.array([path.startswith(starts) for path in paths.to_pylist()], np.bool_)


class PartitionScope:
    """The partitions that a predicate selects, by the directories of files.

    A file whose directory does not name its partition, such as a deletion vector file, is in no
    partition.

    Args:
        snapshot: A version of the table.
        where: A predicate over partition columns.

    Raises:
        ConfigError: It has another column, or directories do not name partitions.
    """

    def __init__(self, snapshot: SnapshotState, where: Where) -> None:
        predicate = as_predicate(where)
        partitions = {name.lower() for name in snapshot.partition_columns}
        nodes = () if predicate is None else predicate.walk()
        for node in nodes:
            if isinstance(node, Column) and node.path[0].lower() not in partitions:
                raise ConfigError("where", f"{node.path[0]!r} is not a partition column")
        if predicate is not None and snapshot.column_mapping_mode != "none":
            reason = "directories do not name partitions, because the table has column mapping"
            raise ConfigError("where", f"{reason}; vacuum the whole table")
        self._columns: Sequence[str] = snapshot.partition_columns
        self.depth = len(self._columns)
        # A directory is in scope if none of its rows can fail to match: null is no match.
        self._others = Pruner.build(
            None if predicate is None else Not(IsTrue(predicate)),
            schema=snapshot.schema,
            partition_columns=snapshot.partition_columns,
            mapping_mode=snapshot.column_mapping_mode,
        )
        self.is_everything = predicate is None

    def names_partition(self, directory: str) -> bool:
        """Whether a directory names a value of every partition column."""
        found = partition_values_of(directory)
        return all(name in found for name in self._columns)

    def split(self, directories: list[str]) -> tuple[list[str], list[str]]:
        """Return the directories of partitions in scope, and those that name no partition."""
        named = [name for name in directories if self.names_partition(name)]
        in_scope = self.mask(build_array([f"{name}/" for name in named], _STRING))
        chosen = [name for name, some in zip(named, in_scope.tolist(), strict=True) if some]
        return chosen, [name for name in directories if not self.names_partition(name)]

    def mask(self, keys: pa.Array) -> np.ndarray:
        """Return which canonical paths are in scope."""
        parents = pc.replace_substring_regex(keys, r"/?[^/]*$", "").dictionary_encode()
        names = parents.dictionary.to_pylist()
        is_complete = [self.names_partition(name) for name in names]
        values = [partition_values_of(name) for name in names]
        maps = pa.MapArray.from_arrays(
            build_array([len(self._columns) * row for row in range(len(values) + 1)], _INT),
            build_array([name for _ in values for name in self._columns], _STRING),
            build_array([found.get(name) for found in values for name in self._columns], _STRING),
        )
        directories = pa.RecordBatch.from_arrays(
            [parents.dictionary, maps], ["path", "partitionValues"]
        )
        others = self._others.mask(directories)
        if others is None:
            return np.zeros(len(keys), np.bool_)
        matches = pc.and_(build_array(is_complete, _BOOLEAN), pc.invert(others))
        return true_mask(matches.take(parents.indices))
