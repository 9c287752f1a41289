from __future__ import annotations

import hashlib
import http.client
import json
import random
import socket
import string
from datetime import UTC, datetime, timedelta
from urllib.parse import quote, urlsplit

import pytest

from lazydelta.serving import ServeConfig
from lazydelta.serving.config import Endpoint, PrincipalEntry, RootEntry, TableEntry
from lazydelta.serving.limits import Limits
from lazydelta.store import MemoryStore
from tests.builders import TableBuilder
from tests.serving.support import error_of, get, json_batches, serving
from tests.serving.test_streams import PLAIN

TOKENS = {name: f"{name}-secret-token" for name in ("reader", "other", "late")}
MODES = ("", "/files", "/rows", "/changes", "/history")


class RecordingStore(MemoryStore):
    """Remembers whether anything was requested of it."""

    native_files = False

    def __init__(self, objects):
        super().__init__(objects)
        self.requests = 0

    def __getattribute__(self, name):
        if name in ("list_from", "head", "read", "read_ranges", "open_input"):
            self.requests += 1
        return super().__getattribute__(name)


def principal(name, **more):
    digest = hashlib.sha256(TOKENS[name].encode()).hexdigest()
    return PrincipalEntry(name=name, token_sha256=(digest,), **more)


def recording_store():
    store = MemoryStore()
    TableBuilder(store, protocol=PLAIN).commit("+a +b")
    return RecordingStore({path: store.read(path) for path in store._objects})


@pytest.fixture(scope="module")
def stores():
    return {"mine": recording_store(), "theirs": recording_store()}


@pytest.fixture(scope="module")
def server(stores):
    hour = timedelta(hours=1)
    config = ServeConfig(
        tables=(
            TableEntry(name="mine", url="/nowhere/mine", principals=("reader",)),
            TableEntry(name="theirs", url="/nowhere/theirs", principals=("other",)),
        ),
        principals=(
            principal("reader"),
            principal("other", expires=datetime.now(UTC) + hour),
            principal("late", expires=datetime.now(UTC) - hour),
        ),
        http=Endpoint(port=0),
        flight=Endpoint(enabled=False),
        limits=Limits(failed_logins=10**6),
    )
    with serving(config, stores) as running:
        yield running


def bearer(token):
    return {"authorization": f"Bearer {token}"}


def test_a_principal_reads_its_table(server, stores):
    before = stores["mine"].requests
    status, _, body = get(server, "/v1/tables/mine/files", headers=bearer(TOKENS["reader"]))
    assert (status, len(json_batches(body)[0][0][0])) == (200, 2)
    assert stores["mine"].requests > before
    assert get(server, "/v1/tables", headers=bearer(TOKENS["reader"]))[2] == (
        b'{"tables":[{"name":"mine"}]}'
    )


@pytest.mark.parametrize("mode", MODES)
def test_a_forbidden_table_answers_as_one_that_does_not_exist(server, mode):
    answers = []
    for name in ("theirs", "absent", "mine/below", "../mine", "%2e%2e/theirs"):
        status, headers, body = get(
            server, f"/v1/tables/{name}{mode}", headers=bearer(TOKENS["reader"])
        )
        document = json.loads(body)
        document.pop("request_id")
        text = json.dumps(document).replace(document["message"].split("'")[1], "NAME")
        answers.append((status, text, sorted(headers)))
    assert len(set(map(str, answers))) == 1
    assert answers[0][0] == 404


def hostile_requests(count):
    """Yield paths and headers that must not reach data."""
    random_ = random.Random(7)
    letters = string.ascii_letters + string.digits + "-._~+/= \\\"'%\x00\xff"

    def noise(most):
        return "".join(random_.choices(letters, k=random_.randrange(1, most)))

    valid = TOKENS["reader"]
    forged = [
        dict,
        lambda: bearer(noise(80)),
        lambda: bearer(TOKENS["late"]),
        lambda: bearer(hashlib.sha256(valid.encode()).hexdigest()),
        lambda: bearer(valid[:-1]),
        lambda: bearer(valid + random_.choice(letters.strip())),
        lambda: bearer(valid.upper()),
        lambda: {"authorization": f"Basic {valid}"},
        lambda: {"authorization": valid},
        lambda: {"x-authorization": f"Bearer {valid}", "cookie": f"token={valid}"},
        lambda: bearer("a" * random_.randrange(5000, 60_000)),
        lambda: {"x-forwarded-for": "127.0.0.1", "x-real-user": "reader"},
    ]
    for number in range(count):
        mode = random_.choice(MODES)
        if number % 3 == 0:  # of another principal, or of no table
            name = random_.choice(["theirs", "theirs/x", "mine%2f..%2ftheirs", quote(noise(20))])
            yield f"/v1/tables/{name}{mode}", bearer(valid)
        elif number % 3 == 1:
            yield f"/v1/tables/mine{mode}?token={valid}", random_.choice(forged)()
        else:
            where = quote(noise(200))
            yield f"/v1/tables/mine{mode}?where={where}", random_.choice(forged)()


def send_hostile(server, count):
    """Send requests over raw connections, as some are not valid HTTP; return the statuses."""
    address = urlsplit(server.url)
    statuses = []
    connection = None
    for path, headers in hostile_requests(count):
        if connection is None:
            connection = socket.create_connection((address.hostname, address.port), timeout=20)
        lines = "".join(f"{name}: {value}\r\n" for name, value in headers.items())
        head = f"GET {path} HTTP/1.1\r\nHost: 127.0.0.1\r\n{lines}\r\n"
        try:
            connection.sendall(head.encode("latin-1"))
            answer = http.client.HTTPResponse(connection)
            answer.begin()
            answer.read()
            statuses.append(answer.status)
            is_open = not answer.will_close
        except (OSError, http.client.HTTPException):
            statuses.append(None)  # closed unread
            is_open = False
        if not is_open:
            connection.close()
            connection = None
    if connection is not None:
        connection.close()
    return statuses


@pytest.mark.parametrize(
    "count", [600, pytest.param(10_000, marks=[pytest.mark.long, pytest.mark.timeout(900)])]
)
def test_hostile_requests_reach_no_data(server, stores, count):
    before = {name: store.requests for name, store in stores.items()}
    statuses = send_hostile(server, count)
    assert len(statuses) == count
    assert set(statuses) <= {400, 401, 404, None}, set(statuses)
    assert statuses.count(401) > count // 4
    assert {name: store.requests for name, store in stores.items()} == before
    assert server.service.admission.running == 0


@pytest.mark.parametrize("path", ["/metrics", "/v1/tables", "/v1/tables/mine/files"])
def test_paths_with_data_need_a_credential(server, path):
    answer = get(server, path)
    assert (answer[0], error_of(answer)) == (401, "UnauthenticatedError")
    assert answer[1]["www-authenticate"] == "Bearer"


@pytest.mark.parametrize("path", ["/healthz", "/readyz", "/openapi.json"])
def test_health_and_description_need_none(server, path):
    assert get(server, path)[0] == 200


def test_many_invalid_credentials_of_an_address_are_refused_unread(stores):
    config = ServeConfig(
        tables=(TableEntry(name="mine", url="/nowhere", principals=("*",)),),
        principals=(principal("reader"),),
        http=Endpoint(port=0),
        flight=Endpoint(enabled=False),
        limits=Limits(failed_logins=5),
    )
    with serving(config, {"mine": stores["mine"]}) as running:
        statuses = [get(running, "/v1/tables", headers=bearer("x"))[0] for _ in range(7)]
        answer = get(running, "/v1/tables", headers=bearer(TOKENS["reader"]))
    assert statuses == [401] * 5 + [429] * 2
    assert answer[0] == 429
    assert int(answer[1]["retry-after"]) >= 1


def test_without_principals_another_host_name_is_refused(tmp_path):
    config = ServeConfig.for_tables(
        {"t": str(tmp_path)}, http=Endpoint(port=0), flight=Endpoint(enabled=False)
    )
    with serving(config) as running:
        for host in ("evil.example", "127.0.0.1.evil.example", "localhost@evil.example", ""):
            assert get(running, "/v1/tables", headers={"host": host})[0] == 400
        assert get(running, "/v1/tables", headers={"host": "localhost:8080"})[0] == 200


@pytest.mark.parametrize(
    "path",
    [
        "..",
        "../secret",
        "a/../../secret",
        "%2e%2e/secret",
        "a//b",
        "/etc",
        "a\\..\\b",
        "a?x=/b",
        "",
    ],
)
def test_a_root_is_not_left(tmp_path, path):
    (tmp_path / "root" / "a").mkdir(parents=True)
    TableBuilder(tmp_path / "secret").commit("+a")
    roots = (RootEntry(name="r", url=str(tmp_path / "root")),)
    with serving(
        ServeConfig(roots=roots, http=Endpoint(port=0), flight=Endpoint(enabled=False))
    ) as running:
        status, _, body = get(running, f"/v1/tables/r/{path}/files")
    assert status in (404, 400), body
    assert b"secret" not in body or b"no table" in body


def test_a_table_below_a_root_is_served_by_its_path(tmp_path):
    TableBuilder(tmp_path / "sales" / "orders", protocol=PLAIN).commit("+a +b")
    roots = (RootEntry(name="r", url=str(tmp_path)),)
    with serving(
        ServeConfig(roots=roots, http=Endpoint(port=0), flight=Endpoint(enabled=False))
    ) as running:
        status, _, body = get(running, "/v1/tables/r/sales/orders/files")
    assert status == 200
    assert len(json_batches(body)[0][0][0]) == 2


def test_a_link_out_of_a_root_is_not_followed(tmp_path):
    TableBuilder(tmp_path / "secret").commit("+a")
    (tmp_path / "root").mkdir()
    (tmp_path / "root" / "link").symlink_to(tmp_path)
    roots = (RootEntry(name="r", url=str(tmp_path / "root")),)
    with serving(
        ServeConfig(roots=roots, http=Endpoint(port=0), flight=Endpoint(enabled=False))
    ) as running:
        assert error_of(get(running, "/v1/tables/r/link/secret/files")) == (
            "ServedTableNotFoundError"
        )
