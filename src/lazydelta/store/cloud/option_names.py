"""Names of storage options: obstore's, and those of other tools translated to them.

obstore accepts each name with and without the prefix of its provider (`azure_storage_`, `aws_`,
`google_`). Names of adlfs, s3fs, gcsfs and of the filesystems of pyarrow are translated.
"""

from __future__ import annotations

import difflib

from lazydelta.errors import ConfigError

__all__ = ["IGNORED", "LOCKING", "RETRY", "canonical_name", "unknown_option"]

_CLIENT = (
    "allow_http",
    "allow_invalid_certificates",
    "ca_bundle",
    "connect_timeout",
    "pool_idle_timeout",
    "pool_max_idle_per_host",
    "proxy_url",
    "read_timeout",
    "root_certificate",
    "timeout",
    "user_agent",
)
RETRY = (
    "backoff_config.base",
    "backoff_config.init_backoff",
    "backoff_config.max_backoff",
    "max_retries",
    "retry_timeout",
)
_KNOWN = {
    "azure": (
        "account_key",
        "account_name",
        "authority_host",
        "client_id",
        "client_secret",
        "connection_string",
        "credential_type",
        "endpoint",
        "fabric_session_token",
        "federated_token_file",
        "msi_endpoint",
        "msi_resource_id",
        "object_id",
        "sas_token",
        "skip_signature",
        "tenant_id",
        "token",
        "use_azure_cli",
        "use_emulator",
        "use_fabric_endpoint",
    ),
    "s3": (
        "access_key_id",
        "conditional_put",
        "default_region",
        "disable_bulk_delete",
        "endpoint",
        "profile",
        "region",
        "request_payer",
        "role_arn",
        "secret_access_key",
        "session_token",
        "skip_signature",
        "virtual_hosted_style_request",
        "web_identity_token_file",
    ),
    "gcs": (
        "application_credentials",
        "base_url",
        "bearer_token",
        "service_account",
        "service_account_key",
        "skip_signature",
    ),
}
_ALIASES = {
    "azure": {
        "access_key": "account_key",
        "account": "account_name",
        "anon": "skip_signature",
        "anonymous": "skip_signature",
        "bearer_token": "token",
        "key": "account_key",
        "master_key": "account_key",
        "sas_key": "sas_token",
    },
    "s3": {
        "access_key": "access_key_id",
        "anon": "skip_signature",
        "anonymous": "skip_signature",
        "endpoint_url": "endpoint",
        "force_virtual_addressing": "virtual_hosted_style_request",
        "key": "access_key_id",
        "profile_name": "profile",
        "region_name": "region",
        "requester_pays": "request_payer",
        "s3_endpoint": "endpoint",
        "secret": "secret_access_key",
        "secret_key": "secret_access_key",
        "session_name": "role_session_name",
        "token": "session_token",
    },
    "gcs": {
        "access_token": "bearer_token",
        "anon": "skip_signature",
        "anonymous": "skip_signature",
        "endpoint_url": "base_url",
    },
}
_CA_BUNDLES = ("ssl_cert_file", "tls_ca_file_path", "verify")
# Options of delta-rs that commits by conditional put do not need, and of filesystems that have no
# meaning here: caches, block sizes, the creation of buckets.
IGNORED = frozenset(
    {
        "aws_s3_allow_unsafe_rename",
        "s3_allow_unsafe_rename",
        "allow_unsafe_rename",
        "allow_bucket_creation",
        "allow_bucket_deletion",
        "background_writes",
        "default_block_size",
        "default_cache_type",
        "default_fill_cache",
        "dfs_storage_authority",
        "dfs_storage_scheme",
        "project",
        "project_id",
        "skip_instance_cache",
        "use_listings_cache",
        "use_ssl",
    }
)
LOCKING = frozenset({"aws_s3_locking_provider", "s3_locking_provider", "locking_provider"})
_PREFIXES = {"azure": ("azure_storage_", "azure_"), "s3": ("aws_",), "gcs": ("google_",)}


def canonical_name(provider: str, name: str) -> str:
    """Return obstore's name of an option; an unknown one stays as it is.

    >>> canonical_name("azure", "AZURE_STORAGE_KEY"), canonical_name("s3", "secret")
    ('account_key', 'secret_access_key')
    """
    lower = name.lower()
    bare = _without_prefix(provider, lower)
    if bare in _CA_BUNDLES:
        return "ca_bundle"
    found = _ALIASES[provider].get(bare, bare)
    return found if found in (*_KNOWN[provider], *_CLIENT) else lower


def unknown_option(provider: str, key: str) -> ConfigError:
    """Return the error for a key that obstore refused, with suggestions."""
    bare = _without_prefix(provider, key.lower())
    known = (*_KNOWN[provider], *_CLIENT, *RETRY)
    similar = difflib.get_close_matches(bare, known, n=2, cutoff=0.6)
    hint = f"did you mean {' or '.join(similar)}?" if similar else f"known are {', '.join(known)}"
    return ConfigError(f"storage_options[{key!r}]", f"no such option for {provider} stores; {hint}")


def _without_prefix(provider: str, name: str) -> str:
    for prefix in _PREFIXES[provider]:
        if name.startswith(prefix):
            return name.removeprefix(prefix)
    return name
