from __future__ import annotations

import pytest

from lazydelta.errors import SchemaError
from lazydelta.protocol import (
    CommitInfo,
    DomainMetadata,
    MalformedActionError,
    SetTransaction,
    Sidecar,
    TableMetadata,
    TableProperties,
    TableProtocol,
)
from lazydelta.protocol.features import (
    allows_column_mapping,
    check_protocol,
    compatibility,
    unreadable_features,
)


def protocol(reader=3, writer=7, readers=(), writers=()):
    return TableProtocol(
        min_reader_version=reader,
        min_writer_version=writer,
        reader_features=None if readers is None else tuple(readers),
        writer_features=None if writers is None else tuple(writers),
    )


@pytest.mark.parametrize(
    ("parse", "obj", "field"),
    [
        (TableProtocol.from_json, {"minReaderVersion": 1}, "minWriterVersion"),
        (
            TableProtocol.from_json,
            {"minReaderVersion": True, "minWriterVersion": 2},
            "minReaderVersion",
        ),
        (
            TableProtocol.from_json,
            {"minReaderVersion": 2**63, "minWriterVersion": 2},
            "minReaderVersion",
        ),
        (
            TableProtocol.from_json,
            {"minReaderVersion": 3, "minWriterVersion": 7, "readerFeatures": [1]},
            "readerFeatures",
        ),
        (TableMetadata.from_json, {}, "schemaString"),
        (TableMetadata.from_json, {"schemaString": 1}, "schemaString"),
        (
            TableMetadata.from_json,
            {"schemaString": "", "configuration": {"a": None}},
            "configuration",
        ),
        (TableMetadata.from_json, {"schemaString": "", "createdTime": "now"}, "createdTime"),
        (SetTransaction.from_json, {"appId": "a"}, "version"),
        (SetTransaction.from_json, {"version": 1}, "appId"),
        (DomainMetadata.from_json, {"configuration": ""}, "domain"),
        (DomainMetadata.from_json, {"domain": "a", "removed": "yes"}, "removed"),
        (Sidecar.from_json, {"sizeInBytes": 1}, "path"),
    ],
)
def test_a_malformed_action_names_the_field(parse, obj, field):
    with pytest.raises(MalformedActionError, match=field):
        parse(obj)


def test_unknown_fields_are_ignored_and_missing_ones_have_defaults():
    metadata = TableMetadata.from_json({"schemaString": "{}", "new": 1})
    assert metadata.partition_columns == ()
    assert metadata.configuration == {}
    assert metadata.format_provider == "parquet"
    assert (
        TableProtocol.from_json({"minReaderVersion": 1, "minWriterVersion": 2}).reader_features
        is None
    )


def test_commit_info_is_free_form():
    info = CommitInfo.from_json({"timestamp": "soon", "operation": 7, "x": 1}, version=3)
    assert (info.version, info.timestamp, info.operation) == (3, None, None)
    assert info.raw["x"] == 1


def test_unknown_reader_features_are_unreadable():
    assert unreadable_features(protocol(1, 1, None, None)) == ()
    assert unreadable_features(protocol(readers=["deletionVectors", "zzz", "aaa"])) == (
        "aaa",
        "zzz",
    )
    assert unreadable_features(protocol(1, 7, None, ["rowTracking", "zzz"])) == ()
    assert unreadable_features(protocol(4)) == ("reader version 4",)


@pytest.mark.parametrize("bad", [protocol(0), protocol(3, 7, None), protocol(3, 5), protocol(1, 0)])
def test_contradictory_protocols_are_refused(bad):
    with pytest.raises(MalformedActionError):
        check_protocol(bad)


def test_column_mapping_is_allowed_by_reader_version_2_or_by_feature():
    assert [allows_column_mapping(p) for p in (
        protocol(1, 5, None, None), protocol(2, 5, None, None), protocol(), protocol(readers=["columnMapping"])
    )] == [False, True, False, True]  # fmt: skip


def test_compatibility_has_active_and_unsupported_features():
    metadata = TableMetadata(
        id="", schema_string="", partition_columns=(),
        configuration={"delta.enableDeletionVectors": "true", "delta.columnMapping.mode": "name"},
    )  # fmt: skip
    good = compatibility(
        "t",
        3,
        protocol(
            readers=["deletionVectors", "columnMapping"],
            writers=["deletionVectors", "columnMapping", "rowTracking"],
        ),
        metadata,
    )
    assert good.decision == "readable"
    assert good.active_features == ("columnMapping", "deletionVectors")
    bad = compatibility("t", 3, protocol(readers=["zzz"]), metadata)
    assert bad.decision == "not-readable"
    assert "zzz" in bad.reason
    assert bad.to_dict()["reader_features"] == ("zzz",)


def test_properties_are_typed_and_invalid_ones_are_named():
    parsed = TableProperties.parse(
        {"delta.enableInCommitTimestamps": "TRUE", "delta.inCommitTimestampEnablementVersion": "7"}
    )
    assert parsed.in_commit_timestamps
    assert parsed.in_commit_timestamps_since_version == 7
    assert TableProperties.parse({}) == TableProperties()
    for key, value in (
        ("delta.columnMapping.mode", "sideways"),
        ("delta.inCommitTimestampEnablementTimestamp", "noon"),
    ):
        with pytest.raises(SchemaError, match=key):
            TableProperties.parse({key: value})
