from __future__ import annotations

import pytest

from lazydelta.log.file_names import LogFileKind, parse_name

UUID = "80a083e8-7026-4e79-81be-64bd76c43a11"


def parse(name):
    return parse_name(name, size=1, modified_ms=0)


@pytest.mark.parametrize(
    ("name", "kind", "version"),
    [
        (f"{7:020d}.json", LogFileKind.COMMIT, 7),
        (f"{7:020d}.crc", LogFileKind.CHECKSUM, 7),
        (f"{7:020d}.checkpoint.parquet", LogFileKind.CLASSIC_CHECKPOINT, 7),
        (f"{7:020d}.checkpoint.{2:010d}.{3:010d}.parquet", LogFileKind.MULTIPART_CHECKPOINT, 7),
        (f"{7:020d}.checkpoint.{UUID}.json", LogFileKind.V2_CHECKPOINT, 7),
        (f"{7:020d}.checkpoint.{UUID}.parquet", LogFileKind.V2_CHECKPOINT, 7),
        (f"{7:020d}.{9:020d}.compacted.json", LogFileKind.COMPACTED, 7),
        (f"{2**63 - 1:020d}.json", LogFileKind.COMMIT, 2**63 - 1),
    ],
)
def test_every_kind_of_name_is_parsed(name, kind, version):
    file = parse(name)
    assert (file.kind, file.version, file.name) == (kind, version, name)
    assert file.path == f"_delta_log/{name}"


def test_parts_and_version_ranges():
    part = parse(f"{7:020d}.checkpoint.{2:010d}.{3:010d}.parquet")
    assert (part.part, part.parts) == (2, 3)
    compacted = parse(f"{7:020d}.{9:020d}.compacted.json")
    assert (compacted.first_version, compacted.last_version) == (7, 9)
    assert parse(f"{7:020d}.json").last_version == 7


@pytest.mark.parametrize("version", [2**63, 10**20 - 1])
def test_a_version_beyond_64_bits_is_not_a_log_file(version):
    assert parse(f"{version:020d}.json") is None
