"""Skipping sidecars by zone map tags: the same files are returned, and all are counted."""

from __future__ import annotations

import json
import os
from functools import lru_cache
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lazydelta import Config, Table
from lazydelta.schema import schema_to_json
from lazydelta.store import MemoryStore
from tests.builders import TableBuilder, add
from tests.property.skip_cases import (
    PARTITION_COLUMNS,
    PREDICATES,
    SCHEMA,
    VALUES,
    make_files,
    matches,
    partition_text,
    stats_text,
)
from tests.support import listed
from tests.zone_tables import V2, retag, without_tags, write_sidecars

EXAMPLES = int(os.environ.get("LAZYDELTA_TEST_EXAMPLES", "60"))
FILES = 12
LEADING = [["b"], ["l"], ["d"], ["t"], ["n"], ["s"], ["m"], ["x"], ["st", "k"], ["i"], ["w"], ["o"]]
TABLES = len(LEADING)


def _files(chance, seed):
    """Make files; in half of the tables no partition value is missing."""
    files = make_files(seed, FILES)
    if chance.random() < 0.5:
        for file in files:
            for name in ("p", "q", "u"):
                file.partition[name] = file.partition[name] or chance.choice(VALUES[name][1:])
    return files


@lru_cache(maxsize=TABLES)
def tables(seed):
    """Return the files of a table, and three tables: with tags, without tags, only commits."""
    chance = Random(seed)
    files = _files(chance, seed)
    stores = [MemoryStore() for _ in range(3)]
    for store in stores:
        builder = TableBuilder(
            store,
            partition_by=PARTITION_COLUMNS,
            configuration=V2,
        )
        builder.metadata["schemaString"] = schema_to_json(SCHEMA)
        actions = [
            add(
                f"file-{at}",
                partition_values={n: partition_text(v) for n, v in file.partition.items()},
                stats=stats_text(file.stats),
            )
            for at, file in enumerate(files)
        ]
        domain = {
            "domain": "delta.clustering",
            "configuration": json.dumps({"clusteringColumns": [LEADING[seed]]}),
            "removed": False,
        }
        builder.commit(*actions, {"domainMetadata": domain})
    in_a_sidecar = chance.randint(2, 4)
    for store in stores[:2]:
        write_sidecars(store, in_a_sidecar)
    retag(stores[1], without_tags)
    return files, *(Table(store, Config()) for store in stores)


def planned(table, predicate):
    scan = table.scan(where=predicate)
    return set(listed(scan)), scan.explain()


@settings(max_examples=EXAMPLES, deadline=None)
@given(st.integers(0, TABLES - 1), PREDICATES)
def test_zone_maps_do_not_change_the_plan(seed, predicate):
    files, tagged, untagged, _ = tables(seed)
    found, explained = planned(tagged, predicate)
    assert found == planned(untagged, predicate)[0]
    assert found >= {
        f"file-{at}" for at, is_wanted in enumerate(matches(predicate, files)) if is_wanted
    }
    if explained["files"]["pruned"] is not None:
        assert explained["files"]["pruned"] + len(found) == FILES


@pytest.mark.parametrize("seed", range(0, TABLES, 4))
def test_every_value_is_found(seed):
    files, tagged, untagged, commits = tables(seed)
    skipped = 0
    for name in ("p", "q", "u", ".".join(LEADING[seed])):
        for value in VALUES[name]:
            where = f"st.k = {value}" if name == "st.k" else {name: value}
            found, explained = planned(tagged, where)
            assert found == planned(untagged, where)[0]
            if name in PARTITION_COLUMNS:
                assert found == planned(commits, where)[0]
            assert explained["files"]["pruned"] + len(found) == FILES
            skipped += explained["checkpoint"]["sidecars_skipped"]
    partitions_are_whole = all(file.partition["p"] is not None for file in files)
    assert skipped > 0 or not partitions_are_whole
