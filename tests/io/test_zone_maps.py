"""Sidecars pruned by zone maps are not read; the plan is otherwise unchanged."""

from __future__ import annotations

import json
import pickle

import pytest

from lazydelta import Config, Table
from lazydelta.errors import LogCorruptError
from lazydelta.expressions import as_predicate
from lazydelta.replay.skipping import Pruner
from lazydelta.scan.plan import split_checkpoint
from lazydelta.store.layers.metered_store import MeteredStore
from tests.builders import TableBuilder, add
from tests.support import listed, memory_store
from tests.zone_tables import TAG, V2, manifest_of, retag, without_tags, write_sidecars, zones_of

DAYS = [f"2026-01-0{day}" for day in range(1, 6)]
OF_A_DAY = 4


def an_add(day, number, column="day", measure="id"):
    least = 100 * DAYS.index(day) + 10 * number
    bounds = {"minValues": {measure: least}, "maxValues": {measure: least + 9}}
    stats = {"numRecords": 10, **bounds, "nullCount": {measure: 0}}
    return add(f"{day}-{number}", partition_values={column: day}, stats=stats)


def built(*, local=True, partitioned=True, checkpoint=True, **options):
    """Return a store with a table of one date per sidecar, and its builder."""
    store = memory_store(local=local)
    partition_by = ["day"] if partitioned else []
    schema = {"id": "long", "day": "date"}
    builder = TableBuilder(
        store, schema=schema, partition_by=partition_by, configuration=V2, **options
    )
    names = {"column": "col-day", "measure": "col-id"} if "column_mapping" in options else {}
    builder.commit(*(an_add(day, n, **names) for n in range(OF_A_DAY) for day in DAYS))
    if checkpoint:
        write_sidecars(store, OF_A_DAY)
    return store, builder


def plan(store, where, **options):
    """Return the files of a plan, its explanation, and the sidecars that it read."""
    metered = MeteredStore(store)
    scan = Table(metered, Config(**options)).snapshot().scan(where=where)
    found = sorted(listed(scan))
    read = {call.path for call in metered.calls if "_sidecars/" in call.path}
    return found, scan.explain(), read


def sidecar_paths(store):
    actions = manifest_of(store)[1]
    return [f"_delta_log/_sidecars/{a['sidecar']['path']}" for a in actions if "sidecar" in a]


def of_days(*numbers):
    return [f"{DAYS[at]}-{n}" for at in numbers for n in range(OF_A_DAY)]


@pytest.mark.parametrize("local", [True, False])
@pytest.mark.parametrize(
    ("where", "days", "files"),
    [
        pytest.param("day = '2026-01-03'", [2], of_days(2), id="a-partition"),
        pytest.param("day > '2026-01-03'", [3, 4], of_days(3, 4), id="some-partitions"),
        pytest.param("id = 215", [2], ["2026-01-03-1"], id="a-data-column"),
        pytest.param("id < 5 OR day = '2026-01-05'", [0, 4], ["2026-01-01-0", *of_days(4)], id="both"),
        pytest.param("day = '2027-01-01'", [], [], id="none"),
        pytest.param("day IS NULL", [], [], id="nulls"),
        pytest.param("id IS NOT NULL", [0, 1, 2, 3, 4], of_days(0, 1, 2, 3, 4), id="all"),
        pytest.param(None, [0, 1, 2, 3, 4], of_days(0, 1, 2, 3, 4), id="no-predicate"),
    ],
)  # fmt: skip
def test_only_sidecars_that_may_match_are_read(local, where, days, files):
    store, _ = built(local=local)
    found, explained, read = plan(store, where)
    assert found == files
    assert read == {sidecar_paths(store)[at] for at in days}
    assert explained["checkpoint"]["leaves_opened"] == len(days)
    assert explained["checkpoint"]["sidecars_skipped"] == len(DAYS) - len(days)
    assert explained["files"]["pruned"] + len(files) == len(DAYS) * OF_A_DAY
    assert explained["files"]["in_snapshot"] == len(DAYS) * OF_A_DAY


def test_tags_have_the_number_of_adds_and_the_types():
    store, builder = built(checkpoint=False)
    builder.commit("-2026-01-01-0")
    write_sidecars(store, OF_A_DAY)
    *adds, removes = zones_of(store)
    assert [zone["adds"] for zone in adds] == [4, 4, 4, 4, 3]
    assert adds[0]["types"] == {
        "partitionValues": {"day": "date32[day]"},
        "columns": {"id": "int64"},
    }
    assert removes == {"adds": 0}


@pytest.mark.parametrize("mode", ["name", "id"])
def test_column_mapping(mode):
    store, builder = built(column_mapping=mode, checkpoint=False)
    write_sidecars(store, OF_A_DAY)
    assert list(zones_of(store)[0]["partitionValues"]) == ["col-day"]
    for where, files in (("day = '2026-01-02'", of_days(1)), ("id = 105", ["2026-01-02-0"])):
        found, explained, read = plan(store, where)
        assert found == files
        assert len(read) == 1
        assert explained["files"]["pruned"] == 20 - len(files)
    schema = json.loads(builder.metadata["schemaString"])
    schema["fields"][0]["name"] = "renamed"
    builder.metadata["schemaString"] = json.dumps(schema)
    builder.commit({"metaData": builder.metadata})
    found, _, read = plan(store, "renamed = 105")
    assert (found, len(read)) == (["2026-01-02-0"], 1)


def test_the_tail_overrides_the_checkpoint():
    store, builder = built()
    newer = an_add(DAYS[1], 1)["add"] | {"path": "newer"}
    builder.commit("-2026-01-02-0 -2026-01-04-0", {"add": newer})
    found, explained, read = plan(store, "day = '2026-01-02'")
    assert found == [*of_days(1)[1:], "newer"]
    assert len(read) == 1
    assert explained["checkpoint"]["sidecars_skipped"] == 4
    assert explained["files"]["superseded"] == 1


def test_sidecars_of_tombstones_are_not_read():
    store, builder = built(checkpoint=False)
    builder.commit("-2026-01-02-0")
    write_sidecars(store, OF_A_DAY)
    found, explained, read = plan(store, "day = '2026-01-02'")
    assert found == of_days(1)[1:]
    assert sidecar_paths(store)[-1] not in read
    assert explained["files"]["pruned"] == 16
    everything, _, read = plan(store, None)
    assert len(everything) == 19
    assert read == set(sidecar_paths(store))
    builder.commit("+later")
    write_sidecars(store, OF_A_DAY)  # from a full replay, which reads all actions
    assert zones_of(store)[-1] == {"adds": 0}


@pytest.mark.parametrize(
    "change",
    [
        pytest.param(without_tags, id="none"),
        pytest.param(lambda _: None, id="null"),
        pytest.param(lambda _: "odd", id="string"),
        pytest.param(lambda _: ["odd"], id="list"),
        pytest.param(lambda zones: {TAG: zones}, id="object-instead-of-json"),
        pytest.param(lambda _: {TAG: None}, id="null-in-it"),
        pytest.param(lambda zones: {"delta.zones": json.dumps(zones)}, id="another-tag"),
        pytest.param(lambda zones: {TAG: json.dumps(zones)[:-1]}, id="truncated"),
        pytest.param(lambda zones: {TAG: json.dumps(zones | {"adds": None})}, id="no-count"),
        pytest.param(lambda zones: {TAG: json.dumps(zones | {"types": {}})}, id="no-types"),
    ],
)
def test_invalid_tags_cost_footer_reads_but_no_files(change):
    store, _ = built()
    retag(store, change)
    found, explained, read = plan(store, "day = '2026-01-03'")
    assert found == of_days(2)
    assert read == set(sidecar_paths(store))
    assert explained["checkpoint"]["sidecars_skipped"] == 0
    assert explained["files"]["pruned"] == 16


def test_a_column_with_a_changed_type_is_read_from_the_sidecars():
    store, builder = built(partitioned=False)
    _, _, read = plan(store, "id = 105")
    assert len(read) == 1
    schema = json.loads(builder.metadata["schemaString"])
    schema["fields"][0]["type"] = "string"
    builder.metadata["schemaString"] = json.dumps(schema)
    builder.commit({"metaData": builder.metadata})
    assert zones_of(store)[1]["columns"]["id"] == ["100", "139"]
    _, _, read = plan(store, "id = '12'")
    assert read == set(sidecar_paths(store))


def test_a_file_without_valid_statistics_is_never_skipped():
    store, builder = built(partitioned=False, checkpoint=False)
    upside_down = {"numRecords": 1, "minValues": {"id": 9}, "maxValues": {"id": 1}}
    builder.commit(add("bare"), add("odd", stats=upside_down))
    write_sidecars(store, 30)
    (zones,) = zones_of(store)
    assert zones == {"adds": 22}
    assert "bare" in plan(store, "id = 5000")[0]


def test_a_bound_too_long_for_a_tag_is_omitted():
    store = memory_store()
    builder = TableBuilder(
        store, schema={"id": "long", "q": "string"}, partition_by=["q"], configuration=V2
    )
    builder.commit(add("a", partition_values={"q": "x" * 257}))
    write_sidecars(store, 2)
    assert zones_of(store) == [{"adds": 1}]
    assert plan(store, {"q": "x" * 257})[0] == ["a"]


def test_one_zone_map_of_several_batches_of_timestamps():
    store = memory_store()
    builder = TableBuilder(
        store, schema={"id": "long", "u": "timestamp"}, partition_by=["u"], configuration=V2
    )
    moments = [f"2026-01-0{day} 00:00:00" for day in (3, 1, 2, 4)]
    builder.commit(*(add(f"f{n}", partition_values={"u": m}) for n, m in enumerate(moments)))
    write_sidecars(store, 4, in_a_row_group=2)
    (zones,) = zones_of(store)
    bounds = [f"2026-01-0{day} 00:00:00.000000Z" for day in (1, 4)]
    assert zones["partitionValues"] == {"u": bounds}


@pytest.mark.parametrize("names", [("a.b", "a"), ("a", "a.b")])
def test_a_name_with_a_dot_differs_from_a_nested_column(names):
    inner = {"name": "b", "type": "long", "nullable": True, "metadata": {}}
    types = {"a.b": "long", "a": {"type": "struct", "fields": [inner]}}
    store = memory_store()
    builder = TableBuilder(store, schema={n: types[n] for n in names}, configuration=V2)
    values, nulls = {"a.b": 1, "a": {"b": 100}}, {"a.b": 0, "a": {"b": 0}}
    bounds = {"minValues": values, "maxValues": values, "nullCount": nulls}
    builder.commit(add("f", stats={"numRecords": 1, **bounds}))
    write_sidecars(store, 1)
    predicates = ["`a.b` = 1", "a.b = 100", "`a.b` = 100", "a.b = 1"]
    assert [plan(store, where)[0] for where in predicates] == [["f"], ["f"], [], []]


def test_a_missing_sidecar_fails_only_scans_that_read_it():
    store, _ = built()
    store.delete([sidecar_paths(store)[0], "_delta_log/00000000000000000000.json"])
    assert plan(store, "day = '2026-01-03'")[0] == of_days(2)
    with pytest.raises(LogCorruptError, match="it is missing"):
        plan(store, "day = '2026-01-01'")


def test_splits_have_only_sidecars_that_may_match():
    store, _ = built()
    snapshot = Table(store, Config()).snapshot()
    checkpoint = snapshot.open_checkpoint(snapshot.segment.checkpoint)

    def leaves(where):
        pruner = Pruner.build(
            as_predicate(where),
            schema=snapshot.schema,
            partition_columns=snapshot.partition_columns,
            mapping_mode="none",
        )
        work = pickle.loads(pickle.dumps(split_checkpoint(checkpoint, 3, pruner)))
        return [part.leaf.path for parts in work for part in parts if part.leaf is not None]

    assert leaves(None) == sidecar_paths(store)
    assert leaves("day = '2026-01-04'") == [sidecar_paths(store)[3]]
    assert leaves("day = '2027-01-01'") == []
