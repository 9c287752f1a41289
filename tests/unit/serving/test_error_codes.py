from __future__ import annotations

import re
from pathlib import Path

import pytest

from lazydelta import errors
from lazydelta.serving.error_codes import ERROR_CODES, error_code, public_error

PAGE = Path(__file__).parents[3] / "docs" / "reference" / "error-codes.md"
GRPC = {
    *("CANCELLED", "INVALID_ARGUMENT", "DEADLINE_EXCEEDED", "NOT_FOUND", "PERMISSION_DENIED"),
    *("RESOURCE_EXHAUSTED", "FAILED_PRECONDITION", "OUT_OF_RANGE", "UNIMPLEMENTED", "INTERNAL"),
    *("UNAVAILABLE", "DATA_LOSS", "UNAUTHENTICATED"),
}


def page_rows():
    found = re.findall(
        r"^\| `(\w+)` \| (\w+) \| (\d+) \| (yes|no) \| (yes|no) \|$", PAGE.read_text(), re.MULTILINE
    )
    return {name: (grpc, int(http), retry, told) for name, grpc, http, retry, told in found}


def test_the_page_has_the_table():
    expected = {
        kind.__name__: (
            code.grpc,
            code.http,
            "yes" if code.retryable else "no",
            "yes" if code.explained else "no",
        )
        for kind, code in ERROR_CODES.items()
    }
    assert page_rows() == expected


def test_all_codes_exist():
    assert {code.grpc for code in ERROR_CODES.values()} <= GRPC
    assert all(400 <= code.http < 600 for code in ERROR_CODES.values())


def test_an_error_has_the_code_of_its_nearest_base():
    assert error_code(errors.VersionNotCommittedError).http == 404
    assert error_code(errors.TransientStoreError).retryable
    assert error_code(ValueError()).grpc == "INTERNAL"


def test_a_server_that_drains_is_unavailable():
    code = error_code(errors.OverloadedError("it ends", draining=True))
    assert (code.grpc, code.http) == ("UNAVAILABLE", 503)


@pytest.mark.parametrize(
    "error",
    [
        errors.StoreAccessError("s3://bucket/key", "denied: sig=secret"),
        errors.LogCorruptError("s3://bucket/t", "secret.json", "broken"),
        errors.DataFileError("s3://bucket/t", "a.parquet", "broken"),
        OSError("/etc/secret"),
    ],
)
def test_errors_of_the_store_do_not_name_it(error):
    found = public_error(error, "t")
    assert not re.search("bucket|secret|parquet", f"{found.message}{found.kind}")
    assert "request" in found.message


def test_errors_of_the_request_name_the_table_as_the_client_knows_it():
    error = errors.VersionNotCommittedError("s3://bucket/t", 9, 0, 3)
    found = public_error(error, "trips")
    assert "of trips: it is not committed yet" in found.message
    assert "bucket" not in found.message
