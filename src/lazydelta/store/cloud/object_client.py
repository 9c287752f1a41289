"""Clients of obstore: created from options and a credential, or passed by the caller.

obstore is imported here and in `aws_profile` only, and only when a store of a cloud URL is opened.
"""

from __future__ import annotations

import os
import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from lazydelta.errors import ConfigError, StoreAccessError
from lazydelta.store.cloud.aws_profile import profile_credential
from lazydelta.store.cloud.credentials import Credential, CredentialProvider
from lazydelta.store.cloud.option_names import unknown_option
from lazydelta.store.cloud.request_errors import error_reason, secret_values

if TYPE_CHECKING:
    from collections.abc import Mapping
    from types import ModuleType

    from lazydelta.store.cloud.storage_options import ClientOptions
    from lazydelta.store.cloud.store_url import StoreUrl

__all__ = ["Connector", "GivenClient", "connector"]

_UNKNOWN_KEY = re.compile(r"Configuration key: '([^']*)'")
_CLASSES = {"AzureStore": "azure", "S3Store": "s3", "GCSStore": "gcs"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Connector:
    """Creates the clients of one store; they share its credential provider."""

    url: StoreUrl
    provider: CredentialProvider | None = None
    region: str | None = None
    """The region of an AWS profile, unless the options have one."""
    root_certificate: str | None = field(default=None, repr=False)

    def __call__(self, config: dict[str, str], retry: dict[str, Any]) -> tuple[ModuleType, Any]:
        """Import obstore and create a client; no request is sent."""
        import obstore
        import obstore.exceptions
        import obstore.store

        classes: dict[str, Any] = {
            "azure": obstore.store.AzureStore,
            "s3": obstore.store.S3Store,
            "gcs": obstore.store.GCSStore,
        }
        more: dict[str, Any] = {}
        if self.provider is not None:
            more["credential_provider"] = self.provider
        if self.root_certificate is not None:
            more["client_options"] = {"root_certificate": self.root_certificate}
        if self.region is not None:
            config = {"region": self.region, **config}
        bucket = self.url.bucket
        try:
            client = classes[self.url.provider](
                bucket, prefix=self.url.prefix or None, config=config, retry_config=retry, **more
            )
        except obstore.exceptions.UnknownConfigurationKeyError as error:
            match = _UNKNOWN_KEY.search(str(error))
            raise unknown_option(self.url.provider, match[1] if match else "?") from None
        except (obstore.exceptions.BaseError, ValueError) as error:
            reason = error_reason(error, secret_values(config))
            raise StoreAccessError(
                f"{self.url.provider} store {bucket!r}",
                f"{reason}. Check storage_options and environment",
            ) from None
        return obstore, client


@dataclass(frozen=True, slots=True)
class GivenClient:
    """A client that the caller passed, with the prefix of a table's URL."""

    url: StoreUrl
    store: Any = field(repr=False)

    def __call__(self, config: dict[str, str], retry: dict[str, Any]) -> tuple[ModuleType, Any]:
        """Return the client; it keeps its own options and retries.

        Raises:
            ConfigError: The client is of another provider or bucket than the URL.
        """
        import obstore

        del config, retry
        kind = type(self.store).__name__
        if _CLASSES.get(kind) != self.url.provider:
            raise ConfigError("store", f"{kind} cannot open {self.url.root!r}")
        own = _config(self.store)
        bucket = own.pop("bucket", None) or own.pop("container_name", None) or self.url.bucket
        if bucket != self.url.bucket:
            raise ConfigError("store", f"is of the bucket {bucket!r}, not {self.url.bucket!r}")
        if (self.store.prefix or "").strip("/") == self.url.prefix:
            return obstore, self.store
        return obstore, type(self.store)(
            self.url.bucket,
            prefix=self.url.prefix or None,
            config=own,
            client_options=self.store.client_options,
            retry_config=self.store.retry_config,
            credential_provider=self.store.credential_provider,
        )


def connector(url: StoreUrl, options: ClientOptions, credential: Credential | None) -> Connector:
    """Return the connector of a store: the caller's credential, else that of an AWS profile."""
    region = None
    if credential is None and options.profile is not None:
        credential, region = profile_credential(options.profile)
    elif credential is None and url.provider == "s3":
        credential = _static_keys(options.config)
    if {"AWS_REGION", "AWS_DEFAULT_REGION"} & os.environ.keys():
        region = None
    return Connector(
        url=url,
        provider=None if credential is None else CredentialProvider(url.provider, credential),
        region=region,
        root_certificate=options.root_certificate,
    )


def _static_keys(config: Mapping[str, str]) -> Credential | None:
    """Return long-lived keys of the options, where obstore would add a foreign session token."""
    keys = {name: config.get(name) for name in ("access_key_id", "secret_access_key")}
    is_temporary = "session_token" in config or "skip_signature" in config
    if not all(keys.values()) or is_temporary or not os.environ.get("AWS_SESSION_TOKEN"):
        return None
    return lambda: {**keys, "expires_at": None}


def _config(store: Any) -> dict[str, Any]:
    try:
        return dict(store.config)
    except BaseException as error:
        # obstore panics here if `config` holds options of the HTTP client.
        if isinstance(error, Exception) or type(error).__name__ != "PanicException":
            raise
    reason = "pass options of the HTTP client (allow_http, timeout) as client_options, not config"
    raise ConfigError("store", reason)
