"""Damaged checkpoints: recovered from the commits where they exist, refused where not."""

from __future__ import annotations

import io
import json
import random

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from lazydelta import Config, Table
from lazydelta.errors import DeltaError, LogCorruptError
from tests.bad_input.outcomes import read_rightly, refused
from tests.builders import TableBuilder, add
from tests.support import READERS, memory_store

QUICK = Config(retry_base_seconds=0.001)
COMMITS = ["+a +b +c", "-a +d", "+e -b +b#v1", "+f +g", "-d +a", "+h"]
LIVE = ["a", "b#v1", "c", "e", "f", "g", "h"]
AT = 3


def build(place, kind="classic", *, cleaned_up=False, older=False, **options):
    table = TableBuilder(place)
    for line in COMMITS:
        table.commit(line)
    if older:
        table.checkpoint(version=1)
    table.checkpoint(kind, version=AT, **options)
    if cleaned_up:
        table.clean_up(AT + 1 if not older else 2)
    return table


def built(kind="classic", **how):
    store = memory_store()
    return store, build(store, kind, **how)


def checkpoint_names(table, version=AT):
    return [n for n in table.names() if n.startswith(f"{version:020d}.checkpoint")]


KINDS = ["classic", "multipart", "v2-json", "v2-parquet", "v2-classic"]


@pytest.mark.sample(3)
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("keep", [0, 1, 8, 100, -100, -8, -2], ids="{:+d}-bytes".format)
def test_a_truncated_checkpoint_is_recovered_from_commits(kind, keep):
    store, table = built(kind)
    name = checkpoint_names(table)[-1]
    table.write(name, table.read(name)[:keep])
    read_rightly(store, LIVE, QUICK)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("keep", [0, 1, 100, -100, -2], ids="{:+d}-bytes".format)
def test_a_truncated_checkpoint_without_its_commits_is_refused(kind, keep):
    store, table = built(kind, cleaned_up=True)
    read_rightly(store, LIVE, QUICK)
    name = checkpoint_names(table)[-1]
    table.write(name, table.read(name)[:keep])
    refused(store, DeltaError, QUICK)


def test_the_error_names_the_damaged_file_and_its_version():
    store, table = built(cleaned_up=True)
    (name,) = checkpoint_names(table)
    table.write(name, b"PAR1" + b"x" * 100 + b"PAR1")
    error = refused(store, LogCorruptError, QUICK, file=name, version=AT)
    assert name in str(error)


@pytest.mark.parametrize("kind", KINDS)
def test_a_damaged_checkpoint_falls_back_to_an_older_one(kind):
    store, table = built(kind, older=True, cleaned_up=True)
    name = checkpoint_names(table)[-1]
    table.write(name, table.read(name)[:50])
    read_rightly(store, LIVE, QUICK)


@pytest.mark.parametrize("parts", [2, 3])
def test_an_incomplete_multi_part_checkpoint_is_ignored(parts):
    for missing in range(parts):
        store, table = built("multipart", parts=parts)
        table.delete(checkpoint_names(table)[missing])
        read_rightly(store, LIVE, QUICK)
        assert Table(store, QUICK).snapshot().segment.checkpoint is None
        table.clean_up(AT + 1)
        refused(store, DeltaError, QUICK)


def test_parts_of_different_sets_are_never_mixed():
    store, table = built("multipart", parts=2)
    table.checkpoint("multipart", version=AT, parts=3)
    two, three = (
        f"{AT:020d}.checkpoint.{{:010d}}.{2:010d}.parquet",
        f"{AT:020d}.checkpoint.{{:010d}}.{3:010d}.parquet",
    )
    table.delete(two.format(2), three.format(1))
    read_rightly(store, LIVE, QUICK)
    table.clean_up(AT + 1)
    refused(store, DeltaError, QUICK)


@pytest.mark.parametrize("kind", ["v2-json", "v2-parquet", "v2-classic"])
def test_a_missing_sidecar_is_recovered_or_refused(kind):
    store, table = built(kind, parts=2)
    table.delete(table.sidecars()[1])
    read_rightly(store, LIVE, QUICK)
    table.clean_up(AT + 1)
    error = refused(store, LogCorruptError, QUICK, version=AT)
    assert "_sidecars/" in error.file


@pytest.mark.parametrize("kind", ["v2-json", "v2-parquet"])
@pytest.mark.parametrize("keep", [0, 40, -4], ids="{:+d}-bytes".format)
def test_a_truncated_sidecar_is_recovered_or_refused(kind, keep):
    store, table = built(kind, parts=2)
    name = table.sidecars()[0]
    table.write(name, table.read(name)[:keep])
    read_rightly(store, LIVE, QUICK)
    table.clean_up(AT + 1)
    refused(store, LogCorruptError, QUICK, version=AT)


@pytest.mark.parametrize(
    "path",
    [
        "../../secret.parquet",
        "..%2f..%2fsecret.parquet",
        "/etc/passwd",
        "file:///etc/passwd",
        "http://169.254.169.254/x",
        "s3://other/x",
        "//host/x",
        "a\\b",
        "a\u0000b",
        "",
    ],
)
def test_a_sidecar_outside_its_directory_is_never_opened(path):
    store, table = built("v2-json", parts=1, cleaned_up=True)
    opened = []
    real = store.open_input

    def spy(place, *, size=None):
        opened.append(place)
        return real(place, size=size)

    store.open_input = spy
    name = checkpoint_names(table)[0]
    lines = [json.loads(line) for line in table.read(name).splitlines()]
    for line in lines:
        if "sidecar" in line:
            line["sidecar"]["path"] = path
    table.write(name, b"".join(json.dumps(line).encode() + b"\n" for line in lines))
    refused(store, LogCorruptError, QUICK, version=AT)
    assert not [p for p in opened if not p.startswith("_delta_log/_sidecars/")]


@pytest.mark.parametrize(
    "body",
    [{}, {"path": 1}, {"path": "x", "sizeInBytes": "1"}, {"path": "x", "sizeInBytes": 2**70}],
)
def test_a_malformed_sidecar_is_refused(body):
    store, table = built("v2-json", parts=1, cleaned_up=True)
    name = checkpoint_names(table)[0]
    table.write(name, table.read(name) + json.dumps({"sidecar": body}).encode() + b"\n")
    refused(store, LogCorruptError, QUICK, version=AT)


@pytest.mark.parametrize("kind", KINDS)
def test_page_checksums_detect_a_flipped_bit(kind):
    rng = random.Random(kind)
    store, table = built(kind, row_group_rows=2)
    names = [n for n in checkpoint_names(table) if n.endswith(".parquet")] + table.sidecars()
    for name in names:
        good = table.read(name)
        footer = len(good) - 8 - int.from_bytes(good[-8:-4], "little")
        for _ in range(6):
            bad = bytearray(good)
            bad[rng.randrange(4, footer)] ^= 1 << rng.randrange(8)
            table.write(name, bytes(bad))
            for read in (READERS["reverse"], READERS["forward"]):
                assert sorted(read(store, QUICK)) == LIVE
        table.write(name, good)


def damage_row_group(data, number, column="path"):
    """Return a Parquet file with the pages of one column of one row group overwritten."""
    metadata = pq.ParquetFile(io.BytesIO(data)).metadata
    group = metadata.row_group(number)
    for index in range(group.num_columns):
        chunk = group.column(index)
        if chunk.path_in_schema == f"add.{column}":
            start = chunk.dictionary_page_offset or chunk.data_page_offset
            end = start + chunk.total_compressed_size
    return data[:start] + b"\xff" * (end - start) + data[end:]


def large(tmp=None, *, cleaned_up=False):
    """Return a table whose checkpoint has twenty row groups of ten files, and its live files."""
    store = memory_store()
    table = TableBuilder(store)
    for number in range(20):
        table.commit(" ".join(f"+f{number:02d}-{at}" for at in range(10)), info=False)
    table.checkpoint(row_group_rows=10, removes=False)
    table.commit("-f00-0 +new -f10-5 +f10-5#v1 +f19-9")
    if cleaned_up:
        table.clean_up(20)
    live = {f"f{n:02d}-{at}" for n in range(20) for at in range(10)} - {"f00-0", "f10-5"}
    return store, table, sorted(live | {"new", "f10-5#v1"})


@pytest.mark.sample(3)
@pytest.mark.parametrize("group", [0, 10, 20])
@pytest.mark.parametrize("column", ["path", "size", "stats"])
@pytest.mark.parametrize("rows", [3, 1000])
def test_damage_in_mid_stream_returns_every_file_once(group, column, rows):
    store, table, live = large()
    (name,) = checkpoint_names(table, 19)
    table.write(name, damage_row_group(table.read(name), group, column))
    config = Config(batch_rows=rows, checkpoint_row_groups_per_batch=2)
    for way in ("reverse", "forward", "files", "reference", "strict-reverse"):
        assert sorted(READERS[way](store, config)) == live, way


@pytest.mark.parametrize("limit", [1, 50, 150, 202, 500])
def test_damage_in_mid_stream_keeps_the_limit(limit):
    store, table, live = large()
    (name,) = checkpoint_names(table, 19)
    table.write(name, damage_row_group(table.read(name), 10))
    config = Config(batch_rows=7, checkpoint_row_groups_per_batch=1)
    for way in ("reverse", "forward"):
        found = READERS[way](store, config, limit)
        assert len(found) == len(set(found)) == min(limit, len(live))
        assert set(found) <= set(live)


def test_damage_in_mid_stream_without_commits_is_an_error():
    store, table, live = large(cleaned_up=True)
    assert sorted(READERS["reverse"](store)) == live
    (name,) = checkpoint_names(table, 19)
    table.write(name, damage_row_group(table.read(name), 10))
    config = Config(batch_rows=10, checkpoint_row_groups_per_batch=1)
    given = []
    with (
        pytest.raises(LogCorruptError) as raised,
        Table(store, config).scan(strategy="reverse").files() as files,
    ):
        given.extend(file.path for file in files)
    assert raised.value.version == 19
    assert len(given) == len(set(given))


@pytest.mark.parametrize(
    "change",
    [
        pytest.param(lambda t: t.drop_columns(["add"]), id="no-adds"),
        pytest.param(lambda t: t.drop_columns(["protocol"]), id="no-protocol"),
        pytest.param(lambda t: t.drop_columns(["metaData"]), id="no-metadata"),
        pytest.param(lambda t: t.slice(0, 0), id="no-rows"),
        pytest.param(lambda t: pa.table({"x": [1]}), id="another-table"),
        pytest.param(
            lambda t: t.drop_columns(["add"]).append_column("add", pa.array([1] * len(t))),
            id="adds-that-are-numbers",
        ),
        pytest.param(
            lambda t: t.drop_columns(["add"]).append_column(
                "add", pa.array([{"path": 1}] * len(t))
            ),
            id="paths-that-are-numbers",
        ),
        pytest.param(
            lambda t: t.drop_columns(["add"]).append_column(
                "add", pa.array([{"size": 1}] * len(t))
            ),
            id="adds-without-paths",
        ),
        pytest.param(
            lambda t: t.drop_columns(["add"]).append_column(
                "add", pa.array([{"path": f"p{row}" if row % 2 else None} for row in range(len(t))])
            ),
            id="paths-that-are-null",
        ),
        pytest.param(
            lambda t: t.drop_columns(["protocol"]).append_column(
                "protocol", pa.array(["x"] * len(t))
            ),
            id="a-protocol-that-is-text",
        ),
        pytest.param(
            lambda t: t.drop_columns(["add"]).append_column(
                "add",
                pa.StructArray.from_arrays(
                    [pa.array([b"\xff\xfe"] * len(t)).view(pa.string())], names=["path"]
                ),
            ),
            id="paths-that-are-not-utf-8",
        ),
    ],
)
def test_a_checkpoint_with_another_schema_is_a_typed_error(change):
    store, table = built(cleaned_up=True)
    (name,) = checkpoint_names(table)
    sink = io.BytesIO()
    pq.write_table(change(pq.read_table(io.BytesIO(table.read(name)))), sink)
    table.write(name, sink.getvalue())
    refused(store, DeltaError, QUICK)


def test_a_checkpoint_with_missing_optional_fields_is_read():
    store, table = built(cleaned_up=True, removes=False)
    (name,) = checkpoint_names(table)
    whole = pq.read_table(io.BytesIO(table.read(name)))
    adds = whole.column("add").combine_chunks()
    kept = [
        f
        for f in adds.type
        if f.name in ("path", "size", "partitionValues", "deletionVector", "modificationTime")
    ]
    slim = pa.StructArray.from_arrays(
        [adds.field(f.name) for f in kept], fields=kept, mask=adds.is_null()
    )
    sink = io.BytesIO()
    pq.write_table(whole.set_column(whole.schema.get_field_index("add"), "add", slim), sink)
    table.write(name, sink.getvalue())
    read_rightly(store, LIVE, QUICK)


def test_a_checkpoint_newer_than_the_version_is_never_used():
    store, table = built()
    table.write(checkpoint_names(table)[0], b"garbage")
    with Table(store, QUICK).snapshot(2).scan().files() as files:
        assert sorted(file.path for file in files) == ["b", "c", "d", "e"]


def test_a_checkpoint_without_its_commit_is_read():
    store, table = built(cleaned_up=True)
    table.delete(*(f"{v:020d}.json" for v in range(AT + 1, len(COMMITS))))
    assert Table(store, QUICK).version == AT
    read_rightly(store, ["b#v1", "c", "d", "e", "f", "g"], QUICK)


@pytest.mark.parametrize("kind", ["v2-json", "v2-parquet"])
def test_garbage_in_a_v2_manifest_is_recovered(kind):
    store, table = built(kind, parts=1)
    (name,) = checkpoint_names(table)
    table.write(name, b"garbage\n")
    read_rightly(store, LIVE, QUICK)


DAMAGED = {
    "garbage": b"garbage\n",
    "cut": b'{"add":{"path":"zzz"}\n',
    "empty": b"",
    "no-text": b"\xff\xfe\n",
    "damaged-behind": b'{"commitInfo":{}}\n{"add":{"path":7}}\n',
    "a-transaction-that-is-cut": b'{"txn":{"appId":\n',
}


@pytest.mark.parametrize("data", DAMAGED.values(), ids=DAMAGED)
@pytest.mark.parametrize("has_checkpoint", [True, False])
def test_a_damaged_compaction_falls_back_to_the_commits(data, has_checkpoint):
    store, table = built()
    if not has_checkpoint:
        table.delete(*checkpoint_names(table))
    first = AT + 1 if has_checkpoint else 1
    table.compact(first, 5)
    table.write(f"{first:020d}.{5:020d}.compacted.json", data)
    read_rightly(store, LIVE, QUICK)
    snapshot = Table(store, QUICK).snapshot()
    assert snapshot.transactions() == snapshot.domain_metadata() == {}


def test_an_unreconciled_compaction_falls_back_to_the_commits():
    store, table = built()
    table.delete(*checkpoint_names(table))
    lines = [json.dumps(action) for v in range(1, 5) for action in table.commits[v]]
    table.write(f"{1:020d}.{4:020d}.compacted.json", "\n".join(lines).encode())
    read_rightly(store, LIVE, QUICK)


@pytest.mark.parametrize(
    "fields",
    [
        {"numFiles": 10**12, "tableSizeBytes": 1},
        {"numFiles": 0},
        {"numFiles": -1},
        {"numMetadata": 2},
        {"protocol": None},
        {"protocol": {}},
        {"protocol": 7},
        {"metadata": {"schemaString": 1}},
        {"metadata": []},
    ],
)
def test_a_wrong_checksum_changes_no_file(fields):
    store, table = built()
    table.crc(**fields)
    read_rightly(store, LIVE, QUICK)


@pytest.mark.parametrize("data", [b"", b"garbage", b"[]", b"\xff", b"[" * 100_000])
def test_an_unreadable_checksum_is_ignored(data):
    store, table = built()
    table.write(f"{5:020d}.crc", data)
    read_rightly(store, LIVE, QUICK)


def test_an_older_checksum_does_not_hide_newer_metadata():
    store, table = built()
    table.crc()
    changed = table.metadata | {"name": "new"}
    table.commit({"metaData": changed})
    assert Table(store, QUICK).snapshot().metadata.name == "new"
    assert add("x")["add"]["path"] == "x"


@pytest.mark.parametrize("kind", ["classic", "multipart", "v2-parquet"])
def test_transactions_and_domains_despite_a_damaged_checkpoint(kind):
    store = memory_store()
    table = TableBuilder(store)
    table.commit({"txn": {"appId": "a", "version": 1}}, "+x")
    table.commit({"domainMetadata": {"domain": "d", "configuration": "1"}})
    table.checkpoint(kind, version=1)
    table.commit("!protocol", "!metaData", "+y")  # loading does not read the checkpoint
    name = checkpoint_names(table, 1)[-1]
    table.write(name, table.read(name)[:50])
    snapshot = Table(store, QUICK).snapshot()
    assert snapshot.segment.checkpoint is not None
    assert {app: txn.version for app, txn in snapshot.transactions().items()} == {"a": 1}
    assert list(snapshot.domain_metadata()) == ["d"]


def test_every_damaged_checkpoint_is_skipped():
    store, table, live = large()
    table.checkpoint(version=9, removes=False)
    table.checkpoint(version=14, removes=False, row_group_rows=10)
    for version, group in ((19, 10), (14, 3)):
        (name,) = checkpoint_names(table, version)
        table.write(name, damage_row_group(table.read(name), group))
    config = Config(batch_rows=7, checkpoint_row_groups_per_batch=1)
    for way in ("reverse", "forward", "files", "reference", "strict-reverse"):
        assert sorted(READERS[way](store, config)) == live, way
