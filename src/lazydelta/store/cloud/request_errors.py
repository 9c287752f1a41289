"""Translate errors of obstore into typed errors that name the cause and the cure.

The short message of obstore has the status and the body of an answer. What failed below HTTP
(certificate, name, connection) is only in the debug output after it, which is matched here and
never shown.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from lazydelta.errors import (
    ObjectExistsError,
    ObjectNotFoundError,
    StoreAccessError,
    StoreError,
    TransientStoreError,
    redact,
)
from lazydelta.store import tuning

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

__all__ = ["error_reason", "redact_secrets", "secret_values", "to_store_error"]

_STATUS = re.compile(r"status code: (\d{3})")
_RETRIED_STATUS = (408, 409, 429)

# Pattern of the debug output, and cause with cure. The permanent ones do not pass by themselves.
_PERMANENT = {
    r"\bBadScheme\b": (
        "the endpoint is plain http, which is refused by default: "
        "set allow_http=true in storage_options, or use an https endpoint"
    ),
    r"\bInvalidCertificate\b|\bUnknownIssuer\b": (
        "the certificate of the endpoint is not trusted: trust its certificate authority on this "
        "machine or in storage_options, and check that the host name is the certificate's"
    ),
    r"\bInvalidMessage\b": (
        "the endpoint does not speak TLS: check its port, or use http:// with allow_http=true"
    ),
    r"dns error(?!.*(?i:temporary|try again))": (
        "the host name of the endpoint does not resolve: check the account, region or endpoint"
    ),
}
_TRANSIENT = {
    r"\bConnectionRefused\b": "the connection was refused: check host and port of the endpoint",
    r"dns error": "the name server gave no answer",
    r"kind: Timeout\b|\bTimedOut\b": "the store did not answer in time",
    r"\bIncompleteMessage\b|\bConnectionReset\b|\bIncompleteBody\b|\bBrokenPipe\b": (
        "the connection was closed before the answer was complete"
    ),
    r"Got invalid list response": (
        "the answer is not a listing: check that no proxy or login page answers for the endpoint"
    ),
}
_EXPIRED = re.compile(
    r"ExpiredToken|TokenRefreshRequired|token (?:is|has) expired"
    r"|[Ss]ignature not valid in the specified time frame"
)
_CLOCK = re.compile(r"RequestTimeTooSkewed")
_NO_BUCKET = re.compile(
    r"NoSuchBucket|ContainerNotFound|FilesystemNotFound|specified (?:bucket|container|filesystem) "
    r"does not exist"
)
_METADATA_SERVICE = re.compile(
    r"(https?://[^/\s]+)/(?:latest/api/token|latest/meta-data|metadata/identity|computeMetadata)"
)
_TOKEN_REQUEST = re.compile(r"performing token request|/latest/api/token|TokenRequest")
_PUBLIC_OPTIONS = re.compile(
    r"(?:endpoint|endpoint_url|base_url|region|account_name|bucket(?:_name)?|container_name|timeout"
    r"|tenant_id|authority_host)$"
)


def secret_values(config: Mapping[str, Any]) -> tuple[str, ...]:
    """Return the option values that must not appear in errors, longest first."""
    secrets = (str(value) for key, value in config.items() if not _PUBLIC_OPTIONS.search(key))
    return tuple(sorted((s for s in secrets if len(s) >= tuning.MIN_SECRET_LENGTH), key=len))[::-1]


def redact_secrets(message: str, secrets: Iterable[str]) -> str:
    """Redact secret option values, which obstore or an answer may quote."""
    for secret in secrets:
        message = message.replace(secret, "***")
    return message


def error_reason(error: Exception, secrets: Iterable[str] = ()) -> str:
    """Return the first paragraph of a message of obstore; the rest is a debug print."""
    reason = redact(redact_secrets(str(error).partition("\n\nDebug source")[0], secrets))
    longest = tuning.LONGEST_REASON
    return reason if len(reason) <= longest else f"{reason[:longest]}..."


def to_store_error(
    exceptions: Any, error: Exception, path: str, *, secrets: Iterable[str] = (), operation: str
) -> StoreError:
    """Return the typed error of a failed request."""
    if isinstance(error, TimeoutError):
        return TransientStoreError(path, "the store did not answer in time")
    message, reason = str(error), error_reason(error, secrets)
    status = _STATUS.search(reason)
    code = int(status[1]) if status else 0
    kind, cause = _status_cause(exceptions, error, code, operation)
    if kind is None:
        kind, cause = _debug_cause(message) if not code else (TransientStoreError, "")
    return kind(path, f"{cause}. {reason}" if cause else reason)


def _status_cause(
    exceptions: Any, error: Exception, code: int, operation: str
) -> tuple[type[StoreError] | None, str]:
    """Return kind and cause of an error that an answer explains; None for a temporary one."""
    message = str(error)
    denied = (exceptions.PermissionDeniedError, exceptions.UnauthenticatedError)
    access = _access_cause(message, 401 if not code and isinstance(error, denied) else code)
    if access:
        return StoreAccessError, access
    if isinstance(error, FileNotFoundError) or code == 404:
        return ObjectNotFoundError, _missing_cause(message, operation)
    if isinstance(error, exceptions.AlreadyExistsError | exceptions.PreconditionError):
        return ObjectExistsError, ""
    if code == 501 or isinstance(error, exceptions.NotSupportedError):
        return StoreError, _unsupported_cause(operation)
    is_invalid = isinstance(error, exceptions.InvalidPathError | ValueError)
    if is_invalid or (400 <= code < 500 and code not in _RETRIED_STATUS):
        return StoreError, ""
    return None, ""


def _debug_cause(message: str) -> tuple[type[StoreError], str]:
    """Return kind and cause of an error below HTTP."""
    kinds: tuple[tuple[dict[str, str], type[StoreError]], ...] = (
        (_PERMANENT, StoreError),
        (_TRANSIENT, TransientStoreError),
    )
    for causes, kind in kinds:
        for pattern, cause in causes.items():
            if re.search(pattern, message, re.DOTALL):
                return kind, cause
    return TransientStoreError, ""


def _access_cause(message: str, code: int) -> str | None:
    """Return why access is denied, or None for another kind of error."""
    service = _METADATA_SERVICE.search(message)
    if service and code not in _RETRIED_STATUS and code < 500:
        return (
            "no credentials: none in storage_options or the environment, and the metadata service "
            f"of a cloud machine ({service[1]}) gave none. Pass credentials in storage_options"
        )
    if _EXPIRED.search(message) and 400 <= code < 500:
        return "the token or signature has expired or is not valid yet: get a new one"
    if _CLOCK.search(message) and code:
        return "the clock of this machine is wrong: set it"
    if code in (401, 403):
        return "access denied: check the credentials and their permissions"
    if 400 <= code < 500 and code not in _RETRIED_STATUS and _TOKEN_REQUEST.search(message):
        return "the identity provider refused a token: check tenant, client id and secret"
    return None


def _missing_cause(message: str, operation: str) -> str:
    if _NO_BUCKET.search(message):
        return "the bucket or container does not exist: check the URL"
    if operation in ("list", "create", "write"):  # of which only a missing bucket answers 404
        return "the endpoint answers 404: check the endpoint and the bucket or container"
    return ""


def _unsupported_cause(operation: str) -> str:
    if operation == "create":
        return (
            "the store does not support conditional writes (put-if-absent), without which "
            "concurrent commits would overwrite each other: use a store or a gateway that does"
        )
    return f"the store does not support this request ({operation})"
