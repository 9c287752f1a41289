"""The race for the next version: put it if it is absent, see who has it, and try again after it.

One invariant: nothing moves past a version before that version has been seen taken. A put whose
answer was lost is repeated with the same bytes at the same place until the store says who won, so
it can never take effect twice, nor behind our back. Data files are never deleted here.
"""

from __future__ import annotations

import logging
from functools import partial
from operator import is_not
from typing import TYPE_CHECKING, TypeVar

from lazydelta._failpoints import failpoint
from lazydelta.errors import (
    CommitAttemptsError,
    CommitUnknownError,
    LogCorruptError,
    ObjectExistsError,
    ObjectNotFoundError,
    StoreError,
    TableExistsError,
    TransientStoreError,
    VersionCleanedUpError,
)
from lazydelta.log import CommitReader
from lazydelta.transaction.commit_json import encode
from lazydelta.transaction.conflicts import AlreadyApplied, check
from lazydelta.transaction.prepare import Prepared, check_allowed, prepare
from lazydelta.transaction.read_snapshot import Base, commit_file
from lazydelta.transaction.result import CommitResult, Committed
from lazydelta.transaction.retry import Clock, Pace
from lazydelta.transaction.transaction_state import Standing
from lazydelta.transaction.winning_commit import read_txn_id, read_winner

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from lazydelta.config import Config
    from lazydelta.log import LogFile
    from lazydelta.protocol import TableMetadata, TableProtocol
    from lazydelta.snapshot import SnapshotState
    from lazydelta.store import Store
    from lazydelta.transaction.result import Hook, Phase, TxnObserver
    from lazydelta.transaction.transaction import Transaction

__all__ = ["commit"]

logger = logging.getLogger(__name__)

_TORN_TRIES = 3
_GAP_TRIES = 2
_CLOCK = Clock()

R = TypeVar("R")


def commit(
    transaction: Transaction,
    *,
    store: Store,
    config: Config,
    base: SnapshotState | None,
    hooks: Sequence[Hook] = (),
    observer: TxnObserver | None = None,
    clock: Clock = _CLOCK,
) -> CommitResult:
    """Make a transaction the next version of a table.

    Args:
        transaction: What is to happen.
        store: Where the table is.
        config: Settings; `commit_attempts` and `commit_seconds` bound the race.
        base: The version that the transaction was planned on; None creates the table.
        hooks: Run after the commit, in order; their failures are warnings of the result.
        observer: Told about each phase.
        clock: The passing of time.

    Raises:
        CommitConflictError: Another writer's commit contradicts it; the subclass says how.
        CommitAttemptsError: Other writers kept winning.
        CommitUnknownError: The store did not say whether the commit took effect.
        TableExistsError: There is no base, but a table.
        UnsupportedFeatureError: The table has features that this engine cannot write.
        AppendOnlyError: It would remove rows of a table that only grows.
        InvalidCommitError: Its actions contradict each other or the table.
    """
    race = _Race(transaction, store, config, base, clock)
    if observer is not None:
        race.tell = observer
    outcome = race.run()
    if isinstance(outcome, AlreadyApplied):
        return _already_applied(race, outcome)
    committed = Committed(
        store=store,
        config=config,
        version=outcome.version,
        timestamp_ms=outcome.timestamp_ms,
        transaction=outcome.transaction,
        base=race.base.snapshot_before(outcome.version),
    )
    failpoint("commit-acknowledged")
    warnings = _run_hooks(hooks, committed)
    race.tell("finished", outcome.version)
    return CommitResult(
        version=outcome.version,
        txn_id=transaction.txn_id,
        attempts=race.pace.attempts,
        already_applied=False,
        timestamp_ms=outcome.timestamp_ms,
        warnings=warnings,
    )


def _already_applied(race: _Race, outcome: AlreadyApplied) -> CommitResult:
    logger.info("%s has it already, at or before version %d", race.store.root, outcome.version)
    return CommitResult(
        version=outcome.version,
        txn_id=race.transaction.txn_id,
        attempts=race.pace.attempts,
        already_applied=True,
        timestamp_ms=race.clock.now_ms(),
    )


def _run_hooks(hooks: Sequence[Hook], committed: Committed) -> tuple[str, ...]:
    """Run what follows a commit; it stands whatever they do."""
    warnings: list[str] = []
    for hook in hooks:
        name = getattr(hook, "__name__", type(hook).__name__)
        try:
            hook(committed)
        except Exception as error:  # noqa: BLE001 - the commit has succeeded, and must be said to
            warnings.append(f"{name}: {error}")
            logger.warning("after version %d: %s failed: %s", committed.version, name, error)
    return tuple(warnings)


class _Race:
    """One transaction on its way to a version."""

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
        self.base = Base(transaction, store, config, snapshot)
        self.pace = Pace(config, clock)
        self.tell: TxnObserver = _unobserved
        self.is_open = False  # whether a put was sent whose outcome is not known
        self.allowed_by: tuple[TableProtocol, TableMetadata] | None = None

    def run(self) -> Prepared | AlreadyApplied:
        """Try versions until one is ours, or it turns out that none should be."""
        standing = self.base.standing()
        self.tell("start", standing.version + 1)
        if self.base.is_applied():
            return AlreadyApplied(version=standing.version)
        prepared = self._prepared(standing)  # what is wrong is said before anything is asked for
        if self.base.may_be_overtaken(self.clock.now_ms()):
            after = self._caught_up(standing, self.base.commits_since)
            if not isinstance(after, Standing):
                return after
            if after is not standing:
                standing, prepared = after, self._prepared(after)
        while True:
            self.tell("prepared", prepared.version)
            failpoint("commit-prepared")
            if self._is_ours(prepared):
                return self._won(prepared)
            self.tell("lost", prepared.version)
            # Mostly there is one winner, and it has been read. Who loses again rests, and only
            # then looks for more: what is seen before a rest is old after it.
            look = self.base.commits_seen
            if self.pace.losses:
                self.pace.rest_after_loss()
                look = self.base.commits_since
            self.pace.losses += 1
            after = self._caught_up(standing, look)
            if not isinstance(after, Standing):
                return after
            failpoint("commit-rebased")
            self.tell("rebased", after.version + 1)
            if self.pace.is_over:
                raise CommitAttemptsError(
                    self.store.root, self.pace.attempts, self.pace.seconds, after.version
                )
            standing, prepared = after, self._prepared(after)

    def _prepared(self, standing: Standing, now_ms: int | None = None) -> Prepared:
        asked_of = (standing.protocol, standing.metadata)
        if self.allowed_by is None or any(map(is_not, self.allowed_by, asked_of)):
            check_allowed(self.transaction, standing)
            self.allowed_by = asked_of
        now_ms = self.clock.now_ms() if now_ms is None else now_ms
        return prepare(self.transaction, standing, now_ms=now_ms)

    def _won(self, prepared: Prepared) -> Prepared:
        logger.info(
            "committed version %d of %s: %s, %d files added, %d removed, attempt %d",
            prepared.version,
            self.store.root,
            prepared.transaction.operation,
            prepared.transaction.adds.num_rows,
            prepared.transaction.removes.num_rows,
            self.pace.attempts,
        )
        self.tell("committed", prepared.version)
        return prepared

    def _is_ours(self, prepared: Prepared) -> bool:
        """Put a version until it is taken, and return whether by us."""
        data = encode(prepared, table=self.store.root, read_version=self.base.version)
        file = commit_file(prepared.version)
        while True:
            self.pace.attempts += 1
            self.tell("put", prepared.version)
            try:
                outcome = self._put(file, data)
            except (KeyboardInterrupt, SystemExit) as error:
                error.add_note(str(self._unknown(file, "it was interrupted")))
                raise
            if isinstance(outcome, bool):
                return outcome
            self.is_open = True
            if self.pace.is_over:
                raise self._unknown(file, str(outcome)) from outcome
            logger.debug("version %d: asking again after %s", file.version, outcome)
            self.pace.rest_after_failure()

    def _put(self, file: LogFile, data: bytes) -> bool | StoreError:
        """Ask for a version: True is ours, False another's, an error that it is open still."""
        try:
            self.store.write(file.path, data, overwrite=False)
        except ObjectExistsError:
            return self._whose(file)
        except TransientStoreError as error:
            return error
        except StoreError as error:
            if self.is_open:  # an earlier try may have taken effect, and cannot be asked about
                raise self._unknown(file, str(error)) from error
            raise
        failpoint("commit-put")
        return True

    def _whose(self, file: LogFile) -> bool | StoreError:
        """Read who has a version; the store's word that someone has is not enough.

        Some stores say so of two puts at the same time, one of which they will take if it comes
        again; and what is there may be our own, from a put whose answer was lost.
        """
        try:
            txn_id = self._readable(read_txn_id, file)
        except TransientStoreError as error:
            return error
        except LogCorruptError as error:
            if isinstance(error.__cause__, ObjectNotFoundError):
                return error.__cause__
            raise
        except StoreError as error:
            raise self._unknown(file, str(error)) from error
        self.is_open = False
        self.base.saw(file)
        return txn_id == self.transaction.txn_id

    def _unknown(self, file: LogFile, reason: str) -> CommitUnknownError:
        txn_id = self.transaction.txn_id
        return CommitUnknownError(self.store.root, file.version, txn_id, reason)

    def _caught_up(
        self, standing: Standing, look: Callable[[], list[LogFile]]
    ) -> Standing | AlreadyApplied | Prepared:
        """Judge the commits since the standing, oldest first, and return what is stood on then."""
        read = partial(
            read_winner, table=self.store.root, files=not self.transaction.is_blind_append
        )
        for file in self._patiently(look):
            winner = self._patiently(partial(self._readable, read, file))
            if winner.txn_id == self.transaction.txn_id:
                # Given to us a second time, after an outcome that was unknown then.
                return self._won(self._prepared(standing, winner.stated_ms))
            if standing.version < 0:
                raise TableExistsError(self.store.root)
            after = check(self.transaction, winner, standing)
            if isinstance(after, AlreadyApplied):
                return after
            standing = self.base.advanced(file, after)
        return standing

    def _readable(self, read: Callable[[CommitReader, LogFile], R], file: LogFile) -> R:
        """Read a commit; on a store that shows writes before they end, it may need a moment."""
        reader = self.base.reader
        for _ in range(_TORN_TRIES):
            try:
                return read(reader, file)
            except LogCorruptError as error:
                if isinstance(error.__cause__, ObjectNotFoundError):
                    raise
                self.pace.rest_after_failure()
                reader = CommitReader(self.store, self.config)  # the other one remembers
        return read(reader, file)

    def _patiently(self, run: Callable[[], R]) -> R:
        """Read although the store fails now and then; nothing is open while this is done."""
        gaps = 0
        while True:
            try:
                return run()
            except TransientStoreError:
                if self.pace.is_late:
                    raise
                self.pace.rest_after_failure()
            except VersionCleanedUpError:
                # Unless that commit is only not listed yet, while a later one is.
                if (gaps := gaps + 1) > _GAP_TRIES:
                    raise
                self.pace.rest_after_failure()


def _unobserved(phase: Phase, version: int, /) -> None:
    """Take no notice."""
