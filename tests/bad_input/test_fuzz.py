"""Fuzzing: valid JSON with malicious values, and logs with lost, truncated and swapped files.

The outcome is the right live set or a `DeltaError`: never another exception, never a wrong set.
Damage that no reader can detect (a commit replaced by another valid one) is excluded.
"""

from __future__ import annotations

import copy
import json
import logging
import random
from dataclasses import replace

import pytest

from lazydelta import Config, Table
from lazydelta.errors import DeltaError
from tests.builders import TableBuilder, add
from tests.support import READERS, listed, memory_store

QUICK = Config(retry_base_seconds=0.0001, retry_cap_seconds=0.0001)
COMMITS = ["+a +b +c", "-a +d", "+e -b +b#v1", "+f +g", "-d +a", "+h", "-h +i#v2", "+j"]
KINDS = ["classic", "multipart", "v2-json", "v2-parquet", "v2-classic"]
HOSTILE = [
    None, True, False, 0, -1, 1, 2**31, 2**63 - 1, 2**63, -(2**63) - 1, 10**30, 0.5, 1e308, "", "a",
    "\u0000", "\ud83d", "é", "%", "%zz", "%2e%2e", "..", "../../etc/passwd", "/etc/passwd",
    "file:///etc/passwd", "s3://other/x", "//host/x", "a\\b", "x" * 5000, [], {}, [None], {"": None},
    {"path": "a"}, [[[[]]]], "null", "true", "{}", "[", '{"numRecords": -1}', "2026-13-45",
]  # fmt: skip


@pytest.fixture(autouse=True)
def _quiet():
    logging.disable(logging.WARNING)
    yield
    logging.disable(logging.NOTSET)


def outcome(store, expected):
    """Return the outcome of every reader of version 7: the right files, or an error.

    The version is fixed, because a log without its latest files is a valid log of an older version.
    """
    outcomes = []
    for strategy in ("reverse", "forward"):
        for tripwire in ("protocol", "strict"):
            config = replace(QUICK, tripwire=tripwire)
            try:
                found = listed(Table(store, config).snapshot(7).scan(strategy=strategy))
            except DeltaError as error:
                assert str(error)
                outcomes.append("refused")
            else:
                assert sorted(found) == expected, (strategy, tripwire)
                outcomes.append("right")
    return outcomes


# --- valid JSON with hostile values


def mutate(rng, value):
    """Return a copy of a JSON value with one part replaced, dropped, duplicated or renamed."""
    changed = copy.deepcopy(value)
    node, path = changed, []
    while isinstance(node, dict | list) and node and (not path or rng.random() < 0.7):
        key = rng.choice(list(node)) if isinstance(node, dict) else rng.randrange(len(node))
        path.append((node, key))
        node = node[key]
    if not path:
        return rng.choice(HOSTILE)
    parent, key = path[-1]
    how = rng.randrange(4)
    if how == 0:
        del parent[key]
    elif how == 1 and isinstance(parent, dict):
        parent[rng.choice(["add", "remove", "path", "size", "x", "", str(key).upper()])] = node
    else:
        parent[key] = rng.choice(HOSTILE)
    return changed


def lines_of_a_table():
    table = TableBuilder(memory_store(), schema={"id": "long", "day": "date"}, partition_by=["day"])
    table.commit(
        add("day=2026-01-01/a", partition_values={"day": "2026-01-01"}, stats={"numRecords": 1})
    )
    table.commit("-day=2026-01-01/a +b#v1 !txn !domainMetadata")
    return [table.commits[0], table.commits[1]]


def check_hostile_values(seed, rounds):
    rng = random.Random(seed)
    good = lines_of_a_table()
    refusals = 0
    for _ in range(rounds):
        commits = copy.deepcopy(good)
        for _ in range(rng.randint(1, 2)):
            commit = rng.choice(commits)
            at = rng.randrange(len(commit))
            commit[at] = mutate(rng, commit[at])
        store = memory_store()
        table = TableBuilder(store)
        for version, actions in enumerate(commits):
            lines = "\n".join(json.dumps(action) for action in actions)
            table.write(f"{version:020d}.json", lines.encode("utf-8", "surrogatepass"))
        refusals += refused_or_consistent(store)
    return refusals


def refused_or_consistent(store):
    """Check that all readers raise, or all agree; return whether they raised."""
    results = []
    for way in ("reverse", "forward", "reference"):
        try:
            results.append(sorted(READERS[way](store, QUICK)))
        except DeltaError:
            results.append("refused")
    assert results[0] == results[1] == results[2]
    try:
        with Table(store, QUICK).scan().files() as files:
            for file in files:
                _ = (file.size, file.uri, file.stats, file.tags, file.num_records, file.raw_path)
                _ = (file.modification_time, file.base_row_id, file.clustering_provider)
                _ = file.partition_values
    except DeltaError:
        return 1
    return results[0] == "refused"


def test_malicious_values_raise_or_all_readers_agree():
    refusals = check_hostile_values(seed=1, rounds=200)
    assert 20 < refusals < 190, "the mutations test nothing"


@pytest.mark.long
@pytest.mark.parametrize("seed", range(10))
def test_many_malicious_values(seed):
    check_hostile_values(seed=100 + seed, rounds=1000)


# --- whole logs


def a_log(rng):
    """Return a table with some checkpoints, checksums, compactions and a hint."""
    store = memory_store()
    table = TableBuilder(store)
    for line in COMMITS:
        table.commit(line)
    for version in rng.sample(range(8), rng.randint(0, 2)):
        table.checkpoint(
            rng.choice(KINDS),
            version=version,
            parts=rng.randint(1, 3),
            row_group_rows=rng.choice([2, 100]),
        )
    if rng.random() < 0.5 and any(".checkpoint." in name for name in table.names()):
        table.hint()
    if rng.random() < 0.5:
        table.crc(rng.randrange(8))
    if rng.random() < 0.4:
        first = rng.randrange(7)
        table.compact(first, rng.randint(first + 1, 7))
    if rng.random() < 0.3 and any(".checkpoint." in name for name in table.names()):
        table.clean_up(table.newest_checkpoint() + 1)
    return store, table


def damage(rng, table):
    """Damage the files of a log once, in a way that a reader can detect or ignore."""
    names = [*table.names(), *table.sidecars()]
    name = rng.choice(names)
    data = table.read(name)
    how = rng.choice(
        ["delete", "truncate", "empty", "garbage", "append", "stray", "flip-byte", "swap"]
    )
    if how == "delete":
        table.delete(name)
    elif how == "truncate" and len(data) > 2:
        # A commit truncated at the end of a line is a valid shorter commit.
        cut = rng.randrange(1, len(data) - 1)
        if data[cut - 1 : cut] != b"\n" and data[cut : cut + 1] != b"\n":
            table.write(name, data[:cut])
    elif how == "empty":
        table.write(name, b"")
    elif how == "garbage":
        table.write(name, bytes(rng.randrange(256) for _ in range(rng.randrange(1, 200))))
    elif how == "append":
        table.write(name, data + b"\x00garbage")
    elif how == "stray":
        table.write(rng.choice(["x.json", "9.json", f"{9:020d}.json.tmp", "_commits.json"]), data)
    elif how == "flip-byte" and name.endswith(".json") and data:
        at = data.find(b'"', rng.randrange(len(data)))
        if at >= 0:
            table.write(name, data[:at] + b"\x01" + data[at + 1 :])
    elif how == "swap" and name.endswith(".parquet"):
        table.write(name, b"PAR1" + data[4:-8] + b"\xff\xff\xff\x7fPAR1")


def check_damaged_logs(seed, rounds):
    rng = random.Random(seed)
    counts = {"right": 0, "refused": 0}
    for _ in range(rounds):
        store, table = a_log(rng)
        expected = ["a", "b#v1", "c", "e", "f", "g", "i#v2", "j"]
        for _ in range(rng.randint(1, 2)):
            damage(rng, table)
        for found in outcome(store, expected):
            counts[found] += 1
    return counts


def test_damaged_logs_are_read_correctly_or_refused():
    counts = check_damaged_logs(seed=1, rounds=100)
    assert min(counts.values()) > 50, "the damage tests nothing"


@pytest.mark.long
@pytest.mark.parametrize("seed", range(10))
def test_many_damaged_logs(seed):
    check_damaged_logs(seed=200 + seed, rounds=1000)
