from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lazydelta.replay import SeenFiles, seen_files
from lazydelta.replay.action_keys import file_keys, hash_keys, new_seed

STRINGS = st.text(alphabet=st.characters(codec="utf-8"), max_size=40)


def new_set(memory_limit=1 << 30, capacity=1000, rate=0.01):
    return SeenFiles(memory_limit=memory_limit, capacity=capacity, false_positive_rate=rate)


@settings(max_examples=150)
@given(
    groups=st.lists(st.lists(STRINGS, max_size=8), max_size=20),
    lookups=st.lists(STRINGS, max_size=20),
    memory_limit=st.sampled_from([0, 200, 1 << 30]),
    capacity=st.sampled_from([1, 100]),
)
def test_no_false_positives_and_no_false_negatives(groups, lookups, memory_limit, capacity):
    keys, expected = new_set(memory_limit, capacity, 0.99), set()
    try:
        for group in groups:
            new = sorted(set(group) - expected)
            expected.update(new)
            keys.add(pa.array(new, pa.string()))
        assert len(keys) == len(expected)
        everything = [*expected, *lookups]
        is_member = keys.contains(pa.array(everything, pa.string()))
        assert is_member.tolist() == [key in expected for key in everything]
    finally:
        keys.close()


def test_a_bloom_filter_of_eight_bytes_gives_exact_results():
    keys = new_set(capacity=1, rate=0.99)
    keys.add(pa.array([f"in{n}" for n in range(5000)]))
    assert keys.contains(pa.array([f"in{n}" for n in range(5000)])).all()
    assert not keys.contains(pa.array([f"out{n}" for n in range(5000)])).any()


def test_a_bloom_filter_grows_with_its_keys():
    keys = new_set(capacity=1_000_000)
    expected = [f"in{n}" for n in range(5000)]
    keys.add(pa.array(expected[:100]))
    assert keys.memory_bytes < 20_000
    keys.add(pa.array(expected[100:]))
    assert keys.memory_bytes < 200_000, "the capacity alone takes more than 1 MB"
    assert keys.contains(pa.array(expected)).all()
    assert not keys.contains(pa.array([f"out{n}" for n in range(5000)])).any()
    keys.close()


def test_keys_with_equal_hashes_are_distinguished(monkeypatch):
    monkeypatch.setattr(seen_files, "hash_keys", lambda keys, _: np.full(len(keys), 7, np.uint64))
    for limit in (0, 1 << 30):
        keys = new_set(limit)
        for part in (["a", "b"], ["c"], ["d", "e", "f"]):
            keys.add(pa.array(part))
        lookups = ["a", "x", "c", "f", "y", "b", ""]
        assert keys.contains(pa.array(lookups)).tolist() == [
            True,
            False,
            True,
            True,
            False,
            True,
            False,
        ]
        keys.close()


def test_spilled_keys_stay_exact():
    keys = new_set(memory_limit=10_000)
    for start in range(0, 20_000, 1000):
        keys.add(pa.array([f"key-{n:08d}" for n in range(start, start + 1000)]))
        assert keys.memory_bytes < 100_000
    assert 1 <= keys.spilled_runs <= 9
    assert keys.contains(pa.array([f"key-{n:08d}" for n in range(0, 20_000, 7)])).all()
    assert not keys.contains(pa.array([f"kez-{n:08d}" for n in range(0, 20_000, 7)])).any()
    keys.close()
    assert len(keys) == 0


@pytest.mark.parametrize("width", [0, 1, 7, 8, 9, 16, 1023, 1024, 1025, 3000])
def test_the_hash_of_a_key_does_not_depend_on_its_batch(width):
    seed = new_seed()
    key = "k" * width
    alone = hash_keys(pa.array([key]), seed)[0]
    for batch in (["a", key], [key, "x" * 2000], ["é", key, ""], [key, key]):
        hashes = hash_keys(pa.array(batch), seed)
        assert hashes[batch.index(key)] == alone
    sliced = pa.array(["zzz", key, "yy"]).slice(1, 1)
    assert hash_keys(sliced, seed)[0] == alone


def test_a_key_is_path_and_deletion_vector():
    vectors = pa.array(
        [
            None,
            {"storageType": "u", "pathOrInlineDv": "v", "offset": 1},
            {"storageType": "u", "pathOrInlineDv": "v", "offset": None},
            {"storageType": "i", "pathOrInlineDv": "v", "offset": None},
        ],
        pa.struct(
            [("storageType", pa.string()), ("pathOrInlineDv", pa.string()), ("offset", pa.int32())]
        ),
    )
    keys = file_keys(pa.array(["a"] * 4), vectors).to_pylist()
    assert keys[0] == "a"
    assert len(set(keys)) == 4
    assert file_keys(pa.array(["a", "b"]), None).to_pylist() == ["a", "b"]
