"""No path of a log leads out of the table: each hostile form, in each place that names a file.

The requests of a read go through `FaultProxy`, which records them; it is also the HTTP proxy of
the process, so that requests to other hosts are recorded too. For local tables, inotify reports
an open of the files next to the table.
"""

from __future__ import annotations

import ctypes
import io
import json
import os
import re
import struct
import sys
import zlib
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import parse_qs, unquote, urlsplit

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyroaring import BitMap64

import lazydelta
from lazydelta.errors import DeletionVectorError, DeltaError, LogCorruptError, PathNotAllowedError
from lazydelta.store import Store, open_store
from lazydelta.testing import FaultProxy
from lazydelta.testing.log_actions import serialize_actions
from tests.builders import TableBuilder, add, remove
from tests.builders.hostile_paths import ESCAPES, UNUSUAL_NAMES

pytestmark = pytest.mark.emulator

REFUSALS = (PathNotAllowedError, LogCorruptError)
MANIFEST = f"{1:020d}.checkpoint.80a083e8-7026-4e79-81be-64bd76c43a11.json"
SIDECARS = "_delta_log/_sidecars"
VECTOR_NAME = "00000000000000000000"  # Z85 of an UUID of zeros
VECTOR_FILE = "deletion_vector_00000000-0000-0000-0000-000000000000.bin"


def parquet(table):
    sink = io.BytesIO()
    pq.write_table(table, sink)
    return sink.getvalue()


def vector_file(row):
    payload = (1681511377).to_bytes(4, "little") + BitMap64([row]).serialize()
    return (
        b"\1" + struct.pack(">i", len(payload)) + payload + struct.pack(">I", zlib.crc32(payload))
    )


ROWS = parquet(pa.table({"id": [1, 2]}))
DECOY = parquet(pa.table({"id": [666], "_change_type": ["insert"]}))
CHANGES = parquet(pa.table({"id": [1, 2], "_change_type": ["insert", "insert"]}))
VECTOR = vector_file(0)


@dataclass
class Place:
    """Where tables are: `base` is the URL of the directory or bucket that contains them."""

    base: str
    options: dict[str, str] = field(default_factory=dict)
    seen_options: dict[str, str] = field(default_factory=dict)
    proxy: FaultProxy | None = None

    def store(self, name: str) -> Store:
        return open_store(f"{self.base}/{name}", self.options)

    def form(self, path: str, name: str) -> str:
        """Return a hostile form for the table `name` instead of `t`."""
        path = re.sub(r"(?<=/)t(?=[-/]|$)", name, path)
        return path.replace("/data/", f"{self.base}/") if self.proxy is None else path


@pytest.fixture(scope="module")
def place(request, tmp_path_factory):
    if request.param == "local":
        yield Place(str(tmp_path_factory.mktemp("confined") / "data"))
        return
    emulator = request.getfixturevalue(request.param)
    with FaultProxy(emulator.endpoint) as proxy:
        options = {**emulator.at(proxy.endpoint).options, "max_retries": "0"}
        yield Place(emulator.url, emulator.options, options, proxy)


@pytest.fixture(autouse=True)
def no_other_host(place, monkeypatch):
    """Send requests to any other host to the proxy."""
    if place.proxy is not None:
        for name in ("HTTP_PROXY", "HTTPS_PROXY", "http_proxy", "https_proxy"):
            monkeypatch.setenv(name, place.proxy.endpoint)
        monkeypatch.setenv("NO_PROXY", "127.0.0.1")
        monkeypatch.setenv("no_proxy", "127.0.0.1")


class Kind:
    """A place of the log that names a file: `write` writes the log, `read` reads the file."""

    name = ""
    content = ROWS
    directory = ""  # relative paths start here
    refusals: tuple[type[DeltaError], ...] = REFUSALS
    expected = (1, 2)

    def __init__(self, place):
        self.place = place
        self.store = place.store(self.table)
        properties = {"delta.enableChangeDataFeed": "true"}
        self.log = TableBuilder(self.store, configuration=properties)
        self.log.commit()
        self.store.write("good", ROWS, overwrite=True)
        outside = place.store(f"{self.table}-evil")
        outside.write("x", DECOY, overwrite=True)
        self.prepare()

    @property
    def table(self):
        return f"t-of-{self.name}"

    @property
    def roots(self):
        return (self.table,)

    def prepare(self):
        pass

    def form(self, path):
        return self.place.form(path, self.table)

    def commit(self, *actions):
        self.log.commit(*actions, version=1)

    def open(self, **config):
        url = f"{self.place.base}/{self.table}"
        settings = lazydelta.Config(retry_attempts=1, **config)
        return lazydelta.Table.open(url, self.place.seen_options or None, settings)

    def read(self):
        return self.open().to_arrow()


class DataFile(Kind):
    name = "data"

    def write(self, path):
        self.commit(add(path, size=len(ROWS)))


class RemovedFile(Kind):
    name = "removed"

    def write(self, path):
        self.commit(remove(path, extendedFileMetadata=True, partitionValues={}, size=len(ROWS)))

    def read(self):
        return self.open().changes(starting_version=1).to_arrow()


class ChangeFile(RemovedFile):
    name = "change"
    content = CHANGES

    def write(self, path):
        body = {"path": path, "partitionValues": {}, "size": len(CHANGES), "dataChange": False}
        self.commit({"cdc": body})


class AbsoluteVector(Kind):
    name = "absolute-vector"
    content = VECTOR
    storage_type = "p"
    expected = (2,)

    def write(self, path):
        vector = {
            "storageType": self.storage_type,
            "pathOrInlineDv": path,
            "offset": 1,
            "sizeInBytes": len(VECTOR) - 9,
            "cardinality": 1,
        }
        self.commit(add("good", size=len(ROWS), vector=vector))


class RelativeVector(AbsoluteVector):
    """The form is the prefix, which is not percent-decoded: some forms are plain directories."""

    name = "relative-vector"
    storage_type = "u"
    refusals = (*REFUSALS, DeletionVectorError)

    def write(self, path):
        super().write(path + VECTOR_NAME)


class SidecarFile(Kind):
    name = "sidecar"
    directory = SIDECARS
    content = parquet(
        pa.table(
            {"add": pa.array([add("good", size=len(ROWS))["add"] | {"partitionValues": []}],
            pa.struct(
                {"path": pa.string(), "partitionValues": pa.map_(pa.string(), pa.string()),
                 "size": pa.int64(), "modificationTime": pa.int64(), "dataChange": pa.bool_()}
            ))}
        )
    )  # fmt: skip

    def prepare(self):
        self.commit()
        self.log.delete(f"{0:020d}.json")  # nothing can be read without the checkpoint

    def write(self, path):
        size = len(self.content)
        actions = [
            {"checkpointMetadata": {"version": 1}},
            {"protocol": self.log.protocol},
            {"metaData": self.log.metadata},
            {"sidecar": {"path": path, "sizeInBytes": size, "modificationTime": 1}},
        ]
        self.log.write(MANIFEST, serialize_actions(actions))


class CheckpointHint(SidecarFile):
    """The hint only selects a listed checkpoint: it names nothing that is read."""

    name = "hint"
    refusals = ()

    def prepare(self):
        super().prepare()
        self.store.write(f"{SIDECARS}/good", self.content, overwrite=True)
        super().write("good")

    def write(self, path):
        size = len(self.log.read(MANIFEST))
        v2 = {"path": path, "sizeInBytes": size, "modificationTime": 1}
        hint = {"version": 1, "size": 4, "v2Checkpoint": v2}
        self.log.write("_last_checkpoint", json.dumps(hint).encode())


class ClonedFile(DataFile):
    """A shallow clone: the forms are for the source, which is an allowed root."""

    name = "clone"

    @property
    def roots(self):
        return (self.table, self.source)

    @property
    def source(self):
        return f"{self.table}-source"

    def prepare(self):
        self.place.store(f"{self.source}-evil").write("x", DECOY, overwrite=True)

    def form(self, path):
        return self.place.form(path, self.source)

    def read(self):
        return self.open(allowed_roots=[f"{self.place.base}/{self.source}"]).to_arrow()


KINDS = (
    *(DataFile, RemovedFile, ChangeFile, AbsoluteVector, RelativeVector),
    *(SidecarFile, CheckpointHint, ClonedFile),
)


@pytest.fixture(scope="module")
def kinds(place):
    """Each kind with its table, built once."""
    place.store("").write("x", DECOY, overwrite=True)
    return {kind: kind(place) for kind in KINDS}


@pytest.fixture
def requested(place, kinds):
    """A function that returns the paths below `base` that were requested, or opened outside."""
    if place.proxy is not None:
        place.proxy.clear()
        return lambda: [_requested(place, request) for request in place.proxy.requests()]
    if sys.platform != "linux":
        return list
    libc = ctypes.CDLL(None)
    watch = libc.inotify_init1(os.O_NONBLOCK)
    decoys = [path for path in Path(place.base).rglob("*") if path.is_file()]
    outside = [path for path in decoys if path.read_bytes() == DECOY]
    for path in outside:
        assert libc.inotify_add_watch(watch, bytes(path), 0x21) > 0  # access or open

    def opened():
        try:
            return ["opened outside"] if os.read(watch, 65536) else []
        except BlockingIOError:
            return []
        finally:
            os.close(watch)

    assert outside
    return opened


def _requested(place, request):
    """Return the path or prefix of a request; one to another host or bucket as it is."""
    url = urlsplit(request.target)
    base = f"{urlsplit(place.proxy.endpoint).path}/lake"
    path = unquote(url.path)
    prefix = parse_qs(url.query).get("prefix")
    if path == base and prefix:
        return prefix[0]
    return path.removeprefix(f"{base}/") if path.startswith(f"{base}/") else request.target


def assert_confined(kind, requested):
    for path in requested:
        assert path.startswith(tuple(f"{root}/" for root in kind.roots)), path
        assert not {".", ".."} & set(path.split("/")), path


def _cases(forms, kinds):
    """Parametrize: each form in each kind, on each store.

    The short run has each form in two kinds on the disk, and a third of the forms on S3, where a
    request takes longer.
    """

    def is_short(place, at, index):
        is_next = index % len(kinds) == at
        if place == "versitygw":
            return is_next and index % 3 == 0
        return place == "local" and (at == 0 or is_next)

    return [
        pytest.param(
            *(place, kind, *form),
            id=f"{place}-{kind.name}-{name}",
            marks=[] if is_short(place, at, index) else [pytest.mark.long],
        )
        for place in ("local", "versitygw", "azurite")
        for at, kind in enumerate(kinds)
        for index, (name, form) in enumerate(forms.items())
    ]


@pytest.mark.parametrize(
    ("place", "kind", "escape"),
    _cases({name: (form,) for name, form in ESCAPES.items()}, KINDS),
    indirect=["place"],
    scope="module",  # or the place would be set up for each test
)
def test_nothing_is_requested_outside(kinds, requested, kind, escape):
    made = kinds[kind]
    made.write(made.form(escape))
    if made.place.proxy is not None:
        made.place.proxy.clear()
    if made.refusals:
        with pytest.raises(made.refusals):
            made.read()
    else:
        assert tuple(made.read()["id"].to_pylist()) == made.expected
    assert_confined(made, requested())


@pytest.mark.parametrize(
    ("place", "kind", "logged", "plain"),
    _cases({logged: (logged, plain) for logged, plain in UNUSUAL_NAMES.items()}, KINDS[:-3]),
    indirect=["place"],
    scope="module",  # or the place would be set up for each test
)
def test_an_unusual_name_is_exactly_that_object(kinds, requested, kind, logged, plain):
    made = kinds[kind]
    if kind is RelativeVector:
        plain = f"{logged}/{VECTOR_FILE}"
        if plain != os.path.normpath(plain):
            pytest.skip("not a plain prefix")
    made.store.write(plain, made.content, overwrite=True)
    made.write(logged)
    if made.place.proxy is not None:
        made.place.proxy.clear()
    try:
        assert tuple(sorted(made.read()["id"].to_pylist())) == made.expected
        paths = requested()
    finally:
        made.store.delete([plain])
    assert_confined(made, paths)
    if made.place.proxy is not None:
        data = {path for path in paths if "/_delta_log" not in path}
        assert data - {f"{made.table}/good"} == {f"{made.table}/{plain}"}
