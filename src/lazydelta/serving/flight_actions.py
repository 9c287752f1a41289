"""Flight actions: refresh, explain, metrics, health. Each answers with one document."""

from __future__ import annotations

import time
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import orjson

from lazydelta._cancellation import is_cancelled
from lazydelta.errors import ConfigError, ScanCancelledError, ScanDeadlineError
from lazydelta.serving.flight_plan import parse_command
from lazydelta.serving.streams import requested_changes, requested_scan

if TYPE_CHECKING:
    from lazydelta.serving.access import Principal
    from lazydelta.serving.request import ScanRequest
    from lazydelta.serving.service import ScanService

__all__ = ["ACTIONS", "action_request", "run_action"]

ACTIONS = {
    "refresh": 'List the log of {"table": name}; the answer is its newest version.',
    "explain": "Plan a command for files or rows; the answer is what was read and pruned.",
    "metrics": "The metrics of the server, in the text format of Prometheus.",
    "health": "Whether the server accepts scans, and how many run and wait.",
}
"""The actions and their descriptions."""

_OF_A_TABLE = {"refresh", "explain"}


def action_request(name: str, body: bytes) -> ScanRequest | None:
    """Return the request in the body of an action; None for one that is not about a table.

    Raises:
        ConfigError: There is no such action, or the body is not a request.
    """
    if name not in ACTIONS:
        raise ConfigError("action", f"{name!r:.40} does not exist. There are: {', '.join(ACTIONS)}")
    return parse_command(body)[0] if name in _OF_A_TABLE else None


def run_action(
    service: ScanService,
    principal: Principal,
    name: str,
    request: ScanRequest | None,
) -> bytes:
    """Run an action, and return the answer.

    Raises:
        DeltaError: The principal may not read the table, or it cannot be read.
    """
    if name == "metrics":
        return service.metrics.text().encode()
    if request is None:
        return orjson.dumps(_health(service))
    with service.admission.slot(principal):
        if name == "refresh":
            version = service.tables.open(principal, request.table).snapshot().version
            return orjson.dumps({"table": request.table, "version": version})
        return orjson.dumps(_explained(service, principal, request), default=str)


def _health(service: ScanService) -> dict[str, Any]:
    admission = service.admission
    status = "draining" if admission.draining else "ok"
    return {"status": status, "running": admission.running, "waiting": admission.waiting}


def _explained(service: ScanService, principal: Principal, request: ScanRequest) -> dict[str, Any]:
    """Plan all files of a request, and return the explanation."""
    table = service.tables.open(principal, request.table)
    if request.mode == "changes":
        explanation = requested_changes(table, request).explain()
        return {**explanation, "table": request.table}
    found = requested_scan(table, replace(request, limit=None))
    seconds = service.config.limits.scan_seconds
    deadline = time.monotonic() + seconds
    limit = request.limit if request.mode == "files" else None
    with found.file_batches(limit=limit) as batches:
        for _ in batches:
            if is_cancelled():
                raise ScanCancelledError
            if time.monotonic() > deadline:
                raise ScanDeadlineError(seconds)
    return {**found.explain(count_files=False), "table": request.table}
