"""Data skipping on executors: what a log may hold, where facts come from, and what is pushed."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from types import SimpleNamespace

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from lazydelta import Table
from lazydelta.errors import ColumnNotFoundError, PredicateError
from lazydelta.spark.replay import distributed_log_replay
from lazydelta.spark.skipping import apply_data_skipping
from lazydelta.testing import TableBuilder
from tests.spark.cases import frame_of
from tests.unit.replay.test_prune import PARTITIONS, RANGES, SCHEMA, STATS, adds, stats
from tests.unit.replay.test_prune import kept as kept_in_process


def table(mode="none"):
    return SimpleNamespace(
        schema=SCHEMA,
        partition_columns=PARTITIONS,
        column_mapping_mode=mode,
        generates_columns=True,
    )


def kept(spark, where, batch, mode="none"):
    """Return which rows are kept, after checking that the in-process planner keeps the same."""
    found = apply_data_skipping(frame_of(spark, batch), table(mode), where)
    rows = {row.at for row in found.select("at").collect()}
    result = [at in rows for at in range(batch.num_rows)]
    assert result == kept_in_process(where, batch, mode)
    return result


@pytest.mark.parametrize(
    ("where", "first", "second"),
    [
        ("id = 3", True, False),
        ("id IN (0, 7)", False, True),
        ("s LIKE 'e%'", False, False),
        ("id IS NULL", False, True),
        ("s IS NOT NULL", True, False),
        ("NOT (id <= 5)", False, True),
    ],
)
def test_statistics_drop_files_and_unknown_ones_are_kept(spark, where, first, second):
    assert kept(spark, where, RANGES) == [first, second, True, True, True]


ODD_STATS = [
    pytest.param("", id="no-text"),
    pytest.param("null", id="null"),
    pytest.param("[]", id="a-list"),
    pytest.param("{'minValues':{'id':9},'maxValues':{'id':9}}", id="single-quotes"),
    pytest.param('{"minValues":{"id":9},"maxValues":{"id":9', id="cut-off"),
    pytest.param('{"minValues":9,"maxValues":9}', id="numbers-for-objects"),
    pytest.param('{"minValues":{"id":"nine"},"maxValues":{"id":[]}}', id="other-types"),
    pytest.param('{"minValues":{"id":9.5},"maxValues":{"id":9.5}}', id="fractions"),
    pytest.param('{"minValues":{"id":9},"maxValues":{"id":1}}', id="contradiction"),
    pytest.param('{"minValues":{"ID":9},"maxValues":{"ID":9}}', id="another-case"),
    pytest.param('{"minValues":{"id":99999999999999999999}}', id="too-large"),
    pytest.param('{"numRecords":-1,"nullCount":{"id":-1}}', id="negative-counts"),
    pytest.param('{"minValues":{"id":null},"maxValues":{"id":null}}', id="nulls"),
]


@pytest.fixture(scope="module")
def odd_answers(spark):
    """Ask all odd statistics at once, each row a file."""
    texts = [param.values[0] for param in ODD_STATS]
    batch = adds(texts)
    return dict(zip(texts, kept(spark, "id = 1", batch), strict=True))


@pytest.mark.parametrize("text", ODD_STATS)
def test_statistics_that_make_no_sense_keep_their_file(odd_answers, text):
    assert odd_answers[text]


def test_times_keep_their_microseconds_and_decimals_their_digits(spark):
    text = "2026-01-01T00:00:00.123Z"
    rounded = {"w": 1.2345678901234568e16}
    batch = adds([stats({"t": text, **rounded}, {"t": text, **rounded}, {"t": 0})])
    assert kept(spark, "t = TIMESTAMP '2026-01-01 00:00:00.123999Z'", batch) == [True]
    assert kept(spark, "t = TIMESTAMP '2026-01-01 00:00:00.124000Z'", batch) == [False]
    assert kept(spark, "w = 12345678901234567.12", batch) == [True]
    assert kept(spark, "w = 12345678901234999.00", batch) == [False]


def test_partition_values_compare_by_type_and_what_cannot_be_read_is_kept(spark):
    texts = ["7", "07", "10", "", None, "seven"]
    batch = adds(partitions=[*({"p": text} for text in texts), {}, None])
    assert kept(spark, "p = 7", batch) == [True, True, *[False] * 3, True, False, True]
    assert kept(spark, "p IS NULL", batch) == [*[False] * 3, *[True] * 5]
    assert kept(spark, [("p", "in", ["10", ""])], batch) == [False, False, *[True] * 6]


def test_one_text_among_typed_columns_is_used(spark):
    bounds = pa.struct([("id", pa.int64())])
    parsed = pa.array(
        [{"minValues": {"id": 1}, "maxValues": {"id": 2}}, None, None],
        pa.struct([("minValues", bounds), ("maxValues", bounds)]),
    )
    batch = adds([None, stats({"id": 5}, {"id": 6}), None], stats_parsed=parsed)
    assert kept(spark, "id = 5", batch) == [False, True, True]
    assert kept(spark, "id = 5", adds(stats_parsed=parsed)) == [False, True, True]


def test_a_typed_column_of_another_type_is_not_used(spark):
    """The in-process planner would cast; here the text is read, or the file kept."""
    bounds = pa.struct([("id", pa.string())])
    parsed = pa.array(
        [{"minValues": {"id": "9"}, "maxValues": {"id": "9"}}] * 2,
        pa.struct([("minValues", bounds), ("maxValues", bounds)]),
    )
    batch = adds([stats({"id": 9}, {"id": 9}), None], stats_parsed=parsed)
    found = apply_data_skipping(frame_of(spark, batch), table(), "id = 5")
    assert [row.at for row in found.collect()] == [1]


def test_the_log_is_read_under_physical_names(spark):
    bounds = [stats({"c-id": 1, "c-st": {"c-k": 1}}, {"c-id": 2, "c-st": {"c-k": 2}})] * 2
    batch = adds(bounds, [{"c-p": "7"}, {"c-p": "8"}])
    assert kept(spark, "p = 7 AND id = 2", batch, "name") == [True, False]
    assert kept(spark, "st.k > 2", batch, "id") == [False, False]


def test_a_long_list_is_looked_up(spark):
    ranges = [stats({"id": low}, {"id": low + 1}) for low in (0, 9, 150, 301)]
    options = ", ".join(str(number) for number in range(0, 300, 3))
    assert kept(spark, f"id IN ({options})", adds([*ranges, None])) == [
        True,
        True,
        True,
        False,
        True,
    ]


def test_no_predicate_keeps_every_file_and_a_false_one_none(spark):
    frame = frame_of(spark, RANGES)
    assert apply_data_skipping(frame, table(), None) is frame
    assert apply_data_skipping(frame, table(), "id = 1 AND FALSE").count() == 0


def test_a_predicate_that_does_not_fit_is_refused(spark):
    frame = frame_of(spark, RANGES)
    with pytest.raises(ColumnNotFoundError):
        apply_data_skipping(frame, table(), "nope = 1")
    with pytest.raises(PredicateError):
        apply_data_skipping(frame, table(), "s = 1")


def test_what_replay_gives_is_skipped_with_every_column_kept(spark, tmp_path):
    builder = TableBuilder(tmp_path, schema={"id": "long", "day": "date"}, partition_by=["day"])
    for day in range(1, 7):
        bounds = {"id": day * 10}, {"id": day * 10 + 9}
        text = json.dumps({"numRecords": 5, "minValues": bounds[0], "maxValues": bounds[1]})
        builder.commit(
            {
                "add": {
                    "path": f"f{day}",
                    "partitionValues": {"day": f"2026-01-0{day}"},
                    "size": 1,
                    "modificationTime": 1,
                    "dataChange": True,
                    "stats": text,
                    "tags": {"day": str(day)},
                }
            }
        )
        if day == 3:
            builder.checkpoint()
    snapshot = Table.open(tmp_path).snapshot()
    live = distributed_log_replay(spark, snapshot)
    found = apply_data_skipping(live, snapshot, "day > '2026-01-02' AND id IN (15, 35, 55)")
    assert found.columns == live.columns
    assert sorted((row.path, row.tags["day"]) for row in found.collect()) == [
        ("f3", "3"),
        ("f5", "5"),
    ]


# --- what Spark pushes into the scan of a checkpoint ---------------------------------------------


@pytest.fixture(scope="module")
def parsed_checkpoint(spark, tmp_path_factory):
    """A Parquet file of typed adds, in row groups of two."""
    path = str(tmp_path_factory.mktemp("checkpoint") / "adds.parquet")
    time = datetime(2026, 1, 1, tzinfo=UTC)
    rows = [
        {
            "path": f"f{at}",
            "partitionValues_parsed": {"p": at // 4},
            "stats_parsed": {
                "numRecords": 5,
                "minValues": {"id": at * 10, "t": time, "s": "a", "x": 1.0},
                "maxValues": {"id": at * 10 + 9, "t": time, "s": "b", "x": 2.0},
                "nullCount": {"id": 0},
            },
        }
        for at in range(8)
    ]
    kind = pa.schema(
        [
            ("path", pa.string()),
            ("partitionValues_parsed", pa.struct([("p", pa.int32())])),
            ("stats_parsed", STATS),
        ]
    )
    pq.write_table(pa.Table.from_pylist(rows, schema=kind), path, row_group_size=2)
    session = spark.newSession()
    session.conf.set("spark.sql.maxMetadataStringLength", "10000")  # show all that is pushed
    return session.read.parquet(path)


def pushed_filters(frame, capsys):
    frame.explain()
    lines = [line for line in capsys.readouterr().out.splitlines() if "PushedFilters" in line]
    return lines[0].partition("PushedFilters: ")[2].partition(", ReadSchema")[0]


@pytest.mark.parametrize(
    ("where", "pushed", "files"),
    [
        pytest.param("p = 1", "EqualTo(partitionValues_parsed.p,1)", 4, id="partition-values"),
        pytest.param("id = 33", "GreaterThanOrEqual(stats_parsed.maxValues.id,33)", 1, id="bounds"),
        pytest.param(
            "id IN (5, 15, 17)", "LessThanOrEqual(stats_parsed.minValues.id,17)", 2, id="lists"
        ),
        pytest.param(
            "t > TIMESTAMP '2026-01-01 00:00:00.001500Z'",
            "GreaterThan(stats_parsed.maxValues.t,2026-01-01 00:00:00.000501)",
            0,
            id="times-that-were-cut",
        ),
        pytest.param("s LIKE 'b%'", "LessThan(stats_parsed.minValues.s,c)", 8, id="prefixes"),
    ],
)
def test_plain_comparisons_reach_the_scan(parsed_checkpoint, capsys, where, pushed, files):
    found = apply_data_skipping(parsed_checkpoint, table(), where)
    assert pushed in pushed_filters(found, capsys)
    assert found.count() == files


def test_floats_are_not_pushed_because_nan_is_not_in_their_bounds(parsed_checkpoint, capsys):
    found = apply_data_skipping(parsed_checkpoint, table(), "x = 9")
    assert "stats_parsed.minValues.x" not in pushed_filters(found, capsys)
    assert found.count() == 0
