"""Flight tickets: a pinned request of one principal, signed, valid for a limited time.

A ticket holds everything that `DoGet` needs, so any server with the same `resume_key` answers it.
It grants nothing by itself: its bearer must authenticate as its principal, and access is checked
again.
"""

from __future__ import annotations

import base64
import hmac
import secrets
import time
from dataclasses import fields
from typing import TYPE_CHECKING, Any

import orjson
import pyarrow as pa

from lazydelta.errors import TicketError
from lazydelta.serving import tuning
from lazydelta.serving.request import ScanRequest

if TYPE_CHECKING:
    from lazydelta.serving.access import Principal

__all__ = ["Tickets", "request_document"]

_FORMAT = b"1"
_PURPOSE = b"lazydelta flight ticket"


def request_document(request: ScanRequest) -> dict[str, Any]:
    """Return a request as JSON values; `ScanRequest.from_json` is the inverse."""
    values = {item.name: getattr(request, item.name) for item in fields(request)}
    return {
        name: sorted(value) if isinstance(value, frozenset) else value
        for name, value in values.items()
        if value is not None
    }


class Tickets:
    """Signs and verifies tickets.

    Args:
        key: The secret that signs resume tokens. Without one a random key is used, and tickets are
            valid at this server only.
    """

    def __init__(self, key: bytes) -> None:
        self._key = hmac.digest(key or secrets.token_bytes(32), _PURPOSE, "sha256")

    def sign(self, request: ScanRequest, principal: Principal) -> tuple[bytes, pa.TimestampScalar]:
        """Return the ticket of a request, and when it expires."""
        expires = int(time.time() + tuning.TICKET_SECONDS)
        content = orjson.dumps([principal.name, expires, request_document(request)])
        body = _FORMAT + b"." + base64.urlsafe_b64encode(content)
        ticket = body + b"." + self._signature(body)
        return ticket, pa.scalar(expires, pa.timestamp("s", "UTC"))

    def verify(self, ticket: bytes, principal: Principal) -> ScanRequest:
        """Return the request of a ticket.

        Raises:
            TicketError: It is forged, damaged, expired, or of another principal or server.
        """
        body, _, signature = ticket.rpartition(b".")
        if len(ticket) > tuning.MAX_TICKET_BYTES or not body.startswith(_FORMAT + b"."):
            raise TicketError("it is not a ticket of this kind of server")
        if not hmac.compare_digest(signature, self._signature(body)):
            raise TicketError("it was altered, or another server signed it")
        name, expires, document = orjson.loads(base64.urlsafe_b64decode(body[len(_FORMAT) + 1 :]))
        if name != principal.name:
            raise TicketError("it was issued to another client")
        if expires <= time.time():
            raise TicketError("it has expired")
        return ScanRequest.from_json(document)

    def _signature(self, body: bytes) -> bytes:
        return base64.urlsafe_b64encode(hmac.digest(self._key, body, "sha256"))
