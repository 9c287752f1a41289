"""Caller-side settings: every default of the engine is here and nowhere else."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, fields
from difflib import get_close_matches
from enum import StrEnum
from operator import index
from typing import TYPE_CHECKING, Any, Literal, Self, get_args

import pyarrow as pa

from lazydelta.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from lazydelta.metrics import Observer

__all__ = [
    "CODECS",
    "Config",
    "ReadOptions",
    "ScanStrategy",
    "Strategy",
    "Tripwire",
    "WriteOptions",
    "check_options",
    "given_columns",
    "given_number",
]

Tripwire = Literal["protocol", "strict"]
DatetimeRebaseMode = Literal["exception", "corrected"]

CODECS = ("snappy", "zstd", "gzip", "lz4", "brotli", "none")
"""How the pages of data files may be compressed."""

_ENV_PREFIX = "LAZYDELTA_"
_OF_TESTS = ("LAZYDELTA_TEST_", "LAZYDELTA_GOLDEN")
"""What the repository's own tests are told; who sets it for them may run more in the same shell."""


class ScanStrategy(StrEnum):
    """The strategies by name, for callers who like that better than text; they are the text."""

    AUTO = "auto"
    REVERSE = "reverse"
    FORWARD = "forward"


Strategy = ScanStrategy | Literal["auto", "reverse", "forward"]


def given_number(name: str, value: Any) -> int:
    """Return what a caller gave as a number: of numpy too, but neither a text nor a truth value.

    Raises:
        ConfigError: It is none; `name` is what the caller calls it.
    """
    try:
        if not isinstance(value, bool):
            return index(value)
    except TypeError:
        pass
    raise ConfigError(name, f"must be a whole number, not {value!r}")


def check_options(name: str, given: Any, kind: type) -> None:
    """Refuse options of another kind: a dict, say, or those of writes where rows are read.

    Raises:
        ConfigError: They are of another kind; `name` is what the caller calls them.
    """
    if not isinstance(given, kind):
        raise ConfigError(name, f"must be {kind.__name__}, not {type(given).__name__}")


def given_columns(columns: Sequence[str] | None) -> tuple[str, ...] | None:
    """Return the columns that a caller asked for, None for all of them.

    Raises:
        ConfigError: One text, which would be taken letter by letter; no names; or a name twice.
    """
    if columns is None:
        return None
    if isinstance(columns, str):
        raise ConfigError("columns", f"must be a list of names, as in [{columns!r}]")
    names = tuple(columns) if isinstance(columns, Iterable) else (columns,)
    if not all(isinstance(name, str) for name in names):
        raise ConfigError("columns", f"must be a list of names, not {columns!r:.80}")
    twice = [name for name, count in Counter(names).items() if count > 1]
    if twice:
        raise ConfigError("columns", f"names {twice[0]!r} more than once")
    return names


_NAMES_OF_COLUMNS = ("file_column_name", "row_id_column", "row_commit_version_column")
_LEAST_READ = {"batch_rows": 1, "files_at_once": 1, "memory_limit": 0, "max_inflated_bytes": 1}


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadOptions:
    """How rows are read and shown.

    `Config.read` has the defaults; a scan, and each way out of it, may be given others.
    """

    batch_rows: int = 131_072
    """Most rows in one batch."""
    files_at_once: int | None = None
    """How many files are read at the same time; by default one for each core, more if remote."""
    memory_limit: int = 128 * 1024 * 1024
    """Bytes of finished batches that may wait for a slow consumer."""
    max_inflated_bytes: int = 1024 * 1024 * 1024
    """Bytes that one column of a row group may decode to in one piece, if it is small in the file:
    what is more than this and more than 64 times its size there is refused as a bomb."""
    ordered: bool = True
    """Whether rows come in plan order: the same rows in the same order on every read of a
    snapshot, and the same rows under a limit. False yields batches as files finish, which saves a
    few percent where file sizes differ a lot."""
    enable_parquet_pushdown: bool = True
    """Whether row groups that cannot match are left out; the rows are the same either way."""
    file_column_name: str | None = None
    """Name of a column with the path of the file a row is from."""
    row_id_column: str | None = None
    """Name of a column with the row's id, in tables that track rows."""
    row_commit_version_column: str | None = None
    """Name of a column with the version that last changed the row, in tables that track rows."""
    wrap_partition_values: bool = False
    """Whether partition columns of text or bytes, and the file column, are dictionary-encoded."""
    schema_force_view_types: bool = False
    """Whether columns of text or bytes are shown as `string_view` and `binary_view`. Local files
    that are read whole then take about half the time, if the compiled decoder is installed."""
    datetime_rebase_mode: DatetimeRebaseMode = "exception"
    """What becomes of timestamps before 1900 in files of Spark's legacy calendar that were written
    in another time zone than UTC: `exception` raises `DataFileError`, `corrected` returns them as
    stored. Dates, and timestamps of UTC, are rebased in either mode."""
    schema: pa.Schema | None = None
    """The Arrow schema to show rows in: columns that it leaves out are not read, columns that the
    table has not are null, and a type may only be one that holds every value of the table's."""

    def __post_init__(self) -> None:
        """Refuse values that could only fail later."""
        for name, least in _LEAST_READ.items():
            value = getattr(self, name)
            if value is not None and given_number(name, value) < least:
                raise ConfigError(name, f"must be at least {least}, not {value}")
        for name in _NAMES_OF_COLUMNS:
            if not isinstance(getattr(self, name), str | None):
                raise ConfigError(name, f"must be a name, not {getattr(self, name)!r}")
        modes = get_args(DatetimeRebaseMode)
        if self.datetime_rebase_mode not in modes:
            reason = f"must be one of {', '.join(modes)}, not {self.datetime_rebase_mode!r}"
            raise ConfigError("datetime_rebase_mode", reason)
        if not isinstance(self.schema, pa.Schema | None):
            given = type(self.schema).__name__
            raise ConfigError("schema", f"must be a pyarrow.Schema, not {given}")
        names = [] if self.schema is None else self.schema.names
        twice = {name for name in names if names.count(name) > 1}
        if twice:
            raise ConfigError("schema", f"has the column {min(twice)!r} more than once")


_LEAST_WRITE = {
    "target_file_bytes": 1,
    "row_group_rows": 1,
    "memory_limit": 1,
    "files_at_once": 1,
    "open_files": 1,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class WriteOptions:
    """How rows become data files.

    `Config.write` has the defaults; a write may be given others. What is None here is decided by
    the table's own properties, or by the machine.
    """

    target_file_bytes: int | None = None
    """A file that has grown to this is finished; by default `delta.targetFileSize`, or 128 MiB."""
    codec: str | None = None
    """How pages are compressed; by default `delta.parquet.compression.codec`, or snappy."""
    compression_level: int | None = None
    """Of a codec that has levels."""
    row_group_rows: int = 1_048_576
    """Most rows in one row group."""
    memory_limit: int = 256 * 1024 * 1024
    """Bytes of rows that may wait to be written; as many again may be under way."""
    files_at_once: int | None = None
    """How many files are encoded at the same time; by default one for each core, at most 4."""
    open_files: int | None = None
    """How many files may be unfinished; by default 512, or 32 where they are uploads."""

    def __post_init__(self) -> None:
        """Refuse values that could only fail later."""
        for name, least in _LEAST_WRITE.items():
            value = getattr(self, name)
            if value is not None and (not isinstance(value, int) or value < least):
                raise ConfigError(name, f"must be a whole number from {least} on, not {value!r}")
        if self.compression_level is not None:
            given_number("compression_level", self.compression_level)
        if self.codec is not None and self.codec not in CODECS:
            raise ConfigError("codec", f"must be one of {', '.join(CODECS)}, not {self.codec!r}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Config:
    """How this process reads tables. Frozen: change it with `dataclasses.replace`.

    The table's own settings (`delta.*` properties) are not here; they are part of a snapshot.
    """

    batch_rows: int = 8192
    """Most rows in one batch of planned files."""
    commit_read_parallelism: int = 16
    """How many log files are fetched at once."""
    checkpoint_row_groups_per_batch: int = 10
    """How many row groups of a checkpoint one read pass covers; a stopped scan reads no further."""
    prefetch_batches: int = 4
    """How many planned batches may wait for a slow consumer."""
    remove_set_memory_limit: int = 64 * 1024 * 1024
    """Bytes of RAM for the keys of the log's tail; beyond it they go to a temporary file."""
    remove_set_capacity: int = 1_000_000
    """How many keys the Bloom filter in front of the key set is laid out for."""
    remove_set_false_positive_rate: float = 0.01
    """Of that filter; a false positive costs one look-up, never a file."""
    reverse_window_commits: int = 1000
    """Most commits parsed together; the first windows of a scan are smaller."""
    forward_tail_commits: int = 100
    """`auto` prefers forward order when the tail is longer than this."""
    enable_fallback: bool = True
    """Whether the tripwire may hand over to the reference replay instead of raising."""
    tripwire: Tripwire = "protocol"
    """What trips: only what the replay does not understand, or all but add and remove."""
    use_log_compaction: bool = True
    """Read `x.y.compacted.json` files in place of the commits they cover."""
    retention_guard: Callable[[int], bool] | None = None
    """Given the floor version of a scan; False refuses it."""
    allowed_roots: tuple[str, ...] = ()
    """FileStores outside the table's root that its log may point to (shallow clones)."""
    retry_attempts: int = 5
    """How often a failing read of the log is tried in all."""
    retry_base_seconds: float = 0.05
    """Pause before the second try; it doubles, with jitter, up to the cap."""
    retry_cap_seconds: float = 2.0
    """Longest pause between two tries."""
    commit_attempts: int = 100
    """How often a commit is tried in all, other writers' wins and failures of the store alike."""
    commit_seconds: float = 300.0
    """How long a commit is tried; after that it is given up, or its outcome is unknown."""
    max_line_bytes: int = 256 * 1024 * 1024
    """Longest line of a commit; a longer one is refused."""
    max_json_depth: int = 256
    """Deepest nesting of a line of a commit; a deeper one is refused."""
    read: ReadOptions = ReadOptions()
    """How rows are read and shown, unless a scan says otherwise."""
    write_checksums: bool = True
    """Whether a commit is followed by its `.crc`."""
    write_checkpoints: bool = True
    """Whether a checkpoint is written when the table's `delta.checkpointInterval` is up."""
    write_compactions: bool = True
    """Whether commits are compacted in tables whose properties ask for it."""
    write: WriteOptions = WriteOptions()
    """How rows become data files, unless a write says otherwise."""
    observer: Observer | None = None
    """Told about every operation that ends, and every call to the store."""

    def __post_init__(self) -> None:
        """Refuse values that could only fail later and less clearly."""
        for name, least in _LEAST.items():
            if given_number(name, getattr(self, name)) < least:
                raise ConfigError(name, f"must be at least {least}, not {getattr(self, name)}")
        for name in _LEAST_SECONDS:
            if not _given_float(name, getattr(self, name)) >= 0:  # NaN is not, either
                raise ConfigError(name, f"must be at least 0, not {getattr(self, name)}")
        rate = "remove_set_false_positive_rate"
        if not 0 < _given_float(rate, getattr(self, rate)) < 1:
            raise ConfigError(rate, "must lie between 0 and 1")
        if self.tripwire not in get_args(Tripwire):
            raise ConfigError("tripwire", f"must be one of {', '.join(get_args(Tripwire))}")
        for field in fields(self):
            _check_kind(field.name, str(field.type), getattr(self, field.name))

    @classmethod
    def from_env(cls, env: Mapping[str, str] = os.environ) -> Self:
        """Read `LAZYDELTA_*`; an unknown name is an error, never a silent default.

        >>> Config.from_env({"LAZYDELTA_BATCH_ROWS": "100"}).batch_rows
        100
        """
        types = {f.name: f.type for f in fields(cls)}
        given: dict[str, Any] = {}
        known = (k for k in env if k.startswith(_ENV_PREFIX) and not k.startswith(_OF_TESTS))
        for key in sorted(known):
            name = key.removeprefix(_ENV_PREFIX).lower()
            read = _READERS.get(str(types.get(name)))
            if read is None:
                near = get_close_matches(name, [n for n in types if str(types[n]) in _READERS], n=1)
                hint = f" (did you mean {_ENV_PREFIX}{near[0].upper()}?)" if near else ""
                raise ConfigError(key, f"no such setting{hint}")
            try:
                given[name] = read(env[key])
            except (ValueError, KeyError):
                wanted = _WANTED[str(types[name])]
                raise ConfigError(key, f"must be {wanted}, not {env[key]!r}") from None
        return cls(**given)


def _given_float(name: str, value: Any) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise ConfigError(name, f"must be a number, not {value!r}")
    return value


def _check_kind(name: str, kind: str, value: Any) -> None:
    """Refuse what is of another kind than the setting, before a scan meets it far from here."""
    if kind == "bool" and not isinstance(value, bool):
        raise ConfigError(name, f"must be True or False, not {value!r}")
    if kind == "ReadOptions":
        check_options(name, value, ReadOptions)
    if kind == "WriteOptions":
        check_options(name, value, WriteOptions)
    if kind.endswith("| None") and value is not None and not callable(value):
        raise ConfigError(name, f"must be a function, not {value!r}")
    # One text would be taken letter by letter, and refused later, for a letter of it.
    if kind == "tuple[str, ...]" and (
        isinstance(value, str)
        or not isinstance(value, Iterable)
        or not all(isinstance(text, str) for text in value)
    ):
        raise ConfigError(name, f"must be a list of texts, not {value!r}")


_LEAST: dict[str, int] = {
    "batch_rows": 1,
    "commit_read_parallelism": 1,
    "checkpoint_row_groups_per_batch": 1,
    "prefetch_batches": 1,
    "remove_set_memory_limit": 0,
    "remove_set_capacity": 1,
    "reverse_window_commits": 1,
    "forward_tail_commits": 0,
    "retry_attempts": 1,
    "commit_attempts": 1,
    "max_line_bytes": 1024,
    "max_json_depth": 8,
}

_LEAST_SECONDS = ("retry_base_seconds", "retry_cap_seconds", "commit_seconds")

_WANTED = {"int": "a whole number", "float": "a number", "bool": "true or false"}
"""What a text of the environment may be, where not every text will do."""

_READERS: dict[str, Callable[[str], Any]] = {
    "int": int,
    "float": float,
    "bool": lambda text: {"1": True, "true": True, "0": False, "false": False}[text.lower()],
    "Tripwire": str,
    "tuple[str, ...]": lambda text: tuple(filter(None, text.split(","))),
}
