"""Print the result of a write, DELETE, UPDATE or MERGE."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from lazydelta.cli.output import Output, human_bytes
from lazydelta.operations import WriteResult

if TYPE_CHECKING:
    from lazydelta.cli.common_options import State
    from lazydelta.operations.dml import DmlResult

__all__ = ["show_change"]

_ROWS = {
    "numDeletedRows": "deleted",
    "numUpdatedRows": "updated",
    "numTargetRowsInserted": "inserted",
    "numTargetRowsUpdated": "updated",
    "numTargetRowsDeleted": "deleted",
}
"""What happened to the rows that a metric counts."""
_FILES = {
    "files removed": ("numRemovedFiles", "numTargetFilesRemoved"),
    "deletion vectors added": ("numDeletionVectorsAdded", "numTargetDeletionVectorsAdded"),
    "files added": ("numAddedFiles", "numTargetFilesAdded"),
}
"""The metrics of files; DELETE and UPDATE have other names than MERGE."""


def show_change(state: State, result: WriteResult | DmlResult) -> None:
    """Print a sentence on a terminal, names and values in a pipe, or JSON."""
    for warning in result.warnings if not state.quiet else ():
        click.echo(f"warning: {state.redact(warning)}", err=True)
    output = Output(json=state.json)
    if output.json:
        output.document(result.to_dict())
    elif output.is_terminal:
        sentence = _of_write(result) if isinstance(result, WriteResult) else _of_rows(result)
        output.print(sentence)
    else:
        output.flat(result.to_dict())


def _of_write(result: WriteResult) -> str:
    if result.skipped:
        return f"The table exists, at version {result.version}; nothing was written."
    if result.already_applied:
        return f"Version {result.version} already has this app version; nothing was written."
    removed = f", {result.files_removed:,} removed" if result.files_removed else ""
    return (
        f"Version {result.version}: {result.rows:,} rows in {result.files_added:,} files "
        f"({human_bytes(result.bytes)}){removed}."
    )


def _of_rows(result: DmlResult) -> str:
    if result.already_applied:
        return f"Version {result.version} already has this app version; nothing was written."
    counts = {word: result.metrics[name] for name, word in _ROWS.items() if name in result.metrics}
    if counts and not any(counts.values()):
        return f"No row to change; the table stays at version {result.version}."
    parts = [f"{count:,} rows {word}" for word, count in counts.items() if count]
    parts += [
        f"{count:,} {word}"
        for word, names in _FILES.items()
        if (count := sum(result.metrics.get(name, 0) for name in names))
    ]
    if result.dry_run:
        return f"Dry run on version {result.version}: {', '.join(parts)}."
    written = f" ({human_bytes(result.bytes)} written)" if result.bytes else ""
    return f"Version {result.version}: {', '.join(parts)}{written}."
