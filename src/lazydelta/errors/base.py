"""The base of all errors: they pickle, and they contain no secrets."""

from __future__ import annotations

import re
from dataclasses import dataclass, fields, is_dataclass
from typing import Any

__all__ = [
    "DeltaError",
    "InternalError",
    "redact",
]

_SECRET_IN_URL = re.compile(
    r"(?i)([?&](?:sig|se|sp|sv|skoid|token|signature|awsaccesskeyid|x-amz-[a-z-]+|x-goog-[a-z-]+)=)"
    r"[^&\s\"']*"
)
_USERINFO = re.compile(r"((?:\w[\w+.-]*:)?//)[^/@\s:]+:[^/@\s]+@")


def redact(message: str) -> str:
    """Return `message` without signatures, tokens and passwords of the URLs in it.

    >>> redact("https://a.blob.core.windows.net/c/t?sv=1&sig=abc%3D")
    'https://a.blob.core.windows.net/c/t?sv=***&sig=***'
    """
    return _USERINFO.sub(r"\1***@", _SECRET_IN_URL.sub(r"\1***", message))


class DeltaError(Exception):
    """Base of all errors that lazydelta raises on purpose."""

    __module__ = __package__

    def __init_subclass__(cls) -> None:
        """Let tracebacks and pickles name the door, so that classes can move behind it."""
        if cls.__module__.startswith(f"{__package__}."):
            cls.__module__ = __package__

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle the fields: dataclass errors do not keep them in `args`."""
        names: list[str] = [f.name for f in fields(self)] if is_dataclass(self) else []
        return (type(self), tuple(getattr(self, name) for name in names))


@dataclass(eq=False)
class InternalError(DeltaError, RuntimeError):
    """An invariant of lazydelta itself does not hold."""

    reason: str

    def __str__(self) -> str:
        return f"{self.reason}. This is a bug in lazydelta, please report it."
