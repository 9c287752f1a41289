"""`lazydelta check`: can the table be read, and does its `.crc` match the log?

With `--store` it checks the object store instead: address, credential, requests.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from lazydelta.cli.common_options import State, common_options, pass_state
from lazydelta.cli.output import Output
from lazydelta.cli.versions import open_table
from lazydelta.scan import TableCheck
from lazydelta.store.diagnosis import check_store

if TYPE_CHECKING:
    from lazydelta.scan import ChecksumReport
    from lazydelta.store.diagnosis import StoreReport

__all__ = ["check"]


@click.command()
@click.argument("url")
@click.option("--version", type=click.IntRange(min=0), help="A version; default: newest.")
@click.option("--store", is_flag=True, help="Check the object store at URL, not a table.")
@click.option("--write", is_flag=True, help="With --store: write and delete an object.")
@common_options
@pass_state
@click.pass_context
def check(
    ctx: click.Context, state: State, /, url: str, *, version: int | None, store: bool, write: bool
) -> None:
    """Check whether the table at URL can be read, and whether its newest .crc matches the log.

    Counts the files of the .crc's version by one streaming scan. The exit code is 1 if the table
    cannot be read or a field of the .crc differs; a missing .crc is no error.

    With --store: prints the store and the kind of credential that URL, options and environment
    resolve to, and whether listing, range reads and, with --write, conditional puts work. The exit
    code is 1 if one of them fails.
    """
    if write and not store:
        raise click.UsageError("--write is only for --store")
    if store and version is not None:
        raise click.UsageError("--version and --store exclude each other")
    output = Output(json=state.json)
    result: TableCheck | StoreReport
    if store:
        result = check_store(url, state.storage_options, write=write)
    else:
        result = open_table(state, url).check(version)
    if output.json:
        output.document(result.to_dict())
    elif not output.is_terminal:
        output.flat(result.to_dict())
    elif isinstance(result, TableCheck):
        _show(output, result)
    else:
        _show_store(output, result)
    ctx.exit(0 if result.ok else 1)


def _show_store(output: Output, report: StoreReport) -> None:
    output.facts({name: value for name, value in report.to_dict().items() if name != "probes"})
    output.title("requests")
    rows = [(p.name, p.status, p.milliseconds, p.detail) for p in report.probes]
    output.table(("request", "result", "ms", "detail"), rows)


def _show(output: Output, result: TableCheck) -> None:
    verdict = result.compatibility
    facts = {
        "table": verdict.table,
        "version": verdict.version,
        "decision": verdict.decision,
        "reason": verdict.reason,
        "reader version": verdict.min_reader_version,
        "writer version": verdict.min_writer_version,
        "reader features": list(verdict.reader_features),
        "writer features": list(verdict.writer_features),
        "active features": list(verdict.active_features),
    }
    if result.checksum is not None:
        facts["checksum"] = _summary(result.checksum)
    output.facts(facts)
    if result.checksum is not None and result.checksum.mismatches:
        output.title("fields of the .crc that differ from the log")
        rows = [(m.field, m.recorded, m.computed) for m in result.checksum.mismatches]
        output.table(("field", "in the .crc", "in the log"), rows)


def _summary(report: ChecksumReport) -> str:
    if report.status == "missing":
        return "none: the log has no .crc file"
    if report.status == "unusable":
        return f"{report.file} cannot be used: {report.reason}"
    if report.status == "mismatch":
        return f"{report.file} does not match the log"
    absent = f"; it has no {', '.join(report.absent)}" if report.absent else ""
    return f"{report.file} matches the log{absent}"
