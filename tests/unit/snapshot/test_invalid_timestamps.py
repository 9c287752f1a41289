"""Timestamps out of range, from callers or from the log."""

from __future__ import annotations

from datetime import date, datetime, timedelta, timezone

import pytest

from lazydelta import Table
from lazydelta.errors import ConfigError, TimestampNotFoundError
from tests.builders import TableBuilder

WEST, EAST = timezone(timedelta(hours=-12)), timezone(timedelta(hours=12))


@pytest.fixture
def table(tmp_path):
    TableBuilder(tmp_path).commit("+a")
    return Table.open(tmp_path)


@pytest.mark.parametrize(
    "when",
    [
        datetime.max.replace(tzinfo=WEST),
        datetime.min.replace(tzinfo=EAST),
        "9999-12-31T23:59:59-12:00",
        "0001-01-01T00:00:00+12:00",
        date(2026, 1, 1),
        1_767_225_600,
    ],
)
def test_an_invalid_timestamp_is_refused(table, when):
    with pytest.raises(ConfigError, match=r"timestamp: cannot be .*: give a"):
        table.snapshot(timestamp=when)


@pytest.mark.parametrize("key", ["starting_timestamp", "ending_timestamp"])
def test_an_invalid_timestamp_of_changes_is_refused(tmp_path, key):
    TableBuilder(tmp_path, configuration={"delta.enableChangeDataFeed": "true"}).commit("+a")
    with pytest.raises(ConfigError, match="timestamp: cannot be"):
        Table.open(tmp_path).changes(**{key: date(2026, 1, 1)})


@pytest.mark.parametrize("version", ["0", 0.5, True])
@pytest.mark.parametrize("key", ["starting_version", "ending_version"])
def test_versions_of_changes_are_integers(table, key, version):
    with pytest.raises(ConfigError, match=f"{key}: must be an integer"):
        table.changes(**{key: version})


def test_commit_times_out_of_range(tmp_path):
    """Such in-commit timestamps are valid, and can be formatted."""
    built = TableBuilder(tmp_path, in_commit_timestamps=True)
    for number in range(2):
        built.commit(f"+f{number}", at_ms=10**17 + number)
    with pytest.raises(TimestampNotFoundError, match=r"Readable timestamps: \+3170843-\d\d-\d\dT"):
        Table.open(tmp_path).snapshot(timestamp="2026-01-01")
