from __future__ import annotations

import json
from dataclasses import replace

import pytest

from lazydelta.errors import ConfigError
from lazydelta.serving import ServeConfig
from lazydelta.serving.config import Endpoint, RootEntry, TableEntry
from lazydelta.serving.limits import Limits
from tests.builders import TableBuilder
from tests.serving.recording import PLAIN, TOKENS, guarded_config, principal
from tests.serving.support import error_of, get, json_batches, serving

MODES = ("", "/files", "/rows", "/changes", "/history")


def bearer(token):
    return {"authorization": f"Bearer {token}"}


def test_a_principal_reads_its_table(guarded, stores):
    before = stores["mine"].requests
    status, _, body = get(guarded, "/v1/tables/mine/files", headers=bearer(TOKENS["reader"]))
    assert (status, len(json_batches(body)[0][0][0])) == (200, 2)
    assert stores["mine"].requests > before
    assert get(guarded, "/v1/tables", headers=bearer(TOKENS["reader"]))[2] == (
        b'{"tables":[{"name":"mine"}]}'
    )


@pytest.mark.parametrize("mode", MODES)
def test_a_forbidden_table_answers_as_one_that_does_not_exist(guarded, mode):
    answers = []
    for name in ("theirs", "absent", "mine/below", "../mine", "%2e%2e/theirs"):
        status, headers, body = get(
            guarded, f"/v1/tables/{name}{mode}", headers=bearer(TOKENS["reader"])
        )
        document = json.loads(body)
        document.pop("request_id")
        text = json.dumps(document).replace(document["message"].split("'")[1], "NAME")
        answers.append((status, text, sorted(headers)))
    assert len(set(map(str, answers))) == 1
    assert answers[0][0] == 404


@pytest.mark.parametrize("path", ["/metrics", "/v1/tables", "/v1/tables/mine/files"])
def test_paths_with_data_need_a_credential(guarded, path):
    answer = get(guarded, path)
    assert (answer[0], error_of(answer)) == (401, "UnauthenticatedError")
    assert answer[1]["www-authenticate"] == "Bearer"


@pytest.mark.parametrize("path", ["/healthz", "/readyz", "/openapi.json"])
def test_health_and_description_need_none(guarded, path):
    assert get(guarded, path)[0] == 200


def test_rights_change_with_the_next_request(stores):
    before = guarded_config()
    swapped = [{"reader": ("other",), "other": ("reader",)}[e.principals[0]] for e in before.tables]
    tables = tuple(replace(e, principals=p) for e, p in zip(before.tables, swapped, strict=True))
    after = replace(before, tables=tables, flight=Endpoint(enabled=False))
    config = replace(before, flight=Endpoint(enabled=False))
    with serving(config, stores) as running:

        def listed():
            return get(running, "/v1/tables", headers=bearer(TOKENS["reader"]))[2]

        assert listed() == b'{"tables":[{"name":"mine"}]}'
        assert running.service.reload_access(after) == []
        assert listed() == b'{"tables":[{"name":"theirs"}]}'
        limits = Limits(scans=1)
        assert running.service.reload_access(replace(config, limits=limits)) == ["limits"]
        assert listed() == b'{"tables":[{"name":"mine"}]}'
        with pytest.raises(ConfigError, match="cannot all be added or removed"):
            running.service.reload_access(config.without_access())
        assert get(running, "/v1/tables")[0] == 401


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
