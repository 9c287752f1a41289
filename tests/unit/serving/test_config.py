from __future__ import annotations

import hashlib
from datetime import UTC, datetime, timedelta

import pytest

from lazydelta.errors import ConfigError, UnauthenticatedError
from lazydelta.serving import EXAMPLE_CONFIG, ServeConfig
from lazydelta.serving.access import Access
from lazydelta.serving.config import Endpoint, PrincipalEntry, TableEntry, TlsFiles
from lazydelta.serving.tables import engine_config

DIGEST = hashlib.sha256(b"secret").hexdigest()
TLS = TlsFiles(certificate="c", key="k")
READER = PrincipalEntry(name="reader", token_sha256=(DIGEST,))


def table(**more):
    return TableEntry(name="t", url="/t", **more)


@pytest.fixture
def read(tmp_path):
    def read(text):
        (tmp_path / "serve.toml").write_text(text)
        return ServeConfig.from_toml(tmp_path / "serve.toml")

    return read


def test_the_example_is_a_valid_configuration(tmp_path):
    text = EXAMPLE_CONFIG.read_text()
    (tmp_path / "serve.toml").write_text(text)
    (tmp_path / "resume.key").write_bytes(b"k" * 32)
    config = ServeConfig.from_toml(tmp_path / "serve.toml")
    assert [entry.name for entry in config.tables] == ["trips", "fares"]
    assert config.resume_key == b"k" * 32
    assert config.limits == ServeConfig.for_tables({"t": "/t"}).limits, "it shows the defaults"
    assert engine_config(config).request_deadline_seconds == 60


def test_the_example_with_all_comments_of_settings_is_valid(tmp_path):
    lines = []
    for line in EXAMPLE_CONFIG.read_text().splitlines():
        is_setting = line.startswith(("# [", "# certificate", "# key =", "# client_ca", "# name"))
        is_setting |= line.startswith(("# url", "# principals"))
        lines.append(line[2:] if is_setting else line)
    (tmp_path / "serve.toml").write_text("\n".join(lines))
    (tmp_path / "resume.key").write_bytes(b"k")
    config = ServeConfig.from_toml(tmp_path / "serve.toml")
    assert config.tls.certificate == str(tmp_path / "server.pem")
    assert config.roots[0].url == "s3://lake/sales"


@pytest.mark.parametrize("token", ["", "test", "test2", "test3", "secret", "token", "password"])
def test_no_token_that_can_be_guessed_is_in_the_example(token):
    assert hashlib.sha256(token.encode()).hexdigest() not in EXAMPLE_CONFIG.read_text()


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "tables: must name at least one"),
        ("tables = 1", r"write \[\[tables\]\]"),
        ("[[tables]]\nname='t'", "missing .* 'url'"),
        ("[[tables]]\nname='a/b'\nurl='/t'", "must be letters"),
        ("[[tables]]\nname='..'\nurl='/t'", "must be letters"),
        ("[[tables]]\nname='t'\nurl=3", "tables.url: must be of the type str"),
        (
            "[[tables]]\nname='t'\nurl='/t'\nurk='/t'",
            "tables.urk: no such setting. There are: name",
        ),
        ("[[tables]]\nname='t'\nurl='/t'\n[[tables]]\nname='t'\nurl='/u'", "'t' more than once"),
        ("[[tables]]\nname='t'\nurl='/t'\nprincipals=['x']", "'x', which is no principal"),
        ("[[tables]]\nname='t'\nurl='/t'\n[limits]\nscans=0", "limits.scans"),
        ("[[tables]]\nname='t'\nurl='/t'\n[limits]\nscan_seconds=-1", "limits.scan_seconds"),
        ("[[tables]]\nname='t'\nurl='/t'\n[http]\nport='x'", "http.port"),
        ("[[tables]]\nname='t'\nurl='/t'\n[http]\nenabled=false", "http.enabled"),
        ("port = 1\n[[tables]]\nname='t'\nurl='/t'", "port: no such setting"),
        ("resume_key_file='none'\n[[tables]]\nname='t'\nurl='/t'", "cannot be read"),
        ("[[tables]", "cannot be read"),
        ("[[principals]]\nname='p'\n[[tables]]\nname='t'\nurl='/t'", "token_sha256 or certificate"),
        ("[[principals]]\nname='p'\ntoken_sha256='plain'\n", "not a SHA-256 digest"),
    ],
)
def test_a_file_that_is_not_clear_is_refused(read, text, message):
    with pytest.raises(ConfigError, match=message):
        read(text)


def test_a_table_without_principals_is_refused_where_clients_authenticate():
    with pytest.raises(ConfigError, match="of 't' is missing"):
        ServeConfig(tables=(table(),), principals=(READER,))


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "10.1.2.3", "example.org"])
@pytest.mark.parametrize("kind", ["http", "flight"])
def test_other_machines_need_tls_and_authentication(host, kind):
    tables, everywhere = (table(principals=("*",)),), {kind: Endpoint(host=host)}
    for more, missing in (
        ({"principals": (READER,)}, "no tls"),
        ({"tls": TLS}, "no principals"),
        ({}, "no tls and no principals"),
    ):
        with pytest.raises(ConfigError, match=missing):
            ServeConfig(tables=tables if "principals" in more else (table(),), **more, **everywhere)
    ServeConfig(tables=tables, tls=TLS, principals=(READER,), **everywhere)
    ServeConfig(tables=(table(),), insecure=True, **everywhere)


@pytest.mark.parametrize("host", ["127.0.0.1", "127.9.9.9", "::1", "localhost"])
def test_this_machine_needs_neither(host):
    assert ServeConfig.for_tables({"t": "/t"}, http=Endpoint(host=host)).http.is_loopback


def test_no_secret_is_shown():
    config = ServeConfig(
        tables=(table(options={"account_key": "hidden-1"}, principals=("*",)),),
        principals=(READER,),
        resume_key=b"hidden-2",
    )
    assert "hidden" not in repr(config)
    assert DIGEST not in repr(config)


def access(**more):
    expired = datetime.now(UTC) - timedelta(seconds=1)
    entries = (
        READER,
        PrincipalEntry(name="late", token_sha256=("0" * 64, "1" * 64), expires=expired),
        PrincipalEntry(name="machine", certificate="machine.example"),
    )
    tables = (table(principals=("reader",)), TableEntry(name="u", url="/u", principals=("*",)))
    return Access(ServeConfig(tables=tables, principals=entries, **more))


def test_a_token_or_a_certificate_proves_a_principal():
    assert access().authenticate("secret").name == "reader"
    assert access().authenticate(None, "machine.example").name == "machine"


@pytest.mark.parametrize(
    ("bearer", "certificate"),
    [
        (None, None),
        ("", None),
        ("Secret", None),
        (DIGEST, None),
        ("secret ", None),
        ("\ud800", None),
        (None, "reader"),
        (None, "machine.example.org"),
        ("wrong", "machine.example"),
    ],
)
def test_anything_else_proves_none(bearer, certificate):
    with pytest.raises(UnauthenticatedError):
        access().authenticate(bearer, certificate)


def test_tables_are_for_their_principals():
    rules = access()
    reader, machine = rules.authenticate("secret"), rules.authenticate(None, "machine.example")
    assert [rules.may_read(reader, name) for name in ("t", "u", "v")] == [True, True, False]
    assert [rules.may_read(machine, name) for name in ("t", "u", "v")] == [False, True, False]
