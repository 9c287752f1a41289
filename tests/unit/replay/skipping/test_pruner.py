from __future__ import annotations

import json
from datetime import UTC, datetime
from decimal import Decimal

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from lazydelta.errors import ColumnNotFoundError, PredicateError
from lazydelta.expressions import as_predicate
from lazydelta.replay.skipping import Pruner
from lazydelta.schema import parse_schema


def field(name, kind, physical=None, **metadata):
    if physical:
        metadata["delta.columnMapping.physicalName"] = physical
    return {"name": name, "type": kind, "nullable": True, "metadata": metadata}


SCHEMA = parse_schema(
    json.dumps(
        {
            "type": "struct",
            "fields": [
                field("id", "long", "c-id"),
                field("s", "string", "c-s"),
                field("t", "timestamp", "c-t"),
                field("x", "double", "c-x"),
                field("w", "decimal(30,2)", "c-w"),
                field("st", {"type": "struct", "fields": [field("k", "long", "c-k")]}, "c-st"),
                field("p", "integer", "c-p"),
                field("day", "date", "c-day"),
            ],
        }
    ),
    where="test",
)
PARTITIONS = ("p", "day")


def build(where, mode="none"):
    return Pruner.build(
        as_predicate(where), schema=SCHEMA, partition_columns=PARTITIONS, mapping_mode=mode
    )


def stats(low=None, high=None, nulls=None, rows=10):
    return json.dumps(
        {
            "numRecords": rows,
            "minValues": low or {},
            "maxValues": high or {},
            "nullCount": nulls or {},
        }
    )


def adds(stats_json=None, partitions=None, **extra):
    columns = dict(extra)
    if stats_json is not None:
        columns["stats"] = pa.array(stats_json, pa.string())
    if partitions is not None:
        columns["partitionValues"] = pa.array(
            [None if p is None else [*p.items()] for p in partitions],
            pa.map_(pa.string(), pa.string()),
        )
    return pa.RecordBatch.from_arrays([*columns.values()], names=[*columns])


def kept(where, batch, mode="none"):
    mask = build(where, mode).mask(batch)
    if mask is None:
        return [True] * batch.num_rows
    assert mask.null_count == 0
    return mask.to_pylist()


RANGES = adds(
    [
        stats({"id": 1, "s": "b"}, {"id": 5, "s": "d"}, {"id": 0, "s": 0}),
        stats({"id": 6}, {"id": 9}, {"id": 2, "s": 10}),
        stats(),
        None,
        "{broken",
    ]
)


@pytest.mark.parametrize(
    ("where", "first", "second"),
    [
        ("id = 3", True, False),
        ("id > 5", False, True),
        ("id < 1", False, False),
        ("id IN (0, 7)", False, True),
        ("id != 3", True, True),
        ("s = 'c'", True, False),
        ("s LIKE 'c%'", True, False),
        ("s LIKE 'e%'", False, False),
        ("id IS NULL", False, True),
        ("s IS NOT NULL", True, False),
        ("id = 3 OR id = 7", True, True),
        ("id + 1 = 10", False, True),
        ("NOT (id <= 5)", False, True),
    ],
)
def test_statistics_prune_files_and_unknown_ones_are_kept(where, first, second):
    assert kept(where, RANGES) == [first, second, True, True, True]


def test_bounds_that_contradict_each_other_are_not_used():
    assert kept("id = 5", adds([stats({"id": 9}, {"id": 1}, {"id": 0})])) == [True]


def test_negative_counts_are_not_used():
    batch = adds([stats({}, {}, {"id": -1}, rows=-1), stats({}, {}, {"id": 0}, rows=5)])
    assert kept("id IS NULL", batch) == [True, False]
    assert kept("id IS NOT NULL", batch) == [True, True]


def test_a_truncated_timestamp_maximum_is_widened():
    text = "2026-01-01T00:00:00.123Z"
    batch = adds([stats({"t": text}, {"t": text}, {"t": 0})])
    assert kept("t = TIMESTAMP '2026-01-01 00:00:00.123999Z'", batch) == [True]
    assert kept("t = TIMESTAMP '2026-01-01 00:00:00.124000Z'", batch) == [False]
    assert kept("t != TIMESTAMP '2026-01-01 00:00:00.123000Z'", batch) == [True]


def test_the_largest_timestamp_does_not_overflow():
    column = pa.array(
        [{"maxValues": {"t": 2**63 - 1}}],
        pa.struct([("maxValues", pa.struct([("t", pa.int64())]))]),
    )
    typed = pa.struct([("maxValues", pa.struct([("t", pa.timestamp("us", "UTC"))]))])
    inner = column.field(0).field(0).view(pa.timestamp("us", "UTC"))
    middle = pa.StructArray.from_arrays([inner], fields=[typed.field(0).type.field(0)])
    parsed = pa.StructArray.from_arrays([middle], fields=[typed.field(0)])
    assert kept("t > TIMESTAMP '2026-01-01 00:00:00Z'", adds(stats_parsed=parsed)) == [True]


def test_a_float_maximum_may_hide_nan():
    batch = adds([stats({"x": 1.0}, {"x": 5.0}, {"x": 0})])
    assert kept("x > 10", batch) == [True]
    assert kept("x > 10 AND x < 20", batch) == [False]
    assert kept("x = 10", batch) == [False]


def test_decimals_rounded_to_doubles_keep_their_file():
    value = Decimal("12345678901234567.12")
    rounded = '{"numRecords":1,"minValues":{"w":1.2345678901234568e+16},"maxValues":{"w":1.2345678901234568e+16}}'
    assert kept(f"w = {value}", adds([rounded])) == [True]
    assert kept("w = 12345678901234999.00", adds([rounded])) == [False]


def test_partition_values_compare_by_type():
    batch = adds(partitions=[{"p": "7"}, {"p": "07"}, {"p": "10"}, {"p": ""}, {"p": None}, {}])
    assert kept("p = 7", batch) == [True, True, False, False, False, False]
    assert kept("p > 8", batch) == [False, False, True, False, False, False]
    assert kept("p IS NULL", batch) == [False, False, False, True, True, True]
    assert kept([("p", "=", "7")], batch) == [True, True, False, False, False, False]
    assert kept([("p", "in", ["10", ""])], batch) == [False, False, True, True, True, True]
    assert kept("p - 7 = 0 OR p IS NULL", batch) == [True, True, False, True, True, True]


@pytest.mark.parametrize(
    "partitions",
    [
        pytest.param([{"p": "7"}, {"p": "8"}, {"p": "7"}], id="one-key"),
        pytest.param([{"x": "7", "p": "7"}, {"x": "7", "p": "8"}, {"x": "8", "p": "7"}], id="even"),
        pytest.param(
            [{"x": "8", "p": "7"}, {"p": "8", "x": "7"}, {"x": "8", "p": "7"}], id="mixed"
        ),
        pytest.param([{"p": "7"}, {"p": "8", "x": "7"}, {"x": "8", "p": "7"}], id="uneven"),
    ],
)
def test_partition_values_in_any_key_order(partitions):
    batch = adds(partitions=[{"p": "7"}, *partitions, {"p": "9"}])
    assert kept("p = 7", batch.slice(1, 3)) == [True, False, True]
    assert kept("p = 7", batch) == [True, True, False, True, False]


def test_a_missing_key_is_null_and_a_null_map_is_unknown():
    batch = adds(partitions=[{"x": "7"}, None, {"x": "8"}])
    assert kept("p IS NULL", batch) == [True, True, True]
    assert kept("p = 7", batch) == [False, True, False]


def test_an_invalid_partition_value_keeps_its_file():
    batch = adds(partitions=[{"p": "seven", "day": "2026-01-01"}, {"p": "8", "day": "2026-01-01"}])
    assert kept("p = 7", batch) == [True, False]
    assert kept("p = 7 AND day = '2026-01-02'", batch) == [True, False]
    assert kept("p IS NOT NULL", batch) == [True, True]


def test_typed_statistics_with_json_as_fallback():
    parsed = pa.array(
        [{"minValues": {"id": 1}, "maxValues": {"id": 2}}, None, None],
        pa.struct(
            [
                ("minValues", pa.struct([("id", pa.int64())])),
                ("maxValues", pa.struct([("id", pa.int64())])),
            ]
        ),
    )
    strings = [None, stats({"id": 5}, {"id": 6}), None]
    batch = adds(strings, stats_parsed=parsed)
    assert kept("id = 5", batch) == [False, True, True]
    assert kept("id = 1", batch) == [True, False, True]
    assert kept("id = 5", adds(stats_parsed=parsed)) == [False, True, True]


def test_typed_partition_values_with_the_map_as_fallback():
    kind = pa.struct([("p", pa.int32())])
    parsed = pa.array([{"p": 7}, {"p": None}, None], kind)
    assert kept("p = 7", adds(partitionValues_parsed=parsed)) == [True, False, True]
    batch = adds(partitions=[{"p": "7"}, {"p": None}, {"p": "8"}], partitionValues_parsed=parsed)
    assert kept("p = 7", batch) == [True, False, False]


@pytest.mark.parametrize("mode", ["name", "id"])
def test_statistics_use_physical_names(mode):
    batch = adds(
        [stats({"c-id": 1, "c-st": {"c-k": 1}}, {"c-id": 2, "c-st": {"c-k": 2}})] * 2,
        [{"c-p": "7"}, {"c-p": "8"}],
    )
    assert kept("p = 7 AND id = 2", batch, mode) == [True, False]
    assert kept("st.k > 2", batch, mode) == [False, False]
    assert kept("id = 3", batch, "none") == [True, True]


def test_required_columns_and_unsatisfiable_predicates():
    nothing = build("p = 1 AND FALSE")
    assert nothing.matches_nothing
    assert build(None).mask(RANGES) is None
    assert (build("p = 1").needs_partition_values, build("p = 1").needs_stats) == (True, False)
    assert (build("id = 1").needs_partition_values, build("id = 1").needs_stats) == (False, True)
    assert build("p = 1 OR id = 1").predicate is not None
    assert not build("id = 1").matches_nothing


def test_checkpoint_leaves():
    typed = {
        "add.path",
        "add.stats",
        "add.stats_parsed.numRecords",
        "add.stats_parsed.minValues.id",
        "add.stats_parsed.maxValues.id",
        "add.stats_parsed.nullCount.id",
        "add.partitionValues_parsed.p",
        "add.partitionValues.key_value.key",
    }
    assert build("id = 1 AND p = 1").checkpoint_leaves(typed) == sorted(
        typed - {"add.path", "add.stats", "add.partitionValues.key_value.key"}
    )
    plain = {
        "add.path",
        "add.stats",
        "add.partitionValues.key_value.key",
        "add.partitionValues.key_value.value",
    }
    assert build("id = 1 AND p = 1").checkpoint_leaves(plain) == sorted(plain - {"add.path"})
    assert build("s = 'a'").checkpoint_leaves(typed) == ["add.stats_parsed.numRecords"]
    assert build(None).checkpoint_leaves(typed) == []


def test_an_unknown_column_or_invalid_comparison_is_an_error():
    with pytest.raises(ColumnNotFoundError):
        build("nope = 1")
    with pytest.raises(PredicateError):
        build("s = 1")


# --- row groups ---------------------------------------------------------------------------------

STATS = pa.struct(
    [
        ("numRecords", pa.int64()),
        *(
            (
                group,
                pa.struct(
                    [
                        ("id", pa.int64()),
                        ("t", pa.timestamp("us", "UTC")),
                        ("x", pa.float64()),
                        ("s", pa.string()),
                        ("w", pa.decimal128(30, 2)),
                    ]
                ),
            )
            for group in ("minValues", "maxValues")
        ),
        ("nullCount", pa.struct([("id", pa.int64())])),
    ]
)
ADD = pa.struct(
    [
        ("path", pa.string()),
        ("partitionValues_parsed", pa.struct([("p", pa.int32())])),
        ("stats_parsed", STATS),
    ]
)


def checkpoint(rows, group=2):
    """Write one row per add, given as (p, min, max), and a remove for each None."""
    values = [
        None
        if row is None
        else {
            "path": f"f{at}",
            "partitionValues_parsed": {"p": row[0]},
            "stats_parsed": None
            if row[1] is None
            else {
                "numRecords": 5,
                "minValues": row[1],
                "maxValues": row[2],
                "nullCount": {"id": 0},
            },
        }
        for at, row in enumerate(rows)
    ]
    table = pa.table(
        {"add": pa.array(values, ADD), "remove": pa.array([v is None for v in values])}
    )
    sink = pa.BufferOutputStream()
    pq.write_table(table, sink, row_group_size=group)
    return pq.ParquetFile(pa.BufferReader(sink.getvalue())).metadata


def ids(*pairs):
    return [None if pair is None else (1, {"id": pair[0]}, {"id": pair[1]}) for pair in pairs]


def test_row_groups_are_pruned_by_statistics():
    metadata = checkpoint(ids((1, 2), (3, 4), (5, 6), (7, 8), None, None))
    assert build("id = 3").keep_row_groups(metadata) == [0]
    assert build("id > 4").keep_row_groups(metadata) == [1]
    assert build("id > 8").keep_row_groups(metadata) == []
    assert build("id IN (0, 8, 9)").keep_row_groups(metadata) == [1]
    assert build("id BETWEEN 2 AND 5").keep_row_groups(metadata) == [0, 1]
    assert build("id IS NULL").keep_row_groups(metadata) == []
    assert build(None).keep_row_groups(metadata) == [0, 1]
    assert build("FALSE").keep_row_groups(metadata) == []


def test_a_row_group_with_an_unknown_statistic_is_kept():
    metadata = checkpoint([*ids((1, 2)), (1, None, None), *ids((1, 2)), None])
    assert build("id = 9").keep_row_groups(metadata) == [0]


def test_rows_of_other_actions_are_not_unknown_statistics():
    metadata = checkpoint([*ids((1, 2)), None])
    assert build("id = 9").keep_row_groups(metadata) == []


def test_row_groups_are_pruned_by_partition_values():
    rows = [(p, {"id": 1}, {"id": 1}) for p in (1, 2, 7, 7, None, 3)]
    metadata = checkpoint(rows)
    assert build("p = 7").keep_row_groups(metadata) == [1, 2]
    assert build("p < 3").keep_row_groups(metadata) == [0, 2]
    assert build("p != 7").keep_row_groups(metadata) == [0, 2]


def test_footer_floats_are_never_used():
    rows = [(1, {"x": 1.0}, {"x": 2.0})] * 2
    assert build("x = 9").keep_row_groups(checkpoint(rows)) == [0]


def test_footer_timestamp_maximums_are_widened():
    time = datetime(2026, 1, 1, tzinfo=UTC)
    metadata = checkpoint([(1, {"t": time}, {"t": time})])
    assert build("t = TIMESTAMP '2026-01-01 00:00:00.000999Z'").keep_row_groups(metadata) == [0]
    assert build("t = TIMESTAMP '2026-01-01 00:00:00.001000Z'").keep_row_groups(metadata) == []


def test_footer_decimals_that_may_be_rounded_are_not_used():
    rounded = {"w": Decimal("12345678901234568.00")}
    metadata = checkpoint([(1, rounded, rounded)])
    assert build("w = 12345678901234567.12").keep_row_groups(metadata) == [0]


def test_footer_strings():
    metadata = checkpoint(
        [(1, {"s": "a"}, {"s": "b"}), (1, {"s": "é"}, {"s": "\U0010ffff"})], group=1
    )
    assert build("s LIKE 'b%'").keep_row_groups(metadata) == [0]
    assert build("s > 'z'").keep_row_groups(metadata) == [1]


def test_a_checkpoint_without_typed_columns_keeps_its_row_groups():
    table = pa.table({"add": pa.array([{"path": "a", "stats": "{}"}, None])})
    sink = pa.BufferOutputStream()
    pq.write_table(table, sink, row_group_size=1)
    metadata = pq.ParquetFile(pa.BufferReader(sink.getvalue())).metadata
    assert build("id = 1 AND p = 3").keep_row_groups(metadata) == [0]
