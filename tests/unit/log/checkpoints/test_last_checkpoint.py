from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from lazydelta.log.checkpoints.last_checkpoint import json_checksum, read_hint
from tests.builders import TableBuilder
from tests.builders.json_checksum import json_checksum as independent_checksum
from tests.support import memory_store

JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53), 2**53) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)


def test_checksum_of_the_protocol_example():
    inner = {"k4": "v4", "k5": ["v5", "v6", "v7"]}
    example = {"k0": "'v 0'", "checksum": "?", "k1": {"k2": 2, "k3": ["v3", [1, 2], inner]}}
    assert json_checksum(example) == "6a92d155a59bf2eecbd4b4ec7fd1f875"
    assert independent_checksum(example) == "6a92d155a59bf2eecbd4b4ec7fd1f875"


@given(st.dictionaries(st.text(), JSON, max_size=4))
def test_checksum_equals_an_independent_implementation(obj):
    assert json_checksum(obj) == independent_checksum(obj)


def test_hint_of_a_v2_checkpoint():
    store = memory_store()
    table = TableBuilder(store).commit("+a").checkpoint("v2-json")
    name = next(name for name in table.names() if ".checkpoint." in name)
    actions = [{"protocol": table.protocol}, {"metaData": table.metadata}]
    table.hint(0, v2Checkpoint={"path": name, "nonFileActions": actions})
    hint = read_hint(store)
    assert (hint.version, hint.add_files, hint.v2_name) == (0, 1, name)
    assert hint.v2_actions == tuple(actions)


def test_a_missing_hint_is_none():
    assert read_hint(memory_store()) is None
