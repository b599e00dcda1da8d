"""The options of a lakehouse in Hadoop's words."""

import pytest

from mangrove.spark.hadoop import build_hadoop_settings, to_hadoop_uri


def test_options_for_s3_are_passed_to_hadoop_for_this_bucket_only() -> None:
    options = {"endpoint": "http://127.0.0.1:8333", "access_key_id": "a", "secret_access_key": "s", "region": "r"}
    assert build_hadoop_settings("s3://bucket/lake/", options) == {
        "fs.s3a.bucket.bucket.access.key": "a",
        "fs.s3a.bucket.bucket.secret.key": "s",
        "fs.s3a.bucket.bucket.endpoint.region": "r",
        "fs.s3a.bucket.bucket.endpoint": "http://127.0.0.1:8333",
        "fs.s3a.bucket.bucket.path.style.access": "true",
        "fs.s3a.bucket.bucket.connection.ssl.enabled": "false",
    }
    anonymous = build_hadoop_settings("s3://bucket/", {"skip_signature": "true"})
    assert list(anonymous) == ["fs.s3a.bucket.bucket.aws.credentials.provider"]


@pytest.mark.parametrize(
    ("uri", "options", "name", "value"),
    [
        ("gs://b/", {"service_account": "/key.json"}, "fs.gs.auth.service.account.json.keyfile", "/key.json"),
        (
            "abfss://c@me.dfs.core.windows.net/",
            {"account_key": "k"},
            "fs.azure.account.key.me.dfs.core.windows.net",
            "k",
        ),
        (
            "az://c/",
            {"account_name": "me", "sas_token": "t"},
            "fs.azure.sas.fixed.token.me.dfs.core.windows.net",
            "t",
        ),
    ],
)
def test_options_for_other_clouds_are_passed_to_hadoop(
    uri: str, options: dict[str, str], name: str, value: str
) -> None:
    assert build_hadoop_settings(uri, options)[name] == value


@pytest.mark.parametrize("uri", ["file:///lake/", "gs://b/", "az://c/"])
def test_without_options_nothing_is_passed_to_hadoop(uri: str) -> None:
    assert build_hadoop_settings(uri) == {}
    assert to_hadoop_uri(uri) == uri
