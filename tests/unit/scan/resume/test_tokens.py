from __future__ import annotations

import string
import subprocess
import sys

import orjson
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lazydelta import Config, Table
from lazydelta.errors import ResumeTokenError, ResumeTokenExpiredError
from lazydelta.scan.resume.token import ResumeToken, digest
from tests.builders import TableBuilder
from tests.support import examples, memory_store

URL_SAFE = set(string.ascii_letters + string.digits + "-_.")
KEY = b"k" * 32
NAMES = [f"f{number:02d}" for number in range(12)]


def build(store):
    older, newer = " ".join(f"+{n}" for n in NAMES[:8]), " ".join(f"+{n}" for n in NAMES[8:])
    return TableBuilder(store).commit(older).checkpoint().commit(newer).commit("-f01")


def open_table(store, **settings):
    return Table(store, Config(batch_rows=3, resume_key=KEY, **settings))


@pytest.fixture(scope="module")
def store():
    store = memory_store()
    build(store)
    return store


@pytest.fixture(scope="module")
def tokens(store):
    return [token for _, token in open_table(store).scan().resumable_files()]


def paths(stream):
    return [path for batch, _ in stream for path in batch.column("path").to_pylist()]


def test_a_token_is_short_url_safe_text(tokens):
    assert all(set(token) <= URL_SAFE for token in tokens)
    assert max(map(len, tokens)) < 2048


def test_a_token_of_a_log_with_many_compactions_is_short():
    store = memory_store()
    builder = TableBuilder(store)
    for number in range(120):
        builder.commit(f"+g{number}")
    for first in range(0, 118, 2):
        builder.compact(first, first + 1)
    batches = list(open_table(store).scan().resumable_files())
    assert len(batches[0].token) < 1024
    rest = paths(open_table(store).scan().resume(batches[0].token))
    assert paths(batches[:1]) + rest == paths(batches)


def altered(token, where, character):
    position = where % len(token)
    return token[:position] + character + token[position + 1 :]


@examples(300, long=5000)
@given(data=st.data())
def test_an_altered_token_is_refused(data, store, tokens):
    token = data.draw(st.sampled_from(tokens))
    wrong = data.draw(
        st.one_of(
            st.text(max_size=200),
            st.binary(max_size=60).map(lambda b: b.decode("latin-1")),
            st.integers(0, len(token) - 1).map(lambda end: token[:end]),
            st.builds(
                altered, st.just(token), st.integers(0, 3000), st.sampled_from(sorted(URL_SAFE))
            ),
            st.text(max_size=3).map(lambda end: token + end),
            st.permutations(token.split(".")).map(".".join),
        )
    )
    if wrong == token:
        return
    scan = open_table(store).scan()
    for read in (scan.resume, scan.resumable_files, scan.resumable_rows, lambda t: scan.page(3, t)):
        with pytest.raises(ResumeTokenError):
            read(wrong)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**63), 2**63 - 1) | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=4), inner, max_size=2)
    ),
    max_leaves=8,
)


@pytest.fixture(scope="module")
def unsigned():
    """Return reads of each kind with an empty key, and tokens of them."""
    store = memory_store()
    table = Table(store, Config(max_deleted_rows_ratio=1.0))
    enabled = {"delta.enableChangeDataFeed": "true", "delta.enableDeletionVectors": "true"}
    for first in (0, 10, 20):
        table.write(pa.table({"id": list(range(first, first + 6))}), properties=enabled)
    table.delete("id = 3")
    table.checkpoint()
    table.write(pa.table({"id": [99]}))
    scan, feed = table.scan(), table.changes()
    streams = (scan.resumable_files(), scan.resumable_rows(), feed.resumable_rows())
    reads = (scan.resume, scan.resume, feed.resume)
    return [
        (read, token) for read, stream in zip(reads, streams, strict=True) for _, token in stream
    ]


@examples(150, long=3000)
@given(data=st.data(), name=st.sampled_from(sorted(ResumeToken.__slots__)), value=JSON)
def test_a_token_forged_without_a_key_never_raises_another_error(data, name, value, unsigned):
    """An empty key signs what anyone writes: it must not crash, or deliver anything twice."""
    read, token = data.draw(st.sampled_from(unsigned))
    content = orjson.loads(_decoded(token))
    if name == "position" and data.draw(st.booleans()):
        numbers = st.integers(0, 3) | st.integers(0, 2**63 - 1)
        value = _with_numbers(content["position"], lambda: data.draw(numbers))
    content[name] = value
    stream, found = None, []
    try:
        stream = read(_signed(content))
        for batch, _ in stream:
            found += map(str, batch.to_pylist())
    except ResumeTokenError:
        return
    finally:
        if stream is not None:
            stream.close()
    assert len(found) == len(set(found))


def _with_numbers(value, number):
    if isinstance(value, list):
        return [_with_numbers(inner, number) for inner in value]
    return number() if isinstance(value, int) else value


def _decoded(token):
    import base64

    text = token.split(".")[2]
    return base64.urlsafe_b64decode(text + "=" * (-len(text) % 4))


def _signed(content):
    from lazydelta.scan.resume.token import _encoded, _key_id, _signature

    text = f"1.{_key_id(b'')}.{_encoded(orjson.dumps(content))}"
    return f"{text}.{_signature(b'', text)}"


def test_a_token_of_another_key_names_the_cure(store, tokens):
    for key in (b"", b"other"):
        with pytest.raises(ResumeTokenError, match=r"another key.*resume_key"):
            Table(store, Config(resume_key=key)).scan().resume(tokens[0])


def test_a_token_of_another_format_says_so(store, tokens):
    with pytest.raises(ResumeTokenError, match="format 2; this engine reads format 1"):
        open_table(store).scan().resume("2" + tokens[0][1:])


def test_a_token_of_another_table_is_refused(tokens):
    other = memory_store()
    open_table(other).write(pa.table({"id": [1]}))
    with pytest.raises(ResumeTokenError, match="another table"):
        open_table(other).scan().resume(tokens[0])


@pytest.mark.parametrize("wishes", [{"where": "1 = 1"}, {"strategy": "reverse"}])
def test_a_token_of_another_scan_is_refused(store, tokens, wishes):
    with pytest.raises(ResumeTokenError, match="another scan"):
        open_table(store).scan(**wishes).resume(tokens[0])


def test_a_token_of_another_tripwire_is_refused(store, tokens):
    with pytest.raises(ResumeTokenError, match="another scan"):
        open_table(store, tripwire="strict").scan().resume(tokens[0])


def test_a_token_of_files_does_not_continue_rows(store, tokens):
    with pytest.raises(ResumeTokenError, match="of files, not of rows"):
        open_table(store).scan().resumable_rows(tokens[0])


def test_the_token_decides_the_version():
    store = memory_store()
    builder = build(store)
    every = paths(open_table(store).scan().resumable_files())
    (first, token), *_ = open_table(store).scan().resumable_files()
    builder.commit("+late -f02").checkpoint()
    for scan in (open_table(store).scan(), open_table(store).snapshot(version=0).scan()):
        assert first.column("path").to_pylist() + paths(scan.resume(token)) == every


def test_a_cleaned_up_version_is_an_error_that_says_so():
    store = memory_store()
    builder = build(store)
    tokens = [token for _, token in open_table(store).scan().resumable_files()]
    builder.commit("+late").checkpoint().clean_up(2)
    with pytest.raises(ResumeTokenExpiredError, match=r"log cleanup.*Start the scan again"):
        open_table(store).scan().resume(tokens[0])


def test_a_checkpoint_that_was_deleted_is_an_error_that_says_so():
    store = memory_store()
    builder = build(store)
    tokens = [token for _, token in open_table(store).scan().resumable_files()]
    builder.commit("+late").checkpoint()
    builder.delete(f"{0:020d}.checkpoint.parquet")
    with pytest.raises(ResumeTokenExpiredError, match="log cleanup"):
        open_table(store).scan().resume(tokens[0])


def test_a_replaced_log_is_refused(tokens):
    other = memory_store()
    TableBuilder(other).commit("+x +y").checkpoint().commit("+z").commit("-x")
    with pytest.raises(ResumeTokenError, match="were replaced"):
        open_table(other).scan().resume(tokens[0])


@pytest.mark.parametrize("damage", ["truncate", "page"])
@pytest.mark.parametrize("strategy", ["reverse", "forward"])
def test_a_scan_that_left_a_damaged_checkpoint_continues_exactly(damage, strategy):
    store = memory_store()
    builder = TableBuilder(store).commit(" ".join(f"+{n}" for n in NAMES[:6])).checkpoint()
    builder.commit(" ".join(f"+{n}" for n in NAMES[6:])).commit("-f01")
    builder.checkpoint("multipart", parts=3, row_group_rows=1).commit("+last -f08")
    name = f"_delta_log/{2:020d}.checkpoint.{3:010d}.{3:010d}.parquet"
    data = bytearray(store.read(name))
    if damage == "page":
        data[4 : len(data) // 2] = bytes(len(data) // 2 - 4)
    store.write(name, bytes(data[:300] if damage == "truncate" else data), overwrite=True)
    live = {"last", *NAMES} - {"f01", "f08"}
    batches = list(open_table(store).scan(strategy=strategy).resumable_files())
    every = paths(batches)
    assert sorted(every) == sorted(live)
    assert any(b'"older"' in _decoded(token) for _, token in batches)
    for number, (_, token) in enumerate(batches, 1):
        after = paths(open_table(store).scan().resume(token))
        assert paths(batches[:number]) + after == every


def test_another_process_continues(tmp_path):
    builder = TableBuilder(str(tmp_path)).commit("+a +b +c").checkpoint().commit("+d")
    assert builder.version == 1
    batches = list(Table.open(tmp_path, config=Config(batch_rows=1)).scan().resumable_files())
    script = (
        "import sys, lazydelta as ld\n"
        "stream = ld.Table.open(sys.argv[1]).scan().resume(sys.argv[2])\n"
        "print(*(p for batch, _ in stream for p in batch.column('path').to_pylist()))\n"
    )
    for number in (0, 2):
        command = [sys.executable, "-c", script, str(tmp_path), batches[number].token]
        done = subprocess.run(command, capture_output=True, text=True, check=True)
        assert done.stdout.split() == paths(batches[number + 1 :])


def test_a_digest_depends_on_every_part():
    assert len({digest("a", None), digest("a", ""), digest("a"), digest(["a"]), digest("b")}) == 5
