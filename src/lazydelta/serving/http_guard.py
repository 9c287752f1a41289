"""The guard in front of the HTTP routes: identity of requests, authentication, and the log.

Every path below `/v1` and the metrics need a credential if the configuration has principals.
Without principals the server answers only requests that name it by a local address: a web page
that resolves its own name to 127.0.0.1 cannot read tables through its visitor's browser.
"""

from __future__ import annotations

import asyncio
import logging
import re
import secrets
import time
from collections import OrderedDict, deque
from typing import TYPE_CHECKING

from starlette.responses import JSONResponse

from lazydelta.errors import ConfigError, OverloadedError, UnauthenticatedError
from lazydelta.serving import tuning
from lazydelta.serving.error_codes import public_error

if TYPE_CHECKING:
    from starlette.requests import Request
    from starlette.responses import Response
    from starlette.types import ASGIApp, Message, Receive, Scope, Send

    from lazydelta.serving.principal import Principal
    from lazydelta.serving.service import ScanService

__all__ = ["FailedLogins", "Guard", "request_error"]

logger = logging.getLogger(__name__)

_REQUEST_ID = re.compile(rb"[A-Za-z0-9_.-]{1,64}")
_BEARER = re.compile(rb"(?i)bearer +([A-Za-z0-9._~+/=-]{1,4096}) *")
_LOCAL_HOST = re.compile(rb"(?i)(?:localhost|127(?:\.\d{1,3}){3}|\[::1\])(?::\d{1,5})?")
_SECURITY_HEADERS = [
    (b"x-content-type-options", b"nosniff"),
    (b"referrer-policy", b"no-referrer"),
    (b"content-security-policy", b"default-src 'self'; frame-ancestors 'none'; base-uri 'none'"),
    (b"cache-control", b"no-store"),
]


class FailedLogins:
    """Counts invalid credentials by address; beyond a limit their requests are refused unread."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._times: OrderedDict[str, deque[float]] = OrderedDict()

    def check(self, address: str) -> None:
        """Refuse an address with too many failures in the last minute.

        Raises:
            OverloadedError: It has.
        """
        times = self._times.get(address)
        if times is None:
            return
        while times and times[0] < time.monotonic() - tuning.FAILED_LOGIN_SECONDS:
            times.popleft()
        if len(times) >= self._limit:
            wait = times[0] + tuning.FAILED_LOGIN_SECONDS - time.monotonic()
            raise OverloadedError("too many invalid credentials", retry_after=max(1.0, round(wait)))

    def add(self, address: str) -> None:
        """Count a failure."""
        times = self._times.setdefault(address, deque(maxlen=self._limit))
        times.append(time.monotonic())
        self._times.move_to_end(address)
        while len(self._times) > tuning.FAILED_ADDRESSES_AT_MOST:
            self._times.popitem(last=False)


class Guard:
    """ASGI middleware; it sets `request_id` and `principal` in the request's state."""

    def __init__(self, app: ASGIApp, service: ScanService) -> None:
        self._app = app
        self._service = service
        self._failed = FailedLogins(service.config.limits.failed_logins)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Authenticate a request, pass it on, and log it."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        headers = dict(scope["headers"])
        given = headers.get(b"x-request-id", b"")
        known = given if _REQUEST_ID.fullmatch(given) else secrets.token_hex(8).encode()
        state = scope.setdefault("state", {})
        state.update(request_id=known.decode(), started=time.monotonic(), status=None)

        async def send_with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                state["status"] = message["status"]
                extra = [(b"x-request-id", known), *_SECURITY_HEADERS]
                message = {**message, "headers": [*message["headers"], *extra]}
            await send(message)

        try:
            try:
                self._admit(scope, headers)
            except (UnauthenticatedError, OverloadedError, ConfigError) as error:
                self._service.metrics.count("rejected_total", reason=type(error).__name__)
                refused = _error_response(error, state["request_id"])
                await refused(scope, receive, send_with_headers)
                return
            await self._app(scope, receive, send_with_headers)
        except asyncio.CancelledError:
            state["outcome"] = "cancelled"
            raise
        except Exception as error:  # an entry point: the client gets an answer, the log the reason
            logger.exception("unexpected error", extra={"request_id": state["request_id"]})
            state["outcome"] = type(error).__name__
            if state["status"] is None:
                failed = _error_response(error, state["request_id"])
                await failed(scope, receive, send_with_headers)
        finally:
            _log_request(self._service, scope)

    def _admit(self, scope: Scope, headers: dict[bytes, bytes]) -> None:
        access, state = self._service.access, scope["state"]
        is_open = not access.required and not self._service.config.insecure
        if is_open and not _LOCAL_HOST.fullmatch(headers.get(b"host", b"")):
            raise ConfigError("Host", "must be a local address: this server has no principals")
        if headers.get(b"content-length", b"0") != b"0" or b"transfer-encoding" in headers:
            raise ConfigError("body", "must be empty: send query parameters")
        size = len(scope["raw_path"]) + len(scope["query_string"])
        size += sum(len(name) + len(value) for name, value in scope["headers"])
        if size > self._service.config.limits.request_bytes:
            raise ConfigError("request", "is larger than the server allows")
        path = scope["path"]
        if not path.startswith("/v1/") and path != "/metrics":
            return
        address = (scope.get("client") or ("", 0))[0]
        self._failed.check(address)
        try:
            principal: Principal = access.authenticate(
                _bearer(headers.get(b"authorization")), scope.get("tls_client_name")
            )
        except UnauthenticatedError:
            self._failed.add(address)
            raise
        state["principal"] = principal


def _bearer(header: bytes | None) -> str | None:
    """Return the bearer token of a header; another form is a wrong token, not a missing one."""
    if header is None:
        return None
    found = _BEARER.fullmatch(header)
    return "" if found is None else found[1].decode("ascii")


def _error_response(error: BaseException, request_id: str, table: str | None = None) -> Response:
    """Return the answer to a request that failed."""
    found = public_error(error, table)
    headers = {}
    if found.retry_after is not None:
        headers["retry-after"] = str(max(1, round(found.retry_after)))
    if isinstance(error, UnauthenticatedError):
        headers["www-authenticate"] = "Bearer"
    return JSONResponse(found.to_json(request_id), status_code=found.code.http, headers=headers)


async def request_error(request: Request, error: Exception) -> Response:
    """Return the answer to an error of a route, and log what the client does not receive."""
    request_id = request.state.request_id
    found = public_error(error)
    if not found.code.explained:
        logger.warning("request failed", exc_info=error, extra={"request_id": request_id})
    request.state.outcome = found.kind
    return _error_response(error, request_id, request.path_params.get("name"))


def _log_request(service: ScanService, scope: Scope) -> None:
    """Write the request's line of the log and count it; neither has query strings or tokens."""
    state = scope["state"]
    route = state.get("route", "other")
    principal: Principal | None = state.get("principal")
    service.metrics.count("requests_total", protocol="http", route=route, status=state["status"])
    logger.info(
        "request",
        extra={
            "request_id": state["request_id"],
            "protocol": "http",
            "method": scope["method"],
            "route": route,
            "table": scope.get("path_params", {}).get("name"),
            "principal": None if principal is None else principal.name,
            "status": state["status"],
            "outcome": state.get("outcome"),
            "rows": state.get("rows"),
            "bytes": state.get("bytes"),
            "seconds": round(time.monotonic() - state["started"], 4),
        },
    )
