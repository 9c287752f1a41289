from __future__ import annotations

import pytest

from lazydelta.errors import LogGapError, TableNotFoundError, VersionNotCommittedError
from lazydelta.log.file_names import parse_name
from lazydelta.log.segment import choose_segment, complete_checkpoints, earliest_version

UUID = "80a083e8-7026-4e79-81be-64bd76c43a11"


def files(*names, size=1):
    return [parse_name(name, size=size, modified_ms=0) for name in names]


def commits(*versions):
    return files(*(f"{version:020d}.json" for version in versions))


def classic(version):
    return files(f"{version:020d}.checkpoint.parquet")


def compacted(first, last):
    return files(f"{first:020d}.{last:020d}.compacted.json")


def select(listing, version=None, **options):
    options = {"use_compaction": True} | options
    return choose_segment("t", listing, version=version, **options)


def test_base_version_is_the_checkpoint_or_minus_one():
    assert select(commits(0, 1, 2)).base_version == -1
    segment = select([*commits(0, 1, 2, 3), *classic(1)])
    assert segment.base_version == 1
    assert [file.version for file in segment.tail] == [2, 3]


def test_a_checkpoint_without_its_commit_is_a_version():
    segment = select(classic(9))
    assert (segment.version, segment.tail) == (9, ())


def test_the_newest_complete_checkpoint_up_to_the_version_is_selected():
    listing = [*commits(*range(10)), *classic(2), *classic(5), *classic(8)]
    bases = {version: select(listing, version).base_version for version in range(10)}
    assert bases == {0: -1, 1: -1, 2: 2, 3: 2, 4: 2, 5: 5, 6: 5, 7: 5, 8: 8, 9: 8}


def test_the_selected_checkpoint_does_not_depend_on_listing_order():
    names = [
        f"{5:020d}.checkpoint.{1:010d}.{2:010d}.parquet",
        f"{5:020d}.checkpoint.{2:010d}.{2:010d}.parquet",
        f"{5:020d}.checkpoint.{UUID}.json",
        f"{5:020d}.checkpoint.parquet",
    ]
    listing = [*commits(*range(6)), *files(*names)]
    assert select(listing).checkpoint == select(listing[::-1]).checkpoint
    assert len(select(listing).checkpoint.files) == 1


def test_a_multipart_checkpoint_needs_all_parts():
    parts = [f"{5:020d}.checkpoint.{part:010d}.{3:010d}.parquet" for part in (2, 3, 1)]
    (whole,) = complete_checkpoints(files(*parts))
    assert [file.part for file in whole.files] == [1, 2, 3]
    assert complete_checkpoints(files(*parts[:2])) == []
    assert complete_checkpoints([*files(*parts[:2]), *files(parts[2], size=0)]) == []


def test_an_empty_checkpoint_file_is_ignored():
    assert complete_checkpoints(files(f"{5:020d}.checkpoint.parquet", size=0)) == []


def test_an_excluded_checkpoint_is_not_selected():
    listing = [*commits(*range(6)), *classic(2), *classic(4)]
    name = f"{4:020d}.checkpoint.parquet"
    assert select(listing, excluded=frozenset({name})).base_version == 2


@pytest.mark.parametrize(
    ("compactions", "expected"),
    [
        ([(1, 3)], ["0", "1-3", "4", "5"]),
        ([(0, 5)], ["0-5"]),
        ([(0, 1), (0, 4)], ["0-4", "5"]),
        ([(1, 3), (2, 5)], ["0", "1-3", "4", "5"]),
        ([(1, 2), (3, 5)], ["0", "1-2", "3-5"]),
        ([(4, 9)], ["0", "1", "2", "3", "4", "5"]),
    ],
)
def test_compacted_commits_cover_the_tail_exactly_once(compactions, expected):
    listing = commits(*range(6))
    for first, last in compactions:
        listing += compacted(first, last)
    segment = select(listing, 5)
    covered = [
        str(f.version) if f.end_version < 0 else f"{f.version}-{f.end_version}"
        for f in segment.tail
    ]
    assert covered == expected
    assert [file.version for file in segment.commits] == list(range(6))
    assert select(listing, 5, use_compaction=False).tail == segment.commits


def test_compacted_commits_that_start_before_the_checkpoint_are_not_used():
    segment = select([*commits(*range(6)), *classic(2), *compacted(1, 5)])
    assert [file.version for file in segment.tail] == [3, 4, 5]


def test_commits_of_a_compacted_file():
    segment = select([*commits(*range(8)), *classic(2), *compacted(4, 6)])
    (one,) = [file for file in segment.tail if file.end_version >= 0]
    assert [file.version for file in segment.commits_of(one)] == [4, 5, 6]


def test_the_newest_checksum_up_to_the_version_is_selected():
    crcs = files(*(f"{version:020d}.crc" for version in (1, 3, 5)))
    assert select([*commits(*range(6)), *crcs], 4).checksum.version == 3
    assert select(commits(0)).checksum is None


def test_gaps_and_missing_tables_raise():
    with pytest.raises(TableNotFoundError):
        select([])
    with pytest.raises(LogGapError) as raised:
        select(commits(0, 1, 4, 6))
    assert raised.value.missing == (2, 3, 5)
    with pytest.raises(VersionNotCommittedError):
        select(commits(0, 1), 2)


def test_earliest_version():
    assert earliest_version(commits(0, 1, 2)) == 0
    assert earliest_version([*commits(3, 4, 5), *classic(4)]) == 4
