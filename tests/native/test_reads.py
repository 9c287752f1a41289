"""Reads of tables with views, with and without the decoder: the same rows."""

from __future__ import annotations

import tempfile
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lazydelta import Config, ReadOptions, Table
from lazydelta.metrics import StoreCalled
from lazydelta.parquet import DataFile
from lazydelta.store import MemoryStore
from tests.interop.tables import canonical
from tests.interop.test_outputs import OUTPUTS
from tests.native.support import is_view, plain, three_ways, watched, without_decoder
from tests.unit.changes.support import FeedTable
from tests.unit.scan.read.generated import generated
from tests.unit.scan.read.tables import Rows, field, inline, with_ids

FEATURES = ("deletionVectors", "typeWidening", "rowTracking", "domainMetadata")
TRACKED = {
    "delta.enableRowTracking": "true",
    "delta.rowTracking.materializedRowIdColumnName": "_row_id",
    "delta.rowTracking.materializedRowCommitVersionColumnName": "_row_version",
}
STRUCT = {"type": "struct", "fields": [field("t", "string"), field("n", "long")]}
FIELDS = [
    field("id", "long"),
    field("name", "string"),
    field("raw", "binary"),
    field("price", "decimal(10,2)"),
    field("at", "timestamp"),
    field("wide", "long"),
    field("later", "string"),
    field("s", STRUCT),
    field("part", "string"),
]
FLAT = ["id", "name", "raw", "price", "at", "wide", "later", "part"]
STRINGS = ["name", "raw", "later", "part"]
ROWS = 40
FILES = ("whole", "without-a-column", "narrow", "deleted", "gzip", "small-groups", "moved")
TAKEN = {"whole", "without-a-column", "deleted", "narrow", "small-groups", "moved"}
"""Files that the decoder reads, if only flat columns are selected."""


def rows_of(at, *, narrow=False):
    ids = range(at * ROWS, (at + 1) * ROWS)
    second = datetime(2026, 1, 1, tzinfo=UTC).timestamp()
    return pa.table(
        {
            "id": pa.array(ids, pa.int64()),
            "name": [None if i % 7 == 0 else f"the name of {i % 11}" for i in ids],
            "raw": [bytes([i % 256]) * (i % 20) for i in ids],
            "price": pa.array([Decimal(i).scaleb(-2) for i in ids], pa.decimal128(10, 2)),
            "at": pa.array([int((second + i) * 10**6) for i in ids], pa.timestamp("us", "UTC")),
            "wide": pa.array(ids, pa.int32() if narrow else pa.int64()),
            "later": [f"later {i}" for i in ids],
            "s": [{"t": f"t{i}", "n": i} for i in ids],
        }
    )


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """Return a table of files with different read paths."""
    path = tmp_path_factory.mktemp("reads") / "t"
    made = Rows(path, FIELDS, partition_columns=["part"], features=FEATURES, configuration=TRACKED)
    how = {
        "gzip": {"compression": "gzip"},
        "small-groups": {"compression": "zstd", "row_group_size": 7},
        "deleted": {"vector": inline([0, 5, 39])},
    }
    for at, name in enumerate(FILES):
        rows = rows_of(at, narrow=name == "narrow")
        if name == "without-a-column":
            rows = rows.drop_columns(["later"])
        if name == "moved":  # rows of another file, with ids of their own
            rows = rows.append_column("_row_id", pa.array([5, None] * (ROWS // 2), pa.int64()))
            rows = rows.append_column("_row_version", pa.array([None, 3] * (ROWS // 2)))
        made.file(
            f"{name}.parquet", rows, partition={"part": (None, "a", "b c")[at % 3]},
            action={"baseRowId": at * 1000, "defaultRowCommitVersion": 0}, **how.get(name, {}),
        )  # fmt: skip
    made.commit()
    return made


@pytest.fixture
def table(made):
    return Table.open(made.path)


def viewed_names(rows):
    return [one.name for one in rows.schema if is_view(one.type)]


def test_flat_columns_of_every_file(table):
    found, taken = three_ways(table.scan(columns=FLAT), file_column_name="file")
    assert sum(taken) == len(TAKEN)
    assert viewed_names(found) == [*STRINGS, "file"]
    assert found.num_rows == len(FILES) * ROWS - 3


@pytest.mark.parametrize(
    ("arguments", "options"),
    [
        pytest.param({}, {}, id="nested-columns-beside-flat-ones"),
        pytest.param({"columns": ["s", "name"]}, {}, id="a-nested-column"),
        pytest.param({"columns": ["later", "id"]}, {}, id="another-order"),
        pytest.param({"columns": ["part"]}, {}, id="partition-values-alone"),
        pytest.param({"columns": ["part", "name"]}, {"wrap_partition_values": True}, id="wrapped"),
        pytest.param({"columns": FLAT, "limit": 55}, {}, id="a-limit"),
        pytest.param({"columns": FLAT, "limit": 1}, {}, id="a-limit-of-one"),
        pytest.param({"columns": FLAT}, {"batch_rows": 3}, id="small-batches"),
        pytest.param({"columns": FLAT}, {"files_at_once": 1}, id="one-file-at-a-time"),
        pytest.param({"columns": FLAT, "where": "id >= 60 and id < 150"}, {}, id="a-predicate"),
        pytest.param({"columns": ["name"], "where": "name like '%1'"}, {}, id="on-a-string"),
        pytest.param({"columns": FLAT, "where": "part = 'a'"}, {}, id="on-a-partition"),
        pytest.param({"columns": FLAT, "where": "part is null and id > 3"}, {}, id="on-both"),
        pytest.param({"columns": FLAT, "where": "id < 0"}, {}, id="no-row"),
        pytest.param(
            {"columns": FLAT},
            {"row_id_column": "row", "row_commit_version_column": "changed"},
            id="row-ids",
        ),
        pytest.param(
            {"columns": ["id", "name"]},
            {"wrap_partition_values": True, "file_column_name": "file"},
            id="files-wrapped",
        ),
        pytest.param(
            {},
            {"schema": pa.schema({"name": pa.large_string(), "raw": pa.binary(), "q": pa.int8()})},
            id="a-schema",
        ),
    ],
)
def test_every_kind_of_read(table, arguments, options):
    three_ways(table.scan(**arguments), **options)


@pytest.mark.parametrize(
    ("arguments", "count"),
    [
        pytest.param({"columns": ["name"], "where": "part = 'a'"}, 1, id="only-by-partition"),
        pytest.param({"columns": ["name"], "where": "id >= 0"}, 6, id="rows-may-be-dropped"),
        pytest.param({"columns": ["name", "s"]}, 0, id="nested"),
        pytest.param({"columns": ["name"]}, 6, id="all-rows"),
        pytest.param({"columns": ["name"], "limit": 1000}, 6, id="up-to-a-limit"),
    ],
)
def test_the_decoder_reads_what_it_can(table, arguments, count):
    _, taken = three_ways(table.scan(**arguments), files_at_once=1)
    assert sum(taken) == count


@pytest.mark.parametrize(
    ("arguments", "options", "count"),
    [
        pytest.param({"columns": FLAT}, {}, len(TAKEN), id="all-rows"),
        pytest.param({"columns": FLAT, "where": "part = 'a'"}, {}, 1, id="only-by-partition"),
        pytest.param({"columns": FLAT, "where": "id >= 0"}, {}, 21, id="rows-may-be-dropped"),
        pytest.param({"columns": FLAT, "limit": 1000}, {}, 0, id="up-to-a-limit"),
        pytest.param({"columns": FLAT}, {"row_id_column": "row"}, len(TAKEN), id="row-ids"),
        pytest.param({}, {}, 0, id="nested"),
    ],
)
def test_without_views_the_decoder_reads_what_it_can(table, arguments, options, count):
    """With a predicate a row group is read twice: the predicate columns, then the others.

    By one thread, for how often that is tried depends on how often it has paid so far.
    """
    scan, options = table.scan(**arguments), ReadOptions(ordered=True, files_at_once=1, **options)
    with watched() as taken:
        found = scan.to_arrow(options)
    with without_decoder():
        expected = scan.to_arrow(options)
    found.validate(full=True)
    assert found.schema.equals(expected.schema, check_metadata=True)
    assert found.equals(expected)
    assert sum(taken) == count


def test_a_file_with_converted_strings_is_read(table):
    """Converted columns are not views, and an output schema has its own types."""
    wanted = pa.schema({"name": pa.string_view()})
    options = ReadOptions(schema=wanted, schema_force_view_types=True, ordered=True)
    with watched() as taken:
        found = table.scan(columns=["name"]).to_arrow(options)
    assert sum(taken) == len(TAKEN)
    assert plain(found).equals(
        plain(table.scan(columns=["name"]).to_arrow(ReadOptions(ordered=True)))
    )


def test_rows_without_columns_count(table):
    found = table.scan(columns=[]).to_arrow(ReadOptions(schema_force_view_types=True))
    assert found.num_rows == len(FILES) * ROWS - 3


def test_an_observer_receives_every_request(made):
    """Files are then opened by the store, because the decoder bypasses the observer."""
    seen = []
    watching = Table.open(made.path, config=Config(observer=seen.append))
    _, taken = three_ways(watching.scan(columns=FLAT))
    assert not any(taken)
    opened = {event.path for event in seen if isinstance(event, StoreCalled)}
    assert {f"{name}.parquet" for name in FILES} <= opened


def test_a_remote_table(made):
    files = {str(p.relative_to(made.path)): p.read_bytes() for p in made.path.rglob("*.*")}
    remote = Table(MemoryStore(files, root="memory://t"), Config())
    found, taken = three_ways(remote.scan(columns=FLAT))
    assert not any(taken)
    assert viewed_names(found) == STRINGS


@pytest.mark.parametrize("mode", ["name", "id"])
def test_mapped_columns(tmp_path, mode):
    fields = [
        field("new name", "string", physical="col-1", column_id=1),
        field("swapped", "string", physical="col-2", column_id=2),
        field("missing", "binary", physical="col-3", column_id=3),
    ]
    made = Rows(tmp_path / "t", fields, configuration={"delta.columnMapping.mode": mode})
    rows = pa.table({"col-2": ["b1", None], "old": ["x", "y"], "col-1": ["a1", "a2"]})
    ids = with_ids(rows.schema, {"col-2": 2, "old": 9, "col-1": 1})
    made.file("a.parquet", rows.cast(ids))
    found, taken = three_ways(made.open().scan())
    assert taken == [True]
    assert found.to_pylist() == [
        {"new name": "a1", "swapped": "b1", "missing": None},
        {"new name": "a2", "swapped": None, "missing": None},
    ]


@pytest.mark.parametrize(
    ("kind", "views"), [("long", True), ("decimal(12,0)", True), (STRUCT, False)]
)
def test_strings_are_views_unless_converted(tmp_path, monkeypatch, kind, views):
    made = Rows(tmp_path / "t", [field("name", "string"), field("x", kind)], features=FEATURES)
    stored = pa.array([1], pa.int32()) if kind is not STRUCT else pa.array([{"t": "a"}])
    made.file("a.parquet", pa.table({"name": ["a longer text than fits"], "x": stored}))
    requested, read = [], DataFile.read

    def spy(*arguments, **how):
        requested.append(how["views"])
        return read(*arguments, **how)

    monkeypatch.setattr(DataFile, "read", spy)
    three_ways(made.open().scan())
    assert requested[0] is views


@settings(max_examples=30)
@given(generated(), st.integers(1, 4))
def test_random_tables(table, batch_rows):
    check_random(table, batch_rows)


@pytest.mark.long
@settings(max_examples=2000)
@given(generated(), st.integers(1, 4))
def test_many_random_tables(table, batch_rows):
    check_random(table, batch_rows)


def check_random(table, batch_rows):
    with tempfile.TemporaryDirectory() as directory:
        scan = table.build(Path(directory) / "t").open().scan()
        three_ways(scan, batch_rows=batch_rows)
        flat = [c.logical for c in table.columns if c.shape == "plain"]
        if flat:
            three_ways(scan.narrowed(columns=flat), file_column_name="a file's own name")


# --- changes ----------------------------------------------------------------------------------------


def test_a_change_feed(tmp_path):
    made = FeedTable(tmp_path, {"id": "long", "t": "string"})
    made.commit(made.add("a", {"id": [1, 2, 3], "t": ["x", None, "a text of some length"]}))
    made.commit(made.add("b", {"id": [4], "t": ["y"]}), made.remove("a"))
    made.commit(
        made.cdc("c", {"id": [4, 4], "t": ["y", "z"], "_change_type": ["update_preimage"] * 2})
    )
    found, _ = three_ways(Table.open(tmp_path).changes(starting_version=0))
    assert found.num_rows == 9
    assert found.schema.field("t").type == pa.string_view()


# --- errors and fallback ----------------------------------------------------------------------------


@pytest.mark.parametrize("way", OUTPUTS)
def test_outputs(table, way):
    options = ReadOptions(schema_force_view_types=True, wrap_partition_values=True)
    scan = table.scan(columns=FLAT)
    found = OUTPUTS[way](scan, options)
    with without_decoder():
        undecoded = OUTPUTS[way](scan, options)
    shown = OUTPUTS[way](scan, None)
    assert found.schema == undecoded.schema
    assert canonical(found) == canonical(undecoded) == canonical(shown.select(found.schema.names))


def test_a_dataset_with_a_filter(table):
    options = ReadOptions(schema_force_view_types=True)
    dataset = table.scan(columns=FLAT).to_pyarrow_dataset(options)
    found = dataset.to_table(filter=pa.compute.field("name") == "the name of 3")
    expected = table.scan("name = 'the name of 3'", columns=FLAT).to_arrow()
    assert canonical(found) == canonical(expected)
    assert found.num_rows > 0


# --- without it -------------------------------------------------------------------------------------


@pytest.mark.usefixtures("no_decoder")
def test_without_the_decoder_pyarrow_reads_views_too(table):
    with watched() as taken:
        found = table.scan(columns=FLAT).to_arrow(
            ReadOptions(schema_force_view_types=True, ordered=True)
        )
    assert not any(taken)
    assert viewed_names(found) == STRINGS
    shown = table.scan(columns=FLAT).to_arrow(ReadOptions(ordered=True))
    assert plain(found).equals(plain(shown))
