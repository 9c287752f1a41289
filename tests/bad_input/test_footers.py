"""Invalid Parquet footers: a typed error, or the rows where only bounds are truncated.

pyarrow aborts the process on some of them, so they are read in a subprocess (`footer_judge`).
"""

from __future__ import annotations

from collections import Counter

import datafusion
import pyarrow as pa
import pytest

from lazydelta import Config
from lazydelta.errors import DataFileError, LogCorruptError
from lazydelta.parquet import has_native_decoder
from tests.bad_input.footer_judge import judged
from tests.bad_input.outcomes import read_rightly, refused
from tests.builders import TableBuilder
from tests.footers import BINARY, I16, I32, I64, LIST, STRUCT, Node, deepened, edited
from tests.native.support import without_decoder
from tests.support import memory_store
from tests.unit.scan.read.tables import Rows, field

QUICK = Config(retry_base_seconds=0.001)
DECODERS = [pytest.param(True, id="compiled"), pytest.param(False, id="plain")]


@pytest.fixture(params=DECODERS)
def _either_way(request):
    """With the decoder, which validates footers too, and without."""
    if request.param:
        if not has_native_decoder():
            pytest.skip("the native decoder is not installed: `make native` builds it")
        yield
    else:
        with without_decoder():
            yield


# --- every field of a footer, changed in every way --------------------------------------------------


def check_survival(kind, **how):
    counts = Counter(judged(kind, **how))
    assert counts["rows"] > 20
    assert counts["refused"] > 20
    assert set(counts) == {"rows", "refused"}


@pytest.mark.sample(2)
@pytest.mark.parametrize("decoder", DECODERS)
@pytest.mark.parametrize(("kind", "every"), [("data", 131), ("checkpoint", 1009)])
def test_changed_footers(kind, every, decoder):
    check_survival(kind, decoder=decoder, every=every)


@pytest.mark.long
@pytest.mark.parametrize("first", range(5))
@pytest.mark.parametrize("decoder", DECODERS)
@pytest.mark.parametrize(("kind", "every"), [("data", 5), ("checkpoint", 31)])
def test_many_changed_footers(kind, every, decoder, first):
    check_survival(kind, decoder=decoder, every=every, first=first)


# --- data files -------------------------------------------------------------------------------------

INT64 = 2
CHUNK = (4, 0, 1, 0)
"""The first column of the first row group."""
DETAILS = (*CHUNK, 3)


def at(root, path):
    for step in path:
        root = root[step]
    return root


def put(path, number, kind, value, inner=0):
    """Return an edit that sets a field of the struct at a path."""
    return lambda root: at(root, path).set(number, kind, value, inner)


def numbers(count):
    return [Node(I64, 0) for _ in range(count)]


def sizes(**more):
    fields = {"strings": (1, I64, 0), "repetitions": (2, LIST, []), "definitions": (3, LIST, [])}
    found = []
    for name, value in more.items():
        number, kind, _ = fields[name]
        found.append((number, Node(kind, value, I64 if kind == LIST else 0)))
    return put(DETAILS, 16, STRUCT, found)


def two_row_groups_in_one(root):
    group = at(root, (4, 0, 1))
    group.value.append(group.value[0])


def fewer_columns(root):
    at(root, (4, 0, 1)).value.pop()


def of_other_things(root):
    at(root, (*DETAILS, 2)).inner = BINARY


def twice(root):
    details = at(root, DETAILS)
    details.value = [*details.value, (4, details[4])]


def of_another_type(root):
    at(root, (2, 1, 3)).kind = I16  # the repetition type: not every reader checks the Thrift type


NO_TYPE = "a field or list of the wrong type"
NO_BOUNDS = "column 'x' has bounds that are not of its type"
MAKE_NO_SENSE = {
    "a-codec-that-is-unknown": (put(DETAILS, 4, I32, 14), "column 'x' has the unknown codec 14"),
    "a-codec-below-zero": (put(DETAILS, 4, I32, -1), "column 'x' has the unknown codec -1"),
    "another-type-than-in-the-schema": (put(DETAILS, 1, I32, 6), "column 'x' has two types"),
    "a-type-that-is-unknown": (put(DETAILS, 1, I32, 99), "column 'x' has two types"),
    "a-column-too-many": (two_row_groups_in_one, "a row group has 3 columns, not 2"),
    "a-column-too-few": (fewer_columns, "a row group has 1 columns, not 2"),
    "nothing-of-a-column": (lambda root: at(root, CHUNK).take_out(3), "column 'x' has no metadata"),
    "a-key-of-its-own": (
        put(CHUNK, 8, STRUCT, [(2, Node(STRUCT, [(1, Node(LIST, [], BINARY))]))]),
        "column 'x' is encrypted",
    ),
    "a-list-of-other-things": (of_other_things, NO_TYPE),
    "a-field-of-another-type": (of_another_type, NO_TYPE),
    "a-field-that-is-there-twice": (twice, "a repeated field"),
    "a-field-that-some-take-for-another": (put(DETAILS, 2**16 + 4, I32, 14), "invalid field number"),
    "a-least-value-that-is-too-short": (put((*DETAILS, 12), 6, BINARY, b"\1\0\0"), NO_BOUNDS),
    "a-greatest-value-that-is-too-long": (put((*DETAILS, 12), 5, BINARY, bytes(9)), NO_BOUNDS),
    "an-old-least-value-that-is-too-short": (put((*DETAILS, 12), 2, BINARY, b"\1"), NO_BOUNDS),
    "more-levels-than-there-are": (sizes(definitions=numbers(3)), "definition levels"),
    "fewer-levels-than-there-are": (sizes(definitions=numbers(1)), "definition levels"),
    "levels-of-a-list-that-it-is-not": (sizes(repetitions=numbers(2)), "repetition levels"),
    "lengths-of-strings-that-it-has-not": (sizes(strings=12), "no strings"),
}  # fmt: skip


def table_of(tmp_path, edit):
    made = Rows(tmp_path / "t", [field("x", "long"), field("s", "string")])
    rows = pa.table({"x": pa.array([1, 2, None, 4], pa.int64()), "s": ["a", "b", "c", "d"]})
    made.file("a.parquet", rows).commit()
    file = made.path / "a.parquet"
    file.write_bytes(edited(file.read_bytes(), edit))
    return made.open()


@pytest.mark.usefixtures("_either_way")
@pytest.mark.parametrize(("edit", "reason"), MAKE_NO_SENSE.values(), ids=MAKE_NO_SENSE)
def test_an_invalid_footer_is_refused(tmp_path, edit, reason):
    table = table_of(tmp_path, edit)
    for scan in (table.scan(), table.scan("x > 1"), table.scan(columns=["s"])):
        with pytest.raises(DataFileError, match=reason) as caught:
            scan.to_arrow()
        assert caught.value.path == "a.parquet"


@pytest.mark.usefixtures("_either_way")
def test_empty_bounds_are_ignored(tmp_path):
    table = table_of(tmp_path, put((*DETAILS, 12), 6, BINARY, b""))
    assert table.scan().to_arrow()["x"].to_pylist() == [1, 2, None, 4]
    assert table.scan("x > 1").to_arrow()["s"].to_pylist() == ["b", "d"]
    assert table.scan("x is null").to_arrow()["s"].to_pylist() == ["c"]


@pytest.mark.usefixtures("_either_way")
def test_truncated_bounds_of_long_values_are_ignored(tmp_path):
    """DataFusion truncates bounds to 64 bytes, and pyarrow aborts when it reads such a one."""
    long = [bytes([n]) * 100 for n in range(1, 4)]
    rows = pa.table({"x": pa.array(long, pa.binary(100)), "s": ["a", "b", "c"]})
    made = Rows(tmp_path / "t", [field("x", "binary"), field("s", "string")])
    made.file("a.parquet", rows).commit()
    datafusion.SessionContext().from_arrow(rows).write_parquet(tmp_path / "out")
    (written,) = (tmp_path / "out").glob("*.parquet")
    written.replace(made.path / "a.parquet")
    table = made.open()
    assert table.scan().to_arrow()["x"].to_pylist() == long
    above = f"x > X'{long[0].hex()}'"
    assert table.scan(above).to_arrow()["x"].to_pylist() == long[1:]


def deep_table_of(place, levels):
    table = table_of(place, lambda root: None)
    file = place / "t" / "a.parquet"
    file.write_bytes(deepened(file.read_bytes(), levels))
    return table


@pytest.mark.usefixtures("_either_way")
def test_schema_depth_is_limited(tmp_path):
    with pytest.raises(DataFileError, match="more than 100 levels deep"):
        deep_table_of(tmp_path / "a", 20_000).scan().to_arrow()
    kind, value = pa.int64(), 7
    for _ in range(50):
        kind, value = pa.struct([("s", kind)]), {"s": value}
    spelt = "long"
    for _ in range(50):
        spelt = {"type": "struct", "fields": [field("s", spelt)]}
    made = Rows(tmp_path / "b", [field("x", spelt)])
    made.file("a.parquet", pa.table({"x": pa.array([value], kind)})).commit()
    assert made.open().scan().to_arrow()["x"].to_pylist() == [value]


# --- checkpoints ------------------------------------------------------------------------------------

LIVE = ["a", "c"]


def checkpoint_of(edit, *, cleaned_up):
    store = memory_store()
    table = TableBuilder(store)
    for line in ("+a +b", "-b +c"):
        table.commit(line)
    table.checkpoint("classic", version=1)
    if cleaned_up:
        table.clean_up(2)
    (name,) = [name for name in table.names() if ".checkpoint" in name]
    table.write(name, edited(table.read(name), edit))
    return store, name


@pytest.mark.usefixtures("_either_way")
def test_a_checkpoint_with_an_invalid_footer_is_recovered_or_refused():
    store, name = checkpoint_of(put(DETAILS, 4, I32, 14), cleaned_up=True)
    error = refused(store, LogCorruptError, QUICK, file=name, version=1)
    assert "codec 14" in error.reason
    store, _ = checkpoint_of(put(DETAILS, 4, I32, 14), cleaned_up=False)
    read_rightly(store, LIVE, QUICK)


@pytest.mark.usefixtures("_either_way")
def test_a_checkpoint_with_empty_bounds_is_read():
    def edit(root):
        details = [chunk[3] for chunk in at(root, (4, 0, 1)).value]
        longs = [one for one in details if one[1].value == INT64 and 6 in one[12].numbers]
        assert longs
        for one in longs:
            one[12].set(6, BINARY, b"")

    store, _ = checkpoint_of(edit, cleaned_up=True)
    read_rightly(store, LIVE, QUICK)
