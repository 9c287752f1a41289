"""Validate the actions of one commit before it is written. Pure.

Engines would read a commit that breaks these rules in different ways.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import orjson
import pyarrow as pa
import pyarrow.compute as pc

from lazydelta.errors import InvalidCommitError
from lazydelta.protocol import MalformedActionError
from lazydelta.replay import file_keys
from lazydelta.schema import PrimitiveType
from lazydelta.schema.mapping import physical_name
from lazydelta.schema.values import build_array
from lazydelta.transaction.transaction import ADDS, CHANGE_FILES, REMOVES

if TYPE_CHECKING:
    from collections.abc import Sequence

    from lazydelta.transaction.table_state import TableState
    from lazydelta.transaction.transaction import Transaction

__all__ = ["check_actions"]

_STRING = PrimitiveType("string")
_REQUIRED = {
    "add": ("path", "partitionValues", "size", "modificationTime"),
    "remove": ("path",),
    "cdc": ("path", "partitionValues", "size", "dataChange"),
}


def check_actions(transaction: Transaction, after: TableState) -> None:
    """Raise `InvalidCommitError` where actions contradict each other or the table.

    Args:
        transaction: The transaction as planned.
        after: The table state with the transaction's own protocol and metadata.
    """
    reason = (
        _first_version(transaction, after)
        or _unreadable(transaction)
        or _shape(transaction)
        or _twice("txn of application", [txn.app_id for txn in transaction.txns])
        or _twice("metadata domain", [domain.domain for domain in transaction.domains])
        or _unsupported(transaction, after)
        or _files(transaction, after)
    )
    if reason:
        raise InvalidCommitError(after.table, reason)


def _first_version(transaction: Transaction, after: TableState) -> str | None:
    complete = transaction.protocol is not None and transaction.metadata is not None
    if after.version >= 0 or complete:
        return None
    return "the first version of a table needs a protocol and metadata"


def _unreadable(transaction: Transaction) -> str | None:
    """Return why a reader could not parse an action: a name that is not a string, for example."""
    actions = (transaction.protocol, transaction.metadata, *transaction.txns, *transaction.domains)
    for action in actions:
        if action is not None:
            try:
                type(action).from_json(orjson.loads(orjson.dumps(action.to_json())))
            except (MalformedActionError, TypeError) as error:
                return str(error)
    return None


def _shape(transaction: Transaction) -> str | None:
    for kind, files, schema, title in (
        ("add", transaction.adds, ADDS, "ADDS"),
        ("remove", transaction.removes, REMOVES, "REMOVES"),
        ("cdc", transaction.change_files, CHANGE_FILES, "CHANGE_FILES"),
    ):
        if not files.schema.equals(schema):
            return f"{kind} actions do not have the columns of {title}, in order and type"
        for name in _REQUIRED[kind]:
            if files.column(name).null_count:
                return f"{kind} actions have no {name}"
    if not transaction.data_change and transaction.changes_rows:
        return "file actions state that rows change, but the operation states that they do not"
    if pc.any(transaction.change_files.column("dataChange")).as_py():
        return "cdc actions have dataChange = true, which only adds and removes may have"
    return None


def _twice(what: str, names: Sequence[str]) -> str | None:
    repeated = {name for name in names if names.count(name) > 1}
    return f"{what} {min(repeated)!r} occurs more than once" if repeated else None


def _unsupported(transaction: Transaction, after: TableState) -> str | None:
    needs = {
        "domainMetadata": bool(transaction.domains),
        "deletionVectors": _has_vectors(transaction.adds),
    }
    for feature, needed in needs.items():
        if needed and not after.supports(feature):
            return f"the table's protocol does not support {feature}"
    return None


def _has_vectors(files: pa.Table) -> bool:
    return files.column("deletionVector").null_count < files.num_rows


def _files(transaction: Transaction, after: TableState) -> str | None:
    added, removed = _keys(transaction.adds, after), _keys(transaction.removes, after)
    for kind, keys in (("added", added), ("removed", removed)):
        if pc.count_distinct(keys).as_py() < len(keys):
            return f"a file is {kind} more than once"
    both = added.filter(pc.is_in(added, value_set=removed))
    if len(both):
        return f"{both[0].as_py()} is added and removed at once"
    sizes = transaction.adds.column("size")
    if sizes.null_count < len(sizes) and pc.min(sizes).as_py() < 0:
        return "a file has a negative size"
    return _partition_values(transaction.adds, after) or _partition_values(
        transaction.change_files, after
    )


def _keys(files: pa.Table, after: TableState) -> pa.Array:
    paths = files.column("path").combine_chunks()
    vectors = files.column("deletionVector").combine_chunks() if _has_vectors(files) else None
    return file_keys(after.resolver.keys(paths), vectors)


def _partition_values(files: pa.Table, after: TableState) -> str | None:
    """Validate that every file has a value, perhaps null, for exactly the partition columns."""
    mode = after.mapping_mode
    names = [
        physical_name(field, mode)
        for name in after.metadata.partition_columns
        for field in after.schema.find([name])
    ]
    expected = build_array(names, _STRING)
    for values in files.column("partitionValues").chunks:
        keys = values.keys.slice(values.offsets[0].as_py(), _entries(values))
        expected_only = pc.all(pc.is_in(keys, value_set=expected)).as_py()
        if _entries(values) != len(names) * len(values) or expected_only is False:
            return f"partition values are not those of the columns {', '.join(names) or '(none)'}"
    return None


def _entries(values: pa.MapArray) -> int:
    return values.offsets[len(values)].as_py() - values.offsets[0].as_py()
