"""The conflict matrix as one table: the outcome of each operation after each winning commit.

A cell is the outcome under Serializable, and after a slash under WriteSerializable if that differs:
`.` rebases over the winner; append, read, delete, meta, proto, txn are the errors of a conflict;
unsup refuses the table; done means that the application transaction is already applied.
"""

from __future__ import annotations

from dataclasses import replace

from lazydelta import errors
from lazydelta.protocol import DomainMetadata, SetTransaction
from lazydelta.protocol.features import with_features
from lazydelta.transaction import Transaction
from tests.unit.transaction.support import (
    FIELDS,
    METADATA,
    PROTOCOL,
    add,
    adds,
    append,
    reads,
    remove,
    removes,
    schema_string,
    with_properties,
)

ERRORS = {
    "append": errors.ConcurrentAppendError,
    "read": errors.ConcurrentDeleteReadError,
    "delete": errors.ConcurrentDeleteDeleteError,
    "meta": errors.MetadataChangedError,
    "proto": errors.ProtocolChangedError,
    "txn": errors.ConcurrentTransactionError,
    "unsup": errors.UnsupportedFeatureError,
}

WIDER = replace(METADATA, schema_string=schema_string([*FIELDS, ("new", "long")]))
WITH_VECTORS = with_features(PROTOCOL, ["deletionVectors"])
WITH_V2_CHECKPOINTS = with_features(PROTOCOL, ["v2Checkpoint"])
WITH_WIDENING = with_features(PROTOCOL, ["typeWidening"])
UNKNOWN = replace(PROTOCOL, writer_features=(*PROTOCOL.writer_features, "icebergCompatV2"))
DROPPED = replace(PROTOCOL, writer_features=("appendOnly", "domainMetadata", "invariants"))


def _domain(name):
    return {"domain": name, "configuration": "{}", "removed": False}


def _txn(version, app="app"):
    return {"appId": app, "version": version}


WINNERS = {
    # name: (isBlindAppend, its actions)
    "add-a": (True, [("add", add("wa", "a"))]),
    "add-b": (True, [("add", add("wb", "b"))]),
    "add-c": (True, [("add", add("wc", "c"))]),
    "add-high": (True, [("add", add("wh", "a", low=200, high=300))]),
    "add-nostats": (True, [("add", add("wn", "a", stats=False))]),
    "read+add-a": (False, [("add", add("wa", "a"))]),
    "read+add-c": (False, [("add", add("wc", "c"))]),
    "add-a?": (None, [("add", add("wa", "a"))]),
    "rm-a": (False, [("remove", remove("fa"))]),
    "rm-a-spelt": (False, [("remove", remove("./%66a"))]),
    "rw-a": (False, [("remove", remove("fa")), ("add", add("wa", "a"))]),
    "rw-b": (False, [("remove", remove("fb")), ("add", add("wb", "b"))]),
    "dv-a": (False, [("remove", remove("fa")), ("add", add("fa", "a", vector="v1"))]),
    "overwrite": (
        False,
        [("remove", remove("fa")), ("remove", remove("fb")), ("add", add("wa", "a"))],
    ),
    "opt-a": (
        False,
        [("remove", remove("fa", change=False)), ("add", add("wa", "a", change=False))],
    ),
    "opt-b": (
        False,
        [("remove", remove("fb", change=False)), ("add", add("wb", "b", change=False))],
    ),
    "alter": (True, [("metaData", WIDER.to_json())]),
    "enable-dv": (
        True,
        [
            ("protocol", WITH_VECTORS.to_json()),
            ("metaData", with_properties(enableDeletionVectors="true").to_json()),
        ],
    ),
    "same-meta": (True, [("metaData", METADATA.to_json())]),
    "upgrade": (True, [("protocol", WITH_V2_CHECKPOINTS.to_json())]),
    "widening": (True, [("protocol", WITH_WIDENING.to_json())]),
    "iceberg": (True, [("protocol", UNKNOWN.to_json())]),
    "drop": (True, [("protocol", DROPPED.to_json())]),
    "txn-4": (True, [("txn", _txn(4))]),
    "txn-5": (True, [("txn", _txn(5))]),
    "txn-6": (True, [("txn", _txn(6))]),
    "txn-other": (True, [("txn", _txn(9, "other"))]),
    "domain": (True, [("domainMetadata", _domain("my.domain"))]),
    "domain-other": (True, [("domainMetadata", _domain("your.domain"))]),
    "vacuum": (True, []),
}

IN_A = reads("p = 'a'", ["fa"])

MINE = {
    "blind": append(),
    "read-a": append(reads=IN_A),
    "read-high": append(reads=reads("x > 100", [])),
    "delete-a": Transaction(
        operation="DELETE", adds=adds(add("mine", "a")), removes=removes(remove("fa")), reads=IN_A
    ),
    "dv-a": Transaction(
        operation="DELETE",
        protocol=None,
        removes=removes(remove("fa")),
        reads=reads(None, ["fa"]),
    ),
    "remove-a": Transaction(operation="DELETE", removes=removes(remove("fa"))),
    "no-paths": Transaction(operation="DELETE", adds=adds(add("mine")), reads=reads("p = 'c'")),
    "overwrite": Transaction(
        operation="WRITE",
        adds=adds(add("mine", "a")),
        removes=removes(remove("fa"), remove("fb")),
        reads=reads(whole_table=True),
    ),
    "replace-c": append("mine", "c", reads=reads("p = 'c'", [])),
    "optimize-a": Transaction(
        operation="OPTIMIZE",
        data_change=False,
        adds=adds(add("mine", "a", change=False)),
        removes=removes(remove("fa", change=False)),
        reads=IN_A,
    ),
    "merge-schema": append(metadata=WIDER, reads=IN_A),
    "alter": Transaction(operation="ALTER", metadata=WIDER),
    "upgrade": Transaction(operation="UPGRADE", protocol=WITH_V2_CHECKPOINTS),
    "drop": Transaction(operation="DROP FEATURE", protocol=DROPPED),
    "domain": Transaction(
        operation="DOMAIN", domains=(DomainMetadata(domain="my.domain", configuration="{}"),)
    ),
    "txn-5": append(txns=(SetTransaction(app_id="app", version=5),)),
    "reads-app": append(reads=reads(app_ids=frozenset({"app"}))),
}

_A = "append"
_AW = "append/."

GRID = {
    # operation: {winner: outcome}; an operation rebases over a winner that is not listed
    "blind": {},
    "read-a": {
        "add-a": _AW, "add-high": _AW, "add-nostats": _AW, "read+add-a": _A, "add-a?": _A,
        "rm-a": "read", "rm-a-spelt": "read", "rw-a": _A, "dv-a": _A, "overwrite": _A, "opt-a": _A,
    },
    "read-high": {"add-high": _AW, "add-nostats": _AW},
    "delete-a": {
        "add-a": _AW, "add-high": _AW, "add-nostats": _AW, "read+add-a": _A, "add-a?": _A,
        "rm-a": "read", "rm-a-spelt": "read", "rw-a": _A, "dv-a": _A, "overwrite": _A, "opt-a": _A,
    },
    "dv-a": {
        "rm-a": "read", "rm-a-spelt": "read", "rw-a": "read", "dv-a": "read", "overwrite": "read",
        "opt-a": "read",
    },
    "remove-a": {
        "rm-a": "delete", "rm-a-spelt": "delete", "rw-a": "delete", "dv-a": "delete",
        "overwrite": "delete", "opt-a": "delete",
    },
    "no-paths": {
        "add-c": _AW, "read+add-c": _A, "rm-a": "read", "rm-a-spelt": "read", "rw-a": "read",
        "rw-b": "read", "dv-a": "read", "overwrite": "read", "opt-a": "read", "opt-b": "read",
    },
    "overwrite": {
        "add-a": _AW, "add-b": _AW, "add-c": _AW, "add-high": _AW, "add-nostats": _AW,
        "read+add-a": _A, "read+add-c": _A, "add-a?": _A, "rm-a": "read", "rm-a-spelt": "read",
        "rw-a": _A, "rw-b": _A, "dv-a": _A, "overwrite": _A, "opt-a": _A, "opt-b": _A,
    },
    "replace-c": {"add-c": _AW, "read+add-c": _A},
    "optimize-a": {
        "rm-a": "read", "rm-a-spelt": "read", "rw-a": "read", "dv-a": "read", "overwrite": "read",
        "opt-a": "read",
    },
    "merge-schema": {
        "add-a": _A, "add-high": _A, "add-nostats": _A, "read+add-a": _A, "add-a?": _A,
        "rm-a": "read", "rm-a-spelt": "read", "rw-a": _A, "dv-a": _A, "overwrite": _A, "opt-a": _A,
        "same-meta": "meta", "enable-dv": "meta",
    },
    "alter": {"same-meta": "meta", "enable-dv": "meta"},
    "upgrade": {"enable-dv": "proto", "upgrade": "proto"},
    "drop": dict.fromkeys(WINNERS, "proto"),
    "domain": {"domain": "txn"},
    "txn-5": {"txn-4": "txn", "txn-5": "done", "txn-6": "done"},
    "reads-app": {"txn-4": "txn", "txn-5": "txn", "txn-6": "txn"},
}  # fmt: skip
# The outcome of every operation after these.
_TO_ALL = {"alter": "meta", "widening": "proto", "iceberg": "unsup", "drop": "proto"}


def outcome(mine, winner, level):
    """Return the outcome in the matrix."""
    cell = {**GRID[mine], **_TO_ALL, **_first_checked(mine)}.get(winner, ".")
    strict, _, relaxed = cell.partition("/")
    return (relaxed or strict) if level == "WriteSerializable" else strict


def _first_checked(mine):
    """The protocol is checked before the metadata."""
    return {"alter": "proto"} if mine == "drop" else {}


CASES = [
    (mine, winner, level)
    for mine in MINE
    for winner in WINNERS
    for level in ("Serializable", "WriteSerializable")
]
