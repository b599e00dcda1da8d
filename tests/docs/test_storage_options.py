"""Every option that the page about buckets names is one that the client of its cloud knows."""

import re
from pathlib import Path

import pytest

from mangrove.errors import InvalidInputError
from mangrove.storage.cloud_client import build_clients
from mangrove.storage.uri import parse_root_uri

PAGE = (Path(__file__).parents[2] / "docs" / "how-to" / "storage.md").read_text("utf-8")
ROOTS = {"S3": "s3://bucket/lake", "Google": "gs://bucket/lake", "Azure": "az://container/lake"}
KNOWN = {
    "S3": {"region": "us-east-1"},
    "Google": {"skip_signature": "true"},
    "Azure": {"account_name": "account", "skip_signature": "true"},
}
VALUES = {
    "account_key": "c2VjcmV0",
    "allow_http": "true",
    "connect_timeout": "5s",
    "endpoint": "http://127.0.0.1:9000",
    "proxy_url": "http://127.0.0.1:9001",
    "read_timeout": "5s",
    "retries_max": "3",
    "s3_express": "true",
    "skip_signature": "true",
    "timeout": "5s",
    "unsorted_listing": "true",
    "virtual_hosted_style_request": "true",
}
UNKNOWN = "is not valid for store"


def options() -> list[tuple[str, str]]:
    """Return each option with a cloud that takes it."""
    rows = re.findall(r"^\| (`[a-z0-9_`, ]+) \| (.+) \|$", PAGE, re.MULTILINE)
    return [
        (next((cloud for cloud in ROOTS if cloud in said), "S3"), name)
        for names, said in rows
        for name in re.findall(r"`(\w+)`", names)
    ]


def refusal(cloud: str, given: dict[str, str]) -> str:
    """Return what is said against options, or nothing; values that are not real may be refused, names may not."""
    try:
        build_clients(parse_root_uri(ROOTS[cloud]), {**KNOWN[cloud], **given})
    except InvalidInputError as error:
        return str(error)
    return ""


@pytest.mark.parametrize(("cloud", "name"), options())
def test_every_documented_option_is_known(cloud: str, name: str) -> None:
    assert UNKNOWN not in refusal(cloud, {name: VALUES.get(name, "text")})


@pytest.mark.parametrize("cloud", ROOTS)
def test_an_unknown_option_is_detected(cloud: str) -> None:
    assert UNKNOWN in refusal(cloud, {"no_such_option": "text"})
