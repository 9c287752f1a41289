"""Unsupported protocols and invalid metadata are refused before any data file is read."""

from __future__ import annotations

import io
import json

import pyarrow.parquet as pq
import pytest

from lazydelta import Config, Table
from lazydelta.errors import DeltaError, LogCorruptError, UnsupportedFeatureError
from tests.bad_input.outcomes import read_rightly, refused
from tests.builders import TableBuilder
from tests.support import memory_store


def built(protocol, *, checkpoint=False, checksum=False):
    store = memory_store()
    table = TableBuilder(store, protocol=protocol).commit("+a").commit("+b")
    if checkpoint:
        table.checkpoint(version=0).delete(f"{0:020d}.json")
    if checksum:
        table.crc()
    return store


def features(*names, reader=3, writer=7):
    return {
        "minReaderVersion": reader,
        "minWriterVersion": writer,
        "readerFeatures": list(names),
        "writerFeatures": list(names),
    }


@pytest.mark.parametrize("source", ["commit", "checkpoint", "checksum"])
def test_an_unknown_feature_is_refused(source):
    store = built(
        features("deletionVectors", "notYetInvented"),
        checkpoint=source == "checkpoint",
        checksum=source == "checksum",
    )
    error = refused(store, UnsupportedFeatureError)
    assert error.features == ("notYetInvented",)
    assert "notYetInvented" in str(error)


@pytest.mark.parametrize("feature", ["catalogManaged", "catalogOwned-preview"])
def test_a_catalog_managed_table_is_refused(feature):
    error = refused(built(features(feature)), UnsupportedFeatureError)
    assert str(error).endswith("Open it through its catalog.")
    assert "drop the feature" not in str(error)


@pytest.mark.parametrize("checksum", [False, True])
def test_a_table_of_a_commit_coordinator_is_refused_though_it_is_a_writer_feature(checksum):
    protocol = {"minReaderVersion": 1, "minWriterVersion": 7}
    protocol["writerFeatures"] = ["appendOnly", "coordinatedCommits-preview"]
    error = refused(built(protocol, checksum=checksum), UnsupportedFeatureError)
    assert error.features == ("coordinatedCommits-preview",)
    assert str(error).endswith("Open it through its catalog.")


def test_a_newer_reader_version_is_refused():
    protocol = features(reader=4)
    refused(built(protocol), UnsupportedFeatureError)


@pytest.mark.parametrize(
    "protocol",
    [
        {"minReaderVersion": 0, "minWriterVersion": 2},
        {"minReaderVersion": -3, "minWriterVersion": 2},
        {"minReaderVersion": 1, "minWriterVersion": 0},
        {"minReaderVersion": 3, "minWriterVersion": 7},
        {"minReaderVersion": 1, "minWriterVersion": 7},
        {"minReaderVersion": 1, "minWriterVersion": 7, "writerFeatures": ["deletionVectors"]},
        {"minReaderVersion": 3, "minWriterVersion": 2, "readerFeatures": []},
        {"minReaderVersion": "1", "minWriterVersion": 2},
        {"minReaderVersion": True, "minWriterVersion": 2},
        {"minReaderVersion": 1.5, "minWriterVersion": 2},
        {"minReaderVersion": 2**64, "minWriterVersion": 2},
        {"minWriterVersion": 2},
        {"minReaderVersion": 1},
        {"minReaderVersion": 3, "minWriterVersion": 7, "readerFeatures": "deletionVectors"},
        {"minReaderVersion": 3, "minWriterVersion": 7, "readerFeatures": [1]},
        features("deletionVectors", reader=1),
        features("columnMapping", reader=2, writer=5),
        {"minReaderVersion": 1, "minWriterVersion": 2, "writerFeatures": ["appendOnly"]},
        features("timestampNtz") | {"writerFeatures": ["appendOnly"]},
        {"minReaderVersion": 3, "minWriterVersion": 7, "readerFeatures": ["columnMapping"]},
        {},
    ],
)
def test_an_inconsistent_protocol_is_refused(protocol):
    store = memory_store()
    table = TableBuilder(store)
    table.protocol = protocol
    table.commit("+a")
    refused(store, LogCorruptError)


@pytest.mark.parametrize(
    "protocol",
    [
        {"minReaderVersion": 1, "minWriterVersion": 1},
        {"minReaderVersion": 1, "minWriterVersion": 2},
        features(reader=1, writer=2),
        {"minReaderVersion": 2, "minWriterVersion": 5},
        {"minReaderVersion": 1, "minWriterVersion": 7, "writerFeatures": ["notYetInvented"]},
        {"minReaderVersion": 1, "minWriterVersion": 7, "writerFeatures": ["rowTracking"]},
        features("vacuumProtocolCheck"),
        features("timestampNtz", "typeWidening", "columnMapping"),
    ],
    ids=lambda protocol: json.dumps(protocol)[-40:],
)
def test_writer_only_features_are_readable(protocol):
    read_rightly(built(protocol), ["a", "b"])


@pytest.mark.parametrize("kind", ["protocol", "metaData"])
@pytest.mark.parametrize("checkpoint", [False, True])
def test_a_table_without_protocol_or_metadata_is_refused(kind, checkpoint):
    store = memory_store()
    table = TableBuilder(store)
    present = {"protocol": table.metadata, "metaData": table.protocol}[kind]
    table.commit(
        {"metaData" if kind == "protocol" else "protocol": present}, "+a", create=False
    ).commit("+b")
    if checkpoint:
        table.checkpoint(version=0).delete(f"{0:020d}.json")
    error = refused(store, LogCorruptError, reason=kind)
    assert error.version == 1


@pytest.mark.parametrize("kind", ["protocol", "metaData"])
def test_a_checkpoint_without_protocol_or_metadata_is_not_recovered(kind):
    """The checkpoint is readable but invalid: Spark and both kernels refuse it, even with commits."""
    store = memory_store()
    table = TableBuilder(store).commit("+a").commit("+b").checkpoint(version=1)
    name = f"{1:020d}.checkpoint.parquet"
    sink = io.BytesIO()
    pq.write_table(pq.read_table(io.BytesIO(table.read(name))).drop_columns([kind]), sink)
    table.write(name, sink.getvalue())
    refused(store, LogCorruptError, file=name, version=1, reason=f"no {kind} action")
    table.commit(f"!{kind} +c")
    read_rightly(store, ["a", "b", "c"])


@pytest.mark.parametrize("kind", ["protocol", "metaData"])
def test_duplicate_protocol_or_metadata_in_a_commit_is_refused(kind):
    store = memory_store()
    TableBuilder(store).commit("+a").commit(f"!{kind} !{kind}")
    refused(store, LogCorruptError, version=1, reason=f"more than one {kind}")


@pytest.mark.parametrize(
    "change",
    [
        {"schemaString": None},
        {"schemaString": "not json"},
        {"schemaString": "[]"},
        {"schemaString": 7},
        {"schemaString": '{"type":"struct"}'},
        {"schemaString": '{"type":"struct","fields":[{"name":"a"}]}'},
        {"schemaString": '{"type":"struct","fields":' + "[" * 5000 + "]" * 5000 + "}"},
        {"partitionColumns": "id"},
        {"partitionColumns": [None]},
        {"partitionColumns": ["no such column"]},
        {"configuration": {"a": [1]}},
        {"configuration": []},
        {"configuration": {"delta.columnMapping.mode": "sideways"}},
        {"configuration": {"delta.inCommitTimestampEnablementVersion": "soon"}},
        {"format": "parquet"},
    ],
    ids=lambda change: str(change)[:60],
)
def test_invalid_metadata_is_refused(change):
    store = memory_store()
    table = TableBuilder(store)
    table.metadata = {k: v for k, v in (table.metadata | change).items() if v is not None}
    table.commit("+a")
    with pytest.raises(DeltaError):
        list(Table(store, Config()).scan().files())
    refused(store, DeltaError)


def test_a_table_in_another_file_format_is_refused():
    store = memory_store()
    table = TableBuilder(store)
    table.metadata |= {"format": {"provider": "orc", "options": {}}}
    table.commit("+a")
    error = refused(store, UnsupportedFeatureError)
    assert error.features == ("files of format orc",)
