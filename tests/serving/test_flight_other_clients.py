"""Flight clients that do not have lazydelta: plain pyarrow, and Go."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pyarrow.flight as fl
import pytest

import lazydelta as ld
from lazydelta.serving import ServeConfig
from lazydelta.serving.limits import Limits
from tests.serving.flight_servers import flight_door

GO_CLIENT = Path(__file__).parent / "clients" / "go"
ROWS = 50


@pytest.fixture(scope="module")
def door(tmp_path_factory):
    path = tmp_path_factory.mktemp("others") / "table"
    for start in range(0, ROWS, 10):
        ld.write(path, {"id": list(range(start, start + 10))})
    limits = Limits(batch_rows=10, batch_files=2)
    with flight_door(ServeConfig.for_tables({"t": str(path)}, limits=limits)) as door:
        yield door


_PYARROW = """
import json, sys
import pyarrow.flight as fl
try:
    import lazydelta
except ModuleNotFoundError:
    pass
else:
    raise SystemExit("lazydelta is importable: this would not show anything")
client = fl.connect(sys.argv[1])
names = [json.loads(info.app_metadata)["table"] for info in client.list_flights()]
command = {"table": names[0], "mode": "rows", "where": "id >= 20", "endpoints": 2}
info = client.get_flight_info(fl.FlightDescriptor.for_command(json.dumps(command)))
ids = []
for endpoint in info.endpoints:
    ids += client.do_get(endpoint.ticket).read_all()["id"].to_pylist()
health = [result.body.to_pybytes() for result in client.do_action("health")]
print(json.dumps([names, sorted(ids), json.loads(health[0])["status"], info.schema.names]))
"""


def test_plain_pyarrow_reads_without_lazydelta(door, tmp_path):
    # -S and -I: no site-packages, where lazydelta is; pyarrow and numpy are linked into a directory.
    import numpy  # noqa: ICN001 - only its place
    import pyarrow as pa

    for package in (Path(pa.__file__).parent, Path(numpy.__file__).parent):
        (tmp_path / package.name).symlink_to(package)
        libraries = package.with_name(f"{package.name}.libs")
        if libraries.exists():
            (tmp_path / libraries.name).symlink_to(libraries)
    script = f"import sys; sys.path.append({str(tmp_path)!r})\n{_PYARROW}"
    command = [sys.executable, "-I", "-S", "-c", script, door.uri]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout) == [["t"], list(range(20, ROWS)), "ok", ["id"]]


def test_a_path_is_the_rows_of_a_table(door):
    with fl.connect(door.uri) as client:
        info = client.get_flight_info(fl.FlightDescriptor.for_path("t"))
        assert client.do_get(info.endpoints[0].ticket).read_all().num_rows == ROWS
        assert client.get_schema(fl.FlightDescriptor.for_path("t")).schema.names == ["id"]


@pytest.fixture(scope="module")
def go_client(tmp_path_factory):
    if shutil.which("go") is None:
        pytest.skip("Go is not installed: it builds this client")
    program = tmp_path_factory.mktemp("go") / "client"
    command = ["go", "build", "-mod=readonly", "-o", str(program), "."]
    done = subprocess.run(
        command, cwd=GO_CLIENT, env=os.environ, capture_output=True, text=True, check=False
    )
    if done.returncode != 0:
        pytest.skip(f"the Go modules cannot be had: {done.stderr[-300:]}")
    return program


@pytest.mark.long  # the build takes minutes the first time
@pytest.mark.parametrize("mode", ["rows", "files"])
def test_a_go_client_reads_and_resumes(door, go_client, mode):
    def run(**command):
        address = door.uri.removeprefix("grpc://")
        asked = json.dumps({"table": "t", "mode": mode, **command})
        done = subprocess.run(
            [go_client, address, "token", asked], capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, done.stderr
        count, _, token = done.stdout.strip().partition(" ")
        return int(count), token

    everything = ROWS if mode == "rows" else ROWS // 10
    assert run(endpoints=2)[0] == everything
    few, token = run(limit=2)
    assert (few, run(limit=2, resume=token)[0]) == (2, 0)
    with fl.connect(door.uri) as client:
        asked = json.dumps({"table": "t", "mode": mode})
        info = client.get_flight_info(fl.FlightDescriptor.for_command(asked))
        chunk = client.do_get(info.endpoints[0].ticket).read_chunk()
    token = json.loads(chunk.app_metadata.to_pybytes())["resume"]
    assert run(resume=token)[0] == everything - chunk.data.num_rows


@pytest.mark.long
def test_a_go_client_receives_the_error(door, go_client):
    address = door.uri.removeprefix("grpc://")
    command = [go_client, address, "token", '{"table": "none"}']
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert "NOT_FOUND: no table 'none' is served to you" in done.stderr
