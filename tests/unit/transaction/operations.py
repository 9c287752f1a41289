"""Model of a table, and operations that plan transactions on it.

A file's name contains its rows (`0.x+y` has the rows x and y). So the rows that an operation writes
show what it read, and a lost update leaves rows that no serial order produces. The engine is used
only to describe the planned transactions.
"""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

import pyarrow as pa

from lazydelta.protocol import DomainMetadata, SetTransaction
from lazydelta.protocol.features import with_features
from lazydelta.transaction import Reads, Transaction
from tests.unit.transaction.matrix import outcome
from tests.unit.transaction.support import (
    METADATA,
    PROTOCOL,
    add,
    adds,
    commit_path,
    reads,
    remove,
    removes,
    schema_string,
)

if TYPE_CHECKING:
    from collections.abc import Callable


@dataclass(frozen=True)
class State:
    """A table at one version."""

    files: dict[str, str] = field(default_factory=dict)
    """Partition by path."""
    columns: tuple[tuple[str, str], ...] = ()
    features: tuple[str, ...] = ()
    domains: dict[str, str] = field(default_factory=dict)
    steps: dict[str, int] = field(default_factory=dict)

    def within(self, partition):
        """Return the paths in a partition."""
        return [path for path, p in self.files.items() if p == partition]

    def visible(self):
        """Return everything that a reader can see; the distribution of rows over files is excluded."""
        rows = Counter((p, row) for path, p in self.files.items() for row in rows_of([path]))
        return rows, self.columns, self.features, self.domains, self.steps

    def after(self, actions):
        """Return the state after the actions of a commit: `(kind, fields)` pairs."""
        state = self
        for kind, fields in actions:
            state = getattr(state, f"_after_{kind}")(fields)
        return state

    def _after_commitInfo(self, fields):
        return self

    def _after_add(self, fields):
        assert fields["path"] not in self.files  # none of these operations adds a file twice
        return replace(self, files={**self.files, fields["path"]: fields["partitionValues"]["p"]})

    def _after_remove(self, fields):
        assert fields["path"] in self.files
        return replace(self, files={k: v for k, v in self.files.items() if k != fields["path"]})

    def _after_metaData(self, fields):
        columns = json.loads(fields["schemaString"])["fields"]
        return replace(self, columns=tuple((c["name"], c["type"]) for c in columns))

    def _after_protocol(self, fields):
        return replace(self, features=tuple(fields["writerFeatures"]))

    def _after_domainMetadata(self, fields):
        return replace(self, domains={**self.domains, fields["domain"]: fields["configuration"]})

    def _after_txn(self, fields):
        return replace(self, steps={**self.steps, fields["appId"]: fields["version"]})


def rows_of(paths):
    return [row for path in paths for row in path.rpartition(".")[2].split("+")]


def state_of(store, version):
    """Return a version of a table, from its commits."""
    state = State()
    for number in range(version + 1):
        lines = bytes(store.read(commit_path(number))).splitlines()
        state = state.after(next(iter(json.loads(line).items())) for line in lines)
    return state


def _append(who, partition, rows, **more):
    return Transaction(
        operation="WRITE", adds=adds(add(f"{who}.{'+'.join(rows)}", partition)), **more
    )


def _blind(state, who):
    return _append(who, "a", [f"blind{who}"])


def _count(state, who):
    """Insert the number of rows of the partition."""
    paths = state.within("a")
    return _append(who, "a", [f"count={len(rows_of(paths))}"], reads=reads("p = 'a'", paths))


def _rewrite(state, who, partition, rows, *, where, change=True):
    paths = state.within(partition)
    return Transaction(
        operation="OPTIMIZE" if not change else "UPDATE",
        data_change=change,
        adds=adds(add(f"{who}.{'+'.join(rows)}", partition, change=change)),
        removes=removes(*(remove(path, change=change) for path in paths)),
        reads=reads(where, paths),
    )


def _update(state, who):
    rows = [f"{row}-changed{who}" for row in rows_of(state.within("a"))]
    return _rewrite(state, who, "a", rows, where="p = 'a'")


def _replace(state, who):
    return _rewrite(state, who, "c", [f"only{who}"], where="p = 'c'")


def _optimize(state, who):
    rows = rows_of(state.within("a"))
    return _rewrite(state, who, "a", rows, where="p = 'a'", change=False)


def _overwrite(state, who):
    paths = list(state.files)
    everything = Reads(whole_table=True, paths=pa.array(paths, pa.string()))
    mine = _append(who, "a", [f"all{who}"], reads=everything)
    return replace(mine, removes=removes(*map(remove, paths)))


def _alter(state, who):
    columns = [*state.columns, (f"new{who}", "long")]
    return Transaction(
        operation="ALTER", metadata=replace(METADATA, schema_string=schema_string(columns))
    )


def _upgrade(state, who):
    return Transaction(operation="UPGRADE", protocol=with_features(PROTOCOL, ["v2Checkpoint"]))


def _domain(state, who):
    domain = DomainMetadata(domain="my.domain", configuration=f"by {who}")
    return Transaction(operation="DOMAIN", domains=(domain,))


def _step(state, who):
    """Append the rows of an application transaction; both writers have the same version."""
    return _append(who, "a", ["step"], txns=(SetTransaction(app_id="app", version=5),))


@dataclass(frozen=True)
class Operation:
    """A planned transaction, and its names in the conflict matrix."""

    plan: Callable
    mine: str
    winners: tuple[str, ...]
    """In the order in which they are checked."""


OPERATIONS = {
    "append": Operation(_blind, "blind", ("add-a",)),
    "insert-count": Operation(_count, "read-a", ("read+add-a",)),
    "update": Operation(_update, "delete-a", ("rw-a",)),
    "replace-where": Operation(_replace, "replace-c", ("read+add-c",)),
    "overwrite": Operation(_overwrite, "overwrite", ("overwrite",)),
    "optimize": Operation(_optimize, "optimize-a", ("opt-a",)),
    "alter": Operation(_alter, "alter", ("alter",)),
    "upgrade": Operation(_upgrade, "upgrade", ("upgrade",)),
    "set-domain": Operation(_domain, "domain", ("domain",)),
    "app-step": Operation(_step, "txn-5", ("txn-5", "add-a")),
}


def expected(second, first, level):
    """Return the outcome in the matrix of an operation that lost the race against another."""
    mine = OPERATIONS[second].mine
    outcomes = [outcome(mine, winner, level) for winner in OPERATIONS[first].winners]
    return next((one for one in outcomes if one != "."), ".")


def serially(state, names, order):
    """Return the state after a serial execution of the operations."""
    for who in order:
        mine = OPERATIONS[names[who]].plan(state, who)
        if not any(state.steps.get(step.app_id, -1) >= step.version for step in mine.txns):
            state = state.after(actions_of(mine))
    return state


def actions_of(transaction):
    """Yield the actions of a transaction, as its commit has them."""
    if transaction.protocol is not None:
        yield "protocol", transaction.protocol.to_json()
    if transaction.metadata is not None:
        yield "metaData", transaction.metadata.to_json()
    for step in transaction.txns:
        yield "txn", step.to_json()
    for domain in transaction.domains:
        yield "domainMetadata", domain.to_json()
    for row in transaction.removes.to_pylist():
        yield "remove", row
    for row in transaction.adds.to_pylist():
        yield "add", {**row, "partitionValues": dict(row["partitionValues"])}
