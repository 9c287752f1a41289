"""Object store emulators on loopback, started per test session and never required.

Azurite (Azure), moto and versitygw (S3) can be written to, fake-gcs-server (GCS) only be read: it
does not have the part of the XML API that obstore writes with. Where one is missing, `Unavailable`
has the reason and the cure.
"""

from __future__ import annotations

import base64
import contextlib
import hashlib
import hmac
import importlib.util
import json
import os
import socket
import subprocess
import sys
import tempfile
import time
import urllib.request
from dataclasses import dataclass, field, replace
from email.utils import formatdate
from pathlib import Path
from urllib.parse import quote, urlsplit

from lazydelta.store import open_store
from tests.emulators import programs
from tests.emulators.programs import Unavailable

_START_SECONDS = 60

# Azurite's default account; its key is public.
_ACCOUNT = "devstoreaccount1"
_KEY = "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw=="

_S3_ID = "the-emulated-id"
_S3_SECRET = "the-emulated-secret"
_JSON = "application/json"


@dataclass(frozen=True)
class Emulator:
    """A running emulator: root URL and store options."""

    endpoint: str
    url: str  # of a bucket or container; table paths are appended
    options: dict[str, str] = field(repr=False)
    secrets: tuple[str, ...] = field(repr=False, default=())
    directory: Path | None = None  # of the bucket, for tables that are copied instead of uploaded

    def at(self, endpoint):
        """Return the same emulator behind another endpoint, that of a proxy."""
        options = {
            key: value.replace(self.endpoint, endpoint) for key, value in self.options.items()
        }
        return replace(self, endpoint=endpoint, options=options)


@contextlib.contextmanager
def azurite():
    """Run Azurite with an empty container `lake`."""
    port = _free_port()
    command = [
        str(programs.azurite()),
        *("--blobHost", "127.0.0.1", "--blobPort", str(port)),
        *("--inMemoryPersistence", "--skipApiVersionCheck", "--silent", "--disableTelemetry"),
    ]
    with _server("Azurite", command, port):
        endpoint = f"http://127.0.0.1:{port}/{_ACCOUNT}"
        _create_container(endpoint, "lake")
        options = {
            "account_name": _ACCOUNT,
            "account_key": _KEY,
            "endpoint": endpoint,
            "allow_http": "true",
        }
        yield Emulator(endpoint, "az://lake", options, (_KEY,))


@contextlib.contextmanager
def versitygw():
    """Run versitygw, an S3 gateway to a directory, with an empty bucket `lake`."""
    port = _free_port()
    with tempfile.TemporaryDirectory() as root:
        for name in ("buckets/lake", "metadata"):
            Path(root, name).mkdir(parents=True)
        command = [
            str(programs.go_program("versitygw")),
            *("--port", f"127.0.0.1:{port}", "--keep-alive", "--quiet"),
            *("posix", "--sidecar", f"{root}/metadata", f"{root}/buckets"),
        ]
        environment = {"ROOT_ACCESS_KEY_ID": _S3_ID, "ROOT_SECRET_ACCESS_KEY": _S3_SECRET}
        with _server("versitygw", command, port, environment):
            endpoint = f"http://127.0.0.1:{port}"
            bucket = Path(root, "buckets/lake")
            yield Emulator(endpoint, "s3://lake", _s3_options(endpoint), (_S3_SECRET,), bucket)


@contextlib.contextmanager
def fake_gcs():
    """Run fake-gcs-server with an empty bucket `lake`; it serves reads and listings only."""
    port = _free_port()
    host = f"127.0.0.1:{port}"
    command = [
        str(programs.go_program("fake-gcs-server")),
        *("-host", "127.0.0.1", "-port", str(port), "-scheme", "http", "-public-host", host),
        *("-backend", "memory", "-log-level", "error"),
    ]
    with _server("fake-gcs-server", command, port):
        endpoint = f"http://{host}"
        bucket = json.dumps({"name": "lake"}).encode()
        _send("POST", f"{endpoint}/storage/v1/b?project=p", {"Content-Type": _JSON}, bucket)
        key = {"gcs_base_url": endpoint, "disable_oauth": True}
        key |= dict.fromkeys(("client_email", "private_key", "private_key_id"), "")
        options = {"service_account_key": json.dumps(key), "allow_http": "true"}
        yield Emulator(endpoint, "gs://lake", options)


@contextlib.contextmanager
def moto():
    """Run moto with an empty bucket `lake`."""
    if importlib.util.find_spec("moto") is None:
        raise Unavailable("moto is not installed: make test installs it")
    port = _free_port()
    command = [sys.executable, str(Path(__file__).with_name("moto_process.py")), str(port)]
    with _server("moto", command, port):
        endpoint = f"http://127.0.0.1:{port}"
        create_bucket(endpoint, "lake")
        yield Emulator(endpoint, "s3://lake", _s3_options(endpoint), (_S3_SECRET,))


def create_bucket(endpoint, name):
    """Create a bucket of moto, which does not validate signatures."""
    _send("PUT", f"{endpoint}/{name}", {})


def upload_table(store_url, options, local_dir):
    """Copy a local table into a store, and return the store."""
    store = open_store(store_url, options)
    for path in sorted(Path(local_dir).rglob("*")):
        if path.is_file():
            name = path.relative_to(local_dir).as_posix()
            if store_url.startswith("gs:"):
                _upload_to_gcs(store_url, options, name, path.read_bytes())
            else:
                store.write(name, path.read_bytes(), overwrite=True)
    return store


def download_table(store_url, options, local_dir):
    """Copy the log and the unpartitioned data files of a table into a local directory."""
    store = open_store(store_url, options)
    Path(local_dir, "_delta_log").mkdir(parents=True)
    for directory in ("", "_delta_log"):
        for page in store.list_from(directory):
            for name in page.column("path").to_pylist():
                Path(local_dir, name).write_bytes(store.read(name))


def _upload_to_gcs(store_url, options, name, data):
    """Upload with the JSON API, the one that fake-gcs-server writes with."""
    endpoint = json.loads(options["service_account_key"])["gcs_base_url"]
    url = urlsplit(store_url)
    path = quote(f"{url.path}/{name}".lstrip("/"), safe="")
    query = f"uploadType=media&name={path}"
    headers = {"Content-Type": "application/octet-stream"}
    _send("POST", f"{endpoint}/upload/storage/v1/b/{url.netloc}/o?{query}", headers, data)


def _s3_options(endpoint):
    return {
        "AWS_ACCESS_KEY_ID": _S3_ID,
        "AWS_SECRET_ACCESS_KEY": _S3_SECRET,
        "AWS_REGION": "us-east-1",
        "AWS_ENDPOINT_URL": endpoint,
        "allow_http": "true",
    }


@contextlib.contextmanager
def _server(name, command, port, environment=None):
    """Run a server until the block ends; it listens when the block begins."""
    with tempfile.TemporaryDirectory() as where, tempfile.TemporaryFile() as output:
        process = subprocess.Popen(
            command,
            cwd=where,
            env={**os.environ, **(environment or {})},
            stdout=output,
            stderr=output,
        )
        try:
            _wait_for_port(name, port, process)
            yield
        finally:
            _stop(process)


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def _wait_for_port(name: str, port: int, process: subprocess.Popen) -> None:
    deadline = time.monotonic() + _START_SECONDS
    while time.monotonic() < deadline:
        if process.poll() is not None:
            raise Unavailable(f"{name} ended at once with code {process.returncode}")
        with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), 1):
            return
        time.sleep(0.05)
    raise Unavailable(f"{name} did not listen within {_START_SECONDS} s")


def _stop(process: subprocess.Popen) -> None:
    process.terminate()
    try:
        process.wait(2)  # versitygw would wait for idle connections
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait(10)


def _create_container(endpoint: str, name: str) -> None:
    """Send a signed request, since neither obstore nor lazydelta creates containers."""
    date, version = formatdate(usegmt=True), "2021-08-06"
    headers = f"x-ms-date:{date}\nx-ms-version:{version}\n"
    resource = f"/{_ACCOUNT}/{_ACCOUNT}/{name}\nrestype:container"
    text = "PUT" + "\n" * 12 + headers + resource
    digest = hmac.new(base64.b64decode(_KEY), text.encode(), hashlib.sha256).digest()
    signature = base64.b64encode(digest).decode()
    _send(
        "PUT",
        f"{endpoint}/{name}?restype=container",
        {
            "x-ms-date": date,
            "x-ms-version": version,
            "Authorization": f"SharedKey {_ACCOUNT}:{signature}",
        },
    )


def _send(method: str, url: str, headers: dict[str, str], body: bytes | None = None) -> None:
    request = urllib.request.Request(url, data=body, method=method, headers=headers)
    # No proxy for loopback.
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    with opener.open(request, timeout=30) as answer:
        answer.read()
