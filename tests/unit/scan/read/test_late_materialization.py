"""Late materialization: only where it pays, and never at the cost of a row."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from lazydelta import ReadOptions
from lazydelta.parquet import DataFile, RowBatch, has_native_decoder, tuning
from lazydelta.parquet import native as compiled
from lazydelta.parquet.pyarrow_reader import PyArrowReader
from lazydelta.scan.read.late_materialization import LateMaterialization
from tests.unit.scan.read.tables import Rows, field, inline

FIELDS = [field("id", "long"), field("text", "string"), field("kind", "string")]
TEXT = "a text that takes some room"


class Bytes:
    """A file with column sizes only."""

    def __init__(self, **sizes):
        self.sizes = sizes

    def column_bytes(self, columns, groups):
        return sum(self.sizes[name] for name in columns) * len(groups)


class Columns:
    def __init__(self, filter_columns, columns):
        self.filter_columns, self.columns = filter_columns, columns
        self.other_columns = tuple(set(columns) - set(filter_columns))


@pytest.mark.parametrize(
    ("sizes", "filtered", "worth"),
    [
        pytest.param({"id": 10, "text": 90}, ("id",), True, id="the-smaller-part"),
        pytest.param({"id": 90, "text": 10}, ("id",), False, id="the-larger-part"),
        pytest.param({"id": 10, "text": 90}, (), False, id="no-column-of-the-file"),
        pytest.param({"id": 10, "text": 90}, ("id", "text"), False, id="all-columns"),
    ],
)
def test_when_it_applies(sizes, filtered, worth):
    fit = Columns(filtered, tuple(sizes))
    assert LateMaterialization().pays(Bytes(**sizes), fit, [0]) is worth
    assert not LateMaterialization().pays(Bytes(**sizes), fit, [])


class Groups(Bytes):
    """Row groups of one row, which has the row group's number."""

    class metadata:  # noqa: N801 - named as the file's own attribute
        @staticmethod
        def row_group(_):
            return type("Group", (), {"num_rows": 1})

    def first_row(self, group):
        return group

    def can_skip(self, columns, group, rows):
        return False

    def read_ranges(self, columns, group, ranges, *, batch_rows):
        return self.read_range(columns, group, *ranges[0], batch_rows=batch_rows)

    def read_range(self, columns, group, start, end, *, batch_rows):
        assert (start, end) == (group, group + 1)
        array = pa.array([group])
        yield RowBatch(group, 1, pa.RecordBatch.from_arrays([array] * len(columns), list(columns)))


@pytest.mark.parametrize(("matching", "worth"), [(0, True), (4, True), (5, False), (8, False)])
def test_it_is_disabled_when_most_row_groups_match(matching, worth):
    probe, file, fit = (
        LateMaterialization(),
        Groups(id=1, text=99),
        Columns(("id",), ("id", "text")),
    )

    def wanted(rows):
        return pa.array([rows.start < matching])

    parts = [(group, [(group, group + 1)]) for group in range(8)]
    found = probe.rows(file, fit, parts, wanted, batch_rows=1)
    assert [rows.start for rows in found] == list(range(matching))
    assert probe.pays(file, fit, [0]) is worth


@pytest.fixture
def by_pyarrow(monkeypatch):
    """Read without the native decoder; tests/native tests it."""
    monkeypatch.setattr(compiled, "_decoder", lambda: None)


@pytest.fixture
def read(monkeypatch, by_pyarrow):
    """What was decoded: columns, row groups, and the rows of each batch."""
    calls, plain = [], PyArrowReader._rows

    def noted(self, columns, groups, *more):
        decoded = []
        calls.append((tuple(columns), list(groups), decoded))
        for rows in plain(self, columns, groups, *more):
            decoded.append(rows.length)
            yield rows

    monkeypatch.setattr(PyArrowReader, "_rows", noted)
    return calls


def test_a_row_group_without_a_match_decodes_only_the_predicate_columns(tmp_path, read):
    """Bounds do not help: every row group has the minimum and the maximum."""
    made = Rows(tmp_path / "t", FIELDS[:2])
    values = np.tile([0, 10**6], 500)
    values[777] = 5
    strings = [f"{TEXT} {i}" for i in range(1000)]
    made.file("a.parquet", pa.table({"id": values, "text": strings}), row_group_size=100)
    found = made.open().scan("id = 5").to_arrow().to_pylist()
    assert found == [{"id": 5, "text": strings[777]}]
    assert [call[:2] for call in read if "text" in call[0]] == [(("text",), [7])]


@pytest.mark.parametrize(
    ("batch_rows", "decoded"),
    [
        pytest.param(1000, [31], id="in-one-batch-up-to-the-last-match"),
        pytest.param(20, [20, 20], id="in-batches-up-to-the-one-with-the-last-match"),
    ],
)
def test_nothing_is_decoded_after_the_last_match(tmp_path, read, batch_rows, decoded):
    made = Rows(tmp_path / "t", FIELDS[:2])
    table = pa.table({"id": np.arange(1000), "text": [f"{TEXT} {i}" for i in range(1000)]})
    made.file("a.parquet", table)
    scan = made.open().scan("id between 10 and 30")
    found = scan.to_arrow(ReadOptions(batch_rows=batch_rows))
    assert found.equals(table.slice(10, 21).cast(found.schema))
    others = [lengths for columns, _, lengths in read if columns == ("text",)]
    assert others == [decoded]


@pytest.mark.parametrize("batch_rows", [7, 64, 1000])
@pytest.mark.parametrize(
    "where",
    [
        pytest.param("id between 130 and 250", id="neighbours-over-row-groups"),
        pytest.param("id between 101 and 104", id="few-neighbours"),
        pytest.param("id in (3, 53, 171, 172, 403, 499)", id="scattered"),
        pytest.param("id < 30 or id > 480", id="both-ends"),
        pytest.param("id is null", id="nulls"),
        pytest.param("not (id > 5)", id="nulls-are-no-match"),
        pytest.param("kind = 'k3'", id="of-a-dictionary"),
        pytest.param("id > 100000", id="none"),
    ],
)
@pytest.mark.parametrize("deleted", [[], [0, 131, 140, 249], list(range(100, 300))])
def test_same_rows_as_a_plain_read(tmp_path, where, deleted, batch_rows):
    made = Rows(tmp_path / "t", FIELDS, features=("deletionVectors",))
    ids = [None if i % 90 == 89 else i for i in range(500)]
    columns = {"id": ids, "text": [f"{TEXT} {i}" for i in range(500)]}
    table = pa.table(columns | {"kind": [f"k{i % 5}" for i in range(500)]})
    vector = inline(deleted) if deleted else None
    made.file("a.parquet", table, row_group_size=170, vector=vector)
    scan = made.open().scan(where)
    plain = scan.to_arrow(ReadOptions(enable_parquet_pushdown=False))
    assert scan.to_arrow(ReadOptions(batch_rows=batch_rows)).equals(plain)


def test_columns_in_smaller_batches_stay_aligned(tmp_path, read):
    """Long dictionary strings are returned in smaller batches than the numbers beside them."""
    made = Rows(tmp_path / "t", FIELDS)
    strings = [f"{TEXT} {i}" for i in range(2000)]
    kinds = [str(i % 4) * 1000 for i in range(2000)]
    made.file("a.parquet", pa.table({"id": np.arange(2000), "text": strings, "kind": kinds}))
    scan = made.open().scan("id between 50 and 1000")
    with scan.to_batches(ReadOptions(max_inflated_bytes=64_000)) as batches:
        found = list(batches)
    assert [(columns, max(lengths)) for columns, _, lengths in read] == [
        (("id",), 2000),
        (("text", "kind"), 64),
    ]
    rows = pa.Table.from_batches(found)
    assert rows["id"].to_pylist() == list(range(50, 1001))
    assert rows["text"].to_pylist() == strings[50:1001]
    assert rows["kind"].to_pylist() == kinds[50:1001]


# --- row groups of many pages ---------------------------------------------------------------------


@pytest.fixture
def small_pages(monkeypatch):
    """How to write files of small pages; the page filter applies to them whatever their size."""
    monkeypatch.setattr(tuning, "PAGE_FILTER_BYTES", 1)
    monkeypatch.setattr(tuning, "MIN_SKIP_ROWS", 1)
    monkeypatch.setattr(tuning, "PAGE_FILTER_FOOTER_RATIO", 0)
    return {"data_page_size": 300, "write_batch_size": 10}


@pytest.fixture
def decoded(monkeypatch):
    """Record the columns and rows of each call of the native decoder."""
    if not has_native_decoder():
        pytest.skip("only the native decoder skips pages: `make native` builds it")
    calls, plain = [], DataFile.read_range

    def noted(self, columns, *args, **options):
        lengths = []
        calls.append((tuple(columns), lengths))
        for rows in plain(self, columns, *args, **options):
            lengths.append(rows.length)
            yield rows

    monkeypatch.setattr(DataFile, "read_range", noted)
    return calls


@pytest.mark.parametrize(
    ("index", "batch_rows"),
    [(True, 1000), (False, 64), (True, 7)],
    ids=["by-index", "by-headers", "in-small-batches"],
)
@pytest.mark.parametrize(
    "where",
    [
        pytest.param("id between 130 and 250", id="neighbours-over-row-groups"),
        pytest.param("id in (3, 53, 171, 172, 403, 499)", id="scattered"),
        pytest.param("id < 30 or id > 480", id="both-ends"),
        pytest.param("id is null", id="nulls"),
        pytest.param("not (id > 5)", id="nulls-are-no-match"),
        pytest.param("kind = 'k3'", id="of-a-dictionary"),
        pytest.param("id > 300 and kind = 'k2'", id="two-columns"),
        pytest.param("part.a between 200 and 210", id="of-a-struct"),
        pytest.param("id > 100000", id="none"),
    ],
)
@pytest.mark.parametrize("deleted", [[], [0, 131, 140, *range(200, 300)]], ids=["all", "some"])
def test_same_rows_with_page_filtering(tmp_path, small_pages, where, deleted, batch_rows, index):
    struct = {"type": "struct", "fields": [field("a", "long")]}
    fields = [*FIELDS, field("part", struct)]
    made = Rows(tmp_path / "t", fields, features=("deletionVectors",))
    ids = [None if i % 90 == 89 else i for i in range(500)]
    columns = {"id": ids, "text": [f"{TEXT} {i}" for i in range(500)]}
    columns |= {"kind": [f"k{i % 5}" for i in range(500)], "part": [{"a": i} for i in range(500)]}
    vector = inline(deleted) if deleted else None
    made.file(
        "a.parquet", pa.table(columns), vector=vector,
        row_group_size=400, write_page_index=index, **small_pages,
    )  # fmt: skip
    table = made.open()
    for shown in (None, ["text", "id"]):
        scan = table.scan(where, shown)
        plain = scan.to_arrow(ReadOptions(enable_parquet_pushdown=False))
        assert scan.to_arrow(ReadOptions(batch_rows=batch_rows)).equals(plain)


@pytest.mark.parametrize("index", [True, False], ids=["by-index", "by-headers"])
def test_only_pages_with_a_match_are_decoded(tmp_path, small_pages, decoded, index):
    made = Rows(tmp_path / "t", FIELDS[:2])
    table = pa.table({"id": np.arange(1000), "text": [f"{TEXT} {i}" for i in range(1000)]})
    made.file("a.parquet", table, write_page_index=index, use_dictionary=False, **small_pages)
    found = made.open().scan("id between 500 and 510").to_arrow()
    assert found.equals(table.slice(500, 11).cast(found.schema))
    assert {columns for columns, _ in decoded} == {("id",), ("text",)}
    assert all(11 <= sum(lengths) <= 50 for _, lengths in decoded)


def test_the_predicate_columns_are_filtered_by_pages(tmp_path, small_pages, decoded):
    made = Rows(tmp_path / "t", FIELDS[:2])
    table = pa.table({"id": np.arange(1000), "text": [f"{TEXT} {i}" for i in range(1000)]})
    made.file("a.parquet", table, use_dictionary=False, **small_pages)
    found = made.open().scan("id in (300, 900)", ["id"]).to_arrow()
    assert found.column("id").to_pylist() == [300, 900]
    assert len(decoded) == 2
    assert all(sum(lengths) <= 50 for _, lengths in decoded)


def test_columns_without_skipping_are_decoded_once(tmp_path, small_pages, read):
    """The page index selects two ranges of `id`, but a struct is decoded from its start."""
    struct = {"type": "struct", "fields": [field("a", "long")]}
    made = Rows(tmp_path / "t", [*FIELDS[:2], field("part", struct)])
    strings, parts = [f"{TEXT} {i}" for i in range(1000)], [{"a": i} for i in range(1000)]
    table = pa.table({"id": np.arange(1000), "text": strings, "part": parts})
    made.file("a.parquet", table, use_dictionary=False, **small_pages)
    scan = made.open().scan("id in (300, 900) and part.a > 0")
    assert scan.to_arrow().column("text").to_pylist() == [strings[300], strings[900]]
    assert len([columns for columns, _, _ in read if "part.a" in columns]) == 1


@pytest.mark.parametrize("shown", [None, ["id"]], ids=["late", "filter-columns"])
def test_a_column_the_decoder_refuses_is_read_at_most_twice(
    tmp_path, small_pages, monkeypatch, shown
):
    """Each of many ranges would be decoded from the start of the row group."""
    passes, plain = [], PyArrowReader.read

    def noted(self, columns, groups, **more):
        passes.append(tuple(columns))
        return plain(self, columns, groups, **more)

    monkeypatch.setattr(PyArrowReader, "read", noted)
    made = Rows(tmp_path / "t", [field("id", "string"), FIELDS[1]])
    ids = [f"{i:04}" for i in range(1000)]
    columns = {"id": pa.array(ids, pa.large_string()), "text": [f"{TEXT} {i}" for i in range(1000)]}
    made.file("a.parquet", pa.table(columns), use_dictionary=False, **small_pages)
    wanted = ids[::100]
    found = made.open().scan(f"id in {tuple(wanted)}", shown).to_arrow()
    assert found.column("id").to_pylist() == wanted
    assert 1 <= passes.count(("id",)) <= 2


def test_without_the_decoder_a_row_group_is_read_once(tmp_path, small_pages, read):
    made = Rows(tmp_path / "t", FIELDS[:2])
    table = pa.table({"id": np.arange(1000), "text": [f"{TEXT} {i}" for i in range(1000)]})
    made.file("a.parquet", table, use_dictionary=False, write_page_index=True, **small_pages)
    found = made.open().scan("id in (300, 900)").to_arrow()
    assert found.column("id").to_pylist() == [300, 900]
    assert [columns for columns, _, _ in read] == [("id",), ("text",)]


def test_a_gap_between_matches_is_skipped(tmp_path, small_pages, decoded):
    """Page statistics do not help, so the predicate's column is decoded; the other is not."""
    made = Rows(tmp_path / "t", FIELDS[:2])
    ids = np.tile([0, 10**6], 500)
    ids[[20, 900]] = 5
    strings = [f"{TEXT} {i}" for i in range(1000)]
    made.file(
        "a.parquet", pa.table({"id": ids, "text": strings}), use_dictionary=False, **small_pages
    )
    found = made.open().scan("id = 5").to_arrow(ReadOptions(batch_rows=100))
    assert found.column("text").to_pylist() == [strings[20], strings[900]]
    assert sum(sum(lengths) for columns, lengths in decoded if columns == ("text",)) < 300


def test_row_ids_match_positions(tmp_path, small_pages):
    made = Rows(tmp_path / "t", FIELDS[:2], features=("rowTracking", "domainMetadata"))
    table = pa.table({"id": np.arange(1000), "text": [f"{TEXT} {i}" for i in range(1000)]})
    action = {"baseRowId": 5000, "defaultRowCommitVersion": 3}
    made.file("a.parquet", table, action=action, **small_pages)
    found = made.open().scan("id in (700, 731, 999)").to_arrow(ReadOptions(row_id_column="row"))
    assert found.column("row").to_pylist() == [5700, 5731, 5999]


def test_it_stays_enabled_when_row_groups_match_in_few_pages(tmp_path, small_pages, decoded):
    made = Rows(tmp_path / "t", FIELDS[:2])
    table = pa.table({"id": np.arange(200), "text": [f"{TEXT} {i}" for i in range(200)]})
    made.file("a.parquet", table, use_dictionary=False, **small_pages)
    store = made.open().snapshot().store
    file = DataFile(store, "a.parquet", max_decoded_bytes=2**30)
    probe, fit = LateMaterialization(), Columns(("id",), ("id", "text"))

    def wanted(rows):
        return pa.array([position == 150 for position in range(rows.start, rows.end)])

    for _ in range(8):
        assert len(list(probe.rows(file, fit, [(0, [(140, 160)])], wanted, batch_rows=100))) == 1
    assert probe.pays(file, fit, [0])
