from __future__ import annotations

import pytest

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
    ],
)
def test_parse_store_url(url, root, bucket, prefix, options):
    parsed = parse_store_url(url)
    assert (parsed.root, parsed.bucket, parsed.prefix) == (root, bucket, prefix)
    assert parsed.options == options
    assert "abc" not in repr(parsed)
