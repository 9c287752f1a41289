"""Commit attempts: put the next version if absent, and rebase on the winning commit if it exists.

Invariant: no attempt at a later version is made before the earlier one is known to exist. A put
with an unknown outcome is repeated with the same bytes at the same version until the store shows
which commit is there, so it never takes effect twice. Data files are never deleted here.
"""

from __future__ import annotations

import logging
from dataclasses import replace
from functools import partial
from operator import is_not
from typing import TYPE_CHECKING, TypeVar

from lazydelta._failpoints import failpoint
from lazydelta.errors import (
    CommitAttemptsError,
    CommitUnknownError,
    ConcurrentAppendError,
    ConcurrentDeleteDeleteError,
    ConcurrentDeleteReadError,
    LogCorruptError,
    ObjectExistsError,
    ObjectNotFoundError,
    StoreError,
    TableExistsError,
    TransientStoreError,
    VersionCleanedUpError,
)
from lazydelta.log import CommitReader
from lazydelta.transaction import tuning
from lazydelta.transaction.background import submit
from lazydelta.transaction.commit_json import serialize_commit
from lazydelta.transaction.conflicts import AlreadyApplied, check, state_after
from lazydelta.transaction.prepare import PreparedCommit, check_allowed, prepare
from lazydelta.transaction.read_snapshot import ReadSnapshot, commit_file
from lazydelta.transaction.result import CommitResult, Committed
from lazydelta.transaction.retry import Clock, RetryPolicy
from lazydelta.transaction.table_state import TableState
from lazydelta.transaction.winning_commit import read_txn_id, read_winning_commit

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from lazydelta.config import Config
    from lazydelta.log import LogFile
    from lazydelta.protocol import TableMetadata, TableProtocol
    from lazydelta.snapshot import SnapshotState
    from lazydelta.store import Store
    from lazydelta.transaction.result import Hook, Phase, Rebase, TxnObserver
    from lazydelta.transaction.transaction import Transaction
    from lazydelta.transaction.winning_commit import WinningCommit

__all__ = ["commit"]

logger = logging.getLogger(__name__)

_CLOCK = Clock()
_FILE_CONFLICTS = (ConcurrentAppendError, ConcurrentDeleteReadError, ConcurrentDeleteDeleteError)

R = TypeVar("R")


def commit(
    transaction: Transaction,
    *,
    store: Store,
    config: Config,
    base: SnapshotState | None,
    hooks: Sequence[Hook] = (),
    observer: TxnObserver | None = None,
    rebase: Rebase | None = None,
    clock: Clock = _CLOCK,
) -> CommitResult:
    """Commit a transaction as the next version of a table.

    Args:
        transaction: The actions to commit.
        store: The store of the table.
        config: Settings; `commit_attempts` and `commit_seconds` bound the retries, `post_commit`
            decides whether the hooks run before this returns.
        base: The snapshot that the transaction was planned on; None creates the table.
        hooks: Post-commit hooks, run in order; their errors are warnings.
        observer: Receives each phase.
        rebase: Adapts the transaction to a winning commit that conflicts with it.
        clock: Source of time.

    Raises:
        CommitConflictError: A winning commit conflicts; the subclass is the kind of conflict.
        CommitAttemptsError: Other writers won every attempt.
        CommitUnknownError: It is unknown whether the commit took effect.
        TableExistsError: There is no base, but a table.
        LogCorruptError: The newest commit of the base, or a winning commit, is damaged.
        UnsupportedFeatureError: The table has features that this engine cannot write.
        AppendOnlyError: It would remove rows of an append-only table.
        InvalidCommitError: Its actions contradict each other or the table.
    """
    attempts = _Attempts(transaction, store, config, base, clock)
    attempts.notify, attempts.rebase = observer or _ignore, rebase
    outcome = attempts.run()
    if isinstance(outcome, AlreadyApplied):
        return _already_applied(attempts, outcome)
    committed = Committed(
        store=store,
        config=config,
        version=outcome.version,
        timestamp_ms=outcome.timestamp_ms,
        transaction=outcome.transaction,
        base=attempts.base.snapshot_before(outcome.version),
        snapshot=attempts.base.snapshot_after(outcome.version, outcome.transaction),
    )
    failpoint("commit-acknowledged")
    if config.post_commit == "background":
        submit(partial(_run_hooks, hooks, committed))
        hooks = ()
    snapshot, warnings = _run_hooks(hooks, committed)
    attempts.notify("finished", outcome.version)
    return CommitResult(
        version=outcome.version,
        txn_id=transaction.txn_id,
        attempts=attempts.retry.attempts,
        already_applied=False,
        timestamp_ms=outcome.timestamp_ms,
        warnings=warnings,
        snapshot=snapshot,
    )


def _already_applied(attempts: _Attempts, outcome: AlreadyApplied) -> CommitResult:
    logger.info(
        "%s: applied already, at or before version %d", attempts.store.root, outcome.version
    )
    return CommitResult(
        version=outcome.version,
        txn_id=attempts.transaction.txn_id,
        attempts=attempts.retry.attempts,
        already_applied=True,
        timestamp_ms=attempts.clock.now_ms(),
    )


def _run_hooks(
    hooks: Sequence[Hook], committed: Committed
) -> tuple[SnapshotState | None, tuple[str, ...]]:
    """Run post-commit hooks, and return what they learned of the new version, and warnings.

    The commit is valid whatever they do.
    """
    warnings: list[str] = []
    for hook in hooks:
        name = getattr(hook, "__name__", type(hook).__name__)
        try:
            committed = replace(committed, snapshot=hook(committed) or committed.snapshot)
        except Exception as error:  # noqa: BLE001 - a hook never fails the commit
            warnings.append(f"{name}: {error}")
            logger.warning("after version %d: %s failed: %s", committed.version, name, str(error))
    return committed.snapshot, tuple(warnings)


class _Attempts:
    """The attempts to commit one transaction."""

    def __init__(
        self,
        transaction: Transaction,
        store: Store,
        config: Config,
        snapshot: SnapshotState | None,
        clock: Clock,
    ) -> None:
        self.transaction = transaction
        self.store = store
        self.config = config
        self.clock = clock
        self.base = ReadSnapshot(transaction, store, config, snapshot)
        self.retry = RetryPolicy(config, clock)
        self.notify: TxnObserver = _ignore
        self.rebase: Rebase | None = None
        self.is_unknown = False  # whether a put was sent whose outcome is not known
        self.validated: tuple[TableProtocol, TableMetadata] | None = None

    def run(self) -> PreparedCommit | AlreadyApplied:
        """Attempt versions until one is committed, or there is nothing to commit."""
        state = self.base.state()
        self.notify("start", state.version + 1)
        if self.base.is_applied():
            return AlreadyApplied(version=state.version)
        prepared = self._prepared(state)  # validated before the first request
        if self.base.may_be_outdated(self.clock.now_ms()):
            after = self._rebased(state, self.base.commits_listed)
            if not isinstance(after, TableState):
                return after
            if after is not state:
                state, prepared = after, self._prepared(after)
        while True:
            self.notify("prepared", prepared.version)
            failpoint("commit-prepared")
            if self._is_ours(prepared):
                return self._committed(prepared)
            self.notify("lost", prepared.version)
            # Usually there is one winning commit, which has been read. After further conflicts
            # back off first and list then: a listing from before the backoff is outdated.
            find_winners = self.base.commits_read
            if self.retry.conflicts:
                self.retry.back_off_after_conflict()
                find_winners = self.base.commits_listed
            self.retry.conflicts += 1
            after = self._rebased(state, find_winners)
            if not isinstance(after, TableState):
                return after
            failpoint("commit-rebased")
            self.notify("rebased", after.version + 1)
            if self.retry.is_exhausted:
                raise CommitAttemptsError(
                    self.store.root, self.retry.attempts, self.retry.seconds, after.version
                )
            state, prepared = after, self._prepared(after)

    def _prepared(self, state: TableState, now_ms: int | None = None) -> PreparedCommit:
        definition = (state.protocol, state.metadata)
        if self.validated is None or any(map(is_not, self.validated, definition)):
            check_allowed(self.transaction, state)
            self.validated = definition
        now_ms = self.clock.now_ms() if now_ms is None else now_ms
        return prepare(self.transaction, state, now_ms=now_ms)

    def _committed(self, prepared: PreparedCommit) -> PreparedCommit:
        logger.info(
            "committed version %d of %s: %s, %d files added, %d removed, attempt %d",
            prepared.version,
            self.store.root,
            prepared.transaction.operation,
            prepared.transaction.adds.num_rows,
            prepared.transaction.removes.num_rows,
            self.retry.attempts,
        )
        self.notify("committed", prepared.version)
        return prepared

    def _is_ours(self, prepared: PreparedCommit) -> bool:
        """Put a version until it exists, and return whether it is this transaction."""
        data = serialize_commit(prepared, table=self.store.root, read_version=self.base.version)
        file = commit_file(prepared.version)
        while True:
            self.retry.attempts += 1
            self.notify("put", prepared.version)
            try:
                outcome = self._put(file, data)
            except (KeyboardInterrupt, SystemExit) as error:
                error.add_note(str(self._unknown(file, "it was interrupted")))
                raise
            if isinstance(outcome, bool):
                self.retry.note_success()
                if outcome:
                    self.base.reader.keep(file, data)
                return outcome
            self.is_unknown = True
            if self.retry.is_exhausted or self.retry.is_store_down:
                raise self._unknown(file, str(outcome)) from outcome
            logger.debug("version %d: put again after %s", file.version, outcome)
            self.retry.back_off_after_failure()

    def _put(self, file: LogFile, data: bytes) -> bool | StoreError:
        """Put a version: True if it is ours, False if another's, an error if that is unknown."""
        try:
            self.store.write(file.path, data, overwrite=False)
        except ObjectExistsError:
            return self._is_own_commit(file)
        except TransientStoreError as error:
            return error
        except StoreError as error:
            if self.is_unknown:  # an earlier put may have taken effect
                raise self._unknown(file, str(error)) from error
            raise
        failpoint("commit-put")
        return True

    def _is_own_commit(self, file: LogFile) -> bool | StoreError:
        """Read which transaction an existing version is.

        The response that it exists is not enough. Some stores give it to two concurrent puts, one
        of which succeeds when repeated. The version may also be our own, from a put whose
        response was lost.
        """
        try:
            txn_id = self._read_untorn(read_txn_id, file)
        except TransientStoreError as error:
            return error
        except LogCorruptError as error:
            if isinstance(error.__cause__, ObjectNotFoundError):
                return error.__cause__
            raise
        except StoreError as error:
            raise self._unknown(file, str(error)) from error
        self.is_unknown = False
        self.base.note_read(file)
        return txn_id == self.transaction.txn_id

    def _unknown(self, file: LogFile, reason: str) -> CommitUnknownError:
        txn_id = self.transaction.txn_id
        return CommitUnknownError(self.store.root, file.version, txn_id, reason)

    def _rebased(
        self, state: TableState, find_winners: Callable[[], list[LogFile]]
    ) -> TableState | AlreadyApplied | PreparedCommit:
        """Check the winning commits since a state, oldest first, and return the state after."""
        read = partial(
            read_winning_commit, table=self.store.root, files=not self.transaction.is_blind_append
        )
        for file in self._retried(find_winners):
            winner = self._retried(partial(self._read_untorn, read, file))
            if winner.txn_id == self.transaction.txn_id:
                # Committed by an earlier call, whose outcome was unknown.
                return self._committed(self._prepared(state, winner.info_timestamp))
            if state.version < 0:
                raise TableExistsError(self.store.root)
            after = self._checked(winner, state)
            if isinstance(after, AlreadyApplied):
                return after
            state = self.base.rebased(file, after)
        return state

    def _checked(self, winner: WinningCommit, state: TableState) -> TableState | AlreadyApplied:
        """Check a winning commit; adapt the transaction if its files conflict."""
        try:
            return check(self.transaction, winner, state)
        except _FILE_CONFLICTS as error:
            has_definition = winner.protocol is not None or winner.metadata is not None
            adapted = None if self.rebase is None or has_definition else self.rebase(winner)
            if adapted is None:
                raise
            logger.debug("rebased over version %d: %s", winner.version, error)
            self.transaction, self.validated = adapted, None
            return state_after(winner, state)

    def _read_untorn(self, read: Callable[[CommitReader, LogFile], R], file: LogFile) -> R:
        """Read a commit; a store without atomic writes may show an incomplete one for a moment."""
        reader = self.base.reader
        for _ in range(tuning.TORN_READS):
            try:
                return read(reader, file)
            except LogCorruptError as error:
                if isinstance(error.__cause__, ObjectNotFoundError):
                    raise
                self.retry.back_off_after_failure()
                reader = CommitReader(self.store, self.config)  # without the cached bytes
        return read(reader, file)

    def _retried(self, run: Callable[[], R]) -> R:
        """Retry a read on transient failures; no put is outstanding meanwhile."""
        gaps = 0
        while True:
            try:
                result = run()
            except TransientStoreError:
                if self.retry.is_timed_out or self.retry.is_store_down:
                    raise
                self.retry.back_off_after_failure()
            except VersionCleanedUpError:
                # Or the commit is not listed yet, though a later one is.
                if (gaps := gaps + 1) > tuning.GAP_LISTINGS:
                    raise
                self.retry.back_off_after_failure()
            else:
                self.retry.note_success()
                return result


def _ignore(phase: Phase, version: int, /) -> None:
    """Ignore a phase."""
