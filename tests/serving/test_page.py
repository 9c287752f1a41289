"""The page at `/`, in a real browser: tables, a scan that arrives live, history, keyboard, token."""

from __future__ import annotations

import base64
import contextlib
import hashlib
import http.client
import json
import os
import shutil
import socket
import struct
import subprocess
import tempfile
import time
from pathlib import Path

import pytest

import lazydelta as ld
from lazydelta.serving import ServeConfig
from lazydelta.serving.config import Endpoint, PrincipalEntry, TableEntry
from tests.serving.support import get, running, serving

FLAGS = (
    "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run",
    "--disable-background-networking", "--disable-component-update", "--disable-sync",
    "--disable-dev-shm-usage", "--remote-debugging-port=0",
)  # fmt: skip
WAIT_SECONDS = 30
TOKEN = "the-token-of-the-page"


class Browser:
    """A tab of a headless Chromium, driven by the DevTools protocol over a WebSocket."""

    def __init__(self, port):
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=WAIT_SECONDS)
        with contextlib.closing(connection):
            connection.request("PUT", "/json/new?about:blank")
            address = json.loads(connection.getresponse().read())["webSocketDebuggerUrl"]
        self._socket = socket.create_connection(("127.0.0.1", port), WAIT_SECONDS)
        key = base64.b64encode(os.urandom(16)).decode()
        path = "/" + address.split("/", 3)[3]
        self._socket.sendall(
            f"GET {path} HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nUpgrade: websocket\r\n"
            f"Connection: Upgrade\r\nSec-WebSocket-Key: {key}\r\n"
            "Sec-WebSocket-Version: 13\r\n\r\n".encode()
        )
        self._data = self._socket.makefile("rb")
        while self._data.readline().strip():
            pass
        self._number = 0

    def close(self):
        self._data.close()
        self._socket.close()

    def call(self, method, **parameters):
        self._number += 1
        message = {"id": self._number, "method": method, "params": parameters}
        payload = json.dumps(message).encode()
        mask = os.urandom(4)
        masked = bytes(byte ^ mask[index % 4] for index, byte in enumerate(payload))
        self._socket.sendall(b"\x81" + struct.pack(">BH", 0x80 | 126, len(payload)) + mask + masked)
        while True:
            answer = json.loads(self._frame())
            if answer.get("id") == self._number:
                assert "error" not in answer, answer
                return answer["result"]

    def _frame(self):
        _, length = self._data.read(2)
        if length == 126:
            (length,) = struct.unpack(">H", self._data.read(2))
        elif length == 127:
            (length,) = struct.unpack(">Q", self._data.read(8))
        return self._data.read(length)

    def evaluate(self, expression):
        found = self.call("Runtime.evaluate", expression=expression, returnByValue=True)
        assert "exceptionDetails" not in found, found
        return found["result"].get("value")

    def wait_for(self, expression):
        """Wait until an expression is true."""
        end = time.monotonic() + WAIT_SECONDS
        while not self.evaluate(expression):
            assert time.monotonic() < end, (expression, self.evaluate("document.body.innerText"))
            time.sleep(0.05)

    def press(self, key, code=0):
        parameters = {"key": key, "code": key, "windowsVirtualKeyCode": code}
        text = {"text": "\r"} if key == "Enter" else {}
        self.call("Input.dispatchKeyEvent", type="keyDown", **parameters, **text)
        self.call("Input.dispatchKeyEvent", type="keyUp", **parameters)

    def write(self, text):
        self.call("Input.insertText", text=text)


@pytest.fixture(scope="module")
def chromium():
    """Return the port of a browser's DevTools."""
    program = shutil.which("chromium") or shutil.which("chromium-browser")
    if program is None:
        pytest.skip("there is no Chromium: apt-get install chromium")
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as profile:
        command = [program, *FLAGS, f"--user-data-dir={profile}", "about:blank"]
        with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as run:
            try:
                yield devtools_port(profile, run)
            finally:
                run.terminate()
                with contextlib.suppress(subprocess.TimeoutExpired):
                    run.wait(10)
                run.kill()


def devtools_port(profile, run):
    """Return the port that the browser writes down when it listens."""
    end = time.monotonic() + WAIT_SECONDS
    while run.poll() is None and time.monotonic() < end:
        with (
            contextlib.suppress(OSError, IndexError, ValueError),
            Path(profile, "DevToolsActivePort").open(encoding="ascii") as file,
        ):
            return int(file.read().split()[0])
        time.sleep(0.05)
    pytest.skip("Chromium does not start here")


@pytest.fixture
def browser(chromium):
    with contextlib.closing(Browser(chromium)) as tab:
        tab.call("Runtime.enable")
        yield tab


@pytest.fixture
def trips(tmp_path):
    path = str(tmp_path / "trips")
    for start in range(3):
        rows = {"id": [start, start + 10], "day": ["2026-05-01", "2026-05-02"]}
        ld.write(path, rows, partition_by=["day"])
    return path


def text(browser, selector):
    return browser.evaluate(f"document.querySelector({json.dumps(selector)}).innerText")


def test_a_scan_by_keyboard_shows_its_files(browser, trips):
    with running({"trips": trips, "other": trips}) as server:
        browser.call("Page.navigate", url=server.url + "/")
        browser.wait_for("document.querySelectorAll('#tables tbody button').length === 2")
        browser.evaluate("document.querySelectorAll('#tables tbody button')[1].focus()")
        browser.press("Enter", 13)
        browser.wait_for("document.activeElement.id === 'where'")
        assert "day" in text(browser, "#schema tbody")
        assert "WRITE" in text(browser, "#history tbody")
        browser.write("day = '2026-05-02'")
        browser.press("Enter", 13)
        browser.wait_for("document.querySelector('#read').innerText.includes('and')")
        assert text(browser, "#files") == "3"
        assert text(browser, "#pruned") == "3"
        assert browser.evaluate("document.querySelectorAll('#found tbody tr').length") == 3
        assert "day=2026-05-02" in text(browser, "#found tbody")
        assert "day=2026-05-02: 3" in browser.evaluate(
            "document.querySelector('#partitions').getAttribute('aria-label')"
        )
        assert text(browser, "#first").endswith(("ms", "s"))


def test_a_mistake_is_shown(browser, trips):
    with running({"trips": trips}) as server:
        browser.call("Page.navigate", url=server.url + "/")
        browser.wait_for("document.querySelectorAll('#tables tbody button').length === 1")
        browser.evaluate("document.querySelector('#tables tbody button').click()")
        browser.wait_for("document.activeElement.id === 'where'")
        browser.write("dya = 1")
        browser.press("Enter", 13)
        browser.wait_for("document.querySelector('#status.bad') !== null")
        assert "dya" in text(browser, "#status")


def test_a_server_with_principals_asks_for_a_token(browser, trips):
    digest = hashlib.sha256(TOKEN.encode()).hexdigest()
    config = ServeConfig(
        tables=(TableEntry(name="trips", url=trips, principals=("page",)),),
        principals=(PrincipalEntry(name="page", token_sha256=(digest,)),),
        http=Endpoint(port=0),
        flight=Endpoint(enabled=False),
    )
    with serving(config) as server:
        browser.call("Page.navigate", url=server.url + "/")
        browser.wait_for("document.querySelector('#login:not([hidden])') !== null")
        assert not browser.evaluate("document.querySelectorAll('#tables tbody tr').length")
        browser.wait_for("document.activeElement.id === 'token'")
        browser.write(TOKEN)
        browser.press("Enter", 13)
        browser.wait_for("document.querySelectorAll('#tables tbody button').length === 1")
        assert browser.evaluate("document.querySelector('#login').hidden")


def test_the_page_needs_no_other_server(trips):
    """Everything it loads is in the package, and the policy forbids the rest."""
    with running({"trips": trips}) as server:
        for name in ("/", "/page.js", "/page.css", "/icon.svg"):
            status, headers, body = get(server, name)
            assert status == 200
            assert "default-src 'self'" in headers["content-security-policy"]
            without_namespaces = body.replace(b"http://www.w3.org/2000/svg", b"")
            assert b"http://" not in without_namespaces
            assert b"https://" not in without_namespaces
