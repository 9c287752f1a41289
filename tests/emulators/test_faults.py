"""Each fault at each kind of request of each operation, through `FaultProxy`.

An operation returns the right rows or raises a typed error, in bounded time. It must succeed where
the fault passes, and where it concerns only an optional object.
"""

from __future__ import annotations

import re
import uuid
from dataclasses import replace
from functools import partial
from urllib.parse import unquote

import pyarrow as pa
import pytest

import lazydelta
from lazydelta.errors import DeltaError, InternalError
from lazydelta.log import tuning as log_tuning
from lazydelta.testing import FaultProxy, ProxyFault
from tests.emulators import servers

# The bound of one operation; a healthy one takes less than a second.
pytestmark = [pytest.mark.emulator, pytest.mark.timeout(20)]

CLIENT = {"timeout": "500ms"}
CONFIG = lazydelta.Config(
    retry_base_seconds=0.01, retry_cap_seconds=0.05, request_deadline_seconds=2
)
ROWS = 1000
FILES = 5

LISTING = "comp=list"
COMMIT = r"_delta_log/\d{20}\.json$"
CHECKPOINT = r"checkpoint.*\.parquet$"
DATA = r"/part-[^/]*\.parquet$"
OPTIONAL = {"hint": "_last_checkpoint$", "checksum": r"\.crc$"}
READS = {"listing": LISTING, "commit": COMMIT, "checkpoint": CHECKPOINT, **OPTIONAL}

answer = partial(ProxyFault, action="answer")
# Faults that pass: the operation succeeds.
ONCE = {
    "reset": ProxyFault(action="reset"),
    "truncated": ProxyFault(action="truncate"),
    "429": answer(status=429, retry_after=1),
    "503": answer(status=503, retry_after=1),
    "500": answer(status=500),
    "stall": ProxyFault(action="stall"),
    "drip": ProxyFault(action="drip", seconds=0.02),
    "stall within the body": ProxyFault(action="drip", seconds=60),
    "lost": ProxyFault(action="lost"),
}
# Faults that may pass: the operation succeeds or raises a typed error.
ONCE_WRONG = {
    "404": answer(status=404),
    "garbage": answer(status=200),
    "flipped byte": ProxyFault(action="flip"),
}
ALWAYS = {
    "reset": ProxyFault(action="reset", times=None),
    "truncated": ProxyFault(action="truncate", times=None),
    "429": answer(status=429, retry_after=1, times=None),
    "503": answer(status=503, retry_after=1, times=None),
    "500": answer(status=500, times=None),
    "501": answer(status=501, times=None),
    "403": answer(status=403, times=None),
    "404": answer(status=404, times=None),
    "stall": ProxyFault(action="stall", times=None),
    "stall within the body": ProxyFault(action="drip", seconds=60, times=None),
    "lost": ProxyFault(action="lost", times=None),
    "garbage": answer(status=200, times=None),
    "flipped byte": ProxyFault(action="flip", times=None),
}
SHORT_RUN = 5
"""The short run has each pair of request and fault whose numbers' sum this divides."""

EMPTY_LISTING = b"""<?xml version="1.0" encoding="utf-8"?><EnumerationResults>
<Prefix></Prefix><Blobs></Blobs><NextMarker/></EnumerationResults>"""


@pytest.fixture(autouse=True)
def _short_waits(monkeypatch):
    monkeypatch.setattr(log_tuning, "OPTIONAL_SECONDS", 1.0)


@pytest.fixture(scope="module")
def proxy(azurite):
    with FaultProxy(azurite.endpoint) as proxy:
        yield proxy


@pytest.fixture(scope="module")
def table_dir(tmp_path_factory):
    """A table with a checkpoint, later commits, and a log that was cleaned up before."""
    where = tmp_path_factory.mktemp("faults") / "t"
    for number in range(FILES):
        _append(where, number)
        if number == 2:
            lazydelta.Table.open(where).checkpoint()
    for version in range(2):
        for suffix in ("json", "crc"):
            (where / "_delta_log" / f"{version:020d}.{suffix}").unlink()
    return where


@pytest.fixture(scope="module")
def shared_url(azurite, table_dir):
    """A table for operations that only read."""
    return _upload(azurite, table_dir)


@pytest.fixture
def operate(azurite, proxy, table_dir, shared_url):
    """A function that runs an operation under a fault and checks the table afterwards."""

    def run(operation, fault, path, method):
        is_read = operation in (read_files, read_rows)
        url = shared_url if is_read else _upload(azurite, table_dir)
        options = {**azurite.at(proxy.endpoint).options, **CLIENT}
        proxy.inject(replace(fault, path=path, method=method))
        allowed = {FILES}
        try:
            operation(url, options)
            allowed = {FILES + 1 if operation is append else FILES}
        except DeltaError:
            # A failed append may have happened, but not twice.
            allowed |= {FILES + 1} if operation is append else set()
            raise
        finally:
            proxy.inject()
            if not is_read:
                assert _rows(url, azurite.options) in map(_expected, allowed)

    return run


def read_files(url, options):
    files = list(_open(url, options).scan().files())
    assert sorted(file.num_records for file in files) == [ROWS] * FILES


def read_rows(url, options):
    assert _rows(url, options) == _expected(FILES)


def append(url, options):
    _append(url, FILES, options)


def checkpoint(url, options):
    _open(url, options).checkpoint()


def _open(url, options):
    return lazydelta.Table.open(url, storage_options=options, config=CONFIG)


def _append(url, number, options=None):
    rows = pa.table({"id": range(number * ROWS, (number + 1) * ROWS)})
    lazydelta.write(url, rows, mode="append", storage_options=options, config=CONFIG)


def _rows(url, options):
    return sorted(_open(url, options).to_arrow()["id"].to_pylist())


def _expected(files):
    return list(range(files * ROWS))


def _upload(azurite, table_dir):
    url = f"{azurite.url}/{uuid.uuid4().hex}"
    servers.upload_table(url, azurite.options, table_dir)
    return url


def _requests():
    """Yield operation, kind of request, path and method."""
    for kind, path in READS.items():
        yield read_files, kind, path, "GET"
        yield append, kind, path, "GET"
        yield checkpoint, kind, path, "GET"
    for kind, path in {**READS, "data": DATA}.items():
        yield read_rows, kind, path, "GET"
    for kind, path in {"data": DATA, "commit": COMMIT, "checksum": OPTIONAL["checksum"]}.items():
        yield append, f"put of {kind}", path, "PUT"
    for kind, path in {"checkpoint": CHECKPOINT, "hint": OPTIONAL["hint"]}.items():
        yield checkpoint, f"put of {kind}", path, "PUT"


def _matrix(faults, *, is_optional=None):
    """Parametrize by operation, request and fault; only reads can be optional."""
    return pytest.mark.parametrize(
        ("operation", "fault", "path", "method"),
        [
            pytest.param(
                *(operation, fault, path, method),
                id=f"{operation.__name__}-{kind}-{name}",
                marks=[pytest.mark.long] if (row + column) % SHORT_RUN else [],
            )
            for row, (operation, kind, path, method) in enumerate(_requests())
            if is_optional in (None, kind in OPTIONAL)
            for column, (name, fault) in enumerate(faults.items())
        ],
    )


@pytest.mark.sample(3)
@_matrix(ONCE)
def test_a_passing_fault_is_survived(operate, operation, fault, path, method):
    operate(operation, fault, path, method)


@pytest.mark.sample(3)
@_matrix(ALWAYS | ONCE_WRONG, is_optional=True)
def test_an_optional_object_is_optional(operate, operation, fault, path, method):
    operate(operation, fault, path, method)


@_matrix(ONCE_WRONG, is_optional=False)
def test_a_wrong_response_is_an_error_or_survived(operate, operation, fault, path, method):
    _run_or_typed_error(operate, operation, fault, path, method)


@pytest.mark.sample(4)
@_matrix(ALWAYS, is_optional=False)
def test_a_permanent_fault_is_an_error(operate, operation, fault, path, method):
    _run_or_typed_error(operate, operation, fault, path, method)


def _run_or_typed_error(operate, operation, fault, path, method):
    try:
        operate(operation, fault, path, method)
    except InternalError:
        raise
    except DeltaError:
        pass


def test_an_append_fails_if_the_listing_is_empty_and_the_hint_unreadable(azurite, proxy, table_dir):
    url = _upload(azurite, table_dir)
    proxy.inject(
        answer(status=200, body=EMPTY_LISTING, times=None, path=LISTING),
        answer(status=403, times=None, path=OPTIONAL["hint"]),
    )
    try:
        with pytest.raises(DeltaError):
            append(url, {**azurite.at(proxy.endpoint).options, **CLIENT})
    finally:
        proxy.inject()
    assert _rows(url, azurite.options) == _expected(FILES)


@pytest.mark.parametrize("operation", [read_files, read_rows, append, checkpoint])
def test_an_empty_listing_of_a_table_is_an_error(operate, operation):
    """The hint exists, so there is a table: an append must not create another one."""
    fault = answer(status=200, body=EMPTY_LISTING, times=None)
    with pytest.raises(DeltaError):
        operate(operation, fault, LISTING, "GET")


@pytest.mark.parametrize("at", [0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9])
def test_flipped_bytes_of_data_files_are_detected(operate, at):
    fault = ProxyFault(action="flip", at=at, times=None)
    _run_or_typed_error(operate, read_rows, fault, DATA, "GET")


def test_the_matrix_covers_the_requests(azurite, proxy, table_dir):
    """Each path of the matrix is requested by a healthy operation."""
    url = _upload(azurite, table_dir)
    options = {**azurite.at(proxy.endpoint).options, **CLIENT}
    proxy.clear()
    for operation in (read_files, read_rows, append, checkpoint):
        operation(url, options)
    targets = [unquote(request.target) for request in proxy.requests()]
    for path in (LISTING, COMMIT, CHECKPOINT, DATA, *OPTIONAL.values()):
        assert any(re.search(path, target) for target in targets)
