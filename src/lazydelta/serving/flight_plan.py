"""What a Flight client learns before it reads: pinned version, schema, estimates, shares."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import orjson

from lazydelta.changes import CHANGE_FIELDS
from lazydelta.config import validate_integer
from lazydelta.errors import ConfigError
from lazydelta.schema import StructType, schema_to_json
from lazydelta.serving import tuning
from lazydelta.serving.request import ScanRequest
from lazydelta.serving.streams import file_records, requested_changes, requested_scan

if TYPE_CHECKING:
    import pyarrow as pa

    from lazydelta.scan import Scan
    from lazydelta.table import Table

__all__ = ["FlightPlan", "parse_command", "plan_flight"]


@dataclass(frozen=True, slots=True, kw_only=True)
class FlightPlan:
    """A request, pinned to a version."""

    schema: pa.Schema
    requests: tuple[ScanRequest, ...]
    """One for each endpoint; together they read everything once."""
    records: int
    """Files or rows, at most; -1 is unknown."""
    facts: dict[str, Any]
    """Application metadata of the flight."""


def parse_command(command: bytes) -> tuple[ScanRequest, int]:
    """Return the request of a command, and the number of endpoints that it asks for.

    Raises:
        ConfigError: It is not a valid command.
    """
    try:
        document = orjson.loads(command)
    except orjson.JSONDecodeError as error:
        raise ConfigError("command", f"is not JSON: {error}") from None
    endpoints = document.pop("endpoints", 1) if isinstance(document, dict) else 1
    validate_integer("endpoints", endpoints, 1)
    if endpoints > tuning.MAX_ENDPOINTS:
        raise ConfigError("endpoints", f"must be at most {tuning.MAX_ENDPOINTS}")
    return ScanRequest.from_json(document), endpoints


def plan_flight(table: Table, request: ScanRequest, endpoints: int = 1) -> FlightPlan:
    """Pin a request, and split it into shares.

    A request with a limit or a resume token, and one for changes, has one share.
    """
    if request.mode == "changes":
        return _plan_changes(table, request)
    found = requested_scan(table, request)
    snapshot = found.snapshot
    pinned = replace(request, version=snapshot.version, timestamp=None)
    requests: tuple[ScanRequest, ...] = (pinned,)
    if endpoints > 1 and request.limit is None and request.resume is None:
        tokens = found.shares(endpoints, request.mode)
        requests = tuple(replace(pinned, resume=token) for token in tokens)
    if request.mode == "rows":
        schema = found.output_schema().schema
    else:
        schema = found.file_record_schema(file_records(request))
    facts = {
        "version": snapshot.version,
        "files": snapshot.num_files,
        "estimated_files": snapshot.estimated_files(),
        "partition_columns": list(snapshot.partition_columns),
        "schema": schema_to_json(snapshot.schema),
    }
    records = _estimate(found, request)
    return FlightPlan(schema=schema, requests=requests, records=records, facts=facts)


def _plan_changes(table: Table, request: ScanRequest) -> FlightPlan:
    feed = requested_changes(table, request)
    explained = feed.explain()
    start, end = explained["log"]["starting_version"], explained["version"]
    snapshot = table.snapshot(end)
    pinned = replace(request, start_version=start, end_version=end)
    facts = {
        "version": end,
        "starting_version": start,
        "partition_columns": list(snapshot.partition_columns),
        "schema": schema_to_json(StructType((*snapshot.schema.fields, *CHANGE_FIELDS))),
    }
    return FlightPlan(schema=feed.schema, requests=(pinned,), records=-1, facts=facts)


def _estimate(found: Scan, request: ScanRequest) -> int:
    """Return the files or rows at most, from the log's summaries; -1 where they do not say."""
    files = found.snapshot.estimated_files() if request.mode == "files" else None
    known = [number for number in (files, request.limit) if number is not None]
    return min(known, default=-1)
