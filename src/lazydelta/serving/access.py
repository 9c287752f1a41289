"""Authentication and authorization: which principal a credential proves, and what it may read.

Only digests of tokens are kept. They are compared in constant time, and with all principals, so
that the time of an answer says nothing about them.
"""

from __future__ import annotations

import hashlib
import hmac
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from lazydelta.errors import ServedTableNotFoundError, UnauthenticatedError
from lazydelta.serving.config import EVERY_PRINCIPAL
from lazydelta.serving.principal import ANONYMOUS, Principal

if TYPE_CHECKING:
    from lazydelta.serving.config import PrincipalEntry, ServeConfig

__all__ = ["ANONYMOUS", "Access", "Principal"]


class Access:
    """The access rules of a configuration."""

    def __init__(self, config: ServeConfig) -> None:
        self.replace(config)

    def replace(self, config: ServeConfig) -> None:
        """Take the rules of another configuration from the next request on."""
        self._principals = config.principals
        self._readers = {entry.name: frozenset(entry.principals) for entry in config.entries}

    @property
    def required(self) -> bool:
        """Whether clients must authenticate."""
        return bool(self._principals)

    def authenticate(self, bearer: str | None, certificate: str | None = None) -> Principal:
        """Return the principal that a credential proves.

        Args:
            bearer: The bearer token of the request.
            certificate: The common name of the client certificate, which TLS has verified.

        Raises:
            UnauthenticatedError: Neither proves a principal, or the token has expired.
        """
        if not self._principals:
            return ANONYMOUS
        found = None
        if bearer is not None:
            found = self._by_token(bearer)
        elif certificate is not None:
            matches = [p for p in self._principals if p.certificate == certificate]
            found = matches[0] if matches else None
        if found is None or (found.expires is not None and found.expires <= datetime.now(UTC)):
            raise UnauthenticatedError
        return Principal(name=found.name)

    def may_read(self, principal: Principal, name: str) -> bool:
        """Whether a principal may read a table, or the tables below a root, of this name."""
        readers = self._readers.get(name)
        if readers is None:
            return False
        return not self._principals or bool(readers & {principal.name, EVERY_PRINCIPAL})

    def check(self, principal: Principal, table: str) -> None:
        """Refuse a table that a principal must not read, as if it did not exist.

        Raises:
            ServedTableNotFoundError: It may not read it, or there is no such table.
        """
        name = table if table in self._readers else table.partition("/")[0]
        if not self.may_read(principal, name):
            raise ServedTableNotFoundError(table)

    def _by_token(self, bearer: str) -> PrincipalEntry | None:
        digest = hashlib.sha256(bearer.encode("utf-8", "surrogatepass")).hexdigest()
        found = None
        for principal in self._principals:
            for expected in principal.token_sha256:
                if hmac.compare_digest(digest, expected):
                    found = principal
        return found
