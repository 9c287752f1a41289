"""Zone maps in the tags of sidecars: valid ones prune, invalid ones keep the sidecar."""

from __future__ import annotations

import json

import pytest

from lazydelta.expressions import as_predicate
from lazydelta.replay.skipping import Pruner, read_zone_maps
from lazydelta.schema import parse_schema


def field(name, kind, physical=None):
    metadata = {"delta.columnMapping.physicalName": physical} if physical else {}
    return {"name": name, "type": kind, "nullable": True, "metadata": metadata}


FIELDS = [
    field("id", "long"),
    field("small", "short"),
    field("s", "string"),
    field("t", "timestamp"),
    field("n", "timestamp_ntz"),
    field("d", "date"),
    field("x", "double"),
    field("m", "decimal(10,2)"),
    field("o", "boolean"),
    field("st", {"type": "struct", "fields": [field("k", "long"), field("a.b", "long")]}),
    field("st.k", "long"),
    field("p", "integer"),
    field("q", "string"),
    field("u", "timestamp"),
]
PARTITIONS = ("p", "q", "u")
INT64 = "int64"
UTC = "timestamp[us, tz=UTC]"


def pruner(where, fields=FIELDS, partitions=PARTITIONS, mode="none"):
    schema = parse_schema(json.dumps({"type": "struct", "fields": fields}), where="test")
    return Pruner.build(
        as_predicate(where), schema=schema, partition_columns=partitions, mapping_mode=mode
    )


def tag(column, kind, minimum, maximum, *, group="columns", adds=3):
    return json.dumps(
        {
            "adds": adds,
            group: {column: [minimum, maximum]},
            "types": {group: {column: kind}},
        }
    )


def partition_tag(column, kind, minimum, maximum):
    return tag(column, kind, minimum, maximum, group="partitionValues")


def is_kept(where, tag_json, **options):
    (kept,) = pruner(where, **options).keep_zone_maps([read_zone_maps(tag_json)])
    return kept


ID = tag("id", INT64, "10", "20")
SMALL = tag("small", "int16", "-5", "5")
TEXT = tag("s", "string", "bar", "foo")
DAY = tag("d", "date32[day]", "2026-01-05", "2026-02-01")
MOMENT = tag("t", UTC, "2026-01-01 00:00:00.000000Z", "2026-01-02 00:00:00.000000Z")
WALL = tag("n", "timestamp[us]", "2026-01-01 00:00:00.000000", "2026-01-02 00:00:00.000000")
NESTED = tag("st.k", INT64, "10", "20")
P = partition_tag("p", "int32", "3", "7")
Q = partition_tag("q", "string", "", "é")
U = partition_tag("u", UTC, "2026-01-01 00:00:00.000000Z", "2026-01-02 00:00:00.000000Z")


@pytest.mark.parametrize(
    ("where", "tag_json", "expected"),
    [
        ("id = 9", ID, False),
        ("id = 10", ID, True),
        ("id = 20", ID, True),
        ("id = 21", ID, False),
        ("id < 10", ID, False),
        ("id >= 20", ID, True),
        ("id IN (1, 15)", ID, True),
        ("id IN (1, 2)", ID, False),
        ("id = 9 OR id = 12", ID, True),
        ("id = 9 OR s = 'a'", ID, True),
        ("id = 9 AND s = 'a'", ID, False),
        ("id != 10", tag("id", INT64, "10", "10"), True),
        ("id IS NULL", ID, True),
        ("id + 1 = 10", ID, False),
        ("small = 6", SMALL, False),
        ("small = -5", SMALL, True),
        ("s = 'bar'", TEXT, True),
        ("s = 'baq'", TEXT, False),
        ("s LIKE 'g%'", TEXT, False),
        ("d = '2026-01-04'", DAY, False),
        ("year(d) = 2025", DAY, False),
        ("d = '2026-02-01'", DAY, True),
        ("t = TIMESTAMP '2026-01-02 00:00:00.000999Z'", MOMENT, True),
        ("t = TIMESTAMP '2026-01-02 00:00:00.001000Z'", MOMENT, False),
        ("t < TIMESTAMP '2026-01-01 00:00:00Z'", MOMENT, False),
        ("n = TIMESTAMP_NTZ '2026-01-02 00:00:00.000999'", WALL, True),
        ("n > TIMESTAMP_NTZ '2026-01-02 00:00:00.000999'", WALL, False),
        ("p = 2", P, False),
        ("p = 3", P, True),
        ("p != 5", P, True),
        ("p != 5", partition_tag("p", "int32", "5", "5"), False),
        ("p IS NULL", P, False),
        ("p IS NOT NULL", P, True),
        ("p <=> NULL", P, False),
        ("q = 'f'", Q, True),
        ("q > 'é'", Q, False),
        ("u = TIMESTAMP '2026-01-02 00:00:00.000001Z'", U, False),
        ("p = 5 AND id = 21", P, True),
    ],
)
def test_valid_zone_maps(where, tag_json, expected):
    assert is_kept(where, tag_json) is expected


@pytest.mark.parametrize(
    ("where", "tag_json"),
    [
        pytest.param("id = 99", None, id="no-tag"),
        pytest.param("id = 99", "", id="empty"),
        pytest.param("id = 99", "{", id="no-json"),
        pytest.param("id = 99", "[" * 5000, id="deep"),
        pytest.param("id = 99", "null", id="null"),
        pytest.param("s = 'x'", tag("s", "string", "a", "\ud800"), id="no-tag_json"),
        pytest.param("id = 99", "[]", id="a-list"),
        pytest.param("id = 99", "7", id="a-number"),
        pytest.param("id = 99", "{}", id="empty-object"),
        pytest.param("id = 99", ID.replace("3", "-1"), id="negative-count"),
        pytest.param("id = 99", ID.replace("3", "3.0"), id="fractional-count"),
        pytest.param("id = 99", ID.replace("3", "true"), id="boolean-count"),
        pytest.param("id = 99", ID.replace("3", '"3"'), id="count-as-tag_json"),
        pytest.param("id = 99", ID.replace("3", "9" * 30), id="huge-count"),
        pytest.param("id = 99", ID.replace("3", str(2**63)), id="count-out-of-range"),
        pytest.param("id = 99", ID.replace("3", "0"), id="a-range-of-no-adds"),
        pytest.param("id = 99", '{"adds": 3, "columns": {"id": ["1", "2"]}}', id="no-types"),
        pytest.param(
            "id = 99", '{"columns": {"id": ["1", "2"]}}', id="first-version-of-the-format"
        ),
        pytest.param("id = 99", '{"adds": 3, "columns": [], "types": 4}', id="invalid-groups"),
        pytest.param("id = 99", tag("id", INT64, 10, 20), id="numbers-not-strings"),
        pytest.param("id = 99", tag("id", INT64, None, "20"), id="null-bound"),
        pytest.param("id = 99", ID.replace(', "20"', ""), id="one-bound"),
        pytest.param("id = 99", ID.replace('"20"', '"20", "21"'), id="three-bounds"),
        pytest.param("id = 99", tag("id", INT64, "20", "10"), id="minimum-above-maximum"),
        pytest.param("id = 99", tag("id", INT64, "x", "20"), id="not-a-number"),
        pytest.param("id = 99", tag("id", INT64, "10", "+20"), id="another-tag_json-of-a-number"),
        pytest.param("id = 99", tag("id", INT64, "10", "020"), id="leading-zero"),
        pytest.param("id = 99", tag("id", INT64, "10", " 20"), id="leading-space"),
        pytest.param("id = 99", tag("id", INT64, "10", "20.0"), id="fraction"),
        pytest.param("id = 99", tag("id", INT64, "10", str(2**63)), id="beyond-the-type"),
        pytest.param("id = 99", tag("id", "int32", "10", "20"), id="narrower-type"),
        pytest.param("id = 99", tag("id", "string", "10", "20"), id="it-was-tag_json"),
        pytest.param("id = 99", tag("id", "Int64", "10", "20"), id="unknown-type"),
        pytest.param("s = '60'", tag("s", INT64, "10", "500"), id="was-a-number"),
        pytest.param("n > '2027-01-01'", tag("n", UTC, *["2026-01-01"] * 2), id="was-zoned"),
        pytest.param(
            "n > '2027-01-01'",
            tag("n", "date32[day]", "2026-01-01", "2026-01-01"),
            id="was-a-date",
        ),
        pytest.param(
            "t > '2027-01-01T00:00:00Z'",
            tag("t", UTC, *["2026-01-01 00:00:00.000000+01:00"] * 2),
            id="another-zone",
        ),
        pytest.param(
            "t > '2027-01-01T00:00:00Z'",
            tag("t", UTC, *["2026-01-01 00:00:00.000Z"] * 2),
            id="milliseconds",
        ),
        pytest.param(
            "t > '2027-01-01T00:00:00Z'",
            tag("t", "timestamp[ns, tz=UTC]", *["2026-01-01 00:00:00.000000000Z"] * 2),
            id="nanoseconds",
        ),
        pytest.param(
            "d > '2027-01-01'",
            tag("d", "date32[day]", "2026-01-01", "<value out of range: 99999999>"),
            id="date-beyond-arrows-range",
        ),
        pytest.param("x > 9", tag("x", "double", "1", "2"), id="floats"),
        pytest.param("m > 9", tag("m", "decimal128(10, 2)", "1.00", "2.00"), id="decimals"),
        pytest.param("o = true", tag("o", "bool", "false", "false"), id="booleans"),
        pytest.param("id = 99", partition_tag("id", INT64, "10", "20"), id="no-partition-column"),
        pytest.param("p = 99", tag("p", "int32", "3", "7"), id="a-partition-column"),
        pytest.param("ID = 99", tag("ID", INT64, "10", "20"), id="another-case"),
        pytest.param("`st.k` = 99", NESTED, id="a-name-with-a-dot"),
        pytest.param("st.`a.b` = 99", tag("st.a.b", INT64, "1", "2"), id="a-dot-inside"),
        pytest.param("s = 'x'", ID, id="another-column"),
        pytest.param("id IS NULL", ID, id="is-null"),
        pytest.param("p IS NULL", ID, id="partition-column-without-zone"),
        pytest.param(
            "p IS NULL", partition_tag("p", INT64, "3", "7"), id="partition-column-of-another-type"
        ),
        pytest.param("id IS NOT NULL", ID, id="is-not-null"),
    ],
)
def test_invalid_zone_maps_keep_the_sidecar(where, tag_json):
    assert is_kept(where, tag_json)


def test_an_invalid_tag_does_not_affect_the_others():
    odd = tag("id", INT64, "10", "twenty")
    zones = [
        read_zone_maps(tag_json) for tag_json in (ID, None, odd, tag("id", INT64, "90", "99"), "{")
    ]
    assert pruner("id = 15").keep_zone_maps(zones) == [True, True, True, False, True]
    assert pruner("id = 95").keep_zone_maps(zones) == [False, True, True, True, True]


def test_a_nested_column_is_found_by_its_path():
    fields = [item for item in FIELDS if item["name"] != "st.k"]
    assert not is_kept("st.k = 9", NESTED, fields=fields)
    assert is_kept("st.k = 10", NESTED, fields=fields)


def test_zone_maps_use_physical_names():
    fields = [
        field("id", "long", "c-1"),
        field("other", "long", "id"),
        field("p", "integer", "c-2"),
    ]
    options = {"fields": fields, "partitions": ("p",), "mode": "name"}
    assert is_kept("id = 99", ID, **options)
    assert not is_kept("other = 99", ID, **options)
    assert not is_kept("id = 99", tag("c-1", INT64, "10", "20"), **options)
    assert not is_kept("p = 9", partition_tag("c-2", "int32", "3", "7"), **options)
    assert is_kept("p = 9", P, **options)


def test_a_sidecar_without_adds_is_pruned_by_predicates_only():
    assert not is_kept("id = 9", '{"adds": 0}')
    assert is_kept(None, '{"adds": 0}')
    assert is_kept(None, ID)


def test_an_unsatisfiable_predicate_keeps_unknown_zone_maps():
    assert pruner("FALSE").keep_zone_maps([read_zone_maps(ID), None]) == [False, True]
