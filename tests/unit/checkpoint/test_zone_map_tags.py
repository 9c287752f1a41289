"""The zone maps of sidecars: only columns with bounds in every add."""

from __future__ import annotations

import orjson
import pyarrow as pa
import pytest

from lazydelta.checkpoint.zone_map_tags import ZoneMap

_SIDES = ("minValues", "maxValues")
SORT_COLUMNS = (("id",), ("st", "k"))


def adds(*ranges, kind=None, days=None):
    """Return adds with these ranges of `id`; one of None has no statistics."""
    kind = kind or pa.int64()
    bounds = pa.struct([("id", kind), ("st", pa.struct([("k", kind)]))])
    rows = [
        found and {_SIDES[at]: {"id": value, "st": {"k": value}} for at, value in enumerate(found)}
        for found in ranges
    ]
    shape = pa.struct([(name, bounds) for name in _SIDES])
    columns = {
        "path": pa.array([f"f{n}" for n in range(len(ranges))]),
        "stats_parsed": pa.array(rows, shape),
    }
    if days is not None:
        typed = pa.struct([("day", pa.int32())])
        columns["partitionValues_parsed"] = pa.array([{"day": day} for day in days], typed)
    return columns


def zone_map_of(*batches, sort_columns=SORT_COLUMNS):
    zone_map = ZoneMap(sort_columns)
    for batch in batches:
        zone_map.add(batch)
    return orjson.loads(zone_map.tags()["lazydelta.zones"])


def test_every_batch_extends_the_zone_map():
    found = zone_map_of(
        adds((5, 9), (7, 8), days=[3, 4]), adds((1, 2), days=[2]), adds((6, 30), days=[4])
    )
    assert found == {
        "adds": 4,
        "partitionValues": {"day": ["2", "4"]},
        "columns": {"id": ["1", "30"], "st.k": ["1", "30"]},
        "types": {
            "partitionValues": {"day": "int32"},
            "columns": {"id": "int64", "st.k": "int64"},
        },
    }


@pytest.mark.parametrize(
    "batch",
    [
        pytest.param(adds((1, 2), None), id="no-statistics"),
        pytest.param(adds((1, 2), (3, None)), id="no-maximum"),
        pytest.param(adds((1, 2), (None, 3)), id="no-minimum"),
        pytest.param(adds((1, 2), (4, 3)), id="inverted"),
        pytest.param({"path": pa.array(["a"])}, id="no-column"),
        pytest.param(adds((1.0, 2.0), kind=pa.float64()), id="type-without-canonical-string"),
        pytest.param(adds(("a", "b" * 257), kind=pa.string()), id="bound-too-long"),
    ],
)
@pytest.mark.parametrize("position", [0, 1, 2])
def test_a_column_without_bounds_in_one_add_is_omitted(batch, position):
    plain = adds((1, 2), days=[1])
    if "stats_parsed" in batch:
        kind = batch["stats_parsed"].type.field(0).type.field(0).type
        plain = adds(("1", "2") if pa.types.is_string(kind) else (1, 2), kind=kind, days=[1])
    batches = [plain, plain]
    batches.insert(position, batch)
    found = zone_map_of(*batches)
    assert found == {"adds": 2 + len(batch["path"])}


def test_names_with_dots_are_omitted():
    stats = pa.array([{side: {"a.b": 1, "a": {"b": 2}} for side in _SIDES}])
    batch = {"path": pa.array(["f"]), "stats_parsed": stats}
    found = zone_map_of(batch, sort_columns=[("a.b",), ("a", "b")])
    assert found["columns"] == {"a.b": ["2", "2"]}


def test_no_adds():
    assert zone_map_of() == {"adds": 0}
