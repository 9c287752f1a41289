"""Which files clustering rewrites, and the tags by which engines recognize clustered files. Pure.

The tags and the provider are those of Delta Spark, so that each continues the other's work. Files
of one run form a ZCube: they overlap little with each other.
"""

from __future__ import annotations

import uuid
from typing import TYPE_CHECKING

import numpy as np
import orjson
import pyarrow as pa
import pyarrow.compute as pc

from lazydelta._arrow import from_mask, from_numpy, string_scalar, to_mask, to_numpy
from lazydelta.operations.optimize import tuning
from lazydelta.operations.optimize.candidates import is_sparse
from lazydelta.schema import PrimitiveType
from lazydelta.schema.values import build_array
from lazydelta.transaction import ADDS

if TYPE_CHECKING:
    from collections.abc import Sequence

    from lazydelta.operations.optimize.overlap import FileBounds

__all__ = ["files_to_cluster", "tagged"]

_PROVIDER = "liquid"
_CUBE, _COLUMNS = "ZCUBE_ID", "ZCUBE_ZORDER_BY"
_STRING = PrimitiveType("string")


def files_to_cluster(files: pa.Table, bounds: FileBounds, names: Sequence[str]) -> pa.Table:
    """Return the files to rewrite: those not clustered yet, and clustered ones that join them.

    Clustered files with many deleted rows count as not clustered. Files that were clustered by
    other columns or another implementation are left alone, as in Spark.

    Args:
        files: The live files, in the schema of `FILES`.
        bounds: Their bounds in the clustering columns.
        names: The clustering columns.
    """
    tags = files.column("tags").combine_chunks()
    cubes = pc.map_lookup(tags, string_scalar(_CUBE), "first")
    columns = pc.map_lookup(tags, string_scalar(_COLUMNS), "first")
    provider = files.column("clusteringProvider").combine_chunks()
    is_new = to_mask(provider.is_null())
    is_ours = to_mask(pc.equal(provider, string_scalar(_PROVIDER)).fill_null(False))
    same = pc.equal(columns, string_scalar(orjson.dumps(list(names)).decode()))
    is_ours &= to_mask(same.fill_null(False))
    chosen = is_new | (is_ours & to_mask(is_sparse(files)))
    if not chosen.any():
        return files.slice(0, 0)
    may_join = bounds.overlapping(chosen) & is_ours & ~chosen
    sizes = to_numpy(files.column("size").combine_chunks())
    chosen |= _joining(cubes, sizes, may_join, int(sizes[chosen].sum()))
    return files.filter(from_mask(chosen))


def _joining(cubes: pa.Array, sizes: np.ndarray, may_join: np.ndarray, chosen: int) -> np.ndarray:
    """Return which files join: of the smallest cubes first, while they are small enough."""
    coded = cubes.fill_null("").dictionary_encode()
    codes = to_numpy(coded.indices)
    totals = np.bincount(codes[may_join], sizes[may_join], len(coded.dictionary))
    joining = np.zeros(len(sizes), np.bool_)
    for cube in np.argsort(totals, kind="stable").tolist():
        if totals[cube] > tuning.JOIN_RATIO * chosen:
            break
        joining |= may_join & (codes == cube)
        chosen += int(totals[cube])
    return joining


def tagged(adds: pa.Table, names: Sequence[str]) -> pa.Table:
    """Return the add actions of one run with the tags of a new ZCube."""
    tags = {_CUBE: str(uuid.uuid4()), _COLUMNS: orjson.dumps(list(names)).decode()}
    count = adds.num_rows
    offsets = from_numpy(np.arange(0, 2 * count + 1, 2, dtype=np.int32))
    columns = {
        "tags": pa.MapArray.from_arrays(
            offsets,
            build_array(list(tags) * count, _STRING),
            build_array(list(tags.values()) * count, _STRING),
        ),
        "clusteringProvider": pa.repeat(string_scalar(_PROVIDER), count),
    }
    arrays = [columns.get(name, adds.column(name)) for name in ADDS.names]
    return pa.Table.from_arrays(arrays, schema=ADDS)
