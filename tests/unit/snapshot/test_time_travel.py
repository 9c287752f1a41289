from __future__ import annotations

import os
from datetime import UTC, datetime, timedelta, timezone

import pytest

from lazydelta import Table
from lazydelta.errors import (
    ConfigError,
    LogCorruptError,
    TimestampNotFoundError,
    UnsupportedFeatureError,
)
from lazydelta.snapshot import file_times
from tests.builders import TableBuilder

START = datetime(2026, 1, 1, tzinfo=UTC)


def ms(moment):
    return int(moment.timestamp() * 1000)


def built(where, hours, **options):
    table = TableBuilder(where, **options)
    for number, hour in enumerate(hours):
        table.commit(f"+f{number}", at_ms=ms(START + timedelta(hours=hour)))
    return table, Table.open(where)


def version_at(opened, hours):
    return opened.snapshot(timestamp=START + timedelta(hours=hours)).version


@pytest.mark.parametrize("in_commit", [False, True])
def test_the_newest_version_at_or_before_a_timestamp(tmp_path, in_commit):
    _, opened = built(tmp_path, [0, 1, 5, 6], in_commit_timestamps=in_commit)
    found = [version_at(opened, hours) for hours in (0, 0.5, 1, 4.9, 5, 6, 100)]
    assert found == [0, 0, 1, 1, 2, 3, 3]


def test_in_commit_timestamps_override_file_times(tmp_path):
    table, opened = built(tmp_path, [0, 1, 2], in_commit_timestamps=True)
    for number in range(3):
        table.set_time(f"{number:020d}.json", ms(START - timedelta(days=number)))
    assert version_at(opened, 1) == 1


def test_history_has_the_times_that_time_travel_uses(tmp_path):
    _, opened = built(tmp_path, [0], in_commit_timestamps=True)
    commit = tmp_path / "_delta_log" / f"{0:020d}.json"
    stated = str(ms(START))
    body = commit.read_text()
    assert f'"timestamp":{stated}' in body
    commit.write_text(body.replace(f'"timestamp":{stated}', f'"timestamp":{stated[:-1]}9'))
    assert [entry.timestamp for entry in opened.history()] == [START]


@pytest.mark.parametrize("in_commit", [False, True])
@pytest.mark.parametrize(
    "hours", [[0, 1, 2], [0, 0, 0, 0], [0, 5, 3, 4, 6], [0, 1 / 3_600_000, 1.5 / 3_600_000]]
)
def test_every_time_of_the_history_gives_its_version(tmp_path, hours, in_commit):
    if in_commit:  # the protocol has them strictly increasing
        hours = range(len(hours))
    table, opened = built(tmp_path, hours, in_commit_timestamps=in_commit)
    for number, hour in enumerate(hours):
        commit = tmp_path / "_delta_log" / f"{number:020d}.json"
        stated = f'"timestamp":{ms(START + timedelta(hours=hour))}'
        body = commit.read_text()
        assert stated in body
        commit.write_text(body.replace(stated, f'"timestamp":{ms(START) - 7 * number}'))
        moved = int(START.timestamp() * 10**9) + int(hour * 3_600_000) * 10**6 + 999_999
        os.utime(commit, ns=(moved, moved))  # below a millisecond, which time travel ignores
    history = opened.history()
    assert len(history) == len(hours)
    for entry in history:
        assert entry.timestamp.tzinfo is UTC
        assert opened.snapshot(timestamp=entry.timestamp).version == entry.version
        assert opened.snapshot(timestamp=entry.timestamp.isoformat()).version == entry.version
        assert entry.raw["timestamp"] == ms(START) - 7 * entry.version
    table.checkpoint(version=1).clean_up(1)
    for entry in opened.history():
        assert opened.snapshot(timestamp=entry.timestamp).version == entry.version


def test_a_commit_time_ahead_of_the_clock_gives_the_newest_version(tmp_path):
    _, opened = built(tmp_path, [0])
    ahead = datetime.now(UTC) + timedelta(days=1)
    os.utime(tmp_path / "_delta_log" / f"{0:020d}.json", (ahead.timestamp(),) * 2)
    [entry] = opened.history()
    assert opened.snapshot(timestamp=entry.timestamp).version == 0
    with pytest.raises(TimestampNotFoundError):
        opened.snapshot(timestamp=entry.timestamp + timedelta(seconds=1))


def test_a_table_that_cannot_be_read_has_a_history(tmp_path):
    table, opened = built(tmp_path, [0])
    table.protocol.update(minReaderVersion=3, readerFeatures=["madeUp"], minWriterVersion=7)
    table.protocol["writerFeatures"] = ["madeUp"]
    table.commit("!protocol", at_ms=ms(START + timedelta(hours=1)))
    with pytest.raises(UnsupportedFeatureError):
        opened.snapshot()
    assert [entry.version for entry in opened.history()] == [1, 0]


def test_decreasing_file_times_are_adjusted(tmp_path):
    _, opened = built(tmp_path, [0, 5, 3, 4, 6])
    # Versions 2 and 3 count as a millisecond after the one before.
    assert version_at(opened, 4.5) == 0
    assert version_at(opened, 5) == 1
    assert version_at(opened, 5.5) == 3


def test_enabling_in_commit_timestamps_later(tmp_path):
    table, opened = built(tmp_path, [0, 1])
    settings = {
        "delta.enableInCommitTimestamps": "true",
        "delta.inCommitTimestampEnablementVersion": "2",
        "delta.inCommitTimestampEnablementTimestamp": str(ms(START + timedelta(hours=10))),
    }
    table.configuration.update(settings)
    table._timestamps = True
    table.protocol["writerFeatures"] += ["inCommitTimestamp"]
    for hour, actions in ((10, ["!protocol", "!metaData"]), (11, ["+x"])):
        table.commit(*actions, at_ms=ms(START + timedelta(hours=hour)))
        table.set_time(f"{table.version:020d}.json", ms(START))
    assert [version_at(opened, hours) for hours in (0, 1, 9, 10, 11)] == [0, 1, 1, 2, 3]


def test_without_the_feature_in_commit_timestamps_are_ignored(tmp_path):
    configuration = {"delta.enableInCommitTimestamps": "true"}
    _, opened = built(tmp_path, [0, 1], configuration=configuration)
    assert version_at(opened, 0.5) == 0
    snapshot = opened.snapshot()
    assert None not in file_times(snapshot.segment.commits, snapshot)  # for the change feed


def test_a_timestamp_without_a_version_gives_the_reason(tmp_path):
    table, opened = built(tmp_path, [0, 1, 2, 3])
    with pytest.raises(TimestampNotFoundError) as raised:
        version_at(opened, -1)
    assert raised.value.kind == "before-table"
    with pytest.raises(TimestampNotFoundError) as raised:
        opened.snapshot(timestamp=datetime.now(UTC) + timedelta(days=1))
    assert raised.value.kind == "not-yet"
    table.checkpoint(version=2).clean_up(2)
    with pytest.raises(TimestampNotFoundError) as raised:
        version_at(opened, 0.5)
    assert raised.value.kind == "cleaned-up"
    assert "2026-01-01T02:00" in raised.value.earliest
    assert version_at(opened, 2.5) == 2


def test_timestamps_may_be_strings_in_any_zone(tmp_path):
    _, opened = built(tmp_path, [0, 1, 2])
    for moment in (
        "2026-01-01T01:30:00",
        "2026-01-01 01:30:00",
        "2026-01-01T01:30:00Z",
        "2026-01-01T03:30:00+02:00",
        datetime(2026, 1, 1, 1, 30),  # noqa: DTZ001 - naive times are UTC
        datetime(2026, 1, 1, 3, 30, tzinfo=timezone(timedelta(hours=2))),
    ):
        assert opened.snapshot(timestamp=moment).version == 1


def test_a_version_and_a_timestamp_together_are_refused(tmp_path):
    _, opened = built(tmp_path, [0])
    with pytest.raises(ConfigError):
        opened.snapshot(version=0, timestamp=START)


def test_a_commit_without_its_timestamp_is_corrupt(tmp_path):
    table, opened = built(tmp_path, [0, 1], in_commit_timestamps=True)
    table.commit("+x", info=False)
    with pytest.raises(LogCorruptError) as raised:
        opened.snapshot(timestamp=datetime(2026, 5, 1, tzinfo=UTC))
    assert raised.value.version == 2


def test_history_is_newest_first_and_takes_a_limit(tmp_path):
    table, opened = built(tmp_path, [0, 1, 2])
    table.commit("+x", info=False, at_ms=ms(START + timedelta(hours=3)))
    history = opened.history()
    assert [info.version for info in history] == [3, 2, 1, 0]
    assert [entry.timestamp for entry in history] == [
        START + timedelta(hours=h) for h in (3, 2, 1, 0)
    ]
    assert history[1].operation == "WRITE"
    assert history[0].operation is None
    assert [info.version for info in opened.history(limit=2)] == [3, 2]
