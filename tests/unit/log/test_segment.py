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


def choose(listing, version=None, **options):
    options = {"use_compaction": True} | options
    return choose_segment("t", listing, version=version, **options)


def test_F11_F12_the_floor_is_the_checkpoint_and_minus_one_without_one():
    assert choose(commits(0, 1, 2)).floor == -1
    segment = choose([*commits(0, 1, 2, 3), *classic(1)])
    assert segment.floor == 1
    assert [file.version for file in segment.tail] == [2, 3]


def test_F18_a_checkpoint_whose_commit_is_gone_still_counts_as_a_version():
    segment = choose(classic(9))
    assert (segment.version, segment.tail) == (9, ())


def test_the_newest_complete_checkpoint_at_or_below_the_version_is_chosen():
    listing = [*commits(*range(10)), *classic(2), *classic(5), *classic(8)]
    floors = {version: choose(listing, version).floor for version in range(10)}
    assert floors == {0: -1, 1: -1, 2: 2, 3: 2, 4: 2, 5: 5, 6: 5, 7: 5, 8: 8, 9: 8}


def test_at_one_version_the_choice_does_not_depend_on_the_order_of_the_listing():
    names = [
        f"{5:020d}.checkpoint.{1:010d}.{2:010d}.parquet",
        f"{5:020d}.checkpoint.{2:010d}.{2:010d}.parquet",
        f"{5:020d}.checkpoint.{UUID}.json",
        f"{5:020d}.checkpoint.parquet",
    ]
    listing = [*commits(*range(6)), *files(*names)]
    assert choose(listing).checkpoint == choose(listing[::-1]).checkpoint
    assert len(choose(listing).checkpoint.files) == 1


def test_F20_parts_count_only_as_a_whole_set_in_order():
    parts = [f"{5:020d}.checkpoint.{part:010d}.{3:010d}.parquet" for part in (2, 3, 1)]
    (whole,) = complete_checkpoints(files(*parts))
    assert [file.part for file in whole.files] == [1, 2, 3]
    assert complete_checkpoints(files(*parts[:2])) == []
    assert complete_checkpoints([*files(*parts[:2]), *files(parts[2], size=0)]) == []


def test_a_checkpoint_of_no_bytes_is_none():
    assert complete_checkpoints(files(f"{5:020d}.checkpoint.parquet", size=0)) == []


def test_an_excluded_checkpoint_is_left_out():
    listing = [*commits(*range(6)), *classic(2), *classic(4)]
    name = f"{4:020d}.checkpoint.parquet"
    assert choose(listing, excluded=frozenset({name})).floor == 2


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
def test_compactions_cover_the_tail_exactly_once(compactions, expected):
    listing = commits(*range(6))
    for first, last in compactions:
        listing += compacted(first, last)
    segment = choose(listing, 5)
    found = [
        str(f.version) if f.end_version < 0 else f"{f.version}-{f.end_version}"
        for f in segment.tail
    ]
    assert found == expected
    assert [file.version for file in segment.commits] == list(range(6))
    assert choose(listing, 5, use_compaction=False).tail == segment.commits


def test_a_compaction_that_begins_below_the_checkpoint_is_not_used():
    segment = choose([*commits(*range(6)), *classic(2), *compacted(1, 5)])
    assert [file.version for file in segment.tail] == [3, 4, 5]


def test_the_commits_behind_a_compaction_can_be_told():
    segment = choose([*commits(*range(8)), *classic(2), *compacted(4, 6)])
    (one,) = [file for file in segment.tail if file.end_version >= 0]
    assert [file.version for file in segment.commits_of(one)] == [4, 5, 6]


def test_the_newest_checksum_not_newer_than_the_version_is_kept():
    crcs = files(*(f"{version:020d}.crc" for version in (1, 3, 5)))
    assert choose([*commits(*range(6)), *crcs], 4).checksum.version == 3
    assert choose(commits(0)).checksum is None


def test_gaps_and_missing_tables_are_told():
    with pytest.raises(TableNotFoundError):
        choose([])
    with pytest.raises(LogGapError) as raised:
        choose(commits(0, 1, 4, 6))
    assert raised.value.missing == (2, 3, 5)
    with pytest.raises(VersionNotCommittedError):
        choose(commits(0, 1), 2)


def test_the_earliest_version_that_can_be_rebuilt():
    assert earliest_version(commits(0, 1, 2)) == 0
    assert earliest_version([*commits(3, 4, 5), *classic(4)]) == 4
