"""Transactions refused before the put: unwritable tables, contradicting actions."""

from __future__ import annotations

from dataclasses import replace

import pytest

from lazydelta.errors import AppendOnlyError, InvalidCommitError, UnsupportedFeatureError
from lazydelta.protocol import DomainMetadata, SetTransaction, TableProtocol
from lazydelta.protocol.features import with_features
from lazydelta.transaction import Transaction
from tests.support import memory_store
from tests.unit.transaction.support import (
    METADATA,
    PROTOCOL,
    actions_of,
    add,
    adds,
    append,
    change_files,
    make_table,
    put,
    remove,
    removes,
    run,
    versions,
    with_properties,
)


@pytest.mark.parametrize(
    "protocol",
    [
        TableProtocol(min_reader_version=1, min_writer_version=8),
        replace(PROTOCOL, writer_features=(*PROTOCOL.writer_features, "icebergCompatV2")),
        replace(PROTOCOL, writer_features=(*PROTOCOL.writer_features, "someday")),
    ],
    ids=["a-version", "a-feature-not-implemented", "an-unknown-feature"],
)
def test_a_table_that_this_engine_cannot_write_is_refused_by_name(protocol):
    store = memory_store()
    put(store, 0, ("protocol", protocol.to_json()), ("metaData", METADATA.to_json()))
    with pytest.raises(UnsupportedFeatureError) as raised:
        run(append(), store)
    assert raised.value.access == "write"
    assert versions(store) == [0]


def test_a_commit_may_not_make_the_table_unwritable_either():
    store = make_table()
    newer = replace(PROTOCOL, writer_features=(*PROTOCOL.writer_features, "someday"))
    with pytest.raises(UnsupportedFeatureError, match="someday"):
        run(Transaction(operation="UPGRADE", protocol=newer), store)


def test_an_append_only_table():
    store = make_table(metadata=with_properties(appendOnly="true"))
    deleting = Transaction(operation="DELETE", removes=removes(remove("fa")))
    with pytest.raises(AppendOnlyError, match="DELETE"):
        run(deleting, store)
    moving = Transaction(
        operation="OPTIMIZE",
        data_change=False,
        removes=removes(remove("fa", change=False)),
        adds=adds(add("n", change=False)),
    )
    assert run(moving, store).version == 1
    assert run(append(), store).version == 2


@pytest.mark.parametrize(
    ("mine", "reason"),
    [
        pytest.param({"adds": adds(add("n"), add("n"))}, "more than once", id="added-twice"),
        pytest.param({"adds": adds(add("n"), add("./%6e"))}, "more than once", id="by-two-names"),
        pytest.param(
            {"removes": removes(remove("fa"), remove("fa"))}, "more than once", id="removed-twice"
        ),
        pytest.param(
            {"adds": adds(add("fa")), "removes": removes(remove("fa"))},
            "added and removed",
            id="added-and-removed",
        ),
        pytest.param(
            {
                "txns": (
                    SetTransaction(app_id="a", version=1),
                    SetTransaction(app_id="a", version=2),
                )
            },
            "application 'a'",
            id="two-steps-of-one-application",
        ),
        pytest.param(
            {"domains": (DomainMetadata(domain="d", configuration=""),) * 2},
            "domain 'd'",
            id="two-of-one-domain",
        ),
        pytest.param(
            {"adds": adds(add("n", vector="v"))}, "deletionVectors", id="a-vector-not-allowed"
        ),
        pytest.param({"adds": adds({**add("n"), "size": -1})}, "negative", id="negative-size"),
        pytest.param({"adds": adds({**add("n"), "size": None})}, "no size", id="no-size"),
        pytest.param(
            {"adds": adds({**add("n"), "partitionValues": {}})}, "columns p", id="no-value"
        ),
        pytest.param(
            {"adds": adds({**add("n"), "partitionValues": {"q": "1"}})}, "columns p", id="of-others"
        ),
        pytest.param(
            {"adds": adds(add("n")), "data_change": False},
            "rows change",
            id="data-change-contradicts-adds",
        ),
        pytest.param(
            {"adds": adds(add("n")).select(["path", "size"])}, "columns of ADDS", id="no-adds"
        ),
        pytest.param(
            {"change_files": change_files({**add("c", change=False), "partitionValues": {}})},
            "columns p",
            id="a-change-file-without-its-partition",
        ),
        pytest.param(
            {"change_files": change_files(add("c", change=True))},
            "dataChange = true",
            id="a-change-file-that-changes-data",
        ),
        pytest.param(
            {"change_files": adds(add("c"))}, "columns of CHANGE_FILES", id="no-change-files"
        ),
    ],
)
def test_actions_that_contradict_each_other_are_refused(mine, reason):
    store = make_table()
    with pytest.raises(InvalidCommitError, match=reason):
        run(Transaction(operation="WRITE", **mine), store)
    assert versions(store) == [0]


def test_a_new_vector_for_a_file_is_no_contradiction():
    store = make_table(protocol=with_features(PROTOCOL, ["deletionVectors"]))
    mine = Transaction(
        operation="DELETE", removes=removes(remove("fa")), adds=adds(add("fa", vector="v"))
    )
    assert run(mine, store).version == 1
    assert actions_of(store, 1, "add")[0]["deletionVector"]["pathOrInlineDv"] == "v"
