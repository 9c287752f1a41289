"""`maintain`: runs a policy. OPTIMIZE, VACUUM, checkpoint and log cleanup of each table, in order.

The order makes each step useful to the next: OPTIMIZE leaves dead files, VACUUM records commits,
and the checkpoint has them all. Guards are checked before the first change of a table.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from lazydelta.config import Config, check_options
from lazydelta.errors import ConfigError, DeltaError, redact
from lazydelta.protocol import Retention
from lazydelta.protocol.features import unsupported_error, unwritable_features
from lazydelta.table.maintenance_policy import (
    CheckpointsPolicy,
    OptimizePolicy,
    TablePolicy,
    VacuumPolicy,
)
from lazydelta.table.maintenance_report import MaintenanceReport, StepReport, TableReport
from lazydelta.table.policy_file import load_policy
from lazydelta.table.table import Table

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from lazydelta.store.cloud import Credential
    from lazydelta.table.policy_file import PolicySource

__all__ = ["STEPS", "maintain"]

logger = logging.getLogger(__name__)

_SECTIONS = {
    "optimize": "optimize",
    "vacuum": "vacuum",
    "properties": "checkpoints",
    "checkpoint": "checkpoints",
    "log_cleanup": "checkpoints",
}
"""The section of the policy that each step belongs to."""
STEPS = ("check", *_SECTIONS)
"""The steps of a table, in their order."""

_LOG_RETENTION = "delta.logRetentionDuration"
_LOG_CLEANUP = "delta.enableExpiredLogCleanup"
_UNITS = {"days": timedelta(days=1), "hours": timedelta(hours=1), "seconds": timedelta(seconds=1)}


def maintain(
    policy: PolicySource,
    *,
    dry_run: bool = False,
    storage_options: Mapping[str, Any] | None = None,
    config: Config | None = None,
    credential: Credential | None = None,
    progress: Callable[[str, StepReport], None] | None = None,
) -> MaintenanceReport:
    """Optimize, vacuum and checkpoint tables, and clean up their logs, as a policy says.

    The policy is validated before anything runs. The tables are maintained one after the other.
    A step that fails stops the later steps of its table; the other tables are maintained all the
    same. The report has every step: what it did, or why it did not run.

    Args:
        policy: The path of a `.json`, `.toml`, `.yaml` or `.yml` file, or its content: a mapping
            for one table, or one with a list of `tables`. docs/how-to/maintenance.md has the keys.
        dry_run: Whether to report what would be done, and change nothing. Each step is planned on
            the table as it is, without the steps before it. VACUUM also only reports as long as
            the policy does not have `dry_run_default: false`.
        storage_options: Options of the object store, for all tables.
        config: Engine settings.
        credential: Signs in, as for `Table.open`.
        progress: Receives a table's address and the report of a step when the step ends.

    Raises:
        ConfigError: The policy cannot be read, or is invalid; no table was opened.
        MissingPackageError: The policy is YAML, and PyYAML is not installed.
    """
    tables = load_policy(policy).tables
    config = Config.from_env() if config is None else config
    check_options("config", config, Config)
    # Log cleanup is a step of its own here, under the guard for kept versions.
    config = replace(config, clean_up_log=False)

    def open_table(url: str, config: Config) -> Table:
        return Table.open(url, storage_options, config, credential=credential)

    reports = []
    for table in tables:
        run = _TableRun(policy=table, dry_run=dry_run, config=config, open_table=open_table)
        reports.append(run.run(progress or (lambda _, __: None)))
    return MaintenanceReport(dry_run=dry_run, tables=tuple(reports))


class _Skip(Exception):  # noqa: N818 - not an error
    """A step does not run, for this reason."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _TableRun:
    """The steps of one table. Each returns its report, or raises."""

    policy: TablePolicy
    dry_run: bool
    config: Config
    open_table: Callable[[str, Config], Table]

    def run(self, progress: Callable[[str, StepReport], None]) -> TableReport:
        address = redact(self.policy.table_uri)
        steps: list[StepReport] = []
        for name in STEPS:
            failed = next((step.step for step in steps if step.status == "failed"), None)
            steps.append(self._report(name, failed))
            progress(address, steps[-1])
        return TableReport(table=address, steps=tuple(steps))

    def _report(self, name: str, failed: str | None) -> StepReport:
        """Run a step. Its errors become its report, because other tables continue."""
        section = getattr(self.policy, _SECTIONS[name]) if name in _SECTIONS else self.policy
        if reason := _why_not(section, _SECTIONS.get(name, ""), failed):
            return StepReport(step=name, status="skipped", reason=reason)
        try:
            report: StepReport = getattr(self, f"_{name}")(section)
        except _Skip as skip:
            return StepReport(step=name, status="skipped", reason=str(skip))
        except Exception as error:  # an entry point: the report has every error
            if not isinstance(error, DeltaError):
                logger.warning("%s of a maintenance run failed", name, exc_info=True)
            kind, message = type(error).__name__, redact(str(error))
            return StepReport(step=name, status="failed", reason=message, error=kind)
        return report

    def _check(self, policy: TablePolicy) -> StepReport:
        """Check the guards that need the table, before anything is changed."""
        table = self._table()
        snapshot = table.snapshot()
        if features := unwritable_features(snapshot.protocol):
            raise unsupported_error(table.url, features, "write")
        if (vacuum := policy.vacuum) is not None and vacuum.enabled:
            self._has_short_retention(vacuum, snapshot.metadata.configuration)
            for version in vacuum.keep_versions:
                table.snapshot(version)
        return StepReport(step="check", status="done", result={"version": snapshot.version})

    def _optimize(self, policy: OptimizePolicy) -> StepReport:
        table = self.open_table(self.policy.table_uri, _with_options(self.config, policy))
        result = table.optimize(
            policy.partition_filters,
            target_size=policy.target_size_bytes,
            z_order=policy.zorder_cols,
            dry_run=self.dry_run,
        )
        return self._done("optimize", result.to_dict())

    def _vacuum(self, policy: VacuumPolicy) -> StepReport:
        table = self._table()
        is_dry = self.dry_run or policy.dry_run_default
        result = table.vacuum(
            policy.retention_period,
            policy.mode,
            keep_versions=policy.keep_versions,
            dry_run=is_dry,
            force=self._has_short_retention(policy, table.metadata.configuration),
        )
        values = result.to_dict()
        if result.files_failed:
            reason = f"{result.files_failed} files could not be deleted"
            return StepReport(step="vacuum", status="failed", reason=reason, result=values)
        if is_dry and not self.dry_run:
            reason = "vacuum.dry_run_default is true"
            return StepReport(step="vacuum", status="dry_run", reason=reason, result=values)
        return self._done("vacuum", values)

    def _properties(self, policy: CheckpointsPolicy) -> StepReport:
        table = self._table()
        changed = _changed_properties(policy, table.metadata.configuration)
        if not changed:
            raise _Skip("the table has the properties of the policy")
        if not self.dry_run:
            table.alter.set_properties(changed)
        return self._done("properties", changed)

    def _checkpoint(self, _: CheckpointsPolicy) -> StepReport:
        table = self._table()
        if not self.dry_run:
            return self._done("checkpoint", table.checkpoint().to_dict())
        snapshot = table.snapshot()
        newest = snapshot.segment.checkpoint
        is_new = newest is None or newest.version != snapshot.version
        return self._done("checkpoint", {"version": snapshot.version, "is_new": is_new})

    def _log_cleanup(self, policy: CheckpointsPolicy) -> StepReport:
        if not policy.run_cleanup_metadata:
            raise _Skip("checkpoints.run_cleanup_metadata is false")
        table = self._table()
        properties = table.metadata.configuration
        if _changed_properties(policy, properties):
            raise _Skip("it depends on properties that the run would change")
        if properties.get(_LOG_CLEANUP, "true").lower() != "true":
            raise _Skip(f"{_LOG_CLEANUP} of the table is false")
        self._check_kept_versions(table)
        result = table.cleanup_log(dry_run=self.dry_run)
        if self.dry_run:
            return self._done("log_cleanup", result.to_dict(), result.reason)
        if left := result.files_to_delete - result.files_deleted:
            return StepReport(
                step="log_cleanup",
                status="failed",
                reason=f"{left} log files could not be deleted",
                result=result.to_dict(),
            )
        return self._done("log_cleanup", result.to_dict(), result.reason)

    def _check_kept_versions(self, table: Table) -> None:
        """Skip a log cleanup after which a version that VACUUM keeps could not be read."""
        kept = self.policy.vacuum.keep_versions if self.policy.vacuum is not None else ()
        if not kept:
            return
        oldest = table.cleanup_log(dry_run=True).oldest_version
        if oldest is not None and min(kept) < oldest:
            lost = f"versions before {oldest} would be lost"
            raise _Skip(f"{lost}, and vacuum.keep_versions has {min(kept)}")

    def _table(self) -> Table:
        return self.open_table(self.policy.table_uri, self.config)

    def _done(self, step: str, result: Mapping[str, Any], reason: str = "") -> StepReport:
        return StepReport(
            step=step,
            status="dry_run" if self.dry_run else "done",
            reason=reason,
            result=result,
        )

    def _has_short_retention(self, vacuum: VacuumPolicy, properties: Mapping[str, str]) -> bool:
        """Whether the retention is shorter than the table's; refused unless the policy allows it.

        Other writers must only append, because the files that they remove may still be read. A
        listing is refused with it: it would find files that running appends have not committed.
        """
        retention, least = vacuum.retention_period, Retention.parse(properties).deleted_files
        if retention is None or retention >= least:
            return False
        optimize = self.policy.optimize or OptimizePolicy()
        needed = {
            "vacuum.enforce_retention_duration to false": not vacuum.enforce_retention_duration,
            "optimize.concurrency_assumption to append_only": (
                optimize.concurrency_assumption == "append_only"
            ),
            "vacuum.mode to lite": vacuum.mode == "lite",
        }
        if missing := [setting for setting, is_met in needed.items() if not is_met]:
            raise ConfigError(
                "vacuum.retention_period",
                f"{retention} is shorter than delta.deletedFileRetentionDuration ({least}): "
                "readers and running writers could lose files. Give a longer one, or set "
                f"{' and '.join(missing)} if no reader needs older versions",
            )
        return True


def _why_not(section: Any, name: str, failed: str | None) -> str:
    """Return why a step does not run; empty if it does."""
    if section is None:
        return f"the policy has no section {name}"
    if name and not section.enabled:
        return f"{name}.enabled is false"
    return "" if failed is None else f"the step {failed} failed"


def _with_options(config: Config, policy: OptimizePolicy) -> Config:
    """Return the settings with those of the policy, where it has them."""
    writer, memory = policy.writer_properties, policy.session_state_limits.max_spill_size_bytes
    given = {
        "codec": writer.compression,
        "compression_level": writer.compression_level,
        "row_group_rows": writer.max_row_group_size,
    }
    options: Any = {name: value for name, value in given.items() if value is not None}
    return replace(
        config,
        write=replace(config.write, **options),
        operation_memory=config.operation_memory if memory is None else memory,
    )


def _changed_properties(policy: CheckpointsPolicy, properties: Mapping[str, str]) -> dict[str, str]:
    """Return the properties that the policy has other values for than the table."""
    changed = {}
    retention = policy.log_retention
    if retention is not None and retention != Retention.parse(properties).log:
        changed[_LOG_RETENTION] = _interval_string(retention)
    cleanup = policy.enable_expired_log_cleanup
    if cleanup is not None and cleanup != (properties.get(_LOG_CLEANUP, "true").lower() == "true"):
        changed[_LOG_CLEANUP] = str(cleanup).lower()
    return changed


def _interval_string(interval: timedelta) -> str:
    """Return an interval as Delta Spark parses it, in its largest whole unit.

    >>> _interval_string(timedelta(days=30)), _interval_string(timedelta(hours=36))
    ('interval 30 days', 'interval 36 hours')
    """
    for unit, size in _UNITS.items():
        if not interval % size:
            return f"interval {interval // size} {unit}"
    return f"interval {interval // timedelta(milliseconds=1)} milliseconds"
