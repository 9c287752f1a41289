"""Checkpoints in both layouts and with every table property equal the log that they replace."""

from __future__ import annotations

import io
from datetime import UTC, datetime

import deltalake
import orjson
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lazydelta import Config, Table
from lazydelta.checkpoint import checkpoint_actions, tuning
from lazydelta.checkpoint.checkpoint_writer import write_checkpoint
from lazydelta.errors import InternalError, LogCorruptError, UnsupportedFeatureError
from lazydelta.log.checkpoints import read_hint
from lazydelta.store import MemoryStore
from tests.builders import add, remove
from tests.builders.strategies import histories
from tests.unit.checkpoint.checkpoint_cases import (
    NOW,
    SCHEMA,
    V2,
    built,
    expected_state,
    snapshot_of,
    state_of,
)

LAYOUTS = [pytest.param({}, id="classic"), pytest.param(V2, id="v2")]


def file_stats(low, high, rows=5):
    return {
        "numRecords": rows,
        "minValues": {
            "id": low,
            "name": f"n{low}",
            "at": "2026-01-01T00:00:00.001Z",
            "price": 1.25,
        },
        "maxValues": {
            "id": high,
            "name": f"n{high}",
            "at": "2026-02-01T00:00:00.001Z",
            "price": 2.5,
        },
        "nullCount": {"id": 0, "name": 1, "at": 0, "price": 0},
    }


def commit_all_fields(builder):
    """Commit every field of an add, and every kind of action."""
    day = {"day": "2026-01-02"}
    builder.commit(
        add("day=2026-01-02/a", partition_values=day, stats=file_stats(5, 9), tags={"k": "v"}),
        add("b", partition_values={"day": None}, stats=file_stats(1, 2), baseRowId=7),
        add("day=2026-01-01/c", partition_values={"day": "2026-01-01"}, vector="dv", size=3),
    )
    builder.commit("!txn !domainMetadata", add("d", partition_values={"day": ""}, stats="no JSON"))
    builder.commit(remove("b", size=100, partitionValues={"day": None}, extendedFileMetadata=True))
    return builder


def delete_commits(builder):
    """Delete what the checkpoint replaces, so that it is the only source."""
    return builder.clean_up(builder.version + 1)


@pytest.mark.parametrize("configuration", LAYOUTS)
def test_a_checkpoint_has_the_state_of_its_version(configuration):
    store, builder = built(schema=SCHEMA, partition_by=["day"], configuration=configuration)
    commit_all_fields(builder)
    expected = state_of(store)
    result = write_checkpoint(snapshot_of(store), now_ms=NOW)
    assert (result.is_new, result.adds, result.removes) == (True, 3, 1)
    delete_commits(builder)
    assert state_of(store) == expected == expected_state(builder)


@pytest.mark.parametrize("configuration", LAYOUTS)
@given(history=histories(), at=st.integers(0, 11))
@settings(max_examples=25)
def test_checkpoint_of_any_version_of_any_history(configuration, history, at):
    store = MemoryStore()
    builder = history.build(store)
    readable = snapshot_of(store).version
    version = readable - at % (readable + 1)
    if history.layout.cleaned_up and history.layout.checkpoints:
        version = max(version, min(at for at, *_ in history.layout.checkpoints))
    with_policy(builder, configuration)
    write_checkpoint(snapshot_of(store, version), now_ms=NOW)
    assert state_of(store) == expected_state(builder)
    assert state_of(store, version) == expected_state(builder, version)


def with_policy(builder, configuration):
    """Commit table properties, if any."""
    if configuration:
        builder.metadata = builder.metadata | {"configuration": configuration}
        builder.commit({"metaData": builder.metadata})


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("as_json", ["true", "false"])
@pytest.mark.parametrize("as_struct", ["true", "false"])
@pytest.mark.parametrize("source", ["commits", "json", "struct", "both"])
def test_statistics_follow_the_table_properties(tmp_path, layout, as_json, as_struct, source):
    configuration = layout | {
        "delta.checkpoint.writeStatsAsJson": as_json,
        "delta.checkpoint.writeStatsAsStruct": as_struct,
    }
    _, builder = built(
        str(tmp_path), schema=SCHEMA, partition_by=["day"], configuration=configuration
    )
    builder.commit(add("a", partition_values={"day": "2026-01-02"}, stats=file_stats(5, 9)))
    if source != "commits":
        kept = {"stats_json": source != "struct", "stats_parsed": source != "json"}
        builder.checkpoint(partition_values_parsed=True, **kept)
    builder.commit(add("b", partition_values={"day": None}, stats=file_stats(20, 30)))
    table = Table.open(tmp_path)
    table.checkpoint()
    delete_commits(builder)
    columns = leaf_columns(tmp_path)
    assert ("add.stats" in columns) is (as_json == "true")
    assert ("add.stats_parsed.minValues.price" in columns) is (as_struct == "true")
    assert ("add.partitionValues_parsed.day" in columns) is (as_struct == "true")
    if "true" in (as_json, as_struct):
        assert planned(table, "id between 6 and 8") == ["a"]
        if source != "struct":  # the builder's typed statistics have no decimals
            assert planned(table, "price < 1") == []
        assert planned(table, "name = 'n25'") == ["b"]
        assert planned(table, "at = timestamp '2026-01-01 00:00:00.001'") == ["a", "b"]
        assert sum(file.num_records for file in table.scan().files()) == 10
    assert planned(table, "day is null") == ["b"]


def planned(table, where):
    with table.scan(where).file_batches() as batches:
        return sorted(path for batch in batches for path in batch.column("path").to_pylist())


def leaf_columns(tmp_path):
    log = tmp_path / "_delta_log"
    (newest,) = [*(log / "_sidecars").glob("*")] or [max(log.glob("*.checkpoint.parquet"))]
    footer = pq.read_metadata(newest)
    return {footer.schema.column(at).path for at in range(footer.num_columns)}


@pytest.mark.parametrize("configuration", LAYOUTS)
def test_column_mapping_uses_physical_names(tmp_path, configuration):
    _, builder = built(
        str(tmp_path), schema=SCHEMA, partition_by=["day"], column_mapping="name",
        configuration=configuration,
    )  # fmt: skip
    stats = {"numRecords": 1, "minValues": {"col-id": 5}, "maxValues": {"col-id": 9}}
    builder.commit(add("a", partition_values={"col-day": "2026-01-02"}, stats=stats))
    Table.open(tmp_path).checkpoint()
    delete_commits(builder)
    columns = leaf_columns(tmp_path)
    assert {"add.partitionValues_parsed.col-day", "add.stats_parsed.minValues.col-id"} <= columns
    assert planned(Table.open(tmp_path), "id = 7 and day = '2026-01-02'") == ["a"]
    assert planned(Table.open(tmp_path), "id = 10") == []


# --- sort order and zone maps


def test_adds_are_sorted_by_partition_then_by_the_first_column(monkeypatch):
    monkeypatch.setattr(tuning, "ROW_GROUP_ROWS", 4)
    store, builder = built(schema=SCHEMA, partition_by=["day"])
    files = [(day, low) for low in (30, 10, 20, 5) for day in ("2026-01-03", "2026-01-01", None)]
    builder.commit(
        *(
            add(f"{day}-{low}", partition_values={"day": day}, stats=file_stats(low, low + 1))
            for day, low in files
        ),
        "-gone",
    )
    write_checkpoint(snapshot_of(store), now_ms=NOW)
    path = "_delta_log/00000000000000000000.checkpoint.parquet"
    parquet = pq.ParquetFile(store.open_input(path))
    groups = [parquet.read_row_group(at) for at in range(parquet.num_row_groups)]
    paths = [[row["add"]["path"] for row in group.to_pylist() if row["add"]] for group in groups]
    assert paths[1:4] == [
        [f"{day}-{low}" for low in (5, 10, 20, 30)] for day in (None, "2026-01-01", "2026-01-03")
    ]
    assert [len(group) for group in groups] == [2, 4, 4, 4, 1]
    kinds = [{k for row in group.to_pylist() for k, v in row.items() if v} for group in groups]
    assert kinds == [{"protocol", "metaData"}, {"add"}, {"add"}, {"add"}, {"remove"}]
    assert parquet.metadata.row_group(1).column(0).has_column_index


def test_a_clustered_table_is_sorted_by_its_clustering_columns(monkeypatch):
    monkeypatch.setattr(tuning, "ROW_GROUP_ROWS", 2)
    store, builder = built(schema=SCHEMA)
    domain = {
        "domain": "delta.clustering",
        "configuration": '{"clusteringColumns":[["name"]]}',
        "removed": False,
    }
    files = []
    for path, low, name in (("a", 1, "z"), ("b", 2, "y"), ("c", 3, "x"), ("d", 4, "w")):
        bounds = {"id": low, "name": name}
        files.append(add(path, stats={"minValues": bounds, "maxValues": bounds, "numRecords": 1}))
    builder.commit(*files, {"domainMetadata": domain})
    write_checkpoint(snapshot_of(store))
    table = pq.read_table(store.open_input("_delta_log/00000000000000000000.checkpoint.parquet"))
    paths = [row["path"] for row in table.column("add").to_pylist() if row]
    assert paths == ["d", "c", "b", "a"]


def test_sidecars_have_zone_maps(monkeypatch):
    monkeypatch.setattr(tuning, "ROW_GROUP_ROWS", 2)
    monkeypatch.setattr(tuning, "SIDECAR_ROWS", 2)
    store, builder = built(schema=SCHEMA, partition_by=["day"], configuration=V2)
    for day in (1, 2):
        builder.commit(
            *(
                add(f"{day}-{low}", partition_values={"day": f"2026-01-0{day}"}, stats=file_stats(low, low + 9))
                for low in (10, 20)
            )
        )  # fmt: skip
    builder.commit("-1-10")
    result = write_checkpoint(snapshot_of(store), now_ms=NOW)
    manifest = [orjson.loads(line) for line in bytes(store.read(result.path)).splitlines()]
    sidecars = [action["sidecar"] for action in manifest if "sidecar" in action]
    zone_maps = [orjson.loads(s["tags"].get("lazydelta.zones", "{}")) for s in sidecars]
    day = "2026-01-0{}".format
    assert [zone.get("partitionValues") for zone in zone_maps] == [
        {"day": [day(1), day(2)]},
        {"day": [day(2), day(2)]},
        None,
    ]
    assert [zone.get("columns", {}).get("id") for zone in zone_maps] == [
        ["10", "29"],
        ["20", "29"],
        None,
    ]
    assert state_of(store) == expected_state(builder)


def test_a_table_larger_than_one_run_is_sorted(monkeypatch):
    monkeypatch.setattr(tuning, "RUN_ROWS", 7)
    monkeypatch.setattr(tuning, "POOL_ROWS", 7)
    monkeypatch.setattr(tuning, "BLOCK_ROWS", 3)
    monkeypatch.setattr(tuning, "ROW_GROUP_ROWS", 10)
    monkeypatch.setattr(tuning, "REPLAY_BATCH_ROWS", 5)
    store, builder = built(schema=SCHEMA, partition_by=["day"])
    for commit in range(6):
        builder.commit(
            *(
                add(
                    f"f{commit}-{n}",
                    partition_values={"day": f"2026-01-{(7 * n + commit) % 5 + 1:02}"},
                    stats=file_stats((31 * n + commit) % 17, 99) if n % 4 else None,
                    tags={"n": str(n)} if n % 3 == 0 else None,
                )
                for n in range(20)
            )
        )
        if commit == 3:
            builder.checkpoint(row_group_rows=11)
    write_checkpoint(snapshot_of(store), now_ms=NOW)
    delete_commits(builder)
    assert state_of(store) == expected_state(builder)
    table = pq.read_table(store.open_input("_delta_log/00000000000000000005.checkpoint.parquet"))
    rows = [row for row in table.column("add").to_pylist() if row]
    keys = [(row["partitionValues_parsed"]["day"], _min_id(row)) for row in rows]
    assert keys == sorted(keys)
    assert len(rows) == 120


def _min_id(row):
    low = ((row["stats_parsed"] or {}).get("minValues") or {}).get("id")
    return -1 if low is None else low


# --- validation


def test_an_unsupported_writer_feature_is_refused():
    protocol = {
        "minReaderVersion": 3,
        "minWriterVersion": 7,
        "readerFeatures": [],
        "writerFeatures": ["somethingNew"],
    }
    store, builder = built(protocol=protocol)
    builder.commit("+a")
    with pytest.raises(UnsupportedFeatureError, match="somethingNew"):
        write_checkpoint(snapshot_of(store))
    assert builder.names() == ["00000000000000000000.json"]


@pytest.mark.parametrize("configuration", LAYOUTS)
@pytest.mark.parametrize("wrong", [{"numFiles": 3}, {"tableSizeBytes": 1}])
def test_a_checksum_with_other_counts_is_an_error(configuration, wrong):
    store, builder = built(configuration=configuration)
    builder.commit("+a +b").crc(**wrong)
    with pytest.raises(LogCorruptError, match="no checkpoint was written"):
        write_checkpoint(snapshot_of(store))
    assert not [name for name in builder.names() if "checkpoint" in name]


@pytest.mark.parametrize("configuration", LAYOUTS)
def test_a_lost_add_is_an_error(configuration, monkeypatch):
    store, builder = built(configuration=configuration)
    builder.commit("+a +b +c")
    sort = checkpoint_actions.AddSorter.sort

    def losing_one(self, batches, rows):
        for chunk in sort(self, batches, rows):
            yield {name: column.slice(1) for name, column in chunk.items()}

    monkeypatch.setattr(checkpoint_actions.AddSorter, "sort", losing_one)
    with pytest.raises(InternalError, match="2 adds were written of 3"):
        write_checkpoint(snapshot_of(store))
    assert not [name for name in builder.names() if "checkpoint" in name]


@pytest.mark.parametrize("configuration", LAYOUTS)
def test_a_file_that_is_truncated_by_the_store_is_not_published(configuration):
    class TruncatingStore(MemoryStore):
        def write(self, path, data, *, overwrite):
            truncated = bytes(data)[:-9] if path.endswith(".parquet") else data
            super().write(path, truncated, overwrite=overwrite)

    store, builder = built(TruncatingStore(), configuration=configuration)
    builder.commit("+a +b +c")
    expected = state_of(store)
    with pytest.raises(LogCorruptError, match=r"\.parquet"):
        write_checkpoint(snapshot_of(store))
    assert read_hint(store) is None
    assert not [name for name in builder.names() if "checkpoint" in name]
    assert state_of(store) == expected


def test_a_damaged_older_checkpoint_is_skipped():
    store, builder = built()
    builder.commit("+a +b").checkpoint().commit("+c").commit("-a")
    broken = builder.read("00000000000000000000.checkpoint.parquet")
    builder.write("00000000000000000000.checkpoint.parquet", broken[:40] + bytes(60) + broken[100:])
    write_checkpoint(snapshot_of(store), now_ms=NOW)
    assert state_of(store) == expected_state(builder)
    assert snapshot_of(store).segment.base_version == 2


def test_an_existing_checkpoint_is_not_rewritten():
    store, builder = built()
    builder.commit("+a")
    first = write_checkpoint(snapshot_of(store))
    before = builder.read("00000000000000000000.checkpoint.parquet")
    builder.delete("_last_checkpoint")
    again = write_checkpoint(snapshot_of(store))
    assert (first.is_new, again.is_new, again.adds) == (True, False, 1)
    assert builder.read("00000000000000000000.checkpoint.parquet") == before
    assert read_hint(store).version == 0


def test_a_concurrent_checkpoint_with_other_counts_is_an_error():
    store, builder = built()
    builder.commit("+a +b")
    other, builder_of_other = built()
    builder_of_other.commit("+a")
    write_checkpoint(snapshot_of(other))
    snapshot = snapshot_of(store)
    name = "00000000000000000000.checkpoint.parquet"
    builder.write(name, builder_of_other.read(name))
    with pytest.raises(LogCorruptError, match="it has 1 adds, the log has 2"):
        write_checkpoint(snapshot)
    assert read_hint(store) is None


# --- _last_checkpoint


def test_the_hint_describes_the_checkpoint(tmp_path):
    _, builder = built(str(tmp_path), schema=SCHEMA)
    builder.commit("+a +b -c !txn")
    result = Table.open(tmp_path).checkpoint()
    hint = orjson.loads(builder.read("_last_checkpoint"))
    assert {name: hint[name] for name in ("version", "size", "sizeInBytes", "numOfAddFiles")} == {
        "version": 0,
        "size": 5,
        "sizeInBytes": (tmp_path / result.path).stat().st_size,
        "numOfAddFiles": 2,
    }
    fields = [field["name"] for field in hint["checkpointSchema"]["fields"]]
    assert fields == pq.read_schema(tmp_path / result.path).names
    assert read_hint(MemoryStore()) is None


def test_removes_have_neither_statistics_nor_tags(tmp_path):
    _, builder = built(str(tmp_path))
    builder.commit("+a -b")
    tombstone = pq.read_schema(tmp_path / Table.open(tmp_path).checkpoint().path).field("remove")
    assert not {"stats", "tags"} & {part.name for part in tombstone.type}


def test_the_hint_never_points_to_an_older_version():
    store, builder = built()
    builder.commit("+a").commit("+b").commit("+c")
    write_checkpoint(snapshot_of(store, 2))
    write_checkpoint(snapshot_of(store, 1))
    assert read_hint(store).version == 2
    assert builder.names().count("00000000000000000001.checkpoint.parquet") == 1


def test_a_dangling_hint_is_replaced():
    store, builder = built()
    builder.commit("+a").commit("+b")
    builder.hint(7)
    write_checkpoint(snapshot_of(store))
    assert read_hint(store).version == 1


def test_the_hint_of_a_v2_checkpoint_has_its_non_file_actions():
    store, builder = built(configuration=V2)
    builder.commit("+a !txn")
    result = write_checkpoint(snapshot_of(store))
    hint = read_hint(store)
    assert hint.v2_name == result.path.rsplit("/", 1)[-1]
    assert {"protocol", "metaData", "txn"} <= {k for a in hint.v2_actions for k in a}


def test_the_hint_of_an_existing_checkpoint():
    store, builder = built()
    builder.commit("+a +b")
    write_checkpoint(snapshot_of(store))
    before = builder.read("_last_checkpoint")
    assert not write_checkpoint(snapshot_of(store)).is_new
    assert builder.read("_last_checkpoint") == before
    builder.commit("+c").checkpoint("multipart", parts=3)
    write_checkpoint(snapshot_of(store))
    assert orjson.loads(builder.read("_last_checkpoint"))["parts"] == 3


# --- other engines


@pytest.mark.parametrize("configuration", LAYOUTS)
def test_deltalake_reads_it(tmp_path, configuration):
    _, builder = built(
        str(tmp_path), schema=SCHEMA, partition_by=["day"], configuration=configuration
    )
    commit_all_fields(builder)
    Table.open(tmp_path).checkpoint()
    delete_commits(builder)
    theirs = deltalake.DeltaTable(str(tmp_path))
    assert theirs.version() == 2
    paths = sorted(uri.removeprefix(f"{tmp_path}/") for uri in theirs.file_uris())
    assert paths == sorted(path for path, _ in builder.live())
    assert theirs.metadata().partition_columns == ["day"]
    assert theirs.transaction_version("app") == 1
    actions = theirs.get_add_actions(flatten=True)
    rows = dict(zip(actions["path"].to_pylist(), actions["num_records"].to_pylist(), strict=True))
    assert rows["day=2026-01-02/a"] == 5


def test_memory_limit_and_batch_rows_do_not_change_the_result(tmp_path):
    _, builder = built(str(tmp_path), schema=SCHEMA, partition_by=["day"])
    commit_all_fields(builder)
    table = Table.open(tmp_path, config=Config(remove_set_memory_limit=0, batch_rows=1))
    assert table.checkpoint().adds == 3


@pytest.mark.parametrize("has_json", [True, False])
def test_int96_timestamps_reach_the_next_checkpoint(has_json):
    """Arrow reads INT96 as nanoseconds, which end in the year 2262."""
    as_json = {"delta.checkpoint.writeStatsAsJson": str(has_json).lower()}
    store, builder = built(schema={"at": "timestamp"}, configuration=as_json)
    late = {"at": "9999-12-31T00:00:00.000Z"}
    builder.commit(add("late", stats={"numRecords": 1, "minValues": late, "maxValues": late}))
    first = write_checkpoint(snapshot_of(store), now_ms=NOW)
    path = f"_delta_log/{first.version:020}.checkpoint.parquet"
    rows = pq.read_table(io.BytesIO(store.read(path)))
    sink = io.BytesIO()
    pq.write_table(rows, sink, use_deprecated_int96_timestamps=True, store_schema=False)
    store.write(path, sink.getvalue(), overwrite=True)
    builder.commit(add("more"))
    second = write_checkpoint(snapshot_of(store), now_ms=NOW)
    path = f"_delta_log/{second.version:020}.checkpoint.parquet"
    adds = pq.read_table(io.BytesIO(store.read(path)))["add"].to_pylist()
    (stats,) = (row["stats_parsed"] for row in adds if row and row["path"] == "late")
    assert stats["maxValues"]["at"] == datetime(9999, 12, 31, tzinfo=UTC)
