"""HTTP/1.1 message framing for `FaultProxy`, on asyncio streams."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

__all__ = ["BUFFER", "Head", "has_body", "read_body", "read_head"]

BUFFER = 1 << 18
_BODILESS = (204, 304)
_HOP_HEADERS = frozenset({"connection", "keep-alive", "expect"})
_FRAMING_HEADERS = frozenset({"content-length", "transfer-encoding"})


@dataclass(frozen=True, slots=True)
class Head:
    """Start line and headers of a request or a response."""

    start: tuple[str, str, str]
    headers: tuple[tuple[str, str], ...]

    def get(self, name: str) -> str:
        """Return a header by its lower-case name, or an empty string."""
        return next((value for key, value in self.headers if key.lower() == name), "")

    def with_host(self, host: str) -> Head:
        """Return the head with another `Host` header."""
        kept = tuple(pair for pair in self.headers if pair[0].lower() != "host")
        return Head(self.start, (("Host", host), *kept))

    def encode(self, *, length: int | None = None, is_chunked: bool = False) -> bytes:
        """Encode for the next hop, with new framing if `length` or `is_chunked` is given.

        Other headers are unchanged, including `Host`: signatures cover it.
        """
        framing = [("Content-Length", str(length))] if length is not None else []
        framing += [("Transfer-Encoding", "chunked")] if is_chunked else []
        gone = _HOP_HEADERS | (_FRAMING_HEADERS if framing else frozenset())
        kept = [(key, value) for key, value in self.headers if key.lower() not in gone]
        lines = [" ".join(self.start), *(f"{key}: {value}" for key, value in (*kept, *framing))]
        return "\r\n".join([*lines, "", ""]).encode("latin-1")


def has_body(method: str, response: Head) -> bool:
    """Whether a response to `method` has a body."""
    return method != "HEAD" and int(response.start[1]) not in _BODILESS


async def read_head(reader: asyncio.StreamReader) -> Head | None:
    """Read a start line and headers; `None` if the peer closed the connection before."""
    try:
        raw = await reader.readuntil(b"\r\n\r\n")
    except asyncio.IncompleteReadError as error:
        if error.partial:
            raise ConnectionResetError from None
        return None
    first, *lines = raw.decode("latin-1").rstrip("\r\n").split("\r\n")
    parts = first.split(" ", 2)
    pairs = [line.partition(":") for line in lines]
    return Head(
        (parts[0], parts[1], parts[2] if len(parts) == 3 else ""),
        tuple((key, value.strip()) for key, _, value in pairs),
    )


async def read_body(
    reader: asyncio.StreamReader, head: Head, *, until_close: bool = False
) -> AsyncIterator[bytes]:
    """Yield the body in pieces, decoded if it is chunked.

    Args:
        reader: The connection, after the head.
        head: The head, which describes the framing.
        until_close: Whether a body without framing ends with the connection (responses only).
    """
    if "chunked" in head.get("transfer-encoding").lower():
        while size := int((await reader.readline()).split(b";")[0], 16):
            async for piece in _read_exactly(reader, size):
                yield piece
            await reader.readline()
        while (await reader.readline()).strip():
            pass  # trailers
    elif length := head.get("content-length"):
        async for piece in _read_exactly(reader, int(length)):
            yield piece
    elif until_close:
        while piece := await reader.read(BUFFER):
            yield piece


async def _read_exactly(reader: asyncio.StreamReader, length: int) -> AsyncIterator[bytes]:
    while length:
        piece = await reader.read(min(length, BUFFER))
        if not piece:
            raise ConnectionResetError
        length -= len(piece)
        yield piece
