"""The order of adds in a checkpoint: a total one over whole values, whichever way they were sorted."""

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

from lazydelta.checkpoint import action_source as checkpoint_source
from lazydelta.checkpoint import external_sort as checkpoint_order
from lazydelta.checkpoint import full_replay
from lazydelta.checkpoint import run_merge as checkpoint_merge
from lazydelta.checkpoint.checkpoint_schema import CheckpointSettings, CheckpointShape
from lazydelta.checkpoint.checkpoint_writer import write_checkpoint
from lazydelta.checkpoint.sort_bounds import lower_bounds
from lazydelta.checkpoint.sort_keys import Partitions, Ties, sort_numbers
from lazydelta.checkpoint.sorted_runs import Run
from lazydelta.testing import add
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

# --- what comes before what

_TEXTS = st.text(alphabet="a\0é😀z", max_size=4)
_COMMON = st.sampled_from(["part-00000-", "part-00000-0123456789abcdef"])
_LONG_TEXTS = st.one_of(_TEXTS, st.builds(lambda head, tail: head + tail, _COMMON, _TEXTS))
_INT64 = st.one_of(st.integers(-(2**63), 2**63 - 1), st.sampled_from([-(2**63), 0, 1]))
_KINDS = {
    pa.int64(): _INT64,
    pa.int8(): st.integers(-3, 3),
    pa.float64(): st.one_of(st.floats(), st.sampled_from([0.0, -0.0, math.nan])),
    pa.float32(): st.floats(width=32),
    pa.string(): _LONG_TEXTS,
    pa.date32(): st.integers(-3, 3).map(lambda day: date.fromordinal(719_163 + day)),
    pa.timestamp("us", "UTC"): _INT64,
    pa.decimal128(38, 2): st.integers(-(10**37), 10**37).map(lambda n: Decimal(n).scaleb(-2)),
    pa.decimal128(20, 0): st.sampled_from([Decimal(10**17 + n) for n in range(3)]),
}


@st.composite
def columns(draw):
    """Draw some columns of one length, of few values each, so that many rows agree."""
    rows = draw(st.integers(0, 30))
    found = []
    for kind in draw(st.lists(st.sampled_from(list(_KINDS)), min_size=1, max_size=3)):
        known = draw(st.lists(st.none() | _KINDS[kind], min_size=1, max_size=5))
        values = draw(st.lists(st.sampled_from(known), min_size=rows, max_size=rows))
        found.append(pa.array(values, kind))
    return found


def plainly_sorted(table):
    """Sort by Arrow's own multi-key sort over whole values: null first, NaN last."""
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
def test_the_order_is_that_of_a_plain_sort(drawn, partitioned):
    partitions = drawn[: min(partitioned, len(drawn)) - 1]
    values = drawn[len(partitions) :]
    known = Partitions()
    half = len(values[0]) // 2
    codes = np.concatenate(
        [
            known.codes([column.slice(0, half) for column in partitions], half),
            known.codes([column.slice(half) for column in partitions], len(values[0]) - half),
        ]
    )
    ties = Ties.by_numbers(known.ranks()[codes], *sort_numbers(values)).by_values(values)
    table = pa.table(drawn, [f"c{at}" for at in range(len(drawn))])
    assert sorted(ties.order.tolist()) == list(range(len(values[0])))
    assert comparable(table.take(pa.array(ties.order))) == comparable(plainly_sorted(table))


_WIDE = st.one_of(_INT64, st.integers(-3, 3), st.sampled_from([-(2**63), 2**63 - 1]))


@given(st.lists(st.tuples(st.integers(0, 70_000), _WIDE, st.integers(0, 2)), max_size=60))
@settings(max_examples=200)
@example([(1, -(2**63), 0), (0, 2**63 - 1, 1), (0, 2**63 - 1, 0), (0, 2**63 - 2, 2)])
def test_numbers_count_to_their_last_bit(rows):
    """They are packed into words that have no room for all of them."""
    keys = [np.array([row[at] for row in rows], np.int64) for at in range(3)]
    ties = Ties.by_numbers(*keys)
    found = [rows[at] for at in ties.order]
    assert found == sorted(rows)
    assert sorted(ties.order.tolist()) == list(range(len(rows)))
    assert ties.same.tolist() == [one == other for one, other in itertools.pairwise(found)]


def comparable(table):
    """Return rows as text: NaN is not equal to itself, Python has no moment that is far away."""
    plain = [
        column.cast(pa.int64()) if pa.types.is_timestamp(column.type) else column
        for column in table.columns
    ]
    # The two zeros are equal and still two values.
    return str(list(zip(*(column.to_pylist() for column in plain), strict=True))).replace(
        "-0.0", "0.0"
    )


# --- whole checkpoints

_STATS = {
    "long": st.integers(-(2**53), 2**53) | st.sampled_from([1, 2]),
    "double": st.floats(allow_nan=False, allow_infinity=False, width=16),
    "string": _LONG_TEXTS.map(lambda text: text.replace("\0", "0")),
    "decimal(20,2)": st.integers(-(10**6), 10**6).map(lambda cents: cents / 100),
    "date": st.integers(1, 9).map(lambda day: f"2026-01-0{day}"),
    "timestamp": st.integers(0, 9).map(lambda day: f"2026-01-01T00:00:00.00{day}Z"),
}
_PARTITIONS = {
    "string": st.sampled_from(["a", "é", "z" * 20 + "1", "z" * 20 + "0", ""]),
    "double": st.sampled_from(["NaN", "-1.5", "10", "9", "-0.0"]),
    "date": st.sampled_from(["2026-01-01", "1969-12-31"]),
    "integer": st.sampled_from(["-7", "10", "9"]),
}


@st.composite
def tables(draw):
    """Draw the types of a table, and some files with what the order of each depends on."""
    parts = draw(st.lists(st.sampled_from(list(_PARTITIONS)), max_size=2))
    kinds = draw(st.lists(st.sampled_from(list(_STATS)), max_size=2))
    known = [draw(st.lists(st.none() | _STATS[k], min_size=1, max_size=4)) for k in kinds]
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
            [draw(st.sampled_from(values)) for values in known],
        )
        for name in names
    ]
    return parts, kinds, files


def an_add(file):
    path, partition, least = file
    values = {f"p{at}": value for at, value in enumerate(partition)}
    bounds = {f"c{at}": value for at, value in enumerate(least) if value is not None}
    stats = {"numRecords": 1, "minValues": bounds, "maxValues": bounds} if bounds else None
    return add(path, partition_values=values, stats=stats)


def whole_key(parts, kinds, file):
    """Return what a file is sorted by, from what was drawn and nothing that was written."""
    path, partition, least = file
    partition = [value or None for value in partition]  # the empty text stands for null
    pairs = [*zip(parts, partition, strict=True), *zip(kinds, least, strict=True)]
    return [*(_typed(kind, value) for kind, value in pairs), path.encode()]


def _typed(kind, value):
    """Return a value as Python compares it: null first, NaN last."""
    if value is None:
        return (0,)
    if kind in ("string", "date", "timestamp"):
        return (1, value.encode())
    number = Decimal(repr(value)) if kind.startswith("decimal") else float(value)
    return (2,) if math.isnan(number) else (1, number)


def written_groups(store, version):
    """Return the paths of adds as they lie in a classic checkpoint, row group by row group."""
    path = f"_delta_log/{version:020d}.checkpoint.parquet"
    parquet = pq.ParquetFile(store.open_input(path))
    groups = [
        parquet.read_row_group(at, columns=["add.path"]).column("add").to_pylist()
        for at in range(parquet.num_row_groups)
    ]
    return [[row["path"] for row in group if row] for group in groups]


WAYS = {
    "as they come": {"_POOL_ROWS": 1000, "_RUN_ROWS": 1000, "_BLOCK_ROWS": 1000},
    "a pool that overflows": {"_POOL_ROWS": 12, "_RUN_ROWS": 5, "_BLOCK_ROWS": 3},
    "in runs": {"_POOL_ROWS": 1, "_RUN_ROWS": 4, "_BLOCK_ROWS": 2},
}


def drawn_table(drawn, configuration=None):
    """Return a store and a builder of a table of the types that were drawn."""
    parts, kinds, _ = drawn
    schema = {f"p{at}": kind for at, kind in enumerate(parts)}
    schema |= {f"c{at}": kind for at, kind in enumerate(kinds)} or {"none": "boolean"}
    partition_by = [f"p{at}" for at in range(len(parts))]
    return built(schema=schema, partition_by=partition_by, configuration=configuration or {})


@pytest.mark.parametrize("way", list(WAYS))
@pytest.mark.parametrize("properties", [{}, NO_STRUCT], ids=["typed", "as-text"])
@given(drawn=tables(), commits=st.integers(1, 3), group_rows=st.integers(1, 7))
@examples(6, long=12)
def test_a_checkpoint_lies_in_that_order(way, properties, drawn, commits, group_rows):
    parts, kinds, files = drawn
    store, builder = drawn_table(drawn, properties)
    with pytest.MonkeyPatch.context() as patch:
        for name, value in WAYS[way].items():
            patch.setattr(checkpoint_order, name, value)
        patch.setattr(checkpoint_source, "ROW_GROUP_ROWS", group_rows)
        patch.setattr(full_replay, "_BATCH_ROWS", 4)
        for at in range(commits):  # the later ones are sorted into the checkpoint before
            builder.commit(*map(an_add, files[at::commits]))
            write_checkpoint(snapshot_of(store), now_ms=NOW)
    written = [path for group in written_groups(store, builder.version) for path in group]
    plain = sorted(files, key=lambda file: whole_key(parts, kinds, file))
    assert written == [path for path, _, _ in plain]
    assert state_of(store) == expected_state(builder)


def in_order(*lows, day=1):
    """Return adds of one day, with these least ids."""
    return [
        add(
            f"f-{day}-{low:04}",
            partition_values={"day": f"2026-01-{day:02}"},
            stats={"numRecords": 1, "minValues": {"id": low}, "maxValues": {"id": low}},
        )
        for low in lows
    ]


@pytest.mark.parametrize("configuration", [{}, V2], ids=["classic", "v2"])
def test_what_lies_in_order_is_not_spilled(configuration, monkeypatch):
    monkeypatch.setattr(checkpoint_source, "ROW_GROUP_ROWS", 10)
    monkeypatch.setattr("lazydelta.checkpoint.layouts._SIDECAR_ADDS", 30)
    store, builder = built(
        schema={"id": "long", "day": "date"}, partition_by=["day"], configuration=configuration
    )
    builder.commit(*(file for day in range(1, 6) for file in in_order(*range(0, 40, 2), day=day)))
    write_checkpoint(snapshot_of(store), now_ms=NOW)
    builder.commit(*in_order(7, 21, 99, day=3), "-f-2-0004")
    # So few may wait that a table which does not come in order has to be spilled.
    monkeypatch.setattr(checkpoint_order, "_POOL_ROWS", 31)
    monkeypatch.setattr(checkpoint_order, "Run", None)
    write_checkpoint(snapshot_of(store), now_ms=NOW)
    assert state_of(store) == expected_state(builder)


ALL = ("path", "size", "tags")
RUN_SHAPE = SimpleNamespace(
    add=pa.struct(
        [("path", pa.string()), ("size", pa.int64()), ("tags", pa.map_("string", "int8"))]
    ),
    sort_values=lambda part: [part["path"]],
)


def ordered(*places):
    return Ties(np.array(places), np.zeros(len(places) - 1, np.bool_))


def test_rows_of_a_run_outlive_its_file_and_its_memory(tmp_path):
    paths, sizes = pa.array(map(str, range(10))), pa.array([None, *range(9)])
    parts = [{"path": paths[:3], "size": sizes[:3]}, {"path": paths[3:], "size": sizes[3:]}]
    run = Run.spilled(str(tmp_path / "run"), parts, ordered(*range(10)), RUN_SHAPE, block_rows=4)
    (tmp_path / "run").unlink()
    pieces = [run.next_piece(most) for most in (5, 1, 9)]
    run.release()
    pieces.append(run.next_piece(9))
    del run
    assert max(len(piece["path"]) for piece in pieces) <= 4
    assert pa.concat_arrays([piece["path"] for piece in pieces]).equals(paths)
    assert pa.concat_arrays([piece["size"] for piece in pieces]).equals(sizes)


def test_rows_are_taken_from_several_runs_which_lack_columns(tmp_path):
    tags = pa.array([[("a", 1)], None, []], pa.map_("string", "int8"))
    first = {"path": pa.array(["e", "a", "c"]), "tags": tags}
    second = {"path": pa.array(["d"]), "size": pa.array([4])}, {"path": pa.array(["f", "b"])}
    runs = [
        Run.spilled(str(tmp_path / "1"), [first], ordered(1, 2, 0), RUN_SHAPE, block_rows=2),
        Run.spilled(str(tmp_path / "2"), second, ordered(2, 0, 1), RUN_SHAPE, block_rows=2),
    ]
    taken = [
        Run.taken(runs, counts, ordered(*order), RUN_SHAPE)
        for counts, order in (([1, 1], [0, 1]), ([2, 1], [0, 2, 1]), ([0, 1], [0]))
    ]
    shown = [
        (path, size, row)
        for part in taken
        for path, size, row in zip(
            *(part[n].to_pylist() if n in part else [None] * len(part["path"]) for n in ALL),
            strict=True,
        )
    ]
    assert shown == [
        ("a", None, None),
        ("b", None, None),
        ("c", None, []),
        ("d", 4, None),
        ("e", None, [("a", 1)]),
        ("f", None, None),
    ]


def test_rows_that_agree_in_numbers_are_taken_by_their_values(tmp_path):
    runs = [
        Run.spilled(
            str(tmp_path / str(at)), [{"path": pa.array(paths)}], ordered(0, 1), RUN_SHAPE,
            block_rows=9,
        )
        for at, paths in enumerate((["b", "d"], ["a", "c"]))
    ]  # fmt: skip
    ties = Ties(np.arange(4), np.array([True, False, True]))
    found = Run.taken(runs, [2, 2], ties, RUN_SHAPE)["path"].to_pylist()
    assert found == ["b", "d", "a", "c"]
    with pytest.raises(IndexError, match="pop from empty"):
        Run.taken(runs, [1, 0], ordered(0), RUN_SHAPE)


@pytest.mark.parametrize("fails", [False, True])
def test_temporary_files_are_gone_in_the_end(fails, tmp_path, monkeypatch):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    for name, value in {"_POOL_ROWS": 1, "_RUN_ROWS": 5, "_BLOCK_ROWS": 2}.items():
        monkeypatch.setattr(checkpoint_order, name, value)
    written = []

    def spilled(path, *given, **more):
        if fails and len(written) == 2:
            raise OSError("No space left on device")
        written.append(path)
        return Run.spilled(path, *given, **more)

    monkeypatch.setattr(checkpoint_order, "Run", SimpleNamespace(spilled=spilled))
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


def test_rows_that_no_number_parts_are_merged_block_by_block(monkeypatch):
    """More files than are held at once, of one partition and with the same least values."""
    for name, value in {"_POOL_ROWS": 1, "_RUN_ROWS": 50, "_BLOCK_ROWS": 8}.items():
        monkeypatch.setattr(checkpoint_order, name, value)
    monkeypatch.setattr(checkpoint_source, "ROW_GROUP_ROWS", 20)
    store, builder = built(schema={"name": "string"})
    long = "a long text that many files begin with, "
    names = [f"{long}{7 * n % 10}" for n in range(300)]
    paths = [f"part-00000-{97 * n % 300:03}" for n in range(300)]
    for at in range(0, 300, 60):
        builder.commit(
            *(
                add(path, stats={"minValues": {"name": name}, "maxValues": {"name": name}})
                for name, path in zip(names[at : at + 60], paths[at : at + 60], strict=True)
            )
        )
    held = []
    honest = checkpoint_merge.MergedRuns._by_blocks

    def watched(self, counts):
        for chunk in honest(self, counts):
            held.append(len(chunk["path"]))
            yield chunk

    monkeypatch.setattr(checkpoint_merge.MergedRuns, "_by_blocks", watched)
    write_checkpoint(snapshot_of(store), now_ms=NOW)
    groups = written_groups(store, builder.version)
    written = [path for group in groups for path in group]
    assert written == [path for _, path in sorted(zip(names, paths, strict=True))]
    assert sum(held) == 300
    assert max(held) <= 8 * 5  # never more than a block of each run
    assert list(map(len, groups)) == [0, *[20] * 15]


def test_every_clustering_column_counts_then_the_path():
    store, builder = built(schema={"a": "string", "b": "long", "c": "double", "d": "date"})
    columns = '{"clusteringColumns":[["c"],["b"],["d"],["a"]]}'
    domain = {"domain": "delta.clustering", "configuration": columns, "removed": False}
    least = [
        {"c": c, "b": b, "d": d, "a": a}
        for c, b, d in ((0.5, 1, "2026-01-01"), (0.5, 1, "2025-01-01"), (-0.5, 2, "2026-01-01"))
        for a in ("z", "y")
    ]
    files = [(f"{name}-{at}", values) for at, values in enumerate(least) for name in ("two", "one")]
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
def test_no_row_comes_before_the_bound_of_its_row_group(drawn, group_rows):
    store, builder = drawn_table(drawn)
    builder.commit(*map(an_add, drawn[2]))
    # Not by our own code, and in no order at all.
    builder.checkpoint(row_group_rows=group_rows, stats_parsed=True, partition_values_parsed=True)
    snapshot = snapshot_of(store)
    shape = CheckpointShape(snapshot, CheckpointSettings.of(snapshot))
    with full_replay.full_replay(snapshot, now_ms=NOW) as replay:
        bounds = lower_bounds(replay.footers(), shape)
        known = Partitions()
        for batch, _, place in replay.adds_and_which():
            adds = shape.shaped(batch)
            codes = known.codes(shape.partitions_of(adds), batch.num_rows)
            numbers, _ = sort_numbers(shape.sort_values(adds))
            limit = known.code(bounds[place].partition)
            ranks = known.ranks()
            before = (ranks[codes] < ranks[limit]) | (
                (ranks[codes] == ranks[limit]) & (numbers < bounds[place].number)
            )
            assert not (shape.leading and before.any())
