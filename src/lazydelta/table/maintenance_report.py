"""The report of a maintenance run: what each step did, or why it did not run."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any, Literal

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["MaintenanceReport", "StepReport", "TableReport"]

StepStatus = Literal["done", "dry_run", "skipped", "failed"]


@dataclass(frozen=True, slots=True, kw_only=True)
class StepReport:
    """One step of one table."""

    step: str
    status: StepStatus
    """"done": it ran, and `result` may say that there was nothing to do. "dry_run": nothing was
    changed, and `result` says what would be. "skipped": it did not run. "failed": it stopped with
    an error; what it had committed before stays."""
    reason: str = ""
    """Why it was skipped or only reported, or the message of the error."""
    error: str | None = None
    """The class of the error, if it failed with one."""
    result: Mapping[str, Any] = field(default_factory=dict)
    """The result of the method of `Table` that the step called, as plain values."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TableReport:
    """All steps of one table, in order, also those that did not run."""

    table: str
    steps: tuple[StepReport, ...]

    @property
    def ok(self) -> bool:
        """Whether no step failed."""
        return all(step.status != "failed" for step in self.steps)

    def step(self, name: str) -> StepReport:
        """Return the report of a step."""
        return next(step for step in self.steps if step.step == name)


@dataclass(frozen=True, slots=True, kw_only=True)
class MaintenanceReport:
    """Result of `maintain`."""

    dry_run: bool
    tables: tuple[TableReport, ...]
    """In the order of the policy."""

    @property
    def ok(self) -> bool:
        """Whether no step of any table failed."""
        return all(table.ok for table in self.tables)

    def to_dict(self) -> dict[str, Any]:
        """Return plain values, for JSON."""
        tables = [{**asdict(table), "ok": table.ok} for table in self.tables]
        return {"dry_run": self.dry_run, "ok": self.ok, "tables": tables}
