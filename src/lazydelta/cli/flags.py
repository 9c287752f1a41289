"""Error messages in the terms of the command line: flags and variables, not Python arguments."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from lazydelta import errors
from lazydelta.errors import ConfigError, DeltaError, redact

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

__all__ = ["format_error"]

_TERMS: tuple[tuple[re.Pattern[str], str | Callable[[re.Match[str]], str]], ...] = (
    (re.compile(r'schema_mode="(merge|overwrite)"'), r"--\1-schema"),
    (re.compile(r'\bmode="(\w+)"'), r"--mode \1"),
    (re.compile(r"\bwithout where\b"), "without --where"),
    (re.compile(r"\bapp_id and app_version\b"), "--app-id and --app-version"),
    (re.compile(r"storage_options\['(\w+)'\]"), r"--storage-option \1"),
    (re.compile(r"\bstorage_options\b"), "--storage-option"),
    (re.compile(r"\btable\.alter\b"), "lazydelta alter"),
    (
        re.compile(r"Config\(((?:\w+=\.\.\.(?:, )?)+)\)"),
        lambda match: re.sub(r"(\w+)=\.\.\.", lambda name: _variable(name[1]), match[1]),
    ),
    (re.compile(r"\bforce=True"), "--force"),
    (re.compile(r"\bignore_missing_files=True"), "--ignore-missing-files"),
    (re.compile(r"\benable_fallback=True"), "LAZYDELTA_ENABLE_FALLBACK=true"),
    (re.compile(r'\btripwire="(\w+)"'), r"LAZYDELTA_TRIPWIRE=\1"),
)
_SETTINGS = {"schema_mode": "--overwrite-schema", "properties": "--property"}


def format_error(error: DeltaError, flags: Mapping[str, str]) -> str:
    """Return the message of an error, with Python arguments replaced by flags.

    Args:
        error: The error that ends the command.
        flags: The options of the command that failed, by parameter name.
    """
    if isinstance(error, errors.TableExistsError):
        cure = "--mode append or --mode overwrite to write to it, or --mode ignore to keep it"
        if "if_not_exists" in flags:
            cure = "`lazydelta write` to write to it, or --if-not-exists to keep it"
        return f"there is a Delta table at {redact(error.table)} already. Use {cure}."
    message = str(error)
    if isinstance(error, ConfigError):
        setting = flags.get(error.setting) or _SETTINGS.get(error.setting)
        if setting is not None:
            message = f"{setting}{message.removeprefix(error.setting)}"
    for pattern, term in _TERMS:
        message = pattern.sub(term, message)
    return message


def _variable(setting: str) -> str:
    return f"LAZYDELTA_{setting.upper()}"
