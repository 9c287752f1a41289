from __future__ import annotations

import re

import pytest

from lazydelta.errors import ConfigError
from lazydelta.store.cloud.store_url import parse_store_url

AZURE = {"account_name": "acct"}


@pytest.mark.parametrize(
    ("url", "root", "bucket", "prefix", "options"),
    [
        (
            "abfss://lake@acct.dfs.core.windows.net/a/b/",
            "abfss://lake@acct.dfs.core.windows.net/a/b",
            "lake",
            "a/b",
            AZURE,
        ),
        (
            "wasbs://lake@acct.blob.core.windows.net/my%20t",
            "abfss://lake@acct.dfs.core.windows.net/my%20t",
            "lake",
            "my t",
            AZURE,
        ),
        ("az://lake/a b", "az://lake/a%20b", "lake", "a b", {}),
        ("adl://lake", "adl://lake", "lake", "", {}),
        ("abfss://lake/t", "abfss://lake/t", "lake", "t", {}),
        (
            "https://acct.blob.core.windows.net/lake/a/t",
            "https://acct.blob.core.windows.net/lake/a/t",
            "lake",
            "a/t",
            AZURE,
        ),
        (
            "https://acct.blob.core.windows.net/lake/t?sv=2023&sig=abc%3D",
            "https://acct.blob.core.windows.net/lake/t",
            "lake",
            "t",
            {**AZURE, "sas_token": "sv=2023&sig=abc%3D"},
        ),
        (
            "abfss://ws@onelake.dfs.fabric.microsoft.com/lh.Lakehouse/Tables/t",
            "abfss://ws@onelake.dfs.fabric.microsoft.com/lh.Lakehouse/Tables/t",
            "ws",
            "lh.Lakehouse/Tables/t",
            {"account_name": "onelake", "use_fabric_endpoint": "true"},
        ),
        (
            "abfss://lake@acct.dfs.core.chinacloudapi.cn/t",
            "abfss://lake@acct.dfs.core.chinacloudapi.cn/t",
            "lake",
            "t",
            {**AZURE, "endpoint": "https://acct.blob.core.chinacloudapi.cn"},
        ),
        ("s3://lake/x=A%252FA", "s3://lake/x=A%252FA", "lake", "x=A%2FA", {}),
        ("s3a://my.lake/t", "s3a://my.lake/t", "my.lake", "t", {}),
        ("gs://lake/é", "gs://lake/%C3%A9", "lake", "é", {}),
        (
            "https://acct.z37.blob.storage.azure.net/lake/t",
            "https://acct.z37.blob.storage.azure.net/lake/t",
            "lake",
            "t",
            {**AZURE, "endpoint": "https://acct.z37.blob.storage.azure.net"},
        ),
        (
            "abfss://lake@acct.z37.dfs.storage.azure.net/t",
            "abfss://lake@acct.z37.dfs.storage.azure.net/t",
            "lake",
            "t",
            {**AZURE, "endpoint": "https://acct.z37.blob.storage.azure.net"},
        ),
        (
            "abfss://lake@acct.privatelink.dfs.core.windows.net/t",
            "abfss://lake@acct.dfs.core.windows.net/t",
            "lake",
            "t",
            AZURE,
        ),
        (
            "https://acct.privatelink.blob.core.windows.net/lake/t",
            "https://acct.blob.core.windows.net/lake/t",
            "lake",
            "t",
            AZURE,
        ),
        (
            "https://my.lake.s3.eu-west-1.amazonaws.com/a%20b/t/",
            "https://my.lake.s3.eu-west-1.amazonaws.com/a%20b/t",
            "my.lake",
            "a b/t",
            {"region": "eu-west-1"},
        ),
        (
            "https://s3.us-gov-west-1.amazonaws.com/lake/t",
            "https://s3.us-gov-west-1.amazonaws.com/lake/t",
            "lake",
            "t",
            {"region": "us-gov-west-1"},
        ),
        (
            "https://s3.amazonaws.com/lake",
            "https://s3.amazonaws.com/lake",
            "lake",
            "",
            {"region": "us-east-1"},
        ),
        (
            "https://lake.s3.cn-north-1.amazonaws.com.cn/t",
            "https://lake.s3.cn-north-1.amazonaws.com.cn/t",
            "lake",
            "t",
            {"region": "cn-north-1", "endpoint": "https://s3.cn-north-1.amazonaws.com.cn"},
        ),
        (
            "https://lake.s3.dualstack.eu-west-1.amazonaws.com/t",
            "https://lake.s3.dualstack.eu-west-1.amazonaws.com/t",
            "lake",
            "t",
            {"region": "eu-west-1", "endpoint": "https://s3.dualstack.eu-west-1.amazonaws.com"},
        ),
        (
            "https://0a1b.eu.r2.cloudflarestorage.com/lake/t",
            "https://0a1b.eu.r2.cloudflarestorage.com/lake/t",
            "lake",
            "t",
            {"region": "auto", "endpoint": "https://0a1b.eu.r2.cloudflarestorage.com"},
        ),
        (
            "https://storage.googleapis.com/lake/a b",
            "https://storage.googleapis.com/lake/a%20b",
            "lake",
            "a b",
            {},
        ),
        (
            "https://my_lake.storage.googleapis.com/t",
            "https://my_lake.storage.googleapis.com/t",
            "my_lake",
            "t",
            {},
        ),
        (
            "https://storage.cloud.google.com/lake/t",
            "https://storage.cloud.google.com/lake/t",
            "lake",
            "t",
            {},
        ),
    ],
)
def test_parse_store_url(url, root, bucket, prefix, options):
    parsed = parse_store_url(url)
    assert (parsed.root, parsed.bucket, parsed.prefix) == (root, bucket, prefix)
    assert parsed.options == options
    assert "abc" not in repr(parsed)
    assert parse_store_url(parsed.root).prefix == prefix


@pytest.mark.parametrize(
    ("url", "reason"),
    [
        ("https://s3.eu-west-1.amazonaws.com/", "no valid bucket"),
        ("https://lake.s3.amazonaws.com/t?X-Amz-Signature=hush", "has a '?'"),
        ("https://lake.s3.amazonaws.com.evil.example/t", "not an Azure storage account"),
        ("https://evil.example/.s3.amazonaws.com/t", "not an Azure storage account"),
        ("https://r2.cloudflarestorage.com/lake/t", "option endpoint"),
        ("abfss://lake@privatelink.dfs.evil.example/t", "not an Azure storage account"),
    ],
)
def test_invalid_https_urls(url, reason):
    with pytest.raises(ConfigError, match=re.escape(reason)) as raised:
        parse_store_url(url)
    assert "hush" not in str(raised.value)
