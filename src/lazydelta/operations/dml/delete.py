"""DELETE: remove whole files where possible, else mark rows by deletion vectors or rewrite."""

from __future__ import annotations

import time
from dataclasses import replace
from typing import TYPE_CHECKING

import orjson

from lazydelta.operations.dml.matched_files import find_matches
from lazydelta.operations.dml.request import DmlResult
from lazydelta.operations.dml.row_deletion import plan_deletion
from lazydelta.operations.dml.table_rules import has_change_feed
from lazydelta.operations.dml.verb import Verb, predicate_sql
from lazydelta.operations.dml.verb_changes import RowChanges
from lazydelta.operations.uncommitted_files import UncommittedFiles
from lazydelta.writer.files import write_change_files

if TYPE_CHECKING:
    from collections.abc import Callable

    import pyarrow as pa

    from lazydelta.config import Config
    from lazydelta.operations.dml.matched_files import MatchedFiles
    from lazydelta.operations.dml.request import DmlRequest
    from lazydelta.snapshot import SnapshotState
    from lazydelta.store import Store

__all__ = ["delete_rows"]


def delete_rows(
    store: Store,
    config: Config,
    request: DmlRequest,
    *,
    known: SnapshotState | None = None,
    remember: Callable[[SnapshotState | None], None] = lambda _: None,
) -> DmlResult:
    """Delete the matching rows as one version; no commit if none match.

    Args:
        store: The table's store.
        config: Settings of the engine.
        request: The options.
        known: The last snapshot that the caller has of the table; may be outdated.
        remember: Receives the committed snapshot, or None if it is not known.

    Raises:
        TableNotFoundError: There is no table.
        AppendOnlyError: The table is append-only.
        PredicateError: The predicate is invalid.
        CommitConflictError: A concurrent commit conflicts with this one.
        UnsupportedFeatureError: The table has a feature that lazydelta cannot write.
    """
    verb = Verb.start("DELETE", store, config, request, known=known, remember=remember)
    if isinstance(verb, DmlResult):
        return verb
    matches, found = verb.matches(), time.monotonic()
    if request.dry_run:
        return verb.would_change({"numDeletedRows": matches.matched_rows}, matches)
    if not matches.all.num_rows:
        return verb.nothing({"numDeletedRows": 0})
    sql = orjson.dumps([predicate_sql(verb.predicate)]).decode()
    # Without change files a removed file means that all its rows were deleted.
    feed = bool(matches.partial.num_rows) and has_change_feed(verb.snapshot)
    with UncommittedFiles(store, None) as files:

        def again(added: pa.Table) -> RowChanges | None:
            more = find_matches(verb.snapshot, verb.predicate, added)
            if more.partial.num_rows and has_change_feed(verb.snapshot) and not feed:
                return None  # the rows of whole files are in no change file
            return _delete(verb, more, files, feed=feed)

        first = _delete(verb, matches, files, feed=feed).timed(verb.phases(found))
        return verb.commit(first, {"predicate": sql}, files, again=again)


def _delete(
    verb: Verb, matches: MatchedFiles, files: UncommittedFiles, *, feed: bool
) -> RowChanges:
    """Delete the matching rows, and write them to change data files."""
    deletion = plan_deletion(verb.snapshot, matches)
    written = verb.write_deletion(deletion, files)
    if feed:
        with verb.matching_rows(matches.all) as rows:
            layout = verb.layout()
            changes = write_change_files(rows, "delete", store=verb.store, layout=layout)
        written = replace(written, changes=files.add(changes))
    metrics = {"numDeletedRows": matches.matched_rows}
    return RowChanges(deletion=deletion, written=written, metrics=metrics)
