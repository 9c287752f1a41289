"""`check`: whether a table is readable, and its `.crc` compared with the log."""

from __future__ import annotations

import json

import pytest

from lazydelta import Config, Table
from lazydelta.log import LOG_DIRECTORY
from lazydelta.scan import check_table
from lazydelta.scan.verify import verify_checksum
from tests.builders import TableBuilder, deletion_vector
from tests.builders import add as add_action
from tests.cli.support import build, run


def checked(directory):
    result = run("check", directory, "--json")
    return result.exit_code, json.loads(result.stdout)


def test_a_correct_checksum_matches(tmp_path):
    build(tmp_path).crc()
    code, found = checked(tmp_path)
    assert code == 0
    assert found["ok"] is True
    assert found["compatibility"]["decision"] == "readable"
    assert found["checksum"]["status"] == "matches"
    assert found["checksum"]["version"] == 3
    assert found["checksum"]["absent"] == []


def test_a_missing_checksum_is_reported_and_no_failure(tmp_path):
    build(tmp_path)
    code, found = checked(tmp_path)
    assert (code, found["checksum"]["status"]) == (0, "missing")


@pytest.mark.parametrize(
    ("field", "wrong", "recorded", "computed"),
    [
        ("numFiles", 6, 6, 5),
        ("numFiles", "5", "5", 5),
        ("numMetadata", 2, 2, 1),
        ("numProtocol", True, True, 1),
        ("numDeletionVectorsOpt", 0, 0, 1),
        ("numDeletedRecordsOpt", 5, 5, 1),
        ("protocol", "x", "x", None),
    ],
)
def test_a_wrong_field_is_named_with_both_values(tmp_path, field, wrong, recorded, computed):
    build(tmp_path).crc(**{field: wrong})
    code, found = checked(tmp_path)
    assert code == 1
    [mismatch] = found["checksum"]["mismatches"]
    assert (mismatch["field"], mismatch["recorded"]) == (field, recorded)
    if computed is not None:
        assert mismatch["computed"] == computed


def test_sizes_are_added_up(tmp_path):
    table = TableBuilder(tmp_path).commit(add_action("a", size=70), add_action("b", size=7))
    assert table.crc(tableSizeBytes=77)
    assert checked(tmp_path)[0] == 0
    table.crc(tableSizeBytes=78)
    [mismatch] = checked(tmp_path)[1]["checksum"]["mismatches"]
    assert mismatch == {"field": "tableSizeBytes", "recorded": 78, "computed": 77}


@pytest.mark.parametrize(
    ("change", "fields"),
    [
        ({"protocol": {"minReaderVersion": 1}}, ["protocol.minReaderVersion"]),
        ({"protocol": {"readerFeatures": []}}, ["protocol.readerFeatures"]),
        ({"metadata": {"id": "other"}}, ["metadata.id"]),
        ({"metadata": {"configuration": {}}}, ["metadata.configuration"]),
        ({"metadata": {"partitionColumns": ["id"]}}, ["metadata.partitionColumns"]),
        (
            {"metadata": {"schemaString": '{"type":"struct","fields":[]}'}},
            ["metadata.schemaString"],
        ),
    ],
    ids=lambda value: value[0] if isinstance(value, list) else "",
)
def test_protocol_and_metadata_are_compared_with_the_log_itself(tmp_path, change, fields):
    table = build(tmp_path)
    actions = {"protocol": table.protocol, "metadata": table.metadata}
    table.crc(**{name: actions[name] | fields for name, fields in change.items()})
    code, found = checked(tmp_path)
    assert code == 1
    assert [m["field"] for m in found["checksum"]["mismatches"]] == fields


def test_feature_order_and_schema_whitespace_are_ignored(tmp_path):
    table = build(tmp_path)
    features = table.protocol["readerFeatures"][::-1]
    assert features != table.protocol["readerFeatures"]
    schema = json.dumps(json.loads(table.metadata["schemaString"]), indent=4)
    table.crc(
        protocol=table.protocol | {"readerFeatures": features},
        metadata=table.metadata | {"schemaString": schema},
    )
    assert checked(tmp_path)[0] == 0


def test_fields_omitted_by_older_writers_are_no_mismatch(tmp_path):
    build(tmp_path).crc(protocol=None, metadata=None)
    code, found = checked(tmp_path)
    assert (code, found["checksum"]["status"]) == (0, "matches")
    assert found["checksum"]["absent"] == ["protocol", "metadata"]


@pytest.mark.parametrize("content", [b"", b"{", b"[1]", b'{"numFiles":1,"numFiles":1}', b"\xff{}"])
def test_a_damaged_checksum_is_reported_and_no_failure(tmp_path, content):
    build(tmp_path).write(f"{3:020d}.crc", content)
    code, found = checked(tmp_path)
    assert (code, found["checksum"]["status"]) == (0, "unusable")
    assert found["checksum"]["reason"]


@pytest.mark.parametrize(
    ("content", "absent"),
    [
        (b"{}", ["tableSizeBytes", "numFiles", "numMetadata", "numProtocol"]),
        (
            b'{"tableSizeBytes":null,"numMetadata":1,"numProtocol":1}',
            ["tableSizeBytes", "numFiles"],
        ),
    ],
)
def test_a_checksum_without_required_counts_does_not_match(tmp_path, content, absent):
    build(tmp_path).write(f"{3:020d}.crc", content)
    code, found = checked(tmp_path)
    assert (code, found["checksum"]["status"]) == (0, "unusable")
    assert found["checksum"]["reason"] == f"it has no {', '.join(absent)}"


def test_the_newest_checksum_is_compared_with_its_own_version(tmp_path):
    build(tmp_path).crc(version=1)
    code, found = checked(tmp_path)
    assert code == 0
    assert (found["checksum"]["status"], found["checksum"]["version"]) == ("matches", 1)
    assert found["compatibility"]["version"] == 3


def test_a_checksum_of_a_missing_version_is_unusable(tmp_path):
    table = build(tmp_path).crc(version=0)
    table.delete(f"{0:020d}.json", "_last_checkpoint")
    code, found = checked(tmp_path)
    assert (code, found["checksum"]["status"]) == (0, "unusable")
    assert "cannot be rebuilt" in found["checksum"]["reason"]


def test_an_older_version_can_be_checked(tmp_path):
    build(tmp_path).crc(version=1).crc(version=3, numFiles=99)
    assert run("check", tmp_path).exit_code == 1
    assert run("check", tmp_path, "--version", "2").exit_code == 0


def test_a_table_with_unknown_features_is_not_readable(tmp_path):
    protocol = {
        "minReaderVersion": 3,
        "minWriterVersion": 7,
        "readerFeatures": ["timeTravelling"],
        "writerFeatures": ["timeTravelling"],
    }
    TableBuilder(tmp_path, protocol=protocol).commit("+a").crc()
    code, found = checked(tmp_path)
    assert code == 1
    assert found["checksum"] is None
    verdict = found["compatibility"]
    assert verdict["decision"] == "not-readable"
    assert "timeTravelling" in verdict["reason"]
    assert verdict["reader_features"] == ["timeTravelling"]
    assert run("files", tmp_path).exit_code == 1


def test_a_contradictory_protocol_is_not_readable(tmp_path):
    protocol = {"minReaderVersion": 3, "minWriterVersion": 7, "writerFeatures": []}
    TableBuilder(tmp_path, protocol=protocol).commit("+a")
    code, found = checked(tmp_path)
    assert code == 1
    assert "readerFeatures" in found["compatibility"]["reason"]


def test_a_log_without_metadata_is_an_error_that_names_the_file(tmp_path):
    table = TableBuilder(tmp_path)
    table.commit({"protocol": table.protocol}, create=False)
    result = run("check", tmp_path)
    assert result.exit_code == 1
    assert "no metaData action" in result.stderr
    assert LOG_DIRECTORY in result.stderr


def test_a_checkpoint_alone_is_enough(tmp_path):
    table = build(tmp_path).checkpoint().hint().crc()
    table.clean_up(before=3)
    table.delete(f"{3:020d}.json")
    assert checked(tmp_path)[1]["checksum"]["status"] == "matches"


def test_in_a_pipe_each_mismatch_is_readable(tmp_path):
    build(tmp_path).crc(numFiles=6)
    lines = dict(line.split("\t", 1) for line in run("check", tmp_path).stdout.splitlines())
    assert lines["ok"] == "false"
    assert json.loads(lines["checksum.mismatches"])[0]["field"] == "numFiles"


def test_from_python(tmp_path):
    build(tmp_path).crc(numFiles=6)
    table = Table.open(tmp_path)
    snapshot = table.snapshot()
    report = verify_checksum(snapshot)
    assert not report.ok
    assert str(report.mismatches[0]) == "numFiles: recorded 6, the log gives 5"
    assert check_table(snapshot.store, Config()).checksum == report
    assert table.check().checksum == report


def test_vectors_are_counted(tmp_path):
    table = TableBuilder(tmp_path)
    table.commit(
        add_action("a", vector=deletion_vector("v1", 3)),
        add_action("b", vector=deletion_vector("v2", 4)),
        add_action("c"),
    ).crc(numDeletionVectorsOpt=2, numDeletedRecordsOpt=7)
    assert checked(tmp_path)[0] == 0
    table.crc(numDeletedRecordsOpt=8)
    assert checked(tmp_path)[0] == 1


def test_check_of_a_store(tmp_path):
    build(tmp_path)
    result = run("check", "--store", tmp_path, "--json")
    found = json.loads(result.stdout)
    assert result.exit_code == 0
    assert found["provider"] == "local"
    assert found["probes"]["ranges"]["status"] == "ok"
    assert found["probes"]["conditional put"]["status"] == "skipped"
    found = json.loads(run("check", "--store", "--write", tmp_path, "--json").stdout)
    assert found["probes"]["conditional put"]["status"] == "ok"


def test_a_store_that_cannot_be_reached_is_resolved_all_the_same():
    secret = "c2VjcmV0LWNhbmFyeQ=="
    options = {
        "account_name": "acct",
        "account_key": secret,
        "endpoint": "http://127.0.0.1:9/acct",
        "allow_http": "true",
        "max_retries": "0",
    }
    flags = [f"--storage-option={name}={value}" for name, value in options.items()]
    result = run("check", "--store", "az://lake/t", "--verbose", *flags)
    assert result.exit_code == 1
    lines = dict(line.split("\t") for line in result.stdout.splitlines())
    assert lines["account"] == "acct"
    assert lines["credential"] == "account key"
    assert lines["probes.list.status"] == "failed"
    assert secret not in result.output


def test_write_is_only_for_stores(tmp_path):
    assert run("check", "--write", tmp_path).exit_code == 2
    assert run("check", "--store", "--version", "0", tmp_path).exit_code == 2
