from __future__ import annotations

import importlib.util
import json
import re
from datetime import date
from http import HTTPStatus

import pyarrow as pa
import pytest
from starlette.routing import Route

from lazydelta import Table
from lazydelta.serving.http import http_app
from lazydelta.serving.openapi import openapi
from tests.serving.support import connect, get, running
from tests.support import examples

HAS_SCHEMATHESIS = importlib.util.find_spec("schemathesis") is not None


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    path = str(tmp_path_factory.mktemp("openapi") / "t")
    recorded = {"delta.enableChangeDataFeed": "true"}
    table = Table.create(path, "id bigint, day date", partition_by=["day"], properties=recorded)
    for day in (date(2026, 5, 1), date(2026, 5, 2)):
        table.write(pa.table({"id": [1, 2], "day": [day] * 2}))
    with running({"name": path}) as running_server:
        yield running_server


def test_the_description_has_exactly_the_routes_of_the_server(server):
    routes = {
        re.sub(r":path\}", "}", route.path)
        for route in http_app(server.service).routes
        if isinstance(route, Route)
    }
    assert routes == set(openapi()["paths"])


def test_the_server_serves_its_description(server):
    status, headers, body = get(server, "/openapi.json")
    assert (status, headers["content-type"]) == (200, "application/json")
    assert json.loads(body) == json.loads(json.dumps(openapi()))


@pytest.mark.parametrize("mode", ["files", "rows", "changes"])
def test_every_described_parameter_is_known_and_others_are_not(server, mode):
    operation = openapi()["paths"][f"/v1/tables/{{name}}/{mode}"]["get"]
    names = [p["name"] for p in operation["parameters"] if p["in"] == "query"]
    message = json.loads(get(server, f"/v1/tables/name/{mode}", nonsense="1")[2])["message"]
    assert message == f"nonsense: no such parameter. There are: {', '.join(names)}"


def test_every_answer_has_the_headers_that_protect_browsers(server):
    for path in ("/healthz", "/v1/tables", "/v1/tables/name/files", "/nothing"):
        _, headers, _ = get(server, path)
        assert headers["x-content-type-options"] == "nosniff"
        assert "frame-ancestors 'none'" in headers["content-security-policy"]
        assert headers["x-request-id"]
        assert "server" not in headers


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "OPTIONS"])
def test_other_methods_are_refused(server, method):
    with connect(server) as connection:
        connection.request(method, "/v1/tables/name/files")
        answer = connection.getresponse()
        assert answer.status == 405
        assert set(answer.headers["allow"].split(", ")) == {"GET", "HEAD"}


def test_a_request_id_of_the_client_is_used_unless_it_is_hostile(server):
    assert get(server, "/healthz", headers={"x-request-id": "abc-1"})[1]["x-request-id"] == "abc-1"
    hostile = get(server, "/healthz", headers={"x-request-id": 'a" b'})[1]["x-request-id"]
    assert re.fullmatch("[0-9a-f]{16}", hostile)


if HAS_SCHEMATHESIS:
    import schemathesis
    from hypothesis import HealthCheck, settings
    from schemathesis.checks import not_a_server_error
    from schemathesis.specs.openapi.checks import (
        content_type_conformance,
        response_schema_conformance,
        status_code_conformance,
    )

    described = schemathesis.openapi.from_dict(openapi())

    @described.parametrize()
    @settings(examples(8, long=500), deadline=None, suppress_health_check=list(HealthCheck))
    def test_any_request_is_answered_as_described(case, server):
        if case.path_parameters and len(case.path_parameters["name"]) % 3:
            case.path_parameters["name"] = "name"  # most requests shall reach the table
        for name, value in case.query.items():
            if isinstance(value, str):  # larger requests are closed before they are complete
                case.query[name] = value[:500]
        answer = case.call(base_url=server.url, timeout=20)
        assert answer.status_code < HTTPStatus.INTERNAL_SERVER_ERROR, answer.text
        case.validate_response(
            answer,
            checks=[
                not_a_server_error,
                status_code_conformance,
                content_type_conformance,
                response_schema_conformance,
            ],
        )
