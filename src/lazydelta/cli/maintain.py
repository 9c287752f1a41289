"""`lazydelta maintain`: run the maintenance policy of a file, as a scheduler does."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from lazydelta.cli.common_options import State, common_options, pass_state
from lazydelta.cli.confirm import confirm, yes_option
from lazydelta.cli.output import Output, human_bytes, visible
from lazydelta.table import load_policy
from lazydelta.table import maintain as maintain_tables

if TYPE_CHECKING:
    from lazydelta.table import MaintenanceReport, StepReport

__all__ = ["maintain"]


@click.command()
@click.argument("policy", type=click.Path(exists=True, dir_okay=False, path_type=Path))
@click.option("--dry-run", is_flag=True, help="Show what would be done; change nothing.")
@yes_option
@common_options
@pass_state
def maintain(state: State, /, policy: Path, *, dry_run: bool, yes: bool) -> None:
    """Optimize, vacuum and checkpoint the tables of a POLICY file (JSON, TOML or YAML).

    VACUUM only reports, unless the policy has dry_run_default: false. A step that fails stops the
    later steps of its table; then the exit code is 1.
    """
    loaded = load_policy(policy)
    deleting = [table.table_uri for table in loaded.tables if table.deletes_files]
    if deleting and not dry_run:
        question = f"Delete files of {', '.join(deleting)} that are no longer retained?"
        confirm(state.redact(question), yes=yes)
    output = Output(json=state.json)

    def show(table: str, step: StepReport) -> None:
        if not output.json:
            _show_step(output, state.redact(table), step, state.redact(_detail(step)))
        for warning in step.result.get("warnings", ()) if not state.quiet else ():
            click.echo(f"warning: {state.redact(f'{table}: {warning}')}", err=True)

    report = maintain_tables(
        loaded,
        dry_run=dry_run,
        storage_options=state.storage_options or None,
        progress=show,
    )
    if output.json:
        output.document(_without_secrets(state, report))
    if not report.ok:
        raise click.exceptions.Exit(1)


def _show_step(output: Output, table: str, step: StepReport, detail: str) -> None:
    if not output.is_terminal:
        output.table((), [(table, step.step, step.status, detail)])
        return
    if step.step == "check":
        output.title(table)
    status = click.style(f"{step.status:<7}", fg="red" if step.status == "failed" else None)
    output.print(f"  {step.step:<11}  {status}  {visible(detail)}".rstrip())


def _detail(step: StepReport) -> str:
    """Return the reason of a step, or the figures of its result."""
    result: Any = step.result
    if step.status in ("skipped", "failed"):
        return step.reason
    if step.step == "optimize":
        metrics = result["metrics"]
        figures = (
            f"{metrics['numRemovedFiles']:,} files ({human_bytes(metrics['numRemovedBytes'])})"
        )
        return f"{figures} to rewrite" if result["dry_run"] else f"{figures} rewritten"
    if step.step in ("vacuum", "log_cleanup"):
        kind = "to_delete" if result["dry_run"] else "deleted"
        figures = f"{result[f'files_{kind}']:,} files {kind.replace('_', ' ')}"
        return f"{figures}; {step.reason}" if step.reason else figures
    if step.step == "properties":
        return ", ".join(f"{key}={value}" for key, value in result.items())
    known = step.step == "checkpoint" and not result["is_new"]
    return f"version {result['version']}{' has one already' if known else ''}"


def _without_secrets(state: State, report: MaintenanceReport) -> dict[str, Any]:
    """Return the report with values of storage options redacted from error messages."""
    document = report.to_dict()
    for table in document["tables"]:
        for step in table["steps"]:
            step["reason"] = state.redact(step["reason"])
    return document
