"""`lazydelta serve`: serve tables over HTTP and Arrow Flight."""

from __future__ import annotations

import signal
from dataclasses import replace
from pathlib import Path

import click

from lazydelta import serving
from lazydelta.cli.common_options import State, common_options, pass_state
from lazydelta.cli.key_value import KeyValue

__all__ = ["serve"]


@click.command()
@click.argument("config", required=False, type=click.Path(dir_okay=False, path_type=Path))
@click.option(
    "--table",
    "tables",
    type=KeyValue("NAME", "URL", example="trips=./trips"),
    multiple=True,
    help="Serve a table without a file; repeatable. Only this machine can connect.",
)
@click.option("--port", type=click.IntRange(0, 65535), help="The port of the HTTP server.")
@click.option("--flight-port", type=click.IntRange(0, 65535), help="The port of Arrow Flight.")
@click.option("--insecure", is_flag=True, help="Allow other machines without TLS and tokens.")
@click.option("--example-config", is_flag=True, help="Print a commented configuration.")
@common_options
@pass_state
def serve(
    state: State,
    /,
    config: Path | None,
    *,
    tables: tuple[tuple[str, str], ...],
    port: int | None,
    flight_port: int | None,
    insecure: bool,
    example_config: bool,
) -> None:
    """Serve tables to clients in any language, as a CONFIG file (TOML) says.

    Files, rows and changes are streamed while the log is being read; each batch has a token from
    which any server continues. SIGTERM ends the server after the running scans; SIGHUP reads the
    principals of CONFIG again. The log is JSON on standard error.
    """
    if example_config:
        click.echo(serving.EXAMPLE_CONFIG.read_text("utf-8"), nl=False)
        return
    if (config is None) == (not tables):
        raise click.UsageError("give a CONFIG file, or tables with --table NAME=URL")
    serving.return_freed_memory()  # before Arrow is loaded

    def settings() -> serving.ServeConfig:
        if config is not None:
            found = serving.ServeConfig.from_toml(config)
        else:
            found = serving.ServeConfig.for_tables(dict(tables), state.storage_options)
        if port is not None:
            found = replace(found, http=replace(found.http, port=port))
        if flight_port is not None:
            found = replace(found, flight=replace(found.flight, port=flight_port))
        return replace(found, insecure=True) if insecure else found

    serving.log_to()
    serving.serve(
        settings(),
        lambda url: click.echo(f"serving on {url}"),
        reload=settings if config is not None and hasattr(signal, "SIGHUP") else None,
    )
