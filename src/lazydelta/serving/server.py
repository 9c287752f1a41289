"""Run the servers of a configuration in this process, and end them gracefully.

SIGTERM or SIGINT drains: new scans are refused, running ones have `limits.drain_seconds`, then
they end with an error after which clients resume elsewhere. A second signal ends at once. SIGHUP
reads principals, and what they may read, again.
"""

from __future__ import annotations

import asyncio
import contextlib
import functools
import logging
import os
import signal
import socket
import ssl
import threading
import time
from typing import TYPE_CHECKING, Any, Protocol, Self

from lazydelta.errors import ConfigError, MissingExtraError
from lazydelta.serving import tuning
from lazydelta.serving.flight_server import FlightDoor
from lazydelta.serving.process_memory import return_freed_memory
from lazydelta.serving.service import ScanService

try:
    import uvicorn
    from uvicorn.protocols.http.h11_impl import H11Protocol

    from lazydelta.serving.http import http_app
except ModuleNotFoundError as missing:
    raise MissingExtraError(missing.name or "uvicorn", "serve") from None

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import FrameType

    from starlette.types import ASGIApp, Receive, Scope, Send

    from lazydelta.serving.config import ServeConfig

__all__ = ["RunningServer", "serve"]

logger = logging.getLogger(__name__)


def serve(
    config: ServeConfig,
    started: Callable[[str], None] | None = None,
    *,
    reload: Callable[[], ServeConfig] | None = None,
) -> None:
    """Serve until a signal, in the main thread.

    Args:
        config: The settings.
        started: Called with the address of the HTTP server when it accepts requests.
        reload: Returns the settings of now, at SIGHUP; by default that signal ends the process.
    """
    return_freed_memory()
    server = _HttpServer(ScanService(config), started, reload)
    server.run()
    if server.has_open_calls:
        # gRPC would wait at exit for clients that do not read; their scans are closed.
        logging.shutdown()
        os._exit(0)


class Door(Protocol):
    """Another server of the same service in this process."""

    @property
    def uri(self) -> str:
        """Its address."""

    def start(self) -> None:
        """Accept requests, in threads of its own."""

    def shutdown(self, seconds: float | None = None) -> bool:
        """Stop, at the latest after some seconds; whether all requests were answered."""


def _doors(service: ScanService) -> list[Door]:
    """Return the servers beside the one for HTTP."""
    return [FlightDoor(service)] if service.config.flight.enabled else []


class RunningServer:
    """A server in a thread of this process, for tests and notebooks.

    >>> from lazydelta.serving import ServeConfig
    >>> from lazydelta.serving.config import Endpoint
    >>> config = ServeConfig.for_tables(
    ...     {"trips": "/lake/trips"}, http=Endpoint(port=0), flight=Endpoint(enabled=False)
    ... )
    >>> with RunningServer(config) as server:
    ...     server.url
    'http://127.0.0.1:...'
    """

    def __init__(self, config: ServeConfig) -> None:
        self.service = ScanService(config)
        self._ready = threading.Event()
        self._server = _HttpServer(self.service, lambda _: self._ready.set())
        self._thread = threading.Thread(target=self._run, name="serving", daemon=True)
        self.url = self._server.url

    def __enter__(self) -> Self:
        self._thread.start()
        self._ready.wait()
        return self

    def __exit__(self, *_: object) -> None:
        self.drain(force=True)
        self._thread.join()

    def drain(self, *, force: bool = False) -> None:
        """Do what SIGTERM does; with `force` what a second one does."""
        self._server.drain(force=force)

    def join(self) -> None:
        """Wait for the end of the server."""
        self._thread.join()

    def _run(self) -> None:
        try:
            self._server.run()
        finally:
            self._ready.set()


class _HttpServer(uvicorn.Server):
    """uvicorn, with a drain before its shutdown."""

    def __init__(
        self,
        service: ScanService,
        started: Callable[[str], None] | None,
        reload: Callable[[], ServeConfig] | None = None,
    ) -> None:
        self._service = service
        self._on_start = started
        self._reload = reload
        self._doors = _doors(service)
        self._drains_until = float("inf")
        self.has_open_calls = False
        super().__init__(_uvicorn_config(service))
        self._listener = _listener(service.config)
        host, port = self._listener.getsockname()[:2]
        scheme = "http" if service.config.tls is None else "https"
        self.url = f"{scheme}://{f'[{host}]' if ':' in host else host}:{port}"

    def run(self, sockets: list[socket.socket] | None = None) -> None:
        """Serve until `drain`."""
        del sockets
        super().run([self._listener])

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Report the address once the server accepts requests."""
        await super().startup(sockets)
        for door in self._doors:
            door.start()
        if self._reload is not None:
            on_hangup = functools.partial(self._reload_access, self._reload)
            asyncio.get_running_loop().add_signal_handler(signal.SIGHUP, on_hangup)
        addresses = [self.url, *(door.uri for door in self._doors)]
        logger.info("listening", extra={"addresses": addresses})
        if self._on_start is not None:
            self._on_start(self.url)

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        """Drain at the first signal, end at the second."""
        del frame
        logger.info("signal", extra={"signal": sig})
        self.drain(force=self._service.admission.draining)

    def _reload_access(self, reload: Callable[[], ServeConfig]) -> None:
        """Take over who may read what, unless the new settings are invalid."""
        try:
            unchanged = self._service.reload_access(reload())
        except ConfigError as error:
            logger.warning("not reloaded", extra={"reason": str(error)})
        else:
            logger.info("reloaded", extra={"restart_to_change": unchanged or None})

    def drain(self, *, force: bool = False) -> None:
        """Refuse new scans; end when the running ones have, or their time is over."""
        seconds = 0.0 if force else self._service.config.limits.drain_seconds
        self._drains_until = min(self._drains_until, time.monotonic() + seconds)
        # Not here: a signal handler may have interrupted the thread that holds the lock.
        threading.Thread(target=self._service.admission.drain, daemon=True).start()

    async def on_tick(self, counter: int) -> bool:
        """Whether to shut down; returns freed memory meanwhile."""
        if counter % tuning.TICKS_PER_TRIM == 0:
            await asyncio.to_thread(self._service.streams.return_memory)
        if self._drains_until < float("inf"):
            admission = self._service.admission
            is_over = time.monotonic() >= self._drains_until
            if is_over or (admission.draining and not admission.running):
                self._service.streams.stop()
                self.should_exit = True
        return await super().on_tick(counter)

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """End what is left, and say so."""
        for door in self._doors:
            has_ended = await asyncio.to_thread(door.shutdown, tuning.FORCED_STOP_SECONDS)
            self.has_open_calls |= not has_ended
        await super().shutdown(sockets)
        logger.info("stopped", extra={"scans_left": self._service.admission.running})


def _uvicorn_config(service: ScanService) -> uvicorn.Config:
    config = service.config
    limits, tls = config.limits, config.tls
    found = uvicorn.Config(
        http_app(service),
        http=functools.partial(_Protocol, handshake_seconds=limits.handshake_seconds),  # type: ignore[arg-type]
        ws="none",
        lifespan="on",
        log_config=None,
        access_log=False,
        server_header=False,
        proxy_headers=False,
        limit_concurrency=limits.connections,
        h11_max_incomplete_event_size=limits.request_bytes,
        timeout_keep_alive=max(1, round(limits.handshake_seconds)),
        timeout_graceful_shutdown=max(1, round(tuning.FORCED_STOP_SECONDS)),
        ssl_certfile=None if tls is None else tls.certificate,
        ssl_keyfile=None if tls is None else tls.key,
        ssl_ca_certs=None if tls is None else tls.client_ca,
        ssl_cert_reqs=ssl.CERT_NONE if tls is None or tls.client_ca is None else ssl.CERT_REQUIRED,
    )
    try:
        found.load()
    except (OSError, ssl.SSLError) as error:
        raise ConfigError("tls", f"the files cannot be used: {error}") from error
    if found.ssl is not None:
        found.ssl.minimum_version = ssl.TLSVersion.TLSv1_2
    return found


def _listener(config: ServeConfig) -> socket.socket:
    """Return a listening socket, so that its port is known before the server runs."""
    host, port = config.http.host, config.http.port
    try:
        family = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0][0]
        return socket.create_server((host, port), family=family, backlog=1024)
    except OSError as error:
        raise ConfigError("http", f"cannot listen on {host}:{port}: {error.strerror}") from error


class _Protocol(H11Protocol):
    """uvicorn's protocol; it closes silent connections, and knows client certificates."""

    def __init__(self, *args: Any, handshake_seconds: float, **more: Any) -> None:
        super().__init__(*args, **more)
        self._handshake_seconds = handshake_seconds

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        # asyncio does it only for sockets that were made with the protocol's number. Without it
        # the end of a small answer waits 40 ms for the client's acknowledgement of its head.
        sock = transport.get_extra_info("socket")
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.timeout_keep_alive_task = self.loop.call_later(
            self._handshake_seconds, self.timeout_keep_alive_handler
        )
        name = _common_name(transport.get_extra_info("peercert"))
        if name is not None:
            self.app = _with_client_name(self.app, name)

    def data_received(self, data: bytes) -> None:
        # Not `super()`, which stops the timer at the first byte: a request may never be complete.
        self.conn.receive_data(data)
        self.handle_events()

    def connection_lost(self, exc: Exception | None) -> None:
        self._unset_keepalive_if_required()
        super().connection_lost(exc)

    def timeout_keep_alive_handler(self) -> None:
        if self.cycle is not None and not self.cycle.response_complete:
            return
        # An incomplete request is in a state from which h11 cannot close.
        with contextlib.suppress(Exception):
            super().timeout_keep_alive_handler()
        self.transport.close()


def _with_client_name(app: ASGIApp, name: str) -> ASGIApp:
    async def named(scope: Scope, receive: Receive, send: Send) -> None:
        await app({**scope, "tls_client_name": name}, receive, send)

    return named


def _common_name(certificate: dict[str, Any] | None) -> str | None:
    """Return the common name of a client certificate."""
    for part in (certificate or {}).get("subject", ()):
        for name, value in part:
            if name == "commonName":
                return str(value)
    return None
