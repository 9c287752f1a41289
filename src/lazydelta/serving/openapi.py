"""The OpenAPI 3.1 description of the HTTP interface, as data. The tests compare it with the app."""

from __future__ import annotations

from typing import Any, get_args

from lazydelta.config import ScanStrategy
from lazydelta.serving import tuning
from lazydelta.serving.http_formats import ARROW, NDJSON
from lazydelta.serving.request import Mode

__all__ = ["SCAN_PARAMETERS", "openapi"]

_COUNT = {"type": "integer", "minimum": 0, "maximum": tuning.MAX_INTEGER}
_TEXT = {"type": "string", "maxLength": tuning.MAX_TEXT_BYTES}
_NAMES = {"type": "array", "items": {"type": "string", "minLength": 1}, "maxItems": 100}

_PARAMETERS: dict[str, tuple[dict[str, Any], str]] = {
    "where": (_TEXT, "A predicate in Spark's SQL dialect, as `day = '2026-05-01' and fare > 50`."),
    "columns": (_NAMES, "The columns, separated by commas or repeated; by default all."),
    "limit": (_COUNT, "The maximum number of files, rows or changes over all resumptions."),
    "strategy": (
        {"type": "string", "enum": list(ScanStrategy)},
        "The order in which files are found; never which ones.",
    ),
    "version": (_COUNT, "The version; by default the newest."),
    "timestamp": (
        {"type": "string", "format": "date-time"},
        "Select the version that was current at this time.",
    ),
    "start_version": (_COUNT, "The first version; by default 0."),
    "end_version": (_COUNT, "The last version; by default the newest."),
    "resume": (_TEXT, "A resume token: continue after its batch, with the same parameters."),
    "capabilities": (_NAMES, "Table features whose file records the client handles itself."),
    "deletion_vectors": (
        {"type": "string", "enum": ["descriptor", "bitmap", "ranges"]},
        "The form of deletion vectors in file records.",
    ),
    "statistics": ({"type": "boolean"}, "Whether file records have statistics."),
    "format": (
        {"type": "string", "enum": ["ndjson", "arrow"]},
        "The format of the answer; it precedes the `Accept` header.",
    ),
}

_SHARED = ("where", "limit", "resume", "format")
_VERSION = ("strategy", "version", "timestamp")
SCAN_PARAMETERS: dict[Mode, tuple[str, ...]] = {
    "files": (*_SHARED, *_VERSION, "capabilities", "deletion_vectors", "statistics"),
    "rows": (*_SHARED, *_VERSION, "columns"),
    "changes": (*_SHARED, "columns", "start_version", "end_version"),
}
"""The query parameters of each kind of scan."""

_SUMMARIES = {
    "files": "Stream the live files that may hold matching rows, while the log is being read",
    "rows": "Stream the matching rows",
    "changes": "Stream the row changes of a range of versions (change data feed)",
}
_ERRORS = {
    "400": "The request is invalid",
    "401": "The credential is missing, invalid or expired",
    "404": "There is no such table, version or time, or the client may not read the table",
    "409": "The table lacks what the request needs, or needs what the client cannot do",
    "410": "Log cleanup removed what the request needs",
    "429": "The server or the client has too many scans; retry after `Retry-After` seconds",
    "500": "The table is damaged, or the server failed",
    "501": "The table needs a feature that the server cannot read",
    "502": "The object store failed",
    "503": "The server is shutting down, or the table is not there",
    "504": "The scan took longer than the server allows",
}


def openapi() -> dict[str, Any]:
    """Return the description."""
    table = "/v1/tables/{name}"
    paths = {
        "/v1/tables": _get("tables", "List the tables that the client may read", _TABLES),
        table: _get("table", "Describe a table", _ANY, [_NAME]),
        f"{table}/history": _get(
            "history",
            "List the newest commits of a table",
            _ANY,
            [
                _NAME,
                _query("limit", {**_COUNT, "minimum": 1, "maximum": tuning.HISTORY_AT_MOST}, ""),
            ],
        ),
        **{f"{table}/{mode}": {"get": _scan(mode)} for mode in get_args(Mode)},
        "/healthz": _get_text("health", "Whether the process answers"),
        "/readyz": _get_text("ready", "Whether the server accepts scans"),
        "/metrics": _get_text("metrics", "Counters in the text format of Prometheus"),
        "/openapi.json": _get("openapi", "This description", _ANY),
    }
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "lazydelta",
            "version": "1",
            "description": "Files, rows and changes of Delta tables as resumable streams.",
        },
        "paths": paths,
        "components": {
            "securitySchemes": {"token": {"type": "http", "scheme": "bearer"}},
            "schemas": {"Error": _ERROR},
        },
        "security": [{"token": []}, {}],
    }


_ANY: dict[str, Any] = {"type": "object"}
_TABLES = {
    "type": "object",
    "required": ["tables"],
    "properties": {
        "tables": {
            "type": "array",
            "items": {
                "type": "object",
                "required": ["name"],
                "properties": {"name": {"type": "string"}},
            },
        }
    },
}
_ERROR = {
    "type": "object",
    "required": ["error", "message", "code", "status", "retryable", "request_id"],
    "properties": {
        "error": {"type": "string", "description": "The class of lazydelta.errors"},
        "message": {"type": "string"},
        "code": {"type": "string", "description": "The gRPC code"},
        "status": {"type": "integer"},
        "retryable": {"type": "boolean"},
        "retry_after": {"type": "number"},
        "request_id": {"type": "string"},
    },
}
_NAME = {
    "name": "name",
    "in": "path",
    "required": True,
    "schema": {"type": "string", "minLength": 1},
    "description": "The name of a served table",
}


def _query(name: str, schema: dict[str, Any], description: str) -> dict[str, Any]:
    parameter = {"name": name, "in": "query", "required": False, "schema": schema}
    if schema.get("type") == "array":
        parameter |= {"style": "form", "explode": False}
    return {**parameter, "description": description} if description else parameter


def _get(
    operation: str, summary: str, schema: dict[str, Any], given: list[dict[str, Any]] | None = None
) -> dict[str, Any]:
    answer = {"description": "OK", "content": {"application/json": {"schema": schema}}}
    responses = {"200": answer, **_errors()}
    found = {"operationId": operation, "summary": summary, "responses": responses}
    return {"get": {**found, "parameters": given} if given else found}


def _get_text(operation: str, summary: str) -> dict[str, Any]:
    text = {"text/plain": {"schema": {"type": "string"}}}
    responses = {"200": {"description": "OK", "content": text}, **_errors("400", "401", "429")}
    if operation == "ready":
        responses["503"] = {"description": "It is shutting down", "content": text}
    return {"get": {"operationId": operation, "summary": summary, "responses": responses}}


def _errors(*codes: str) -> dict[str, Any]:
    content = {"application/json": {"schema": {"$ref": "#/components/schemas/Error"}}}
    return {c: {"description": _ERRORS[c], "content": content} for c in codes or _ERRORS}


def _scan(mode: Mode) -> dict[str, Any]:
    batches = {
        "description": (
            "Batches as they are found, each with its resume token. A stream without the explicit "
            "end (`end` in the last line, or in the metadata of the last batch) is incomplete."
        ),
        "headers": {
            "Delta-Table-Version": {"schema": {"type": "integer"}, "description": "What is read"}
        },
        "content": {NDJSON: {"schema": {"type": "string"}}, ARROW: {"schema": {}}},
    }
    not_acceptable = _errors("400")["400"] | {"description": "Neither format is accepted"}
    return {
        "operationId": mode,
        "summary": _SUMMARIES[mode],
        "parameters": [
            _NAME,
            *(_query(name, *_PARAMETERS[name]) for name in SCAN_PARAMETERS[mode]),
        ],
        "responses": {"200": batches, **_errors(), "406": not_acceptable},
    }
