"""Streams of the C library: requests, tokens and ownership."""

from __future__ import annotations

import json

import pytest

from lazydelta import Table

ONE_FILE = {"LAZYDELTA_BATCH_ROWS": "1"}


class Lines:
    """What the driver printed about one stream."""

    def __init__(self, lines):
        words = [line.split(" ") for line in lines]
        self.batches = [(int(w[1]), int(w[2]), w[3]) for w in words if w[0] == "batch"]
        self.version = next((int(w[1]) for w in words if w[0] == "version"), None)
        self.status = int(words[-1][1])
        self.kind, _, self.message = lines[-1].partition("|")
        self.kind = self.kind.split(" ")[2]

    @property
    def sizes(self):
        return [size for _, size, _ in self.batches]


def stream(driver, table, request=None, *, options="", stop=0, **environment):
    text = json.dumps(request) if request is not None else ""
    return Lines(driver.run("stream", table, options, text, 0, stop, **environment))


@pytest.fixture
def sizes(files_table):
    return sorted(file.size for file in Table.open(files_table).scan().files())


def test_a_stream_has_every_file_and_the_version(driver, files_table, sizes):
    read = stream(driver, files_table)
    assert sum(count for count, _, _ in read.batches) == len(sizes)
    assert sum(read.sizes) == sum(sizes)
    assert (read.version, read.status) == (2, 0)


def test_a_token_continues_exactly_after_each_batch(driver, files_table, sizes):
    whole = stream(driver, files_table, {}, **ONE_FILE)
    assert sorted(whole.sizes) == sizes
    for position in (1, 5, len(whole.batches)):
        token = whole.batches[position - 1][2]
        rest = stream(driver, files_table, {"resume": token}, **ONE_FILE)
        assert whole.sizes[:position] + rest.sizes == whole.sizes


def test_a_token_of_another_scan_is_refused(driver, files_table):
    token = stream(driver, files_table, {}, stop=1, **ONE_FILE).batches[0][2]
    refused = stream(driver, files_table, {"resume": token, "where": "id = 1"})
    assert (refused.status, refused.kind) == (-3, "ResumeTokenError")
    refused = stream(driver, files_table, {"resume": token[:-2]})
    assert (refused.status, refused.kind) == (-3, "ResumeTokenError")


def test_a_request_reads_an_older_version(driver, files_table):
    read = stream(driver, files_table, {"version": 0})
    assert sum(count for count, _, _ in read.batches) == 4
    assert read.version == 0


@pytest.mark.parametrize(
    ("request_json", "kind"),
    [
        ({"nothing": 1}, "ConfigError"),
        ({"limit": -1}, "ConfigError"),
        ({"where": 7}, "PredicateError"),
        ([], "ConfigError"),
    ],
)
def test_an_invalid_request_is_refused(driver, files_table, request_json, kind):
    read = stream(driver, files_table, request_json)
    assert (read.status, read.kind) == (-3, kind)


def test_a_version_that_does_not_exist_is_not_found(driver, files_table):
    read = stream(driver, files_table, {"version": 9})
    assert (read.status, read.kind) == (-5, "VersionNotCommittedError")


def test_options_of_the_store_are_passed(driver):
    endpoint = {"account_name": "a", "endpoint": "nonsense"}
    read = stream(driver, "az://lake/table", options=json.dumps(endpoint))
    assert read.status < 0
    assert "nonsense" in read.message


def test_arrays_outlive_their_stream_and_their_parents(driver, files_table):
    (line,) = driver.run("outlive", files_table)
    first = next(iter(Table.open(files_table).scan(strategy="reverse").file_batches()))
    assert line == f"size l {sum(first.column('size').to_pylist())}"
