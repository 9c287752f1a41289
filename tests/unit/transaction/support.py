"""Helpers for transactions and winning commits on one small table."""

from __future__ import annotations

import json
from dataclasses import replace
from functools import cache

import pyarrow as pa

from lazydelta import Config
from lazydelta.expressions import as_predicate
from lazydelta.log import CommitReader
from lazydelta.log.file_names import LogFile, LogFileKind
from lazydelta.protocol import TableMetadata, TableProtocol
from lazydelta.snapshot import load_snapshot
from lazydelta.transaction import ADDS, CHANGE_FILES, REMOVES, Reads, Transaction, commit
from tests.support import memory_store

CONFIG = Config(retry_base_seconds=0, retry_cap_seconds=0)

FIELDS = [("id", "long"), ("p", "string"), ("x", "long")]

PROTOCOL = TableProtocol(
    min_reader_version=1,
    min_writer_version=7,
    writer_features=("appendOnly", "checkConstraints", "domainMetadata", "invariants"),
)


def schema_string(fields=FIELDS, **metadata):
    return json.dumps(
        {
            "type": "struct",
            "fields": [
                {"name": n, "type": t, "nullable": True, "metadata": metadata.get(n, {})}
                for n, t in fields
            ],
        }
    )


METADATA = TableMetadata(
    id="the-table",
    schema_string=schema_string(),
    partition_columns=("p",),
    configuration={},
    created_time=1,
)


def with_properties(metadata=METADATA, **properties):
    given = {f"delta.{key}": value for key, value in properties.items()}
    return replace(metadata, configuration={**metadata.configuration, **given})


def add(path, p="a", *, low=0, high=10, rows=3, stats=True, vector=None, change=True, **fields):
    stats_json = json.dumps(
        {
            "numRecords": rows,
            "minValues": {"x": low},
            "maxValues": {"x": high},
            "nullCount": {"x": 0},
        }
    )
    return {
        "path": path,
        "partitionValues": {"p": p},
        "size": 100,
        "modificationTime": 1,
        "dataChange": change,
        **({"stats": stats_json} if stats else {}),
        **({"deletionVector": _vector(vector)} if vector else {}),
        **fields,
    }


def remove(path, *, vector=None, change=True):
    return {
        "path": path,
        "deletionTimestamp": 1,
        "dataChange": change,
        **({"deletionVector": _vector(vector)} if vector else {}),
    }


def _vector(name):
    return {
        "storageType": "u",
        "pathOrInlineDv": name,
        "offset": 1,
        "sizeInBytes": 9,
        "cardinality": 1,
    }


def adds(*rows):
    return pa.Table.from_pylist(
        [{**r, "partitionValues": list(r["partitionValues"].items())} for r in rows], schema=ADDS
    )


def removes(*rows):
    return pa.Table.from_pylist(list(rows), schema=REMOVES)


def change_files(*rows):
    return pa.Table.from_pylist(
        [{**r, "partitionValues": list(r["partitionValues"].items())} for r in rows],
        schema=CHANGE_FILES,
    )


def reads(where=None, paths=None, **more):
    predicates = () if where is None else (as_predicate(where),)
    return Reads(
        predicates=predicates, paths=None if paths is None else pa.array(paths, pa.string()), **more
    )


def append(path="new", p="a", **fields):
    return Transaction(operation="WRITE", adds=adds(add(path, p)), **fields)


def lines(*actions):
    return b"".join(json.dumps(action).encode() + b"\n" for action in actions)


def commit_path(version):
    return f"_delta_log/{version:020d}.json"


def put(store, version, *actions, blind=None, operation="WRITE", **info):
    """Commit as another engine would; `actions` are `(kind, fields)`."""
    stated = {"timestamp": 1, "operation": operation, **info}
    if blind is not None:
        stated["isBlindAppend"] = blind
    data = lines({"commitInfo": stated}, *({kind: fields} for kind, fields in actions))
    store.write(commit_path(version), data, overwrite=False)


def make_table(store=None, *, metadata=METADATA, protocol=PROTOCOL, config=CONFIG):
    """Create the table with a file in each of the partitions a and b; returns its store."""
    if store is None and (metadata, protocol, config) == (METADATA, PROTOCOL, CONFIG):
        store = memory_store()
        store.write(commit_path(0), _first_commit(), overwrite=False)
        return store
    return _create(memory_store() if store is None else store, metadata, protocol, config)


@cache
def _first_commit():
    """Return the commit that most tests start from: made once, and copied."""
    return bytes(_create(memory_store(), METADATA, PROTOCOL, CONFIG).read(commit_path(0)))


def _create(store, metadata, protocol, config):
    create = Transaction(
        operation="CREATE TABLE",
        protocol=protocol,
        metadata=metadata,
        adds=adds(add("fa", "a"), add("fb", "b")),
    )
    commit(create, store=store, config=config, base=None)
    return store


def base_of(store, config=CONFIG):
    return load_snapshot(store, config)


def run(transaction, store, base=None, config=CONFIG, **more):
    base = base_of(store, config) if base is None else base
    return commit(transaction, store=store, config=config, base=base, **more)


def actions_of(store, version, kind):
    """Return the actions of a kind in one commit."""
    content = bytes(store.read(commit_path(version))).decode()
    found = [json.loads(line) for line in content.splitlines()]
    return [action[kind] for action in found if kind in action]


def info_of(store, version):
    return actions_of(store, version, "commitInfo")[0]


def versions(store):
    """Return the committed versions, which must not have a gap."""
    names = [
        path for page in store.list_from("_delta_log") for path in page.column("path").to_pylist()
    ]
    found = sorted(int(n.rpartition("/")[2][:20]) for n in names if n.endswith(".json"))
    assert found == list(range(len(found)))
    return found


def txn_ids(store):
    return [info_of(store, version).get("txnId") for version in versions(store)]


def log_file(version):
    return LogFile(
        name=f"{version:020d}.json",
        kind=LogFileKind.COMMIT,
        version=version,
        size=0,
        modified_ms=0,
    )


def reader(store):
    return CommitReader(store, CONFIG)


class FakeClock:
    """A clock that advances only while a caller sleeps."""

    def __init__(self, now_ms=1_800_000_000_000):
        self.seconds = 0.0
        self.start = now_ms

    def sleep(self, seconds):
        self.seconds += seconds

    def monotonic(self):
        return self.seconds

    def now_ms(self):
        return self.start + int(self.seconds * 1000)
