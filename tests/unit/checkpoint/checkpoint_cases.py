"""Shared by the checkpoint tests: tables, and the state of one as Python values.

`state_of` is from the engine, `expected_state` from the builder, whose replay shares no code with it.
"""

from __future__ import annotations

from lazydelta import Config
from lazydelta.checkpoint.full_replay import full_replay
from lazydelta.protocol.schemas import ADD, REMOVE_ACTION
from lazydelta.snapshot import load_snapshot
from lazydelta.store import MemoryStore
from tests.builders import TableBuilder

NOW = 1_700_000_000_001
"""Just after every action of a built table, so that no tombstone has expired."""
SCHEMA = {"id": "long", "day": "date", "name": "string", "at": "timestamp", "price": "decimal(9,2)"}
V2 = {"delta.checkpointPolicy": "v2"}


def built(target=None, **options):
    """Return a store and a builder of a table in it."""
    store = MemoryStore() if target is None else target
    return store, TableBuilder(store, **options)


def snapshot_of(store, version=None, **config):
    return load_snapshot(store, Config(**config), version=version)


def state_of(store, version=None):
    """Return the full state of a version, by the engine's full replay."""
    with full_replay(snapshot_of(store, version), now_ms=NOW) as replay:
        adds = [row for batch in replay.adds() for row in _rows(batch, ADD)]
        removes = [row for batch in replay.removes() for row in _rows(batch, REMOVE_ACTION)]
        return {
            "protocol": replay.snapshot.protocol.to_json(),
            "metaData": replay.snapshot.metadata.to_json(),
            "adds": _by_key(adds),
            "removes": _by_key(removes),
            "txns": {name: txn.to_json() for name, txn in replay.transactions.items()},
            "domains": {name: domain.to_json() for name, domain in replay.domains.items()},
            "totals": (replay.totals.files, replay.totals.bytes),
        }


def expected_state(builder, version=None):
    """Return the same by the builder's replay."""
    state = builder.state(version)
    return {
        "protocol": _tuples(state.protocol),
        "metaData": state.metadata,
        "adds": _by_key([_plain(body, ADD) for body in state.adds.values()]),
        "removes": _by_key([_plain(body, REMOVE_ACTION) for body in state.removes.values()]),
        "txns": state.transactions,
        "domains": {n: body for n, body in state.domains.items() if not body.get("removed")},
        "totals": (len(state.adds), sum(body["size"] for body in state.adds.values())),
    }


def _tuples(protocol):
    return {k: tuple(v) if isinstance(v, list) else v for k, v in protocol.items()}


def _rows(batch, kind):
    names = set(kind.names)
    for row in batch.to_pylist(maps_as_pydicts="strict"):
        yield _plain({name: value for name, value in row.items() if name in names}, kind)


def _plain(body, kind):
    """Return an action without `dataChange`, which differs in a checkpoint, and nulls."""
    kept = {name: body[name] for name in kind.names if body.get(name) is not None}
    kept.pop("dataChange", None)
    if kept.get("partitionValues") == {}:
        del kept["partitionValues"]
    vector = kept.get("deletionVector")
    if vector is not None:
        kept["deletionVector"] = {n: v for n, v in vector.items() if v is not None}
    return kept


def _by_key(actions):
    keyed = {(a["path"], str(a.get("deletionVector"))): a for a in actions}
    assert len(keyed) == len(actions), "duplicate files"
    return keyed
