"""The sort order of adds in a checkpoint: total, over values, whether streamed or spilled."""

from __future__ import annotations

import itertools
import math
import tempfile
from datetime import date
from decimal import Decimal
from types import SimpleNamespace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from lazydelta.checkpoint import full_replay, tuning
from lazydelta.checkpoint.checkpoint_schema import CheckpointSchema, CheckpointSettings
from lazydelta.checkpoint.checkpoint_writer import write_checkpoint
from lazydelta.checkpoint.sort import external_sort, sorted_runs
from lazydelta.checkpoint.sort.row_group_bounds import lower_bounds
from lazydelta.checkpoint.sort.sort_keys import PartitionCodes, SortOrder, sort_keys
from lazydelta.checkpoint.sort.sorted_runs import Run
from tests.builders import add
from tests.support import examples
from tests.unit.checkpoint.checkpoint_cases import (
    NOW,
    V2,
    built,
    expected_state,
    snapshot_of,
    state_of,
)

NO_STRUCT = {"delta.checkpoint.writeStatsAsStruct": "false"}

# --- sort keys

_STRINGS = st.text(alphabet="a\0é😀z", max_size=4)
_PREFIXES = st.sampled_from(["part-00000-", "part-00000-0123456789abcdef"])
_LONG_STRINGS = st.one_of(
    _STRINGS, st.builds(lambda prefix, rest: prefix + rest, _PREFIXES, _STRINGS)
)
_INT64 = st.one_of(st.integers(-(2**63), 2**63 - 1), st.sampled_from([-(2**63), 0, 1]))
_VALUES = {
    pa.int64(): _INT64,
    pa.int8(): st.integers(-3, 3),
    pa.float64(): st.one_of(st.floats(), st.sampled_from([0.0, -0.0, math.nan])),
    pa.float32(): st.floats(width=32),
    pa.string(): _LONG_STRINGS,
    pa.date32(): st.integers(-3, 3).map(lambda day: date.fromordinal(719_163 + day)),
    pa.timestamp("us", "UTC"): _INT64,
    pa.decimal128(38, 2): st.integers(-(10**37), 10**37).map(lambda n: Decimal(n).scaleb(-2)),
    pa.decimal128(20, 0): st.sampled_from([Decimal(10**17 + n) for n in range(3)]),
}


@st.composite
def columns(draw):
    """Draw columns of one length with few distinct values, so that many rows tie."""
    rows = draw(st.integers(0, 30))
    arrays = []
    for kind in draw(st.lists(st.sampled_from(list(_VALUES)), min_size=1, max_size=3)):
        distinct = draw(st.lists(st.none() | _VALUES[kind], min_size=1, max_size=5))
        values = draw(st.lists(st.sampled_from(distinct), min_size=rows, max_size=rows))
        arrays.append(pa.array(values, kind))
    return arrays


def sorted_by_arrow(table):
    """Sort by Arrow's own multi-key sort over values: nulls first, NaN last."""
    keys = {}
    for name, column in zip(table.schema.names, table.columns, strict=True):
        keys[f"{name} is valid"] = column.is_valid()
        if pa.types.is_floating(column.type):
            keys[f"{name} is NaN"] = pc.fill_null(pc.is_nan(column), False)
        keys[name] = column
    by = [(name, "ascending") for name in keys]
    return table.take(pc.sort_indices(pa.table(keys), sort_keys=by))


@given(columns(), st.integers(1, 3))
@settings(max_examples=100)
@example([pa.array([-(2**63), None, -(2**63)]), pa.array(["b", "c", "a"])], 1)
@example([pa.array(["", None, ""]), pa.array([2, 1, 0])], 1)
def test_sort_order_is_that_of_arrow(drawn, partitioned):
    partitions = drawn[: min(partitioned, len(drawn)) - 1]
    values = drawn[len(partitions) :]
    partition_codes = PartitionCodes()
    half = len(values[0]) // 2
    codes = np.concatenate(
        [
            partition_codes.encode([column.slice(0, half) for column in partitions], half),
            partition_codes.encode(
                [column.slice(half) for column in partitions], len(values[0]) - half
            ),
        ]
    )
    order = SortOrder.by_keys(partition_codes.ranks()[codes], *sort_keys(values))
    order = order.break_ties_by_values(values)
    table = pa.table(drawn, [f"c{index}" for index in range(len(drawn))])
    assert sorted(order.rows.tolist()) == list(range(len(values[0])))
    assert comparable(table.take(pa.array(order.rows))) == comparable(sorted_by_arrow(table))


_WIDE = st.one_of(_INT64, st.integers(-3, 3), st.sampled_from([-(2**63), 2**63 - 1]))


@given(st.lists(st.tuples(st.integers(0, 70_000), _WIDE, st.integers(0, 2)), max_size=60))
@settings(max_examples=200)
@example([(1, -(2**63), 0), (0, 2**63 - 1, 1), (0, 2**63 - 1, 0), (0, 2**63 - 2, 2)])
def test_every_bit_of_a_key_counts(rows):
    """Keys are packed into words that do not hold all of their bits."""
    keys = [np.array([row[at] for row in rows], np.int64) for at in range(3)]
    order = SortOrder.by_keys(*keys)
    ordered_rows = [rows[row] for row in order.rows]
    assert ordered_rows == sorted(rows)
    assert sorted(order.rows.tolist()) == list(range(len(rows)))
    assert order.ties.tolist() == [a == b for a, b in itertools.pairwise(ordered_rows)]


def comparable(table):
    """Return rows as a string: NaN is not equal to itself, and Python's datetimes end in 9999."""
    columns = [
        column.cast(pa.int64()) if pa.types.is_timestamp(column.type) else column
        for column in table.columns
    ]
    # -0.0 and 0.0 sort as equal.
    return str(list(zip(*(column.to_pylist() for column in columns), strict=True))).replace(
        "-0.0", "0.0"
    )


# --- whole checkpoints

_STATS = {
    "long": st.integers(-(2**53), 2**53) | st.sampled_from([1, 2]),
    "double": st.floats(allow_nan=False, allow_infinity=False, width=16),
    "string": _LONG_STRINGS.map(lambda string: string.replace("\0", "0")),
    "decimal(20,2)": st.integers(-(10**6), 10**6).map(lambda cents: cents / 100),
    "date": st.integers(1, 9).map(lambda number: f"2026-01-0{number}"),
    "timestamp": st.integers(0, 9).map(lambda number: f"2026-01-01T00:00:00.00{number}Z"),
}
_PARTITIONS = {
    "string": st.sampled_from(["a", "é", "z" * 20 + "1", "z" * 20 + "0", ""]),
    "double": st.sampled_from(["NaN", "-1.5", "10", "9", "-0.0"]),
    "date": st.sampled_from(["2026-01-01", "1969-12-31"]),
    "integer": st.sampled_from(["-7", "10", "9"]),
}


@st.composite
def tables(draw):
    """Draw the types of a table's columns, and files with partition and minimum values."""
    parts = draw(st.lists(st.sampled_from(list(_PARTITIONS)), max_size=2))
    kinds = draw(st.lists(st.sampled_from(list(_STATS)), max_size=2))
    distinct = [draw(st.lists(st.none() | _STATS[k], min_size=1, max_size=4)) for k in kinds]
    names = draw(
        st.lists(
            st.text(alphabet="0fé", min_size=1, max_size=6).map(lambda t: f"part-00000-{t}"),
            min_size=1, max_size=40, unique=True,
        )
    )  # fmt: skip
    files = [
        (
            name,
            [draw(st.none() | _PARTITIONS[kind]) for kind in parts],
            [draw(st.sampled_from(values)) for values in distinct],
        )
        for name in names
    ]
    return parts, kinds, files


def add_action(file):
    path, partition, minimums = file
    values = {f"p{at}": value for at, value in enumerate(partition)}
    bounds = {f"c{at}": value for at, value in enumerate(minimums) if value is not None}
    stats = {"numRecords": 1, "minValues": bounds, "maxValues": bounds} if bounds else None
    return add(path, partition_values=values, stats=stats)


def expected_key(parts, kinds, file):
    """Return the sort key of a file, from the drawn values only."""
    path, partition, minimums = file
    partition = [value or None for value in partition]  # an empty string is null
    pairs = [*zip(parts, partition, strict=True), *zip(kinds, minimums, strict=True)]
    return [*(_comparable(kind, value) for kind, value in pairs), path.encode()]


def _comparable(kind, value):
    """Return a value that Python compares in sort order: nulls first, NaN last."""
    if value is None:
        return (0,)
    if kind in ("string", "date", "timestamp"):
        return (1, value.encode())
    number = Decimal(repr(value)) if kind.startswith("decimal") else float(value)
    return (2,) if math.isnan(number) else (1, number)


def written_groups(store, version):
    """Return the paths of adds in a classic checkpoint, by row group."""
    path = f"_delta_log/{version:020d}.checkpoint.parquet"
    parquet = pq.ParquetFile(store.open_input(path))
    groups = [
        parquet.read_row_group(at, columns=["add.path"]).column("add").to_pylist()
        for at in range(parquet.num_row_groups)
    ]
    return [[row["path"] for row in group if row] for group in groups]


SORT_LIMITS = {
    "streamed": {"POOL_ROWS": 1000, "RUN_ROWS": 1000, "BLOCK_ROWS": 1000},
    "pool overflow": {"POOL_ROWS": 12, "RUN_ROWS": 5, "BLOCK_ROWS": 3},
    "spilled": {"POOL_ROWS": 1, "RUN_ROWS": 4, "BLOCK_ROWS": 2},
}


def drawn_table(drawn, configuration=None):
    """Return a store and a builder of a table with the drawn types."""
    parts, kinds, _ = drawn
    schema = {f"p{at}": kind for at, kind in enumerate(parts)}
    schema |= {f"c{at}": kind for at, kind in enumerate(kinds)} or {"none": "boolean"}
    partition_by = [f"p{at}" for at in range(len(parts))]
    return built(schema=schema, partition_by=partition_by, configuration=configuration or {})


@pytest.mark.parametrize("limits", list(SORT_LIMITS))
@pytest.mark.parametrize("properties", [{}, NO_STRUCT], ids=["stats-as-struct", "stats-as-json"])
@given(drawn=tables(), commits=st.integers(1, 3), group_rows=st.integers(1, 7))
@examples(6, long=12)
def test_a_checkpoint_is_in_sort_order(limits, properties, drawn, commits, group_rows):
    parts, kinds, files = drawn
    store, builder = drawn_table(drawn, properties)
    with pytest.MonkeyPatch.context() as patch:
        for name, value in SORT_LIMITS[limits].items():
            patch.setattr(tuning, name, value)
        patch.setattr(tuning, "ROW_GROUP_ROWS", group_rows)
        patch.setattr(tuning, "REPLAY_BATCH_ROWS", 4)
        for at in range(commits):  # later commits are merged into the previous checkpoint
            builder.commit(*map(add_action, files[at::commits]))
            write_checkpoint(snapshot_of(store), now_ms=NOW)
    written = [path for group in written_groups(store, builder.version) for path in group]
    expected = sorted(files, key=lambda file: expected_key(parts, kinds, file))
    assert written == [path for path, _, _ in expected]
    assert state_of(store) == expected_state(builder)


def adds_of_day(*lows, day=1):
    """Return adds of one partition with these minimum ids."""
    return [
        add(
            f"f-{day}-{low:04}",
            partition_values={"day": f"2026-01-{day:02}"},
            stats={"numRecords": 1, "minValues": {"id": low}, "maxValues": {"id": low}},
        )
        for low in lows
    ]


@pytest.mark.parametrize("configuration", [{}, V2], ids=["classic", "v2"])
def test_a_sorted_source_is_not_spilled(configuration, monkeypatch):
    monkeypatch.setattr(tuning, "ROW_GROUP_ROWS", 10)
    monkeypatch.setattr(tuning, "SIDECAR_ROWS", 30)
    store, builder = built(
        schema={"id": "long", "day": "date"}, partition_by=["day"], configuration=configuration
    )
    builder.commit(
        *(file for day in range(1, 6) for file in adds_of_day(*range(0, 40, 2), day=day))
    )
    write_checkpoint(snapshot_of(store), now_ms=NOW)
    builder.commit(*adds_of_day(7, 21, 99, day=3), "-f-2-0004")
    # The pool is so small that an unsorted table has to be spilled.
    monkeypatch.setattr(tuning, "POOL_ROWS", 31)
    monkeypatch.setattr(external_sort, "Run", None)
    write_checkpoint(snapshot_of(store), now_ms=NOW)
    assert state_of(store) == expected_state(builder)


ALL = ("path", "size", "tags")
RUN_SCHEMA = SimpleNamespace(
    add=pa.struct(
        [("path", pa.string()), ("size", pa.int64()), ("tags", pa.map_("string", "int8"))]
    ),
    sort_values=lambda part: [part["path"]],
)


def order_of(*rows):
    return SortOrder(np.array(rows), np.zeros(len(rows) - 1, np.bool_))


def test_rows_of_a_run_outlive_its_file_and_its_memory(tmp_path):
    paths, sizes = pa.array(map(str, range(10))), pa.array([None, *range(9)])
    parts = [{"path": paths[:3], "size": sizes[:3]}, {"path": paths[3:], "size": sizes[3:]}]
    run = Run.spill(str(tmp_path / "run"), parts, order_of(*range(10)), RUN_SCHEMA, block_rows=4)
    (tmp_path / "run").unlink()
    pieces = [run.next_slice(most) for most in (5, 1, 9)]
    run.release()
    pieces.append(run.next_slice(9))
    del run
    assert max(len(piece["path"]) for piece in pieces) <= 4
    assert pa.concat_arrays([piece["path"] for piece in pieces]).equals(paths)
    assert pa.concat_arrays([piece["size"] for piece in pieces]).equals(sizes)


def test_rows_are_taken_from_runs_that_omit_columns(tmp_path):
    tags = pa.array([[("a", 1)], None, []], pa.map_("string", "int8"))
    first = {"path": pa.array(["e", "a", "c"]), "tags": tags}
    second = {"path": pa.array(["d"]), "size": pa.array([4])}, {"path": pa.array(["f", "b"])}
    runs = [
        Run.spill(str(tmp_path / "1"), [first], order_of(1, 2, 0), RUN_SCHEMA, block_rows=2),
        Run.spill(str(tmp_path / "2"), second, order_of(2, 0, 1), RUN_SCHEMA, block_rows=2),
    ]
    taken = [
        Run.take(runs, counts, order_of(*order), RUN_SCHEMA)
        for counts, order in (([1, 1], [0, 1]), ([2, 1], [0, 2, 1]), ([0, 1], [0]))
    ]
    rows = [
        (path, size, row)
        for part in taken
        for path, size, row in zip(
            *(part[n].to_pylist() if n in part else [None] * len(part["path"]) for n in ALL),
            strict=True,
        )
    ]
    assert rows == [
        ("a", None, None),
        ("b", None, None),
        ("c", None, []),
        ("d", 4, None),
        ("e", None, [("a", 1)]),
        ("f", None, None),
    ]


def test_ties_are_broken_by_values(tmp_path):
    runs = [
        Run.spill(
            str(tmp_path / str(at)), [{"path": pa.array(paths)}], order_of(0, 1), RUN_SCHEMA,
            block_rows=9,
        )
        for at, paths in enumerate((["b", "d"], ["a", "c"]))
    ]  # fmt: skip
    tied = SortOrder(np.arange(4), np.array([True, False, True]))
    paths = Run.take(runs, [2, 2], tied, RUN_SCHEMA)["path"].to_pylist()
    assert paths == ["b", "d", "a", "c"]
    with pytest.raises(IndexError, match="pop from empty"):
        Run.take(runs, [1, 0], order_of(0), RUN_SCHEMA)


@pytest.mark.parametrize("fails", [False, True])
def test_temporary_files_are_deleted(fails, tmp_path, monkeypatch):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    for name, value in {"POOL_ROWS": 1, "RUN_ROWS": 5, "BLOCK_ROWS": 2}.items():
        monkeypatch.setattr(tuning, name, value)
    written = []

    def spill(path, *args, **options):
        if fails and len(written) == 2:
            raise OSError("No space left on device")
        written.append(path)
        return Run.spill(path, *args, **options)

    monkeypatch.setattr(external_sort, "Run", SimpleNamespace(spill=spill))
    store, builder = built(schema={"id": "long"})
    for at in range(0, 30, 5):
        builder.commit(*(add(f"f{n}") for n in range(at, at + 5)))
    if fails:
        with pytest.raises(OSError, match="No space left"):
            write_checkpoint(snapshot_of(store), now_ms=NOW)
        assert not [name for name in builder.names() if "checkpoint" in name]
    else:
        write_checkpoint(snapshot_of(store), now_ms=NOW)
        assert state_of(store) == expected_state(builder)
        assert len(written) > 2
    assert len({path.rpartition("/")[0] for path in written}) == 1
    assert not list(tmp_path.iterdir())


def test_tied_rows_beyond_the_memory_limit_are_merged_block_by_block(monkeypatch):
    """More files than fit in memory, of one partition and with equal sort keys."""
    for name, value in {"POOL_ROWS": 1, "RUN_ROWS": 50, "BLOCK_ROWS": 8}.items():
        monkeypatch.setattr(tuning, name, value)
    monkeypatch.setattr(tuning, "ROW_GROUP_ROWS", 20)
    store, builder = built(schema={"name": "string"})
    prefix = "a long prefix that all values share, "
    names = [f"{prefix}{7 * n % 10}" for n in range(300)]
    paths = [f"part-00000-{97 * n % 300:03}" for n in range(300)]
    for at in range(0, 300, 60):
        builder.commit(
            *(
                add(path, stats={"minValues": {"name": name}, "maxValues": {"name": name}})
                for name, path in zip(names[at : at + 60], paths[at : at + 60], strict=True)
            )
        )
    merged_rows = []
    merge_blocks = sorted_runs.MergedRuns._merge_blocks

    def counting(self, counts):
        for chunk in merge_blocks(self, counts):
            merged_rows.append(len(chunk["path"]))
            yield chunk

    monkeypatch.setattr(sorted_runs.MergedRuns, "_merge_blocks", counting)
    write_checkpoint(snapshot_of(store), now_ms=NOW)
    groups = written_groups(store, builder.version)
    written = [path for group in groups for path in group]
    assert written == [path for _, path in sorted(zip(names, paths, strict=True))]
    assert sum(merged_rows) == 300
    assert max(merged_rows) <= 8 * 5  # never more than a block of each run
    assert list(map(len, groups)) == [0, *[20] * 15]


def test_adds_are_sorted_by_all_clustering_columns_then_by_path():
    store, builder = built(schema={"a": "string", "b": "long", "c": "double", "d": "date"})
    columns = '{"clusteringColumns":[["c"],["b"],["d"],["a"]]}'
    domain = {"domain": "delta.clustering", "configuration": columns, "removed": False}
    minimums = [
        {"c": c, "b": b, "d": d, "a": a}
        for c, b, d in ((0.5, 1, "2026-01-01"), (0.5, 1, "2025-01-01"), (-0.5, 2, "2026-01-01"))
        for a in ("z", "y")
    ]
    files = [
        (f"{name}-{at}", values) for at, values in enumerate(minimums) for name in ("two", "one")
    ]
    builder.commit(
        *(
            add(path, stats={"numRecords": 1, "minValues": low, "maxValues": low})
            for path, low in files
        ),
        {"domainMetadata": domain},
    )
    write_checkpoint(snapshot_of(store), now_ms=NOW)
    written = [path for group in written_groups(store, builder.version) for path in group]
    assert written == [p for p, _ in sorted(files, key=lambda file: [*file[1].values(), file[0]])]


# --- bounds


@given(tables(), st.integers(1, 5))
@settings(max_examples=25)
def test_no_row_precedes_the_lower_bound_of_its_row_group(drawn, group_rows):
    store, builder = drawn_table(drawn)
    builder.commit(*map(add_action, drawn[2]))
    # Not written by the engine, and unsorted.
    builder.checkpoint(row_group_rows=group_rows, stats_parsed=True, partition_values_parsed=True)
    snapshot = snapshot_of(store)
    schema = CheckpointSchema(snapshot, CheckpointSettings.of(snapshot))
    with full_replay.full_replay(snapshot, now_ms=NOW) as replay:
        bounds = lower_bounds(replay.footers(), schema)
        partition_codes = PartitionCodes()
        for batch, _, row_group in replay.adds_with_mask():
            adds, bound = schema.convert_adds(batch), bounds[row_group]
            codes = partition_codes.encode(schema.partition_arrays(adds), batch.num_rows)
            keys, _ = sort_keys(schema.sort_values(adds))
            limit = partition_codes.code(bound.partition)
            ranks = partition_codes.ranks()
            is_before = (ranks[codes] < ranks[limit]) | (
                (ranks[codes] == ranks[limit]) & (keys < bound.key)
            )
            assert not (schema.sort_columns and is_before.any())
