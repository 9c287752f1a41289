"""Deterministic scheduler: runs writers in threads, one step at a time, in every interleaving.

A writer stops before each request to the store, or at each phase of its commit, and continues when
the schedule chooses it. Only one writer runs at a time, so the same choices repeat the same run, and
nothing sleeps. The scheduler is independent of what the writers do.
"""

from __future__ import annotations

import threading
from dataclasses import dataclass

_SECONDS = 60
_READING = frozenset({"list", "read"})


@dataclass(frozen=True)
class Request:
    """A request of one writer to the store."""

    writer: int
    kind: str
    path: str


class Schedule:
    """One interleaving of the steps of several writers."""

    def __init__(self, choices, *, at_phases, each_read):
        self._choices = choices
        self._at_phases = at_phases
        self._each_read = each_read
        self._arrived = threading.Semaphore(0)
        self._go: list[threading.Semaphore] = []
        self._waiting: dict[int, str] = {}
        self._failures: list[BaseException] = []
        self._last: tuple[int, str] | None = None
        self.options: list[int] = []
        """The number of writers that could have been chosen, for each step."""
        self.requests: list[Request] = []
        self.phases: dict[int, list[str]] = {}

    def run(self, *works):
        """Run each writer, `work(number, observer)`, in its own thread."""
        self._go = [threading.Semaphore(0) for _ in works]
        self.phases = {number: [] for number in range(len(works))}
        threads = [
            threading.Thread(target=self._work, args=(number, work), daemon=True)
            for number, work in enumerate(works)
        ]
        for thread in threads:  # each runs alone to its first stop
            thread.start()
            self._wait()
        while self._waiting:
            allowed = self._allowed()
            step = len(self.options)
            chosen = allowed[self._choices[step] if step < len(self._choices) else 0]
            self.options.append(len(allowed))
            self._last = (chosen, self._waiting.pop(chosen))
            self._go[chosen].release()
            self._wait()
        for thread in threads:
            thread.join()
        if self._failures:
            raise self._failures[0]

    def observer(self, number):
        """Return the observer of a writer's commit."""

        def observe(phase, version):
            self.phases[number].append(f"{phase} {version}")
            if self._at_phases:
                self._stop(number, phase)

        return observe

    def store(self, inner, number, *, reads=True):
        """Return the shared store for one writer, with a stop before each request.

        Requests for data files are not stopped at, and without `reads` only listings and commits are:
        every object is written once, so reads of what is there commute with everything.
        """
        return _Stepped(inner, lambda kind, path: self._record(number, kind, path), reads=reads)

    def next_choices(self):
        """Return the choices of the next interleaving; None after the last."""
        taken = [*self._choices, *[0] * (len(self.options) - len(self._choices))]
        while taken and taken[-1] + 1 >= self.options[len(taken) - 1]:
            taken.pop()
        if not taken:
            return None
        taken[-1] += 1
        return taken

    def _allowed(self):
        """Return the writers that may continue.

        Two adjacent reads commute, so only the order with the first writer's read first is run: after
        a read of the second writer, the first one may not read.
        """
        ready = sorted(self._waiting)
        if self._each_read or len(ready) == 1 or self._last is None:
            return ready
        writer, kind = self._last
        is_exchanged = writer == ready[1] and {kind, self._waiting[ready[0]]} <= _READING
        return ready[1:] if is_exchanged else ready

    def _record(self, number, kind, path):
        if not self._at_phases:
            self._stop(number, kind)
        self.requests.append(Request(number, kind, path))

    def _stop(self, number, label):
        self._waiting[number] = label
        self._arrived.release()
        self._go[number].acquire()

    def _wait(self):
        assert self._arrived.acquire(timeout=_SECONDS), "a writer neither stopped nor ended"

    def _work(self, number, work):
        try:
            if self._at_phases:
                self._stop(number, "begin")
            work(number, self.observer(number))
        except BaseException as error:  # noqa: BLE001 - raised again where the run was started
            self._failures.append(error)
        finally:
            self._arrived.release()


class _Stepped:
    """A store that reports each request of a commit before it forwards it."""

    native_files = True

    def __init__(self, inner, report, *, reads):
        self._inner = inner
        self._report = report
        self._reads = reads
        self.root = inner.root

    def __getattr__(self, name):
        return getattr(self._inner, name)

    def list_from(self, directory, *, after=None):
        self._report("list", directory)
        yield from self._inner.list_from(directory, after=after)

    def read(self, path):
        if self._reads:
            self._report("read", path)
        return self._inner.read(path)

    def write(self, path, data, *, overwrite):
        if path.startswith("_delta_log/"):
            self._report("put", path)
        self._inner.write(path, data, overwrite=overwrite)


def every_order(*, at_phases=False, each_read=True):
    """Yield a schedule for each interleaving of the writers' steps; the caller runs it.

    Args:
        at_phases: Stop at each phase of a commit, instead of before each request to the store.
        each_read: Whether two adjacent reads in either order count as two interleavings.
    """
    choices: list[int] | None = []
    while choices is not None:
        schedule = Schedule(choices, at_phases=at_phases, each_read=each_read)
        yield schedule
        choices = schedule.next_choices()
