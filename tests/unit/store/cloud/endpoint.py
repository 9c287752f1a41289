"""An S3 endpoint on loopback with faults that tests choose."""

from __future__ import annotations

import contextlib
import socket
import threading

from lazydelta.config import Config

SECRET = "canary-secret-of-the-test"
DATA = bytes(range(256)) * 64
CONFIG = Config(retry_base_seconds=0.01, request_deadline_seconds=1.5)


class Endpoint:
    """An S3 endpoint with one object; each request runs the next fault, then there are none.

    A fault is a function of the connection, which sends an answer or none; after it the
    connection is closed. A lasting fault runs for every request.
    """

    def __init__(self):
        self.data = DATA
        self.etag = '"1"'
        self.faults = []
        self.lasting = None
        self.requests = []
        self.closed_early = threading.Event()
        self.stopped = threading.Event()
        self._socket = socket.create_server(("127.0.0.1", 0), backlog=128)
        self.url = f"http://127.0.0.1:{self._socket.getsockname()[1]}"
        self._connections = []
        self._threads = [threading.Thread(target=self._accept, daemon=True)]
        self._threads[0].start()

    def close(self):
        self.stopped.set()
        for each in (self._socket, *self._connections):
            with contextlib.suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)
        self._socket.close()
        for thread in self._threads:
            thread.join()

    def _accept(self):
        with contextlib.suppress(OSError):
            while True:
                connection, _ = self._socket.accept()
                connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                self._connections.append(connection)
                thread = threading.Thread(target=self._serve, args=(connection,), daemon=True)
                self._threads.append(thread)
                thread.start()

    def _serve(self, connection):
        with connection, contextlib.suppress(OSError), connection.makefile("rb") as stream:
            if connection.recv(1, socket.MSG_PEEK) == b"\x16":  # a TLS handshake
                connection.sendall(b"HTTP/1.1 400 Bad Request\r\n\r\n")
            while request := self._next_request(stream):
                self.requests.append(request)
                fault = self.lasting or (self.faults.pop(0) if self.faults else None)
                if fault is not None:
                    fault(self, connection, request)
                    return
                self.answer(connection, request)

    def _next_request(self, stream):
        line = stream.readline()
        if not line.endswith(b"HTTP/1.1\r\n"):
            return None
        method, path, _ = line.decode().split(" ")
        headers = {}
        while (line := stream.readline()) not in (b"\r\n", b""):
            name, _, value = line.decode().partition(":")
            headers[name.lower()] = value.strip()
        stream.read(int(headers.get("content-length", 0)))
        return method, path, headers

    def answer(self, connection, request, *, body_bytes=None):
        method, _, headers = request
        if method == "PUT":
            return self.send(connection, 200, b"")
        start, end, status = 0, len(self.data), 200
        if "range" in headers:
            first, last = headers["range"].removeprefix("bytes=").split("-")
            start, end, status = int(first), min(int(last) + 1, len(self.data)), 206
        extra = f"Content-Range: bytes {start}-{end - 1}/{len(self.data)}\r\n"
        return self.send(connection, status, self.data[start:end], extra, body_bytes=body_bytes)

    def send(self, connection, status, body, extra="", *, body_bytes=None):
        head = (
            f"HTTP/1.1 {status} X\r\nContent-Length: {len(body)}\r\nETag: {self.etag}\r\n"
            "Connection: close\r\n"
            f"Last-Modified: Sun, 15 Nov 2026 12:00:00 GMT\r\n{extra}\r\n"
        )
        connection.sendall(head.encode() + body[:body_bytes])


def stall(endpoint, connection, _):
    """Never answer; note the end of the connection."""
    with contextlib.suppress(OSError):
        connection.recv(1)
    endpoint.closed_early.set()


def stall_in_the_body(endpoint, connection, request):
    endpoint.answer(connection, request, body_bytes=10)
    stall(endpoint, connection, request)


def cut(endpoint, connection, request):
    endpoint.answer(connection, request, body_bytes=10)


def reset(endpoint, connection, _):
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")


def drip(endpoint, connection, request):
    endpoint.answer(connection, request, body_bytes=0)
    while not endpoint.stopped.wait(0.05):
        connection.sendall(b"x")


def busy(endpoint, connection, _):
    endpoint.send(connection, 503, b"<Error><Code>SlowDown</Code></Error>", "Retry-After: 1\r\n")


def replies(status, body):
    def reply(endpoint, connection, request):
        endpoint.send(connection, status, body, body_bytes=0 if request[0] == "HEAD" else None)

    return reply


def options(endpoint):
    return {
        "access_key_id": "id",
        "secret_access_key": SECRET,
        "endpoint": endpoint.url,
        "allow_http": "true",
    }


def xml(code, message=""):
    return f"<Error><Code>{code}</Code><Message>{message}</Message></Error>".encode()


CREATE = lambda store: store.write("a", b"x", overwrite=False)  # noqa: E731
LIST = lambda store: list(store.list_from("d"))  # noqa: E731
READ = lambda store: store.read("a")  # noqa: E731
