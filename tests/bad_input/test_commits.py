"""Damaged or malicious commits: refused with version and line, never misread."""

from __future__ import annotations

import json
import tracemalloc

import pytest

from lazydelta import Config, Table
from lazydelta.errors import LogCorruptError
from lazydelta.log import tuning
from tests.bad_input.outcomes import read_rightly, refused
from tests.builders import TableBuilder, add
from tests.support import memory_store

NAME = f"{2:020d}.json"
GOOD = json.dumps(add("x")).encode()


def table_with(data):
    """Return a store with three commits, the last of them `data`."""
    store = memory_store()
    TableBuilder(store).commit("+a").commit("+b").write(NAME, data)
    return store


@pytest.mark.parametrize(
    ("bad", "reason"),
    [
        pytest.param(GOOD[:-1], "", id="a-truncated-object"),
        pytest.param(GOOD[:25], "", id="a-line-cut-in-a-string"),
        pytest.param(b"not json", "", id="text"),
        pytest.param(b"[]", "", id="an-array"),
        pytest.param(b'"add"', "", id="a-string"),
        pytest.param(b"null", "", id="null"),
        pytest.param(b"\xef\xbb\xbf" + GOOD, "", id="a-byte-order-mark"),
        pytest.param(b'{"add":{"path":"a\xff"}}', "", id="invalid-utf-8"),
        pytest.param(b'{"add":{"path":"a\xed\xa0\x80"}}', "", id="a-surrogate-as-utf-8"),
        pytest.param(b'{"add":{"path":"\\ud800"}}', "", id="a-lone-surrogate"),
        pytest.param(b'{"add":{"path":"a\x00"}}', "", id="NUL-in-a-string"),
        pytest.param(b"\x00" * 40, "", id="NULs"),
        pytest.param(b'{"add":{"path":"a","size":NaN}}', "", id="NaN"),
        pytest.param(b'{"add":{"path":"a","size":Infinity}}', "", id="infinity"),
        pytest.param(b'{"add":{"path":"a","size":1e999}}', "", id="a-number-beyond-double"),
        pytest.param(
            b'{"add":{"path":"a","size":' + b"9" * 30 + b"}}", "", id="an-integer-beyond-64-bits"
        ),
        pytest.param(b'{"add":{"path":"a","size":18446744073709551616}}', "", id="two-to-the-64"),
        pytest.param(b'{"add":{"path":"a","size":"1x"}}', "", id="a-size-that-is-text"),
        pytest.param(b'{"add":{"path":7}}', "", id="a-path-that-is-a-number"),
        pytest.param(b'{"add":{"path":null}}', "path", id="a-path-that-is-null"),
        pytest.param(b'{"add":{}}', "path", id="an-add-without-a-path"),
        pytest.param(b'{"remove":{}}', "path", id="a-remove-without-a-path"),
        pytest.param(b'{"add":[]}', "", id="an-add-that-is-an-array"),
        pytest.param(b'{"add":"a"}', "", id="an-add-that-is-a-string"),
        pytest.param(
            b'{"add":{"path":"a","partitionValues":{"p":1}}}',
            "",
            id="a-partition-value-that-is-a-number",
        ),
        pytest.param(
            b'{"add":{"path":"a","deletionVector":{"storageType":"u","offset":99999999999}}}',
            "",
            id="a-vector-offset-beyond-32-bits",
        ),
        pytest.param(GOOD + GOOD, "", id="two-objects-on-a-line"),
        pytest.param(
            b'{"add":{"path":"a"},"remove":{"path":"b"}}', "more than one action", id="two-actions"
        ),
        pytest.param(
            b'{"txn":{"appId":"a","version":1},"add":{"path":"b"}}',
            "more than one action",
            id="two-actions-of-other-kinds",
        ),
        pytest.param(b'{"add":{"path":"a"},"add":{"path":"b"}}', "duplicate", id="add-twice"),
        pytest.param(b'{"add":{"path":"a","path":"b"}}', "duplicate", id="path-twice"),
        pytest.param(
            b'{"add":{"path":"a","path" : "b"}}', "duplicate", id="path-twice-with-spaces"
        ),
        pytest.param(
            b'{"add":{"path":"a","p\\u0061th":"b"}}', "duplicate", id="path-twice-escaped"
        ),
        pytest.param(
            b'{"add":{"path":"a","partitionValues":{"p":"1","p":"2"}}}',
            "duplicate",
            id="a-partition-value-twice",
        ),
    ],
)
def test_a_bad_line_is_refused_with_version_and_line(bad, reason):
    data = GOOD + b"\n" + bad + b"\n" + GOOD + b"\n"
    error = refused(table_with(data), file=NAME, version=2, line=2, reason=reason)
    assert "line 2" in str(error)


@pytest.mark.parametrize("kind", ["metaData", "protocol", "txn", "domainMetadata", "cdc"])
@pytest.mark.parametrize("body", [b"1", b'"x"', b"[]", b"true"])
def test_an_action_that_is_not_an_object_is_refused(kind, body):
    line = b'{"' + kind.encode() + b'":' + body + b"}"
    refused(table_with(GOOD + b"\n" + line + b"\n"), file=NAME, version=2, line=2)


def test_blank_lines_count_in_the_reported_line_number():
    data = b"\n\n" + GOOD + b"\n  \n" + b"oops\n"
    refused(table_with(data), file=NAME, version=2, line=5)


@pytest.mark.parametrize(
    "data",
    [
        pytest.param(GOOD, id="no-newline-at-the-end"),
        pytest.param(GOOD + b"\r\n", id="a-carriage-return"),
        pytest.param(b"\n\n  " + GOOD + b"  \n\t\n", id="blank-lines-and-padding"),
        pytest.param(GOOD + b'\n{}\n{"notYetInvented":{"a":[1,2]}}\n', id="unknown-actions"),
        pytest.param(
            b'{"add":{"path":"x","size":1,"new":{"deep":[{}]},"modificationTime":0}}\n',
            id="unknown-fields",
        ),
        pytest.param(b'{"add":{"path":"x"},"unknown":{}}\n', id="a-known-and-an-unknown-action"),
        pytest.param(b'{"add":null}\n' + GOOD + b"\n", id="an-action-that-is-null"),
        pytest.param(
            b'{"commitInfo":{"operation":"\\"path\\": {\\"add\\": {"}}\n' + GOOD, id="quoted-json"
        ),
        pytest.param(GOOD.replace(b'"x"', b'"\\u0078"'), id="an-escaped-path"),
    ],
)
def test_unusual_but_valid_commits_are_read(data):
    read_rightly(table_with(data), ["a", "b", "x"])


@pytest.mark.parametrize("data", [b"", b"\n", b"  \r\n\t"], ids=["empty", "newline", "blanks"])
def test_an_empty_commit_is_refused(data):
    refused(table_with(data), file=NAME, version=2, reason="empty")


def test_two_objects_on_a_line_are_refused():
    data = GOOD + b'{"remove":{"path":"a"}}\n{"commitInfo":\n{}}\n'
    refused(table_with(data), file=NAME, version=2)


def test_a_string_with_a_raw_newline_is_refused():
    data = GOOD + GOOD + b'\n{"x":"}\n{"}\n'
    refused(table_with(data), file=NAME, version=2)


def test_an_action_name_with_escapes_is_recognized():
    """All engines must see the same metadata in a commit."""
    store = memory_store()
    table = TableBuilder(store).commit("+a")
    changed = table.metadata | {"partitionColumns": ["id"]}
    line = json.dumps({"metaData": changed}).replace('"metaData"', '"meta\\u0044ata"')
    table.write(f"{1:020d}.json", line.encode())
    assert Table(store, Config()).snapshot().partition_columns == ("id",)


@pytest.mark.parametrize("opening", [b"[", b'{"a":'], ids=["arrays", "objects"])
def test_unbounded_nesting_is_refused(opening):
    depth = 100_000
    closing = b"]" if opening == b"[" else b"}"
    bomb = b'{"commitInfo":' + opening * depth + b"1" + closing * depth + b"}\n"
    refused(table_with(GOOD + b"\n" + bomb), file=NAME, version=2, line=2)


def test_nesting_is_allowed_up_to_the_limit():
    line = b'{"commitInfo":{"a":' + b"[" * 18 + b"]" * 18 + b"}}\n"
    read_rightly(table_with(GOOD + b"\n" + line), ["a", "b", "x"], Config(max_json_depth=20))
    refused(table_with(GOOD + b"\n" + line), config=Config(max_json_depth=19), line=2)


def test_brackets_in_strings_are_not_nesting():
    line = json.dumps({"commitInfo": {"operation": "[{" * 5000}}).encode()
    read_rightly(table_with(GOOD + b"\n" + line), ["a", "b", "x"])


def test_a_line_over_the_limit_is_refused():
    line = json.dumps({"commitInfo": {"operation": "x" * 5000}}).encode()
    config = Config(max_line_bytes=4096)
    refused(table_with(GOOD + b"\n" + line), config=config, file=NAME, version=2, line=2)


def test_a_huge_line_of_a_huge_commit_is_refused_before_it_is_read_whole(monkeypatch):
    monkeypatch.setattr(tuning, "STREAMED_BYTES", 1 << 16)
    monkeypatch.setattr(tuning, "BLOCK_BYTES", 1 << 16)
    store = table_with(GOOD + b"\n" + b" " * (64 << 20))
    tracemalloc.start()
    try:
        refused(store, config=Config(max_line_bytes=1 << 20), file=NAME, version=2)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 16 << 20


def test_a_commit_deleted_after_the_listing_is_an_error():
    store = memory_store()
    table = TableBuilder(store).commit("+a").commit("+b")
    scan = Table(store, Config()).scan(strategy="reverse")
    table.delete(f"{0:020d}.json")
    scan.snapshot.commits._cache.clear()  # the first read is the metadata search
    with pytest.raises(LogCorruptError) as raised:
        list(scan.files())
    assert raised.value.version == 0
    assert "does not exist" in str(raised.value)
