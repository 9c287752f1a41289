from __future__ import annotations

import json

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lazydelta.formats import BadLineError, JsonLimits, decode_lines, parse_object
from lazydelta.formats.json_lines import _suspects, normalized_lines, split_lines

SCHEMA = pa.schema(
    [
        (
            "a",
            pa.struct(
                [("path", pa.string()), ("n", pa.int64()), ("m", pa.map_(pa.string(), pa.string()))]
            ),
        ),
        ("b", pa.struct([("x", pa.bool_())])),
    ]
)
LIMITS = JsonLimits(line_bytes=1 << 20, depth=20)
TEXT = st.text(max_size=20, alphabet=st.characters(codec="utf-8"))


def decode(data, limits=LIMITS):
    return decode_lines(split_lines(data), SCHEMA, unique_keys=("path", "a"), limits=limits)


@settings(max_examples=100)
@given(
    st.lists(
        st.fixed_dictionaries(
            {
                "path": TEXT,
                "n": st.integers(-(2**63), 2**63 - 1),
                "m": st.dictionaries(TEXT, st.none() | TEXT),
            }
        ),
        min_size=1,
        max_size=8,
    ),
    st.booleans(),
)
def test_lines_round_trip(rows, ascii_only):
    lines = [json.dumps({"a": row}, ensure_ascii=ascii_only) for row in rows]
    batch = decode("".join(f"{line}\n" for line in lines).encode())
    found = [row | {"m": dict(row["m"])} for row in batch.column("a").to_pylist()]
    assert found == rows


@pytest.mark.parametrize("many", [5, 500])
@pytest.mark.parametrize("at", [0, 1, 4])
@pytest.mark.parametrize(
    "bad", [b"{", b"[]", b'{"a":1}', b'{"a":{"n":"x"}}', b'{"a":{"path":"p","path":"q"}}', b"{}{}"]
)
def test_the_error_has_the_line(at, bad, many):
    lines = [b'{"a":{"path":"p"}}'] * many
    lines[at] = bad
    with pytest.raises(BadLineError) as raised:
        decode(b"\n".join(lines) + b"\n")
    assert raised.value.line == at
    assert raised.value.reason


@given(
    st.lists(
        st.sampled_from(
            [b'"path":', b'"path"', b'"a" :', b"{", b"}", b" ", b"\\u0041", b"x", b"} {"]
        ),
        max_size=12,
    )
)
def test_few_and_many_lines_have_the_same_suspects(parts):
    keys = ("path", "a")
    lines = [b"{" + b"".join(parts) + b"}", b'{"path":1}']
    few, many = (split_lines(b"\n".join(lines * times) + b"\n") for times in (1, 50))
    found = set(_suspects(few, keys))
    assert found == {number % 2 for number in _suspects(many, keys)}


def test_a_key_at_two_levels_is_not_a_duplicate():
    line = b'{"a":{"path":"p","m":{"path":"q"}}}\n'
    assert decode(line).column("a").to_pylist()[0]["path"] == "p"


def test_braces_in_a_string_are_not_two_objects():
    line = b'{"a":{"path":"} {"}}\n'
    assert decode(line).column("a").to_pylist()[0]["path"] == "} {"


def test_a_nul_in_a_string_does_not_abort():
    assert decode(b'{"a":{"path":"x\\u0000y"}}\n').column("a").to_pylist()[0]["path"] == "x\0y"
    with pytest.raises(BadLineError) as raised:
        decode(b'{"a":{"path":"ok"}}\n{"a":"\\u0000"}\n')
    assert raised.value.line == 1


@pytest.mark.parametrize(
    "character", ["\U00010000", "\U0001f600", "\U00020000", "\U0002a6d6", "\U0010ffff"]
)
def test_escaped_surrogate_pairs(character):
    text = f"{character}{character}x\\{character}\\\\ud840"
    line = json.dumps({"a": {"path": text}}).encode() + b"\n"
    assert decode(line).column("a").to_pylist()[0]["path"] == text
    assert decode(line.replace(b"\\ud", b"\\uD")).column("a").to_pylist()[0][
        "path"
    ] == text.replace("\\ud", "\\uD")


def test_no_lines():
    assert decode(b"").num_rows == 0


def test_normalizing_removes_blank_lines_and_padding():
    assert normalized_lines(b'\n  {"a":1} \r\n\n{"b":2}') == b'{"a":1}\n{"b":2}\n'


@pytest.mark.parametrize(
    "text",
    [
        b"",
        b"[]",
        b"1",
        b"{",
        b'{"a":NaN}',
        b'{"a":1,"a":2}',
        b'{"a":{"b":1,"b":2}}',
        b'{"a":"\xff"}',
        b"\xef\xbb\xbf{}",
        b'{"a":1e999}',
    ],
)
def test_one_object_is_parsed_strictly(text):
    with pytest.raises(BadLineError):
        parse_object(text)


def test_one_valid_object_is_parsed():
    assert parse_object(b' {"a": [1, {"b": null}]} ') == {"a": [1, {"b": None}]}
