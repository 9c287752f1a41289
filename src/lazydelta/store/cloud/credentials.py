"""Credential providers: the caller's callable or token credential, as obstore expects it.

A provider is called for requests, from any thread. It caches the credential, refreshes it before
it expires, one refresh at a time, and keeps the old one if a refresh fails.
"""

from __future__ import annotations

import base64
import binascii
import inspect
import json
import logging
import math
import threading
import time
import types
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, Protocol

from lazydelta.errors import ConfigError, StoreAccessError, redact
from lazydelta.store import tuning

__all__ = ["Credential", "CredentialProvider", "TokenCredential", "check_picklable"]

_log = logging.getLogger(__name__)

_SCOPE = "https://storage.azure.com/.default"
_EXPIRY = ("expiresat", "expireson", "expiry", "expiration")
_TOKEN = ("token", "accesstoken", "bearertoken")
_NO_EXPIRY = object()


class TokenCredential(Protocol):
    """A credential of azure-identity."""

    def get_token(self, *scopes: str) -> Any:
        """Return an object with `token` and `expires_on`."""


Credential = Callable[[], Any] | TokenCredential
"""Returns a token or keys, as a string, a mapping, or an object with `token` and `expires_on`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Current:
    """A credential as obstore expects it, without its expiry."""

    values: dict[str, Any] = field(repr=False)
    expires: float
    refresh: float
    """When to refresh it, in seconds since the epoch."""


class CredentialProvider:
    """A thread-safe credential provider of obstore.

    Args:
        provider: The provider: azure, s3 or gcs.
        credential: The caller's credential.
        clock: Seconds since the epoch; tests replace it.
    """

    def __init__(
        self, provider: str, credential: Credential, clock: Callable[[], float] = time.time
    ) -> None:
        if not callable(credential) and not hasattr(credential, "get_token"):
            reason = "must be a callable that returns a token or keys, or have get_token"
            raise ConfigError("credential", f"{reason}, not of the type {_kind(credential)}")
        if provider != "azure" and not callable(credential):
            raise ConfigError("credential", f"get_token is only for Azure stores, not {provider}")
        self.credential = credential
        self._provider = provider
        self._clock = clock
        self._lock = threading.Lock()
        self._current: _Current | None = None

    def __repr__(self) -> str:
        return f"CredentialProvider({self._provider!r}, {_kind(self.credential)})"

    def __call__(self) -> dict[str, Any]:
        """Return the credential and when to call again, for obstore."""
        with self._lock:
            now = self._clock()
            if self._current is None or now >= self._current.refresh:
                self._current = self._refreshed(now)
            # obstore caches the credential until five minutes before its expiry.
            expires = min(self._current.expires, now + tuning.CREDENTIAL_SECONDS)
            return {**self._current.values, "expires_at": datetime.fromtimestamp(expires, UTC)}

    def _refreshed(self, now: float) -> _Current:
        try:
            found = _parse(self._provider, _fetch(self.credential), now)
        except Exception as error:  # noqa: BLE001 - any error of the caller's code
            old = self._current
            reason = f"{type(error).__name__}: {_redacted(error, old)}"
            if old is not None and now < old.expires:
                _log.warning("keeping the old credential; refreshing it failed: %s", reason)
                retry = now + tuning.CREDENTIAL_RETRY_SECONDS
                return _Current(values=old.values, expires=old.expires, refresh=retry)
            raise StoreAccessError(_kind(self.credential), reason) from None
        _log.debug("new credential from %s", _kind(self.credential))
        return found


def check_picklable(setting: str, value: object) -> None:
    """Refuse to pickle what is not a function of a module.

    Such a function is pickled by its name. An object could take its secrets along.
    """
    is_function = isinstance(value, types.FunctionType | types.BuiltinFunctionType)
    if value is not None and (not is_function or "<" in getattr(value, "__qualname__", "<")):
        raise ConfigError(
            setting,
            "cannot be sent to another process: use credentials of the environment there, or as "
            "credential a function that is defined in a module",
        )


def _fetch(credential: Credential) -> Any:
    get_token = getattr(credential, "get_token", None)
    found = get_token(_SCOPE) if get_token is not None else credential()  # type: ignore[operator]
    if inspect.isawaitable(found):
        if inspect.iscoroutine(found):
            found.close()
        raise ConfigError("credential", "must not be async; use the synchronous variant")
    return found


def _parse(provider: str, found: Any, now: float) -> _Current:
    values = _as_mapping(provider, found)
    parts = _parts(provider, values)
    if parts is None:
        expected = {
            "azure": "a token, a SAS token or an account key",
            "s3": "access_key_id and secret_access_key",
            "gcs": "a token",
        }[provider]
        raise ConfigError("credential", f"must return {expected}, not {_kind(found)}")
    expiry = next((values[name] for name in _EXPIRY if name in values), _NO_EXPIRY)
    if expiry is _NO_EXPIRY:
        expiry = _jwt_expiry(parts.get("token", ""))
    if expiry is _NO_EXPIRY:
        refresh = now + tuning.CREDENTIAL_SECONDS / 2
        return _Current(values=parts, expires=math.inf, refresh=refresh)
    expires = math.inf if expiry is None else _epoch(expiry)
    if expires <= now:
        raise ConfigError("credential", "returned a credential that has expired")
    ahead = min(tuning.CREDENTIAL_SECONDS / 2, (expires - now) / 2)
    return _Current(values=parts, expires=expires, refresh=expires - ahead)


def _as_mapping(provider: str, found: Any) -> dict[str, Any]:
    """Return the parts of a credential by lower-case name, without underscores and `aws`."""
    if isinstance(found, str):
        return {"sastoken" if provider == "azure" and "sig=" in found else "token": found}
    if not isinstance(found, Mapping):
        names = ("token", "expires_on", "expires_at", "expiry", "access_key", "secret_key")
        found = {name: getattr(found, name) for name in names if hasattr(found, name)}
    return {str(name).lower().replace("_", "").removeprefix("aws"): found[name] for name in found}


def _parts(provider: str, values: Mapping[str, Any]) -> dict[str, Any] | None:
    def first(*names: str) -> str | None:
        found = next((values[name] for name in names if values.get(name)), None)
        return found if isinstance(found, str) else None

    if provider == "s3":
        key = first("accesskeyid", "accesskey", "key")
        secret = first("secretaccesskey", "secretkey", "secret")
        if key is None or secret is None:
            return None
        return {
            "access_key_id": key,
            "secret_access_key": secret,
            "token": first("sessiontoken", "token"),
        }
    token = first(*_TOKEN)
    if token is not None:
        return {"token": token.removeprefix("Bearer ")}
    sas = first("sastoken", "sas") if provider == "azure" else None
    if sas is not None:
        return {"sas_token": sas.removeprefix("?")}
    key = first("accountkey", "accesskey") if provider == "azure" else None
    return None if key is None else {"access_key": key}


def _epoch(expiry: Any) -> float:
    if isinstance(expiry, str):
        try:
            expiry = float(expiry)
        except ValueError:
            expiry = datetime.fromisoformat(expiry)
    if isinstance(expiry, datetime):
        aware = expiry if expiry.tzinfo is not None else expiry.replace(tzinfo=UTC)
        return aware.timestamp()
    return float(expiry)


def _jwt_expiry(token: str | None) -> Any:
    """Return the expiry in a JSON web token, unverified; notebooks return tokens without one."""
    parts = (token or "").split(".")
    if len(parts) != 3:
        return _NO_EXPIRY
    try:
        claims = json.loads(base64.urlsafe_b64decode(parts[1] + "=" * (-len(parts[1]) % 4)))
        return float(claims["exp"])
    except (binascii.Error, KeyError, TypeError, ValueError):
        return _NO_EXPIRY


def _redacted(error: Exception, current: _Current | None) -> str:
    message = redact(str(error))
    for value in current.values.values() if current is not None else ():
        if value:
            message = message.replace(value, "***")
    return message


def _kind(value: object) -> str:
    """Return the name of a function, or of the class of an object."""
    name = getattr(value, "__qualname__", None)
    return name if isinstance(name, str) else type(value).__name__
