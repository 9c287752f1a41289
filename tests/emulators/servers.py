"""Object store emulators on loopback, started per test session and never required.

Azurite (Azure) is installed with npm into `.cache/azurite`; moto (S3) is a Python package. Where one
is missing, `Unavailable` has the reason and the cure.
"""

from __future__ import annotations

import base64
import contextlib
import hashlib
import hmac
import shutil
import socket
import subprocess
import tempfile
import threading
import time
import urllib.request
from dataclasses import dataclass, field
from email.utils import formatdate
from pathlib import Path

from lazydelta.store import open_store

_AZURITE = "azurite@3.35.0"
_CACHE = Path(__file__).parents[2] / ".cache" / "azurite"
_INSTALL_SECONDS = 200
_START_SECONDS = 60

# Azurite's default account; its key is public.
_ACCOUNT = "devstoreaccount1"
_KEY = "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw=="


class Unavailable(Exception):  # noqa: N818 - a reason to skip, not an error
    """An emulator that cannot run here."""


@dataclass(frozen=True)
class Emulator:
    """A running emulator: root URL and store options."""

    endpoint: str
    url: str  # of a bucket or container; table paths are appended
    options: dict[str, str] = field(repr=False)
    secrets: tuple[str, ...] = field(repr=False, default=())


@contextlib.contextmanager
def azurite():
    """Run Azurite with an empty container `lake`."""
    program = _azurite_program()
    port = _free_port()
    command = [
        str(program),
        *("--blobHost", "127.0.0.1", "--blobPort", str(port)),
        *("--inMemoryPersistence", "--skipApiVersionCheck", "--silent", "--disableTelemetry"),
    ]
    with tempfile.TemporaryDirectory() as where, tempfile.TemporaryFile() as output:
        process = subprocess.Popen(command, cwd=where, stdout=output, stderr=output)
        try:
            _wait_for_port(port, process)
            endpoint = f"http://127.0.0.1:{port}/{_ACCOUNT}"
            _create_container(endpoint, "lake")
            options = {
                "account_name": _ACCOUNT,
                "account_key": _KEY,
                "endpoint": endpoint,
                "allow_http": "true",
            }
            yield Emulator(endpoint, "az://lake", options, (_KEY,))
        finally:
            _stop(process)


@contextlib.contextmanager
def _atomic_puts(responses):
    """Make conditional puts of moto atomic, as in S3.

    It checks for the key and then writes, so that two concurrent puts would both succeed.
    """
    lock, put = threading.Lock(), responses.put_object

    def put_alone(self):
        with lock:
            return put(self)

    responses.put_object = put_alone
    try:
        yield
    finally:
        responses.put_object = put


@contextlib.contextmanager
def moto():
    """Run moto with an empty bucket `lake`."""
    try:
        from moto.s3.responses import S3Response
        from moto.server import ThreadedMotoServer
    except ImportError as error:
        raise Unavailable(f"moto is not installed ({error}): make test installs it") from None
    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    try:
        endpoint = "http://{}:{}".format(*server.get_host_and_port())
        _put(f"{endpoint}/lake", {})
        options = {
            "AWS_ACCESS_KEY_ID": "the-emulated-id",
            "AWS_SECRET_ACCESS_KEY": "the-emulated-secret",
            "AWS_REGION": "us-east-1",
            "AWS_ENDPOINT_URL": endpoint,
            "allow_http": "true",
        }
        with _atomic_puts(S3Response):
            yield Emulator(endpoint, "s3://lake", options, ("the-emulated-secret",))
    finally:
        server.stop()


def upload_table(store_url, options, local_dir):
    """Copy a local table into a store, and return the store."""
    store = open_store(store_url, options)
    for path in sorted(Path(local_dir).rglob("*")):
        if path.is_file():
            name = path.relative_to(local_dir).as_posix()
            store.write(name, path.read_bytes(), overwrite=True)
    return store


def _azurite_program() -> Path:
    found = shutil.which("azurite-blob")
    if found:
        return Path(found)
    program = _CACHE / "node_modules" / ".bin" / "azurite-blob"
    if not program.exists():
        _install_azurite()
    return program


def _install_azurite() -> None:
    """Install beside the cache and rename it, so that two sessions do not collide."""
    npm = shutil.which("npm")
    if npm is None or shutil.which("node") is None:
        raise Unavailable("Azurite needs Node.js: install node and npm, and it is fetched from npm")
    _CACHE.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=_CACHE.parent, prefix="azurite-") as staging:
        command = [
            npm,
            *("install", "--prefix", staging, "--no-package-lock", "--no-audit", "--no-fund"),
            *("--no-save", "--fetch-retries=1", "--fetch-timeout=30000", _AZURITE),
        ]
        try:
            done = subprocess.run(
                command, capture_output=True, text=True, timeout=_INSTALL_SECONDS, check=False
            )
        except subprocess.TimeoutExpired:
            raise Unavailable(f"npm did not install {_AZURITE} in {_INSTALL_SECONDS} s") from None
        if done.returncode:
            lines = done.stderr.splitlines()
            reason = next((line for line in lines if line.startswith("npm err")), "no reason given")
            raise Unavailable(f"npm could not install {_AZURITE}: {reason}")
        target = _CACHE / "node_modules"
        if not target.exists():
            _CACHE.mkdir(exist_ok=True)
            with contextlib.suppress(OSError):  # another session installed it first
                Path(staging, "node_modules").rename(target)


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def _wait_for_port(port: int, process: subprocess.Popen) -> None:
    deadline = time.monotonic() + _START_SECONDS
    while time.monotonic() < deadline:
        if process.poll() is not None:
            raise Unavailable(f"Azurite ended at once with code {process.returncode}")
        with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), 1):
            return
        time.sleep(0.05)
    raise Unavailable(f"Azurite did not listen within {_START_SECONDS} s")


def _stop(process: subprocess.Popen) -> None:
    process.terminate()
    try:
        process.wait(10)
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
    _put(
        f"{endpoint}/{name}?restype=container",
        {
            "x-ms-date": date,
            "x-ms-version": version,
            "Authorization": f"SharedKey {_ACCOUNT}:{signature}",
        },
    )


def _put(url: str, headers: dict[str, str]) -> None:
    request = urllib.request.Request(url, method="PUT", headers=headers)
    # No proxy for loopback.
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    with opener.open(request, timeout=30) as answer:
        answer.read()
