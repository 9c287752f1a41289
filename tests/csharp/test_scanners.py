"""The C# client: over the C library, and over HTTP."""

from __future__ import annotations

import json
import socket
import threading
from datetime import UTC, datetime
from decimal import Decimal

import pyarrow as pa
import pytest

import lazydelta
from lazydelta import Table
from lazydelta.scan import FileRecords
from tests.builders import TableBuilder, add
from tests.serving.support import running

PLAIN = {"minReaderVersion": 1, "minWriterVersion": 2}
ONE_FILE = {"LAZYDELTA_BATCH_ROWS": "1"}
COUNT = 9
NOON = datetime(2026, 5, 1, 12, tzinfo=UTC)
PARTITION_VALUES = {  # value, Arrow type, string in C#; floating point numbers in any form
    "string": ("a b/ü", pa.string(), "a b/ü"),
    "byte": (-128, pa.int8(), "-128"),
    "short": (300, pa.int16(), "300"),
    "integer": (-70_000, pa.int32(), "-70000"),
    "long": (2**62, pa.int64(), str(2**62)),
    "boolean": (True, pa.bool_(), "true"),
    "float": (0.5, pa.float32(), 0.5),
    "double": (1e300, pa.float64(), 1e300),
    "whole": (5.0, pa.float64(), 5.0),
    "decimal": (Decimal("-1.50"), pa.decimal128(10, 2), "-1.50"),
    "small": (Decimal("0.05"), pa.decimal128(38, 2), "0.05"),
    "date": (NOON.date(), pa.date32(), "2026-05-01"),
    "seconds": (NOON, pa.timestamp("us", "UTC"), "2026-05-01T12:00:00Z"),
    "milliseconds": (
        NOON.replace(microsecond=120_000),
        pa.timestamp("us", "UTC"),
        "2026-05-01T12:00:00.120Z",
    ),
    "microseconds": (
        NOON.replace(microsecond=7),
        pa.timestamp("us", "UTC"),
        "2026-05-01T12:00:00.000007Z",
    ),
    "before_1970": (
        datetime(1969, 12, 31, 23, 59, 59, 900_000, UTC),
        pa.timestamp("us", "UTC"),
        "1969-12-31T23:59:59.900Z",
    ),
    "without_zone": (NOON.replace(tzinfo=None), pa.timestamp("us"), "2026-05-01T12:00:00"),
    "binary": (b"ab", pa.binary(), "6162"),
}


@pytest.fixture(scope="module")
def directory(tmp_path_factory):
    """A partitioned table of nine files."""
    directory = tmp_path_factory.mktemp("csharp") / "a table"
    table = TableBuilder(
        directory,
        schema={"id": "long", "day": "date"},
        partition_by=["day"],
        protocol=PLAIN,
    )
    for number in range(COUNT):
        day = None if number == 3 else f"2026-05-0{number % 2 + 1}"
        table.commit(add(f"file-{number}-é", size=1 << number, partition_values={"day": day}))
    table.checkpoint()
    return directory


@pytest.fixture(scope="module")
def typed(tmp_path_factory):
    """A table with partition columns of every type, column mapping, and deletion vectors."""
    directory = tmp_path_factory.mktemp("csharp") / "typed"
    properties = {"delta.columnMapping.mode": "name", "delta.enableDeletionVectors": "true"}
    columns = {
        name: pa.array([value, value, None], kind)
        for name, (value, kind, _) in PARTITION_VALUES.items()
    }
    rows = pa.table({"id": [1, 2, 3], **columns})
    lazydelta.write(directory, rows, partition_by=list(columns), properties=properties)
    Table.open(directory).delete("id = 2")
    return directory


@pytest.fixture(scope="module")
def server(directory, typed):
    tables = {"trips": str(directory), "typed": str(typed)}
    with running(tables, limits={"batch_files": 1}) as server:
        yield server


@pytest.fixture(params=["native", "http"])
def scan(request, driver, directory, typed):
    """A function that scans tables in one process, either way; by default the first one."""
    if request.param == "native":
        places, environment = {"trips": directory, "typed": typed}, ONE_FILE
    else:
        places, environment = {}, {}
        server = request.getfixturevalue("server").url

    def scan(*settings):
        for each in settings:
            name = each.setdefault("table", "trips")
            each["table"] = places.get(name, name)
            if not places:
                each["server"] = server
        return driver.run(*settings, **environment)

    return scan


def test_files_are_those_of_a_scan_in_process(scan, directory):
    ((files, end),) = scan({})
    expected = [
        {
            "path": record["uri"],
            "size": record["size"],
            "partition": {"day": record["partition_values"]["day"] and f"2026-05-0{1 + n % 2}"},
            "time": "2023-11-14T22:13:20.000Z",
            "live_rows": None,
            "version": record["version"],
            "deleted": None,
        }
        for delivered in Table.open(directory).scan().resumable_files(records=FileRecords())
        for record in delivered.batch.to_pylist()
        for n in [record["size"].bit_length() - 1]
    ]
    assert [{**file, "resume": None} for file in files] == [{**f, "resume": None} for f in expected]
    assert end == f"done {COUNT} {2**COUNT - 1}"


def test_partition_values_of_every_type_vectors_and_mapping(scan):
    capable = {"table": "typed", "capabilities": ["columnMapping", "deletionVectors"]}
    (files, end), (_, refused) = scan(capable, {"table": "typed"})
    assert end.startswith("done 2 ")
    null, file = sorted(files, key=lambda file: file["partition"]["string"] or "")
    assert null["partition"] == dict.fromkeys(PARTITION_VALUES)
    assert file["partition"].keys() == PARTITION_VALUES.keys()
    for name, (_, _, text) in PARTITION_VALUES.items():
        found = file["partition"][name]
        assert found == text or (isinstance(text, float) and float(found) == text), name
    assert (file["live_rows"], file["deleted"]) == (1, [[1, 2]])
    assert (null["live_rows"], null["deleted"]) == (1, None)
    assert refused.startswith("failed FailedPrecondition ClientCapabilityError False")


def test_the_schema_has_the_physical_names_of_columns(scan, typed):
    ((_, line),) = scan({"table": "typed", "schema": True})
    schema = json.loads(line.removeprefix("schema "))
    assert schema == json.loads(Table.open(typed).metadata.schema_string)
    assert "delta.columnMapping.physicalName" in schema["fields"][0]["metadata"]


def test_options_narrow_the_scan(scan):
    sql = "\"day = date'2026-05-02'\""
    (by_map, _), (by_sql, _), (older, _) = scan(
        {"predicate": '{"day": "2026-05-02"}'},
        {"predicate": sql, "limit": 2, "strategy": "Forward"},
        {"version": 4},
    )
    assert [file["partition"]["day"] for file in by_map] == ["2026-05-02"] * 3
    assert [file["partition"]["day"] for file in by_sql] == ["2026-05-02"] * 2
    assert len(older) == 5


def test_a_token_continues_after_a_file(scan):
    (whole, _), (first, end) = scan({}, {"stop_after": 4})
    assert end.startswith("done 4")
    ((rest, _),) = scan({"resume": first[-1]["resume"]})
    assert [f["path"] for f in [*first, *rest]] == [f["path"] for f in whole]


def test_a_cancelled_scan_ends_with_the_exception_of_net(scan):
    ((files, end),) = scan({"cancel_after": 3})
    assert (len(files), end) == (3, "cancelled")


def test_an_error_has_its_status_and_class(scan):
    expected = {
        "failed InvalidArgument ColumnNotFoundError False": {"predicate": '{"nothing": 1}'},
        "failed InvalidArgument PredicateError False": {"predicate": "{"},
        "failed InvalidArgument ResumeTokenError False": {"resume": "made up"},
        "failed NotFound VersionNotCommittedError False": {"version": 99},
        "failed NotFound": {"table": "/nowhere/none"},
    }
    ends = [end for _, end in scan(*expected.values())]
    assert [end[: len(start)] for end, start in zip(ends, expected, strict=True)] == [*expected]


def test_an_answer_that_ends_early_is_not_complete(driver):
    body = b'{"uri": "a", "size": 1}\n{"resume": "t"}\n{"uri": "b", "si'
    with _server_that_answers(body) as address:
        ((files, end),) = driver.run({"table": "trips", "server": address})
    assert [file["path"] for file in files] == ["a"]
    assert end.startswith("failed Unavailable ConnectionLostError True")


def test_a_server_that_is_not_there_is_unavailable(driver):
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        address = f"http://127.0.0.1:{unused.getsockname()[1]}"
        ((files, end),) = driver.run({"table": "trips", "server": address})
    assert files == []
    assert end.startswith("failed Unavailable ConnectionLostError True")


class _server_that_answers:  # noqa: N801 - a context manager
    """A server that sends one answer, and closes the connection."""

    def __init__(self, body):
        self._body = body

    def __enter__(self):
        self._listener = socket.create_server(("127.0.0.1", 0))
        self._listener.settimeout(30)
        self._thread = threading.Thread(target=self._answer)
        self._thread.start()
        return f"http://127.0.0.1:{self._listener.getsockname()[1]}"

    def _answer(self):
        connection, _ = self._listener.accept()
        with connection:
            connection.recv(65536)
            head = b"HTTP/1.1 200 OK\r\nContent-Type: application/x-ndjson\r\nConnection: close\r\n\r\n"
            connection.sendall(head + self._body)

    def __exit__(self, *_):
        self._thread.join(30)
        self._listener.close()
