"""MERGE against plain rows: random tables, sources, conditions and clauses."""

from __future__ import annotations

import math
import shutil

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import lazydelta as ld
from lazydelta.errors import MultipleMatchesError

VECTORS = {"delta.enableDeletionVectors": "true"}
FEED = {"delta.enableChangeDataFeed": "true"}
TABLES = {
    "rewritten": {},
    "vectors": VECTORS,
    "vectors-feed": {**VECTORS, **FEED},
    "rewritten-feed": FEED,
    "mapped": {**VECTORS, "delta.columnMapping.mode": "name"},
}
SCHEMA = pa.schema([("id", pa.int64()), ("p", pa.string()), ("v", pa.float64())])


def is_nan(value):
    return isinstance(value, float) and math.isnan(value)


def equal(a, b):
    """SQL's `=`: false if a side is NULL, NaN equals NaN."""
    return a is not None and b is not None and (a == b or (is_nan(a) and is_nan(b)))


def greater(a, b):
    """SQL's `>`: NaN is greater than all other numbers."""
    if a is None or b is None or equal(a, b):
        return False
    return is_nan(a) or (not is_nan(b) and a > b)


CONDITIONS = {
    "t.id = s.id": lambda t, s: equal(t["id"], s["id"]),
    "t.id <=> s.id": lambda t, s: t["id"] == s["id"],
    "s.v = t.v": lambda t, s: equal(t["v"], s["v"]),
    "t.id = s.id AND t.p <=> s.p": lambda t, s: equal(t["id"], s["id"]) and t["p"] == s["p"],
    "t.id = s.id AND t.p = 'a'": lambda t, s: equal(t["id"], s["id"]) and t["p"] == "a",
    "t.id = s.id AND s.p = 'a'": lambda t, s: equal(t["id"], s["id"]) and s["p"] == "a",
    "t.id = s.id AND t.v > s.v": lambda t, s: equal(t["id"], s["id"]) and greater(t["v"], s["v"]),
    "t.id + 1 = s.id": lambda t, s: equal(None if t["id"] is None else t["id"] + 1, s["id"]),
    "t.id > s.id AND t.p = s.p": lambda t, s: greater(t["id"], s["id"]) and equal(t["p"], s["p"]),
    "t.id > s.id": lambda t, s: greater(t["id"], s["id"]),
    "false": lambda *_: False,
}
WHERES = {
    None: lambda *_: True,
    "s.p = 'a'": lambda _, s: s["p"] == "a",
    "t.v > 1 AND s.id < 5": lambda t, s: greater(t["v"], 1) and greater(5, s["id"]),
}
TARGET_WHERES = {
    None: lambda _: True,
    "t.id > 4": lambda t: greater(t["id"], 4),
    "p = 'b'": lambda t: t["p"] == "b",
}
SOURCE_WHERES = {
    None: lambda _: True,
    "s.id > 4": lambda s: greater(s["id"], 4),
    "p IS NULL": lambda s: s["p"] is None,
}
SETS = {
    "v": ({"v": "s.v"}, lambda t, s: {**t, "v": s["v"]}),
    "move": (
        {"p": "coalesce(s.p, 'c')", "v": "0.5"},
        lambda t, s: {**t, "p": "c" if s["p"] is None else s["p"], "v": 0.5},
    ),
    "star": ("*", lambda _, s: dict(s)),
}
INSERTS = {
    "star": ("*", dict),
    "some": ({"id": "s.id", "v": "1.5"}, lambda s: {"id": s["id"], "p": None, "v": 1.5}),
}
BY_SOURCE_SETS = {"p": ({"p": "'x'"}, lambda t: {**t, "p": "x"})}

rows = st.fixed_dictionaries({
    "id": st.one_of(st.none(), st.integers(0, 9)),
    "p": st.sampled_from(["a", "b", None]),
    "v": st.one_of(st.none(), st.sampled_from([-0.0, 0.0, 1.0, 2.5, float("nan")])),
})  # fmt: skip
clauses = st.lists(
    st.one_of(
        st.tuples(st.just("update"), st.sampled_from(list(WHERES)), st.sampled_from(list(SETS))),
        st.tuples(st.just("delete"), st.sampled_from(list(WHERES)), st.none()),
        st.tuples(
            st.just("insert"), st.sampled_from(list(SOURCE_WHERES)), st.sampled_from(list(INSERTS))
        ),
        st.tuples(
            st.just("by_source_update"),
            st.sampled_from(list(TARGET_WHERES)),
            st.sampled_from(list(BY_SOURCE_SETS)),
        ),
        st.tuples(st.just("by_source_delete"), st.sampled_from(list(TARGET_WHERES)), st.none()),
    ),
    min_size=1,
    max_size=5,
)


def merged(target, source, condition, given_clauses):
    """Return the rows after the MERGE, and how many were updated, deleted and inserted."""
    on = CONDITIONS[condition]
    matched = [c for c in given_clauses if c[0] in ("update", "delete")]
    by_source = [c for c in given_clauses if c[0].startswith("by_source")]
    inserts = [c for c in given_clauses if c[0] == "insert"]
    only_delete = [c[:2] for c in matched] == [("delete", None)]
    result, counts = [], {"updated": 0, "deleted": 0, "inserted": 0}
    for t in target:
        pairs = [s for s in source if on(t, s)]
        found = [(c, s) for s in pairs if (c := first(matched, WHERES, t, s))]
        if len(found) > 1 and not only_delete:
            raise MultipleMatchesError("", condition, "")
        if not pairs:
            clause, s = first(by_source, TARGET_WHERES, t), None
        else:
            clause, s = found[0] if found else (None, None)
        if clause is None:
            result.append(t)
        elif clause[0].endswith("delete"):
            counts["deleted"] += 1
        else:
            counts["updated"] += 1
            made = SETS[clause[2]][1](t, s) if s else BY_SOURCE_SETS[clause[2]][1](t)
            result.append(made)
    for s in source:
        clause = first(inserts, SOURCE_WHERES, s)
        if clause and not any(on(t, s) for t in target):
            counts["inserted"] += 1
            result.append(INSERTS[clause[2]][1](s))
    return result, counts


def first(candidates, wheres, *rows_of_both):
    """Return the first clause whose condition holds."""
    return next((clause for clause in candidates if wheres[clause[1]](*rows_of_both)), None)


def run(table, source, condition, given_clauses, **options):
    builder = table.merge(pa.Table.from_pylist(source, SCHEMA), condition, **options)
    for action, where, what in given_clauses:
        match action:
            case "update":
                builder = builder.when_matched_update(SETS[what][0], where)
            case "delete":
                builder = builder.when_matched_delete(where)
            case "insert":
                builder = builder.when_not_matched_insert(INSERTS[what][0], where)
            case "by_source_update":
                builder = builder.when_not_matched_by_source_update(BY_SOURCE_SETS[what][0], where)
            case _:
                builder = builder.when_not_matched_by_source_delete(where)
    return builder.execute()


def plain(given_rows):
    """Rows that compare equal if their values do: NaN equals NaN, -0.0 is not 0.0."""
    return sorted(repr([row[name] for name in SCHEMA.names]) for row in given_rows)


def replayed(table, version, before):
    """Apply the change feed of one version to rows."""
    result = plain(before)
    feed = table.changes(starting_version=version, ending_version=version).to_arrow().to_pylist()
    kinds = {"delete": result.remove, "update_preimage": result.remove}
    for change in sorted(feed, key=lambda c: c["_change_type"] not in kinds):
        (row,) = plain([change])
        kinds.get(change["_change_type"], result.append)(row)
    return sorted(result)


def make(directory, target, properties, partitioned):
    shutil.rmtree(directory, ignore_errors=True)
    half = max(1, len(target) // 2)
    for start in range(0, max(1, len(target)), half):
        part = pa.Table.from_pylist(target[start : start + half], SCHEMA)
        first_write = {"properties": properties, "partition_by": ["p"] if partitioned else []}
        ld.write(directory, part, **({} if start else first_write))
    return ld.Table.open(directory)


@pytest.mark.sample(2)
@pytest.mark.parametrize("kind", TABLES)
@settings(max_examples=25, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    target=st.lists(rows, max_size=16),
    source=st.lists(rows, max_size=8),
    condition=st.sampled_from(list(CONDITIONS)),
    given_clauses=clauses,
    partitioned=st.booleans(),
    memory=st.sampled_from([1024, 1 << 29]),
)
def test_rows_and_change_feed_are_those_of_plain_rows(
    tmp_path, kind, target, source, condition, given_clauses, partitioned, memory
):
    table = make(tmp_path / "t", target, TABLES[kind], partitioned)
    version = table.version
    config = ld.Config(operation_memory=memory)
    try:
        expected, counts = merged(target, source, condition, given_clauses)
    except MultipleMatchesError:
        with pytest.raises(MultipleMatchesError):
            run(table, source, condition, given_clauses, config=config)
        assert table.version == version
        assert plain(table.to_arrow().to_pylist()) == plain(target)
        return
    planned = run(table, source, condition, given_clauses, config=config, dry_run=True)
    result = run(table, source, condition, given_clauses, config=config)
    assert plain(table.to_arrow().to_pylist()) == plain(expected)
    assert table.count() == len(expected)
    for name, count in counts.items():
        metric = f"numTargetRows{name.capitalize()}"
        assert result.metrics[metric] == planned.metrics[metric] == count
    changes = any(counts.values())
    assert result.version == version + changes
    assert table.check().checksum.status == "matches"
    if changes and "feed" in kind:
        assert replayed(table, result.version, target) == plain(expected)
