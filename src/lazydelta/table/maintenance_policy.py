"""Maintenance policies: what is done to which tables.

A policy is validated completely before anything runs. Errors have the path of the key, such as
`tables[1].vacuum.mode`. Nothing here knows how a step runs.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import timedelta
from difflib import get_close_matches
from typing import TYPE_CHECKING, Any, Literal, TypeVar

from lazydelta.config import CODECS, validate_integer
from lazydelta.errors import ConfigError, PredicateError, SchemaError
from lazydelta.expressions import as_predicate
from lazydelta.protocol import parse_interval

if TYPE_CHECKING:
    from lazydelta.scan import Where

__all__ = [
    "CheckpointsPolicy",
    "MaintenancePolicy",
    "OptimizePolicy",
    "TablePolicy",
    "VacuumPolicy",
    "parse_policy",
]

_Check = Callable[[str, Any], Any]
_MILLISECOND = timedelta(milliseconds=1)
_Section = TypeVar("_Section")


@dataclass(frozen=True, slots=True, kw_only=True)
class WriterPolicy:
    """`optimize.writer_properties`: how files are written, under the names of deltalake."""

    compression: str | None = None
    compression_level: int | None = None
    max_row_group_size: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionLimits:
    """`optimize.session_state_limits`."""

    max_spill_size_bytes: int | None = None
    """Bytes in memory before rows are spilled: `Config.operation_memory`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OptimizePolicy:
    """`optimize`: options of OPTIMIZE."""

    enabled: bool = True
    type: Literal["compact", "zorder"] = "compact"
    zorder_cols: tuple[str, ...] = ()
    partition_filters: Where = None
    target_size_bytes: int | None = None
    writer_properties: WriterPolicy = WriterPolicy()
    session_state_limits: SessionLimits = SessionLimits()
    concurrency_assumption: Literal["append_only", "mixed"] = "mixed"
    """What other writers do meanwhile: a short retention is allowed if they only append."""


@dataclass(frozen=True, slots=True, kw_only=True)
class VacuumPolicy:
    """`vacuum`: options of VACUUM."""

    enabled: bool = True
    mode: Literal["lite", "full"] = "lite"
    dry_run_default: bool = True
    """Whether the step only reports; a policy that deletes states `false`."""
    retention_period: timedelta | None = None
    """By default the table's `delta.deletedFileRetentionDuration`."""
    enforce_retention_duration: bool = True
    keep_versions: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckpointsPolicy:
    """`checkpoints`: table properties of the log, checkpoint and log cleanup."""

    enabled: bool = True
    log_retention: timedelta | None = None
    """Becomes the table's `delta.logRetentionDuration`."""
    enable_expired_log_cleanup: bool | None = None
    """Becomes the table's `delta.enableExpiredLogCleanup`."""
    run_cleanup_metadata: bool = True
    """Whether expired log files are deleted in this run."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TablePolicy:
    """The policy of one table; a section that it does not have is not run."""

    table_uri: str
    optimize: OptimizePolicy | None = None
    vacuum: VacuumPolicy | None = None
    checkpoints: CheckpointsPolicy | None = None

    @property
    def deletes_files(self) -> bool:
        """Whether a run may delete data files or log files."""
        vacuum, checkpoints = self.vacuum, self.checkpoints
        return (vacuum is not None and vacuum.enabled and not vacuum.dry_run_default) or (
            checkpoints is not None and checkpoints.enabled and checkpoints.run_cleanup_metadata
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class MaintenancePolicy:
    """A valid policy: the tables, in the order in which they are maintained."""

    tables: tuple[TablePolicy, ...]


def parse_policy(document: Any) -> MaintenancePolicy:
    """Validate a policy of one table, or of a list of `tables`.

    Raises:
        ConfigError: A key is unknown or missing, or has an invalid value; it has the key's path.
    """
    if not isinstance(document, Mapping):
        raise ConfigError("policy", f"must be a mapping, not {_show(document)}")
    if "tables" not in document:
        return MaintenancePolicy(tables=(_table("", document),))
    _refuse_unknown("", document, ("tables",))
    tables = _list("tables", document["tables"])
    if not tables:
        raise ConfigError("tables", "must have at least one table")
    return MaintenancePolicy(
        tables=tuple(_table(f"tables[{index}]", table) for index, table in enumerate(tables))
    )


def _table(path: str, value: Any) -> TablePolicy:
    checks: dict[str, _Check] = {
        "table_uri": _address,
        "optimize": _optimize,
        "vacuum": _vacuum,
        "checkpoints": _checkpoints,
    }
    if isinstance(value, Mapping) and "table_uri" not in value:
        _refuse_unknown(path, value, (*checks, *(() if path else ("tables",))))
        raise ConfigError(_join(path, "table_uri"), "is missing")
    return _section(TablePolicy, path, value, checks)


def _optimize(path: str, value: Any) -> OptimizePolicy:
    section = _section(OptimizePolicy, path, value, _OPTIMIZE)
    columns = _join(path, "zorder_cols")
    if section.type == "zorder" and not section.zorder_cols:
        raise ConfigError(columns, 'is required by the type "zorder"')
    if section.type != "zorder" and section.zorder_cols:
        raise ConfigError(columns, f'is only for the type "zorder", not {section.type!r}')
    return section


def _vacuum(path: str, value: Any) -> VacuumPolicy:
    return _section(VacuumPolicy, path, value, _VACUUM)


def _checkpoints(path: str, value: Any) -> CheckpointsPolicy:
    return _section(CheckpointsPolicy, path, value, _CHECKPOINTS)


def _writer(path: str, value: Any) -> WriterPolicy:
    return _section(WriterPolicy, path, value, _WRITER)


def _limits(path: str, value: Any) -> SessionLimits:
    return _section(SessionLimits, path, value, _LIMITS)


def _section(kind: type[_Section], path: str, value: Any, checks: Mapping[str, _Check]) -> _Section:
    """Validate a mapping, and return it as a dataclass."""
    if not isinstance(value, Mapping):
        raise ConfigError(path, f"must be a mapping, not {_show(value)}")
    _refuse_unknown(path, value, tuple(checks))
    return kind(**{key: checks[key](_join(path, key), item) for key, item in value.items()})


def _refuse_unknown(path: str, value: Mapping[Any, Any], known: tuple[str, ...]) -> None:
    for key in value:
        if key not in known:
            near = get_close_matches(str(key).lower(), known, n=1)
            hint = f"did you mean {near[0]}?" if near else f"known keys: {', '.join(known)}"
            raise ConfigError(_join(path, key), f"is unknown; {hint}")


def _join(path: str, key: Any) -> str:
    return f"{path}.{key}" if path else str(key)


def _show(value: Any) -> str:
    """Return a value as an error message shows it."""
    if value is None:
        return "null: leave the key out for its default"
    return f"a {type(value).__name__}" if isinstance(value, Mapping | list) else repr(value)


# --- values ---------------------------------------------------------------------------------


def _boolean(path: str, value: Any) -> bool:
    if not isinstance(value, bool):
        raise ConfigError(path, f"must be true or false, not {_show(value)}")
    return value


def _string(path: str, value: Any) -> str:
    if not isinstance(value, str) or not value.strip():
        raise ConfigError(path, f"must be a string that is not empty, not {_show(value)}")
    return value


def _address(path: str, value: Any) -> str:
    return _string(path, os.fspath(value) if isinstance(value, os.PathLike) else value)


def _list(path: str, value: Any) -> list[Any]:
    if not isinstance(value, list | tuple):
        raise ConfigError(path, f"must be a list, not {_show(value)}")
    return list(value)


def _each(check: _Check) -> _Check:
    def validate(path: str, value: Any) -> tuple[Any, ...]:
        items = enumerate(_list(path, value))
        return tuple(check(f"{path}[{index}]", item) for index, item in items)

    return validate


def _choice(*options: str, fold_case: bool = False) -> _Check:
    def validate(path: str, value: Any) -> str:
        value = value.lower() if fold_case and isinstance(value, str) else value
        if value not in options:
            raise ConfigError(path, f"must be one of {', '.join(options)}, not {_show(value)}")
        return str(value)

    return validate


def _integer(minimum: int | None) -> _Check:
    return lambda path, value: validate_integer(path, value, minimum)


def _interval(path: str, value: Any) -> timedelta:
    """Read hours, or an interval such as "7 days"; the default of deltalake is hours too."""
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    try:
        if is_number:
            interval = timedelta(hours=value)
        elif isinstance(value, timedelta):
            interval = value
        else:
            interval = parse_interval(_string(path, value), path)
    except (ConfigError, SchemaError, OverflowError, ValueError):
        reason = f"must be hours, or an interval such as '7 days', not {_show(value)}"
        raise ConfigError(path, reason) from None
    if interval < timedelta():
        raise ConfigError(path, f"cannot be negative: {value!r}")
    return interval // _MILLISECOND * _MILLISECOND  # as table properties store it


def _filters(path: str, value: Any) -> Where:
    """Read a SQL predicate, a mapping, or DNF, whose tuples are lists in a file."""
    if not isinstance(value, str | Mapping | list | tuple):
        reason = f"must be a SQL predicate, or a list of [column, operator, value]: {value!r}"
        raise ConfigError(path, reason)
    where: Any = value
    if isinstance(value, list | tuple):
        is_conjunction = all(
            isinstance(item, list | tuple) and _is_condition(item) for item in value
        )
        where = [tuple(item) for item in value] if is_conjunction else value
    try:
        as_predicate(where)
    except PredicateError as error:
        raise ConfigError(path, str(error)) from None
    return where


def _is_condition(item: list[Any] | tuple[Any, ...]) -> bool:
    return bool(item) and isinstance(item[0], str)


def _unlimited_disk(path: str, _: Any) -> None:
    reason = (
        "is not supported: temporary disk is not limited. Compaction uses none; Z-order and "
        "clustering use up to about twice the bytes that they rewrite. Remove the key"
    )
    raise ConfigError(path, reason)


_WRITER: dict[str, _Check] = {
    "compression": _choice(*CODECS, fold_case=True),
    "compression_level": _integer(None),
    "max_row_group_size": _integer(1),
}
_LIMITS: dict[str, _Check] = {
    "max_spill_size_bytes": _integer(1024),
    "max_temp_directory_size_bytes": _unlimited_disk,
}
_OPTIMIZE: dict[str, _Check] = {
    "enabled": _boolean,
    "type": _choice("compact", "zorder"),
    "zorder_cols": _each(_string),
    "partition_filters": _filters,
    "target_size_bytes": _integer(1),
    "writer_properties": _writer,
    "session_state_limits": _limits,
    "concurrency_assumption": _choice("append_only", "mixed"),
}
_VACUUM: dict[str, _Check] = {
    "enabled": _boolean,
    "mode": _choice("lite", "full"),
    "dry_run_default": _boolean,
    "retention_period": _interval,
    "enforce_retention_duration": _boolean,
    "keep_versions": _each(_integer(0)),
}
_CHECKPOINTS: dict[str, _Check] = {
    "enabled": _boolean,
    "log_retention": _interval,
    "enable_expired_log_cleanup": _boolean,
    "run_cleanup_metadata": _boolean,
}
