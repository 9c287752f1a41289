"""Bundles from elsewhere."""

from __future__ import annotations

import json

import pytest

from lazydelta import Table
from lazydelta.errors import ConfigError
from tests.builders import TableBuilder


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


def test_a_pinned_snapshot_opens(bundle):
    assert Table.open_bundle(json.dumps(bundle)).version == 0
