"""An HTTP server with scripted responses, and an environment without credentials."""

from __future__ import annotations

import os
import ssl
import threading
from datetime import UTC, datetime, timedelta
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest


@pytest.fixture(autouse=True)
def _no_cloud_environment(monkeypatch, tmp_path):
    for name in [n for n in os.environ if n.startswith(("AZURE_", "AWS_", "GOOGLE_"))]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("AWS_CONFIG_FILE", str(tmp_path / "no-aws-config"))
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(tmp_path / "no-aws-credentials"))


class ScriptedServer(ThreadingHTTPServer):
    """Replies with the `(status, body)` responses in turn, then repeats the last one."""

    daemon_threads = True

    def __init__(self):
        super().__init__(("127.0.0.1", 0), _Handler)
        self.responses = []
        self.requests = []
        self.url = f"http://127.0.0.1:{self.server_port}"

    def use_tls(self, certificate, key):
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(certificate, key)
        self.socket = context.wrap_socket(self.socket, server_side=True)
        self.url = f"https://localhost:{self.server_port}"

    def handle_error(self, *_):
        """Print nothing: a client that refuses the certificate is expected."""


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def _respond(self):
        self.rfile.read(int(self.headers.get("Content-Length") or 0))
        headers = {name.lower(): value for name, value in self.headers.items()}
        self.server.requests.append((self.command, self.path, headers))
        status, body = self.server.responses[0]
        if len(self.server.responses) > 1:
            self.server.responses.pop(0)
        self.send_response(status)
        self.send_header("Content-Length", str(len(body)))
        self.send_header("Last-Modified", "Sun, 15 Nov 2026 12:00:00 GMT")
        self.send_header("ETag", '"1"')
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    do_GET = do_PUT = do_HEAD = do_POST = do_DELETE = _respond  # noqa: N815

    def log_message(self, *_):
        pass


@pytest.fixture
def http_server():
    running = ScriptedServer()
    thread = threading.Thread(target=running.serve_forever, args=(0.01,), daemon=True)
    thread.start()
    yield running
    running.shutdown()
    running.server_close()
    thread.join()


@pytest.fixture(scope="session")
def certificates(tmp_path_factory):
    """A directory with `ca.pem`, and `server.pem` and `server.key` for localhost, signed by it."""
    x509 = pytest.importorskip("cryptography.x509", reason="certificates need cryptography")
    from cryptography.hazmat.primitives import hashes, serialization
    from cryptography.hazmat.primitives.asymmetric import ec

    directory = tmp_path_factory.mktemp("certificates")
    now = datetime.now(UTC)

    def signed(name, key, issuer, issuer_key, extension):
        def subject(common):
            return x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, common)])

        builder = (
            x509.CertificateBuilder(subject(issuer), subject(name), key.public_key())
            .serial_number(x509.random_serial_number())
            .not_valid_before(now - timedelta(days=1))
            .not_valid_after(now + timedelta(days=1))
            .add_extension(extension, critical=True)
        )
        found = builder.sign(issuer_key, hashes.SHA256())
        return found.public_bytes(serialization.Encoding.PEM)

    ca_key, key = (ec.generate_private_key(ec.SECP256R1()) for _ in range(2))
    ca = signed("ca", ca_key, "ca", ca_key, x509.BasicConstraints(ca=True, path_length=None))
    names = x509.SubjectAlternativeName([x509.DNSName("localhost")])
    (directory / "ca.pem").write_bytes(ca)
    (directory / "server.pem").write_bytes(signed("localhost", key, "ca", ca_key, names))
    (directory / "server.key").write_bytes(
        key.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.PKCS8,
            serialization.NoEncryption(),
        )
    )
    return directory
