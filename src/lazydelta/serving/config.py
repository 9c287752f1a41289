"""`ServeConfig`: what a server offers, to which principals, and within which limits.

One TOML file. Unknown keys and contradictory settings are refused before the server listens.
"""

from __future__ import annotations

import ipaddress
import tomllib
from dataclasses import dataclass, field, fields, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self, TypeVar

from lazydelta.errors import ConfigError
from lazydelta.serving.limits import Limits

if TYPE_CHECKING:
    import os
    from collections.abc import Mapping

__all__ = [
    "EVERY_PRINCIPAL",
    "EXAMPLE_CONFIG",
    "Endpoint",
    "PrincipalEntry",
    "RootEntry",
    "ServeConfig",
    "TableEntry",
    "TlsFiles",
]

EXAMPLE_CONFIG = Path(__file__).parent / "example.toml"
"""A commented configuration, which `lazydelta serve --example-config` prints."""

EVERY_PRINCIPAL = "*"
_DIGEST_LENGTH = 64

T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True)
class TableEntry:
    """A table by the name that clients use."""

    name: str
    url: str
    options: Mapping[str, Any] = field(default_factory=dict, repr=False)
    """Options of the object store, with credentials; by default the environment has them."""
    principals: tuple[str, ...] = ()
    """The principals that may read it; `"*"` is every authenticated one."""

    def __post_init__(self) -> None:
        """Validate the name: it is a path segment of URLs and a Flight descriptor."""
        _check_name("tables.name", self.name)


@dataclass(frozen=True, slots=True, kw_only=True)
class RootEntry:
    """A directory whose tables clients may name by their path below it, as in `name/sub/path`."""

    name: str
    url: str
    options: Mapping[str, Any] = field(default_factory=dict, repr=False)
    principals: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        """Validate the name."""
        _check_name("roots.name", self.name)


@dataclass(frozen=True, slots=True, kw_only=True)
class PrincipalEntry:
    """A client: what it is called, and how it proves it."""

    name: str
    token_sha256: tuple[str, ...] = field(default=(), repr=False)
    """SHA-256 digests of its bearer tokens, in hexadecimal; several while tokens are rotated."""
    certificate: str | None = None
    """The common name of its client certificate (mTLS)."""
    expires: datetime | None = None
    """When the tokens stop being valid."""

    def __post_init__(self) -> None:
        """Validate name, digests and time."""
        _check_name("principals.name", self.name)
        for digest in self.token_sha256:
            if len(digest) != _DIGEST_LENGTH or not set(digest) <= set("0123456789abcdef"):
                reason = f"of {self.name!r} is not a SHA-256 digest of 64 hexadecimal digits"
                raise ConfigError("principals.token_sha256", reason)
        if not self.token_sha256 and self.certificate is None:
            reason = f"{self.name!r} needs token_sha256 or certificate"
            raise ConfigError("principals", reason)
        if self.expires is not None and self.expires.tzinfo is None:
            object.__setattr__(self, "expires", self.expires.replace(tzinfo=UTC))


@dataclass(frozen=True, slots=True, kw_only=True)
class TlsFiles:
    """Paths of PEM files."""

    certificate: str
    key: str
    client_ca: str | None = None
    """With it, every client must present a certificate that this authority signed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Endpoint:
    """Where one of the two servers listens."""

    enabled: bool = True
    host: str = "127.0.0.1"
    port: int = 0

    @property
    def is_loopback(self) -> bool:
        """Whether only this machine can connect."""
        if self.host == "localhost":
            return True
        try:
            return ipaddress.ip_address(self.host).is_loopback
        except ValueError:
            return False


@dataclass(frozen=True, slots=True, kw_only=True)
class ServeConfig:
    """The settings of a server."""

    tables: tuple[TableEntry, ...] = ()
    roots: tuple[RootEntry, ...] = ()
    principals: tuple[PrincipalEntry, ...] = ()
    tls: TlsFiles | None = None
    limits: Limits = field(default_factory=Limits)
    http: Endpoint = Endpoint(port=8080)
    flight: Endpoint = Endpoint(port=50051)
    insecure: bool = False
    """Whether other machines may connect without TLS and authentication."""
    resume_key: bytes = field(default=b"", repr=False)
    """Signs resume tokens; servers that continue each other's scans have the same."""
    engine: Mapping[str, Any] = field(default_factory=dict)
    """Fields of `lazydelta.Config` for all tables."""

    def __post_init__(self) -> None:
        """Refuse ambiguous names, unknown principals and open doors."""
        if not self.tables and not self.roots:
            raise ConfigError("tables", "must name at least one table")
        names = [entry.name for entry in self.entries]
        for kind, given in (("tables", names), ("principals", [p.name for p in self.principals])):
            if duplicates := sorted({name for name in given if given.count(name) > 1}):
                raise ConfigError(kind, f"has the name {duplicates[0]!r} more than once")
        if not self.http.enabled:
            raise ConfigError("http.enabled", "must be true: health and metrics are there")
        self._check_principals()
        for kind in ("http", "flight"):
            self._check_exposure(kind, getattr(self, kind))

    @classmethod
    def for_tables(
        cls, tables: Mapping[str, str], options: Mapping[str, Any] | None = None, **settings: Any
    ) -> Self:
        """Return the settings of a server of these tables, on loopback and without authentication.

        >>> ServeConfig.for_tables({"trips": "/lake/trips"}).http
        Endpoint(enabled=True, host='127.0.0.1', port=8080)
        """
        entries = tuple(TableEntry(name=n, url=u, options=options or {}) for n, u in tables.items())
        return cls(tables=entries, **settings)

    @classmethod
    def from_toml(cls, path: str | os.PathLike[str]) -> Self:
        """Read a configuration file; paths in it are relative to the file.

        Raises:
            ConfigError: The file is missing or not TOML, or a setting is unknown or invalid.
        """
        try:
            return cls.from_mapping(tomllib.loads(Path(path).read_text("utf-8")), Path(path).parent)
        except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
            raise ConfigError(str(path), f"cannot be read: {error}") from error

    @classmethod
    def from_mapping(cls, document: Mapping[str, Any], directory: Path = Path()) -> Self:
        """Build the settings from a parsed file."""
        values = dict(document)
        for name, kind in (("tables", TableEntry), ("roots", RootEntry)):
            values[name] = tuple(_build(kind, entry, name) for entry in _list(values, name))
        values["principals"] = tuple(
            _build(PrincipalEntry, _listed_digests(entry), "principals")
            for entry in _list(values, "principals")
        )
        if "tls" in values:
            tls = _build(TlsFiles, values["tls"], "tls")
            values["tls"] = TlsFiles(
                certificate=str(directory / tls.certificate),
                key=str(directory / tls.key),
                client_ca=None if tls.client_ca is None else str(directory / tls.client_ca),
            )
        values["limits"] = _build(Limits, values.get("limits", {}), "limits")
        for name, port in (("http", 8080), ("flight", 50051)):
            values[name] = _build(Endpoint, {"port": port, **values.get(name, {})}, name)
        key_file = values.pop("resume_key_file", None)
        if key_file is not None:
            values["resume_key"] = (directory / key_file).read_bytes().strip()
        return _build(cls, values, "")

    @property
    def entries(self) -> tuple[TableEntry | RootEntry, ...]:
        """The tables and the roots."""
        return (*self.tables, *self.roots)

    def without_access(self) -> Self:
        """Return the settings without principals and what they may read."""
        tables = tuple(replace(entry, principals=()) for entry in self.tables)
        roots = tuple(replace(entry, principals=()) for entry in self.roots)
        return replace(self, tables=tables, roots=roots, principals=(), insecure=True)

    def _check_principals(self) -> None:
        known = {principal.name for principal in self.principals} | {EVERY_PRINCIPAL}
        for entry in self.entries:
            if unknown := sorted(set(entry.principals) - known):
                reason = f"of {entry.name!r} names {unknown[0]!r}, which is no principal"
                raise ConfigError("tables.principals", reason)
            if self.principals and not entry.principals:
                reason = f'of {entry.name!r} is missing: list names, or "*" for all'
                raise ConfigError("tables.principals", reason)

    def _check_exposure(self, kind: str, endpoint: Endpoint) -> None:
        if not endpoint.enabled or endpoint.is_loopback or self.insecure:
            return
        missing = [
            name
            for name, value in (("tls", self.tls), ("principals", self.principals))
            if not value
        ]
        if missing:
            raise ConfigError(
                f"{kind}.host",
                f"{endpoint.host} is not a loopback address, and there is no "
                f"{' and no '.join(missing)}: any machine could read the tables, or the tokens. "
                "Configure them, listen on 127.0.0.1, or set insecure = true",
            )


def _check_name(setting: str, name: Any) -> None:
    allowed = isinstance(name, str) and name and name.replace("-", "").replace(".", "")
    if not allowed or not allowed.replace("_", "").isalnum() or not name.isascii():
        raise ConfigError(setting, f"must be letters, digits, `_`, `-` and `.`, not {name!r}")


def _list(values: Mapping[str, Any], name: str) -> list[Any]:
    entries = values.get(name, [])
    if not isinstance(entries, list):
        raise ConfigError(name, f"must be a list of tables: write [[{name}]]")
    return entries


def _listed_digests(entry: Any) -> Any:
    if isinstance(entry, dict) and isinstance(entry.get("token_sha256"), str):
        return {**entry, "token_sha256": [entry["token_sha256"]]}
    return entry


def _build(kind: type[T], values: Any, where: str) -> T:
    """Build a settings class from a table of the file; lists become tuples."""
    if not isinstance(values, dict):
        raise ConfigError(where, "must be a table of settings")
    prefix = f"{where}." if where else ""
    known = {f.name: str(f.type) for f in fields(kind)}  # type: ignore[arg-type]
    for name, value in values.items():
        if name not in known:
            raise ConfigError(f"{prefix}{name}", f"no such setting. There are: {', '.join(known)}")
        _check_type(f"{prefix}{name}", known[name], value)
    arguments = {n: tuple(v) if isinstance(v, list) else v for n, v in values.items()}
    try:
        return kind(**arguments)
    except TypeError as error:  # a required setting is missing
        raise ConfigError(where, str(error).partition("() ")[2]) from error


_KINDS: dict[str, tuple[type, ...]] = {
    "str": (str,),
    "int": (int,),
    "float": (int, float),
    "bool": (bool,),
    "str | None": (str, type(None)),
    "datetime | None": (datetime,),
    "tuple[str, ...]": (list, tuple),
}


def _check_type(setting: str, kind: str, value: Any) -> None:
    expected = _KINDS.get(kind)
    if expected is None:
        return
    if not isinstance(value, expected) or (isinstance(value, bool) and bool not in expected):
        raise ConfigError(setting, f"must be of the type {kind}, not {value!r}")
    if isinstance(value, list) and not all(isinstance(item, str) for item in value):
        raise ConfigError(setting, "must be a list of strings")
