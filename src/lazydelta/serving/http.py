"""The HTTP routes, as a Starlette application."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import orjson
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.responses import JSONResponse, PlainTextResponse, Response
from starlette.routing import Mount, Route
from starlette.staticfiles import StaticFiles

from lazydelta.errors import ConfigError, DeltaError
from lazydelta.serving import tuning
from lazydelta.serving.describe import describe, history
from lazydelta.serving.http_formats import choose_format
from lazydelta.serving.http_guard import Guard, request_error
from lazydelta.serving.http_scan import scan_answer, wait_for_slot
from lazydelta.serving.http_threads import Threads
from lazydelta.serving.openapi import SCAN_PARAMETERS, openapi
from lazydelta.serving.query_parameters import integer, parameters, scan_request

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable

    from starlette.requests import Request

    from lazydelta.serving.request import Mode
    from lazydelta.serving.service import ScanService
    from lazydelta.table import Table

__all__ = ["http_app"]

_STATIC = Path(__file__).parent / "static"


def http_app(service: ScanService) -> Starlette:
    """Return the application of a service."""
    routes = _Routes(service)
    table = "/v1/tables/{name:path}"
    found: list[Route | Mount] = [
        Route("/healthz", routes.health),
        Route("/readyz", routes.readiness),
        Route("/metrics", routes.metrics),
        Route("/openapi.json", routes.openapi),
        Route("/v1/tables", routes.tables),
        *(Route(f"{table}/{mode}", partial(routes.scan, mode)) for mode in SCAN_PARAMETERS),
        Route(f"{table}/history", routes.history),
        Route(table, routes.table),
    ]
    if (_STATIC / "index.html").is_file():
        found.append(Mount("/", StaticFiles(directory=_STATIC, html=True)))
    return Starlette(
        routes=found,
        middleware=[Middleware(Guard, service=service)],
        exception_handlers={
            DeltaError: request_error,
            HTTPException: _http_error,
        },
        lifespan=routes.lifespan,
    )


async def _http_error(request: Request, error: Exception) -> Response:
    status = getattr(error, "status_code", 500)
    names = {404: "NotFound", 405: "MethodNotAllowed"}
    document = {
        "error": names.get(status, "HttpError"),
        "message": str(getattr(error, "detail", "")),
        "code": "NOT_FOUND" if status == 404 else "INVALID_ARGUMENT",
        "status": status,
        "retryable": False,
        "request_id": request.state.request_id,
    }
    return JSONResponse(document, status, headers=getattr(error, "headers", None))


class _Routes:
    """The handlers of one service."""

    def __init__(self, service: ScanService) -> None:
        self._service = service
        self._threads = Threads(service.config.limits.threads)

    @asynccontextmanager
    async def lifespan(self, app: Starlette) -> AsyncIterator[None]:
        """Wait for the threads at the end: scans are closed then."""
        del app
        yield
        await asyncio.to_thread(self._threads.shutdown)

    async def health(self, request: Request) -> Response:
        """Whether the process answers."""
        request.state.route = "health"
        return PlainTextResponse("ok\n")

    async def readiness(self, request: Request) -> Response:
        """Whether it accepts scans."""
        request.state.route = "ready"
        if self._service.admission.draining:
            return PlainTextResponse("draining\n", 503)
        return PlainTextResponse("ready\n")

    async def metrics(self, request: Request) -> Response:
        """Counters for Prometheus."""
        request.state.route = "metrics"
        text = self._service.metrics.text()
        return Response(text, media_type="text/plain; version=0.0.4; charset=utf-8")

    async def openapi(self, request: Request) -> Response:
        """The description of this API."""
        request.state.route = "openapi"
        return _json(openapi())

    async def tables(self, request: Request) -> Response:
        """The tables that the client may read."""
        request.state.route = "tables"
        parameters(request.query_params.multi_items(), ())
        names = self._service.tables.names(request.state.principal)
        return _json({"tables": [{"name": name} for name in names]})

    async def table(self, request: Request) -> Response:
        """One table: version, schema, properties."""
        request.state.route = "table"
        parameters(request.query_params.multi_items(), ())
        name = request.path_params["name"]
        return _json(await self._with_table(request, name, partial(describe, name)))

    async def history(self, request: Request) -> Response:
        """The newest commits of a table."""
        request.state.route = "history"
        given = parameters(request.query_params.multi_items(), ("limit",))
        limit = integer("limit", given.get("limit", "100"))
        if not 1 <= limit <= tuning.HISTORY_AT_MOST:
            raise ConfigError("limit", f"must be 1 to {tuning.HISTORY_AT_MOST}")
        name = request.path_params["name"]
        entries = await self._with_table(request, name, partial(history, limit=limit))
        return _json({"name": name, "history": entries})

    async def scan(self, mode: Mode, request: Request) -> Any:
        """Files, rows or changes of a table, as a stream."""
        state, name = request.state, request.path_params["name"]
        state.route = mode
        self._service.access.check(state.principal, name)
        given = parameters(request.query_params.multi_items(), SCAN_PARAMETERS[mode])
        media_type = choose_format(request.headers.get("accept"), given.get("format"))
        asked = scan_request(name, mode, given)
        return await scan_answer(self._service, self._threads, asked, request, media_type)

    async def _with_table(
        self, request: Request, name: str, function: Callable[[Table], Any]
    ) -> Any:
        """Call a function with a table, in a thread and within the limits."""
        principal = request.state.principal
        self._service.access.check(principal, name)
        slot = await wait_for_slot(self._service, principal)
        called = self._threads.submit(lambda: function(self._service.tables.open(principal, name)))
        called.add_done_callback(lambda _: slot.release())  # cancelled before it began, too
        return await asyncio.wrap_future(called)


def _json(document: Any) -> Response:
    return Response(orjson.dumps(document, default=str), media_type="application/json")
