from __future__ import annotations

import pytest

from lazydelta.errors import ConfigError
from lazydelta.serving import ScanRequest
from lazydelta.serving.query_parameters import parameters, scan_request


def test_a_request_has_the_fields_of_its_document():
    request = ScanRequest.from_json(
        {
            "table": "t",
            "mode": "rows",
            "where": "a > 1",
            "columns": ["a", "b"],
            "limit": 5,
            "strategy": "reverse",
            "version": 3,
            "capabilities": None,
        }
    )
    assert (request.columns, request.limit, request.version) == (("a", "b"), 5, 3)
    assert request.capabilities == frozenset()


@pytest.mark.parametrize(
    ("document", "message"),
    [
        ([], "must be a JSON object"),
        ({}, "table: must be the name"),
        ({"table": 3}, "table: must be the name"),
        ({"table": "t", "url": "/etc"}, "url: no such field"),
        ({"table": "t", "mode": "all"}, "mode: must be one of"),
        ({"table": "t", "strategy": ["auto"]}, "strategy: must be one of"),
        ({"table": "t", "limit": -1}, "limit: must be an integer"),
        ({"table": "t", "limit": True}, "limit: must be an integer"),
        ({"table": "t", "limit": 1e3}, "limit: must be an integer"),
        ({"table": "t", "limit": 2**63}, "limit: is too large"),
        ({"table": "t", "where": ["a"]}, "where: must be a string"),
        ({"table": "t", "where": "a" * 32_769}, "where: is longer"),
        ({"table": "t", "columns": "a"}, "columns: must be a list"),
        ({"table": "t", "mode": "rows", "columns": ["a", "a"]}, "more than once"),
        ({"table": "t", "mode": "rows", "columns": ["a"] * 2001}, "more than 2000"),
        ({"table": "t", "mode": "rows", "columns": [1]}, "columns: must be a string"),
        ({"table": "t", "mode": "files", "columns": ["a"]}, "only for rows"),
        ({"table": "t", "statistics": 1}, "statistics: must be true or false"),
        ({"table": "t", "timestamp": "yesterday"}, "is not a timestamp"),
        ({"table": "t", "timestamp": "2026-01-01", "version": 1}, "not both"),
        ({"table": "t", "mode": "changes", "version": 1}, "is not for changes"),
        ({"table": "t", "start_version": 1}, "only for changes"),
        ({"table": "t", "deletion_vectors": "none"}, "deletion_vectors: must be one of"),
    ],
)
def test_an_invalid_document_is_refused(document, message):
    with pytest.raises(ConfigError, match=message):
        ScanRequest.from_json(document)


def test_parameters_of_a_url_are_a_request():
    pairs = [("columns", "a,b"), ("columns", "c"), ("limit", "7"), ("format", "arrow")]
    given = parameters(pairs, ["columns", "limit", "format"])
    request = scan_request("t", "rows", given)
    assert (request.columns, request.limit, request.table) == (("a", "b", "c"), 7, "t")


@pytest.mark.parametrize(
    ("pairs", "message"),
    [
        ([("url", "/etc")], "url: no such parameter"),
        ([("limit", "1"), ("limit", "2")], "limit: is given more than once"),
        ([("limit", "-1")], "limit: must be an integer"),
        ([("limit", "1.5")], "limit: must be an integer"),
        ([("limit", "")], "limit: must be an integer"),
        ([("limit", "\u0663")], "limit: must be an integer"),
        ([("limit", "9" * 20)], "limit: must be an integer"),
        ([("statistics", "yes")], "statistics: must be true or false"),
    ],
)
def test_invalid_parameters_are_refused(pairs, message):
    with pytest.raises(ConfigError, match=message):
        scan_request("t", "files", parameters(pairs, ["limit", "statistics"]))
