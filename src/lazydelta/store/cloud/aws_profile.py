"""Credentials of AWS profiles, through boto3: static keys, assumed roles and the SSO cache."""

from __future__ import annotations

import os
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from lazydelta.errors import ConfigError, MissingExtraError
from lazydelta.store import tuning

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["profile_credential"]


def profile_credential(profile: str) -> tuple[Callable[[], Any], str | None]:
    """Return the credential callable and the region of a profile.

    Raises:
        ConfigError: There is no such profile, or it has no credentials.
        MissingExtraError: boto3 is not installed.
    """
    try:
        import boto3
        import botocore.exceptions
        from obstore.auth.boto3 import Boto3CredentialProvider
    except ImportError:
        raise MissingExtraError("boto3, which reads AWS profiles,", "aws") from None
    # botocore refreshes credentials that expire within ten minutes when they are requested.
    ttl = timedelta(seconds=tuning.CREDENTIAL_SECONDS)
    try:
        session = boto3.Session(profile_name=profile)
        credential = Boto3CredentialProvider(session, ttl=ttl)
    except botocore.exceptions.ProfileNotFound:
        file = os.environ.get("AWS_CONFIG_FILE", "~/.aws/config")
        raise ConfigError("profile", f"there is no AWS profile {profile!r} in {file}") from None
    except (botocore.exceptions.BotoCoreError, ValueError) as error:
        reason = f"the AWS profile {profile!r} has no credentials ({type(error).__name__})"
        raise ConfigError("profile", f"{reason}; run `aws configure --profile {profile}`") from None
    return credential, session.region_name
