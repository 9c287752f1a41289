"""Hypothesis strategies for valid table histories: the commits, and the layout of the log.

A history computes its live files with a dictionary alone. It covers files added again with and
without a remove in between, deletion vectors replaced within a commit, restores, checkpoints of
any kind at any version, compactions, checksums, hints and cleaned-up logs.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, cast

from hypothesis import strategies as st

from tests.builders.table_builder import TableBuilder

if TYPE_CHECKING:
    from lazydelta.store import Store
    from tests.builders.checkpoint_writer import CheckpointKind

__all__ = ["History", "Layout", "histories"]

Step = tuple[str, int, int]
_STEPS = ("new", "remove", "again", "restore", "vector", "unknown", "rewrite", "other")
_OTHERS = ("!txn", "!domainMetadata", "!metaData", "!protocol", "!somethingNew", "!cdc")
_KINDS: tuple[CheckpointKind, ...] = (
    "classic",
    "multipart",
    "v2-json",
    "v2-parquet",
    "v2-classic",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Layout:
    """Layout of the log; it never changes which files are live."""

    checkpoints: tuple[tuple[int, CheckpointKind, int, int], ...] = ()
    """Version, kind, parts and rows per row group."""
    compactions: tuple[tuple[int, int], ...] = ()
    checksums: tuple[int, ...] = ()
    hint: Literal["none", "newest", "stale", "dangling"] = "none"
    cleaned_up: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class History:
    """Commits in shorthand, the layout of the log, and the live files at the last version."""

    commits: tuple[str, ...]
    layout: Layout
    live: frozenset[str]
    """In shorthand: `path` or `path#vector`."""

    def build(self, target: Store | str) -> TableBuilder:
        """Write the table."""
        builder = TableBuilder(target)
        for line in self.commits:
            builder.commit(line)
        layout = self.layout
        for version, kind, parts, rows in layout.checkpoints:
            builder.checkpoint(kind, version=version, parts=parts, row_group_rows=rows)
        for first, last in layout.compactions:
            builder.compact(first, last)
        for version in layout.checksums:
            builder.crc(version)
        self._write_hint(builder)
        if layout.cleaned_up and layout.checkpoints:
            builder.clean_up(min(version for version, *_ in layout.checkpoints))
        return builder

    def _write_hint(self, builder: TableBuilder) -> None:
        versions = sorted(version for version, *_ in self.layout.checkpoints)
        if self.layout.hint == "dangling":
            builder.hint(builder.version + 3)
        elif versions and self.layout.hint != "none":
            builder.hint(versions[0] if self.layout.hint == "stale" else versions[-1])


def live_after(commits: tuple[str, ...]) -> frozenset[str]:
    """Return the live files after commits in shorthand; the latest action of a file wins."""
    live: dict[str, bool] = {}
    for line in commits:
        tokens = line.split()
        # Order within a commit is irrelevant; an add wins over a remove.
        for token in sorted(tokens, reverse=True):
            if token[0] in "+-":
                live[token[1:]] = token[0] == "+"
    return frozenset(name for name, is_live in live.items() if is_live)


@st.composite
def histories(draw: st.DrawFn, *, max_commits: int = 12, others: bool = True) -> History:
    """Draw a history.

    Args:
        draw: Provided by hypothesis.
        max_commits: Maximum number of commits.
        others: Whether commits also have transactions, domains, metadata and unknown actions.
    """
    step = st.tuples(st.sampled_from(_STEPS), st.integers(0, 5), st.integers(0, 3))
    drawn = draw(st.lists(st.lists(step, max_size=5), min_size=1, max_size=max_commits))
    model = _Model(others=others)
    commits = tuple(model.commit(steps) for steps in drawn)
    return History(
        commits=commits, layout=draw(layouts(len(commits) - 1)), live=live_after(commits)
    )


@st.composite
def layouts(draw: st.DrawFn, newest: int) -> Layout:
    """Draw a layout for a history that ends at version `newest`."""
    version = st.integers(0, newest)
    checkpoint = st.tuples(
        version, st.sampled_from(_KINDS), st.integers(1, 3), st.sampled_from([1, 2, 1000])
    )
    unique = st.lists(checkpoint, max_size=2, unique_by=lambda drawn: drawn[0])
    pair = st.tuples(version, version).filter(lambda ends: ends[0] < ends[1])
    pairs = st.lists(pair, max_size=2, unique=True) if newest else st.just([])
    return Layout(
        checkpoints=cast("Any", tuple(draw(unique))),
        compactions=tuple(draw(pairs)),
        checksums=tuple(draw(st.lists(version, max_size=2, unique=True))),
        hint=draw(st.sampled_from(["none", "newest", "stale", "dangling"])),
        cleaned_up=draw(st.booleans()),
    )


class _Model:
    """Turns drawn numbers into commits that a valid writer could have made."""

    def __init__(self, *, others: bool) -> None:
        self._with_others = others
        self._live: dict[str, str] = {}
        self._gone: list[str] = []
        # Version 0 has these two already.
        self._touched = {"!protocol", "!metaData"}
        self._files = 0
        self._vectors = 0

    def commit(self, steps: list[Step]) -> str:
        tokens: list[str] = []
        for kind, which, what in steps:
            tokens += getattr(self, f"_{kind}")(which, what)
        self._touched = set()
        return " ".join(tokens)

    def _new(self, _which: int, _what: int) -> list[str]:
        self._files += 1
        return [self._put(f"f{self._files}", "")]

    def _unknown(self, which: int, _what: int) -> list[str]:
        return self._once(f"-never{which}")

    def _other(self, which: int, _what: int) -> list[str]:
        return self._once(_OTHERS[which]) if self._with_others else []

    def _restore(self, which: int, _what: int) -> list[str]:
        free = [p for p in self._gone if p not in self._touched and p not in self._live]
        return [self._put(free[which % len(free)], "")] if free else []

    def _again(self, which: int, _what: int) -> list[str]:
        return [self._put(path, vector) for path, vector in self._one_alive(which)]

    def _rewrite(self, which: int, _what: int) -> list[str]:
        found = self._one_alive(which)
        return [t for p, v in found for t in (f"-{p}{v}", self._put(p, v))]

    def _vector(self, which: int, what: int) -> list[str]:
        self._vectors += 1
        found = self._one_alive(which)
        new = f"#v{self._vectors}"
        return [
            t for p, v in found for t in (f"-{p}{v}", self._put(p, "" if v and not what else new))
        ]

    def _remove(self, which: int, _what: int) -> list[str]:
        found = self._one_alive(which)
        for path, _ in found:
            self._touched.add(path)
            self._gone.append(path)
            del self._live[path]
        return [f"-{path}{vector}" for path, vector in found]

    def _one_alive(self, which: int) -> list[tuple[str, str]]:
        """Return a live file that this commit has not changed, if any."""
        alive = [(p, v) for p, v in self._live.items() if p not in self._touched]
        return [alive[which % len(alive)]] if alive else []

    def _once(self, token: str) -> list[str]:
        known = token in self._touched
        self._touched.add(token)
        return [] if known else [token]

    def _put(self, path: str, vector: str) -> str:
        self._touched.add(path)
        self._live[path] = vector
        return f"+{path}{vector}"
