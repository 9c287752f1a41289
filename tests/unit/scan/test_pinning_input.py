"""Bundles that somebody else wrote, and tables with times that cannot be."""

from __future__ import annotations

import json

import pytest

from lazydelta import Table
from lazydelta.errors import ConfigError
from lazydelta.testing import TableBuilder, add


@pytest.fixture
def bundle(tmp_path):
    TableBuilder(tmp_path / "t").commit("+a")
    return json.loads(Table.open(tmp_path / "t").snapshot().pin().to_json())


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("resolved_version", "0"),
        ("resolved_version", True),
        ("table_uri", 5),
        ("snapshot_hash", None),
        ("reader_features", "deletionVectors"),
        ("selector", []),
    ],
)
def test_a_field_of_another_type_is_named(bundle, field, value):
    with pytest.raises(ConfigError, match=f"bundle: its {field} cannot be"):
        Table.open_bundle(json.dumps(bundle | {field: value}))


def test_what_was_pinned_opens(bundle):
    assert Table.open_bundle(json.dumps(bundle)).version == 0


def test_a_file_with_a_time_in_no_calendar_is_pinned_like_others(tmp_path):
    found = {}
    for time in (2**62, 2**62 + 1, -(2**62), 0):
        path = tmp_path / str(time)
        TableBuilder(path).commit(add("a", modificationTime=time))
        pinned = Table.open(path).snapshot().pin()
        assert Table.open_bundle(pinned).version == 0
        found[time] = pinned.snapshot_hash
    assert len(set(found.values())) == len(found)
