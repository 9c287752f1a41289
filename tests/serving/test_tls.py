from __future__ import annotations

import ssl
from datetime import UTC, datetime, timedelta
from urllib.request import urlopen

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from lazydelta.errors import ConfigError
from lazydelta.serving import RunningServer, ServeConfig
from lazydelta.serving.config import Endpoint, PrincipalEntry, TableEntry, TlsFiles


def named(name):
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])


def certificate(directory, name, issuer=None):
    """Write a key and a certificate; without an issuer it is an authority."""
    key = ec.generate_private_key(ec.SECP256R1())
    signer_name, signer_key = issuer or (named(name), key)
    now = datetime.now(UTC)
    local = x509.SubjectAlternativeName([x509.DNSName("localhost")])
    made = (
        x509.CertificateBuilder()
        .subject_name(named(name))
        .issuer_name(signer_name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - timedelta(hours=1))
        .not_valid_after(now + timedelta(hours=1))
        .add_extension(local, critical=False)
        .add_extension(x509.BasicConstraints(ca=issuer is None, path_length=None), critical=True)
        .sign(signer_key, hashes.SHA256())
    )
    pem = serialization.Encoding.PEM
    (directory / f"{name}.pem").write_bytes(made.public_bytes(pem))
    (directory / f"{name}.key").write_bytes(
        key.private_bytes(pem, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    )
    return named(name), key


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    directory = tmp_path_factory.mktemp("tls")
    authority = certificate(directory, "authority")
    for name in ("server", "reader", "stranger"):
        certificate(directory, name, authority)
    other = certificate(directory, "other-authority")
    certificate(directory, "impostor", other)
    return directory


def configured(files, **more):
    tls = TlsFiles(certificate=str(files / "server.pem"), key=str(files / "server.key"), **more)
    return ServeConfig(
        tables=(TableEntry(name="t", url="/t", principals=("reader",)),),
        principals=(PrincipalEntry(name="reader", certificate="reader"),),
        tls=tls,
        http=Endpoint(host="localhost", port=0),
        flight=Endpoint(enabled=False),
    )


def fetch(server, files, client=None):
    context = ssl.create_default_context(cafile=files / "authority.pem")
    if client is not None:
        context.load_cert_chain(files / f"{client}.pem", files / f"{client}.key")
    url = server.url.replace("127.0.0.1", "localhost").replace("[::1]", "localhost")
    with urlopen(f"{url}/v1/tables", context=context, timeout=10) as answer:
        return answer.read()


def test_a_client_certificate_proves_its_principal(files):
    with RunningServer(configured(files, client_ca=str(files / "authority.pem"))) as server:
        assert server.url.startswith("https://")
        assert fetch(server, files, "reader") == b'{"tables":[{"name":"t"}]}'


@pytest.mark.parametrize("client", [None, "impostor", "stranger"])
def test_other_certificates_are_refused(files, client):
    config = configured(files, client_ca=str(files / "authority.pem"))
    with (
        RunningServer(config) as server,
        pytest.raises(OSError, match=r"(?i)401|alert|reset|ssl|closed"),
    ):
        fetch(server, files, client)


def test_old_protocols_are_refused(files):
    with RunningServer(configured(files)) as server:
        context = ssl.create_default_context(cafile=files / "authority.pem")
        context.set_ciphers("DEFAULT:@SECLEVEL=0")
        context.minimum_version = ssl.TLSVersion.MINIMUM_SUPPORTED
        with pytest.warns(DeprecationWarning, match="TLSv1_1"):
            context.maximum_version = ssl.TLSVersion.TLSv1_1
        with pytest.raises(OSError, match=r"(?i)ssl|protocol|alert"):
            urlopen(server.url.replace("127.0.0.1", "localhost"), context=context, timeout=10)


def test_tls_files_that_cannot_be_used_are_refused_before_listening(files, tmp_path):
    (tmp_path / "bad.pem").write_text("not a certificate")
    tls = TlsFiles(certificate=str(tmp_path / "bad.pem"), key=str(files / "server.key"))
    with pytest.raises(ConfigError, match="tls: the files cannot be used"):
        RunningServer(
            ServeConfig.for_tables(
                {"t": "/t"}, tls=tls, http=Endpoint(port=0), flight=Endpoint(enabled=False)
            )
        )
