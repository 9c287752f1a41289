"""Settings of the caller: every default of the engine is here and nowhere else."""

from __future__ import annotations

import os
from base64 import b64decode
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from enum import StrEnum
from operator import index
from typing import TYPE_CHECKING, Any, Literal, Self, get_args

import pyarrow as pa

from lazydelta.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import Callable

    from lazydelta.metrics import Observer

__all__ = [
    "CODECS",
    "Config",
    "PostCommit",
    "ReadOptions",
    "ScanStrategy",
    "Strategy",
    "Tripwire",
    "WriteOptions",
    "check_options",
    "validate_columns",
    "validate_integer",
]

Tripwire = Literal["protocol", "strict"]
PostCommit = Literal["wait", "background"]
DatetimeRebaseMode = Literal["exception", "corrected"]
AllowedRoots = Sequence[str] | Mapping[str, Mapping[str, Any]]

CODECS = ("snappy", "zstd", "gzip", "lz4", "brotli", "none")
"""Compression codecs of data files."""

_ENV_PREFIX = "LAZYDELTA_"
_TEST_PREFIXES = ("LAZYDELTA_TEST_", "LAZYDELTA_GOLDEN")
"""Variables of the repository's tests: a shell that has them set can still run the engine."""


class ScanStrategy(StrEnum):
    """The scan strategies as an enum; each member is equal to its string."""

    AUTO = "auto"
    REVERSE = "reverse"
    FORWARD = "forward"


Strategy = ScanStrategy | Literal["auto", "reverse", "forward"]


def validate_integer(name: str, value: Any, minimum: int | None = None) -> int:
    """Validate an integer argument; numpy integers are valid, strings and booleans are not.

    Raises:
        ConfigError: The value is not an integer, or below the minimum; `name` is the argument's
            name.
    """
    try:
        number = None if isinstance(value, bool) else index(value)
    except TypeError:
        number = None
    if number is None or (minimum is not None and number < minimum):
        expected = "an integer" if minimum is None else f"an integer >= {minimum}"
        raise ConfigError(name, f"must be {expected}, not {value!r}")
    return number


def check_options(name: str, value: Any, kind: type) -> None:
    """Validate the type of an options argument.

    Raises:
        ConfigError: It has another type, such as a dict; `name` is the argument's name.
    """
    if not isinstance(value, kind):
        raise ConfigError(name, f"must be {kind.__name__}, not {type(value).__name__}")


def validate_columns(columns: Sequence[str] | None) -> tuple[str, ...] | None:
    """Validate a `columns` argument; None means all.

    Raises:
        ConfigError: A single string, which would be read letter by letter; values that are not
            strings; or a duplicate.
    """
    if columns is None:
        return None
    if isinstance(columns, str):
        raise ConfigError("columns", f"must be a list of names, as in [{columns!r}]")
    names = tuple(columns) if isinstance(columns, Iterable) else (columns,)
    if not all(isinstance(name, str) for name in names):
        raise ConfigError("columns", f"must be a list of names, not {columns!r:.80}")
    duplicates = [name for name, count in Counter(names).items() if count > 1]
    if duplicates:
        raise ConfigError("columns", f"names {duplicates[0]!r} more than once")
    return names


_COLUMN_NAME_OPTIONS = (
    *("file_column_name", "row_index_column"),
    *("row_id_column", "row_commit_version_column"),
)
_READ_MINIMUMS = {"batch_rows": 1, "files_at_once": 1, "memory_limit": 0, "max_inflated_bytes": 1}


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadOptions:
    """How rows are read and presented.

    `Config.read` has the defaults; a scan and each of its outputs accept their own.
    """

    batch_rows: int = 131_072
    """Maximum number of rows of a batch."""
    files_at_once: int | None = None
    """Files read in parallel; by default one per core, more for remote tables."""
    memory_limit: int = 128 * 1024 * 1024
    """Bytes of decoded batches that may be buffered for a slow consumer."""
    max_inflated_bytes: int = 1024 * 1024 * 1024
    """Decode limit of one column chunk, in bytes. A chunk that decodes to more than this and to
    more than 64 times its compressed size is refused as a decompression bomb."""
    ordered: bool = True
    """Whether rows come in plan order: the same rows in the same order on every read of a
    snapshot, and the same rows under a limit. False yields batches as files finish, which saves a
    few percent where file sizes differ a lot."""
    enable_parquet_pushdown: bool = True
    """Whether row groups that cannot match are skipped; the result is the same either way."""
    file_column_name: str | None = None
    """Add a column of this name with the path of the data file of each row."""
    row_index_column: str | None = None
    """Add a column of this name with the position of each row in its data file, from 0 on."""
    row_id_column: str | None = None
    """Add a column of this name with the row id; only for tables with row tracking."""
    row_commit_version_column: str | None = None
    """Add a column of this name with the row commit version; only with row tracking."""
    wrap_partition_values: bool = False
    """Whether string and binary partition columns, and the file column, are dictionary-encoded."""
    schema_force_view_types: bool = False
    """Whether string and binary columns are `string_view` and `binary_view`. Full reads of local
    files then take about half the time, if the native decoder is installed."""
    datetime_rebase_mode: DatetimeRebaseMode = "exception"
    """Timestamps before 1900 in files of Spark's legacy calendar that were written in another time
    zone than UTC: `exception` raises `DataFileError`, `corrected` returns them as stored. Dates,
    and timestamps written in UTC, are rebased in either mode."""
    schema: pa.Schema | None = None
    """The Arrow schema of the result. Columns that it omits are not read, columns that the table
    does not have are null, and each type must hold every value of the table's type."""

    def __post_init__(self) -> None:
        """Validate the values."""
        for name, minimum in _READ_MINIMUMS.items():
            value = getattr(self, name)
            if value is not None:
                validate_integer(name, value, minimum)
        for name in _COLUMN_NAME_OPTIONS:
            if not isinstance(getattr(self, name), str | None):
                raise ConfigError(name, f"must be a column name, not {getattr(self, name)!r}")
        modes = get_args(DatetimeRebaseMode)
        if self.datetime_rebase_mode not in modes:
            reason = f"must be one of {', '.join(modes)}, not {self.datetime_rebase_mode!r}"
            raise ConfigError("datetime_rebase_mode", reason)
        if not isinstance(self.schema, pa.Schema | None):
            actual = type(self.schema).__name__
            raise ConfigError("schema", f"must be a pyarrow.Schema, not {actual}")
        names = [] if self.schema is None else self.schema.names
        duplicates = {name for name in names if names.count(name) > 1}
        if duplicates:
            raise ConfigError("schema", f"has the column {min(duplicates)!r} more than once")


_WRITE_MINIMUMS = {
    "target_file_bytes": 1,
    "max_rows_per_file": 1,
    "row_group_rows": 1,
    "memory_limit": 1,
    "files_at_once": 1,
    "open_files": 1,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class WriteOptions:
    """How data files are written.

    `Config.write` has the defaults; a write accepts its own. None means that the table's
    properties or the machine decide.
    """

    target_file_bytes: int | None = None
    """Size that data files approximate; by default `delta.targetFileSize`, or 128 MiB."""
    max_rows_per_file: int | None = None
    """Maximum number of rows of a data file; by default only its size is limited."""
    codec: str | None = None
    """Compression codec; by default `delta.parquet.compression.codec`, or snappy."""
    compression_level: int | None = None
    """Compression level, for codecs that have levels."""
    row_group_rows: int = 1_048_576
    """Maximum number of rows of a row group."""
    memory_limit: int = 256 * 1024 * 1024
    """Bytes of rows that may be buffered; as many again may be in encoding."""
    files_at_once: int | None = None
    """Files encoded in parallel; by default one per core, at most 4."""
    open_files: int | None = None
    """Maximum number of open files; by default 512, or 32 for uploads."""
    optimize_write: bool | None = None
    """Whether rows of more partitions than open files go through temporary files, so that each
    partition gets few files; by default `delta.autoOptimize.optimizeWrite`, or not."""

    def __post_init__(self) -> None:
        """Validate the values."""
        for name, minimum in _WRITE_MINIMUMS.items():
            value = getattr(self, name)
            if value is not None:
                validate_integer(name, value, minimum)
        if self.compression_level is not None:
            validate_integer("compression_level", self.compression_level)
        if self.codec is not None and self.codec not in CODECS:
            raise ConfigError("codec", f"must be one of {', '.join(CODECS)}, not {self.codec!r}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Config:
    """Engine settings. Frozen: change them with `dataclasses.replace`.

    Table properties (`delta.*`) are not here; they are part of a snapshot.
    """

    batch_rows: int = 8192
    """Maximum number of files of a batch of `file_batches()`."""
    commit_read_parallelism: int = 64
    """Log files fetched in parallel."""
    checkpoint_row_groups_per_batch: int = 10
    """Row groups of a checkpoint read at a time; a closed scan reads no more of them."""
    prefetch_batches: int = 4
    """Planned batches that may be buffered for a slow consumer. With 0 a scan reads only while its
    consumer waits, and between two batches holds a row group of the checkpoint and no thread."""
    remove_set_memory_limit: int = 64 * 1024 * 1024
    """Bytes of memory for the seen file keys; beyond it they spill to a temporary file."""
    remove_set_capacity: int = 1_000_000
    """Number of keys that the Bloom filter of the seen file keys is sized for."""
    remove_set_false_positive_rate: float = 0.01
    """False-positive rate of that filter; a false positive costs a lookup, never a file."""
    reverse_window_commits: int = 1000
    """Maximum number of commits parsed together; the first windows of a scan are smaller."""
    forward_tail_commits: int = 100
    """`auto` chooses forward order if more commits than this follow the checkpoint."""
    enable_fallback: bool = True
    """Whether the tripwire falls back to the reference replay instead of raising."""
    tripwire: Tripwire = "protocol"
    """Which actions trip: those that the replay does not understand, or all but add and remove."""
    use_log_compaction: bool = True
    """Whether log compaction files replace the commits that they cover."""
    retention_guard: Callable[[int], bool] | None = None
    """Called with the oldest version that a scan reads; False refuses the scan."""
    allowed_roots: AllowedRoots = field(default=(), repr=False, hash=False)
    """Locations outside the table's root that its log may refer to (shallow clones): a list, or a
    mapping to the storage options of each. One in the table's account or bucket uses the table's
    options by default, others the environment."""
    retry_attempts: int = 8
    """Maximum number of attempts of a failing store request."""
    retry_base_seconds: float = 0.1
    """Backoff before the second attempt; it doubles, with jitter, up to the cap."""
    retry_cap_seconds: float = 2.0
    """Maximum backoff between two attempts."""
    cache_directory: str | None = None
    """Local directory in which log objects, Parquet footers and deletion vectors of remote tables
    are cached, shared by processes; by default there is no such cache."""
    cache_bytes: int = 1024 * 1024 * 1024
    """Maximum size of that cache."""
    request_deadline_seconds: float = 60.0
    """Time limit of a store request with all its attempts; a long read has it for each part."""
    commit_attempts: int = 100
    """Maximum number of attempts of a commit, lost races and store failures included."""
    commit_seconds: float = 300.0
    """Time limit of a commit; after it the commit fails, or its outcome is unknown."""
    max_line_bytes: int = 256 * 1024 * 1024
    """Maximum length of a line of a commit; a longer one is refused."""
    max_json_depth: int = 256
    """Maximum nesting depth of a line of a commit; a deeper one is refused."""
    read: ReadOptions = ReadOptions()
    """How rows are read and presented, unless a scan has its own options."""
    write_checksums: bool = True
    """Whether a commit writes its version checksum (`.crc`)."""
    write_checkpoints: bool = True
    """Whether a commit writes a checkpoint every `delta.checkpointInterval` versions."""
    write_compactions: bool = True
    """Whether commits write log compaction files for tables whose properties enable them."""
    clean_up_log: bool = False
    """Whether a commit with a checkpoint deletes log files that `delta.logRetentionDuration` no
    longer retains, unless `delta.enableExpiredLogCleanup` is false."""
    post_commit: PostCommit = "wait"
    """When checksum, checkpoint and compaction are written: before a write returns, with failures
    in `WriteResult.warnings`; or in the background after it, with failures logged. Background work
    ends before the interpreter exits."""
    write: WriteOptions = WriteOptions()
    """How data files are written, unless a write has its own options."""
    max_deleted_rows_ratio: float = 0.5
    """DELETE, UPDATE and MERGE rewrite a file of which more than this share of rows is deleted,
    instead of writing a deletion vector; 0 never writes deletion vectors."""
    row_level_concurrency: bool = True
    """Whether DELETE and UPDATE succeed beside a concurrent commit that marked other rows of the
    same files, or added files: vectors are united, and added files are searched too. False makes
    these a `CommitConflictError`, as in Delta Spark."""
    operation_memory: int = 512 * 1024 * 1024
    """Bytes of memory for a MERGE or OPTIMIZE, approximately. A larger source of a MERGE is spooled
    to a temporary file, and matched in several passes; rows that OPTIMIZE clusters are sorted with
    temporary files."""
    resume_key: bytes = field(default=b"", repr=False)
    """Secret that signs resume tokens: 32 random bytes, the same in all processes that resume each
    other's scans. An empty key detects damage, not forgery."""
    observer: Observer | None = None
    """Receives an event for every finished operation and every store request."""

    def __post_init__(self) -> None:
        """Validate the values, so that a scan does not fail on them later."""
        for name, minimum in _MINIMUMS.items():
            validate_integer(name, getattr(self, name), minimum)
        for name in _NON_NEGATIVE_SECONDS:
            if not _validate_number(name, getattr(self, name)) >= 0:  # false for NaN
                raise ConfigError(name, f"must be at least 0, not {getattr(self, name)}")
        if not self.request_deadline_seconds > 0:
            raise ConfigError("request_deadline_seconds", "must be greater than 0")
        rate = "remove_set_false_positive_rate"
        if not 0 < _validate_number(rate, getattr(self, rate)) < 1:
            raise ConfigError(rate, "must lie between 0 and 1")
        ratio = "max_deleted_rows_ratio"
        if not 0 <= _validate_number(ratio, getattr(self, ratio)) <= 1:
            raise ConfigError(ratio, "must lie between 0 and 1")
        if self.tripwire not in get_args(Tripwire):
            raise ConfigError("tripwire", f"must be one of {', '.join(get_args(Tripwire))}")
        if self.post_commit not in get_args(PostCommit):
            raise ConfigError("post_commit", f"must be one of {', '.join(get_args(PostCommit))}")
        for setting in fields(self):
            _check_kind(setting.name, str(setting.type), getattr(self, setting.name))

    @classmethod
    def from_env(cls, env: Mapping[str, str] = os.environ) -> Self:
        """Read `LAZYDELTA_*` variables; an unknown name is an error, never a silent default.

        >>> Config.from_env({"LAZYDELTA_BATCH_ROWS": "100"}).batch_rows
        100
        """
        types = {f.name: f.type for f in fields(cls)}
        values: dict[str, Any] = {}
        keys = (k for k in env if k.startswith(_ENV_PREFIX) and not k.startswith(_TEST_PREFIXES))
        for key in sorted(keys):
            name = key.removeprefix(_ENV_PREFIX).lower()
            parse = _PARSERS.get(str(types.get(name)))
            if parse is None:
                from difflib import get_close_matches  # slow to import

                near = get_close_matches(name, [n for n in types if str(types[n]) in _PARSERS], n=1)
                hint = f" (did you mean {_ENV_PREFIX}{near[0].upper()}?)" if near else ""
                raise ConfigError(key, f"no such setting{hint}")
            try:
                values[name] = parse(env[key])
            except (ValueError, KeyError):
                expected = _EXPECTED[str(types[name])]
                value = "***" if types[name] == "bytes" else repr(env[key])
                raise ConfigError(key, f"must be {expected}, not {value}") from None
        return cls(**values)


def _validate_number(name: str, value: Any) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise ConfigError(name, f"must be a number, not {value!r}")
    return value


def _check_kind(name: str, kind: str, value: Any) -> None:
    """Validate the type of a setting."""
    if kind == "bool" and not isinstance(value, bool):
        raise ConfigError(name, f"must be True or False, not {value!r}")
    if kind == "ReadOptions":
        check_options(name, value, ReadOptions)
    if kind == "WriteOptions":
        check_options(name, value, WriteOptions)
    if kind == "bytes" and not isinstance(value, bytes):
        raise ConfigError(name, f"must be bytes, not {type(value).__name__}")
    if kind == "str | None" and not isinstance(value, str | None):
        raise ConfigError(name, f"must be a string, not {value!r}")
    if kind.startswith(("Callable", "Observer")) and value is not None and not callable(value):
        raise ConfigError(name, f"must be a function, not {value!r}")
    if kind == "AllowedRoots":
        _check_roots(name, value)


def _check_roots(name: str, value: Any) -> None:
    # A single string would be read letter by letter.
    if (
        isinstance(value, str)
        or not isinstance(value, Iterable)
        or not all(isinstance(item, str) for item in value)
    ):
        raise ConfigError(
            name, f"must be a list of strings, not of the type {type(value).__name__}"
        )
    if isinstance(value, Mapping) and not all(isinstance(o, Mapping) for o in value.values()):
        raise ConfigError(name, "must map each root to its storage options")


_MINIMUMS: dict[str, int] = {
    "batch_rows": 1,
    "commit_read_parallelism": 1,
    "checkpoint_row_groups_per_batch": 1,
    "prefetch_batches": 0,
    "remove_set_memory_limit": 0,
    "remove_set_capacity": 1,
    "reverse_window_commits": 1,
    "forward_tail_commits": 0,
    "retry_attempts": 1,
    "cache_bytes": 0,
    "commit_attempts": 1,
    "max_line_bytes": 1024,
    "max_json_depth": 8,
    "operation_memory": 1024,
}

_NON_NEGATIVE_SECONDS = (
    "retry_base_seconds",
    "retry_cap_seconds",
    "request_deadline_seconds",
    "commit_seconds",
)

_EXPECTED = {"int": "an integer", "float": "a number", "bool": "true or false", "bytes": "Base64"}
"""The values that a variable accepts, by the type of its setting."""

_PARSERS: dict[str, Callable[[str], Any]] = {
    "int": int,
    "float": float,
    "bool": lambda value: {"1": True, "true": True, "0": False, "false": False}[value.lower()],
    "Tripwire": str,
    "PostCommit": str,
    "str | None": str,
    "AllowedRoots": lambda value: tuple(filter(None, value.split(","))),
    "bytes": lambda value: b64decode(value, validate=True),
}
