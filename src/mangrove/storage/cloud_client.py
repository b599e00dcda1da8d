"""Configuration of obstore clients from options, environment and AWS profiles.

obstore supports the environment, web identities and machine roles, but not the AWS
profile files, which are read here.

Options are strings under obstore's names without the cloud's prefix
(`access_key_id`, `secret_access_key`, `region`, `endpoint`, `account_name`,
`account_key`, …), the options of its HTTP client (`timeout`, `proxy_url`, …), and two
more: `retries_max`, and `unsorted_listing` for servers that list in another order.
Missing options come from the environment, the AWS profile or the machine role.
"""

import configparser
import os
import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, TypeAlias
from urllib.parse import urlsplit

from obstore.exceptions import BaseError
from obstore.store import AzureStore, GCSStore, S3Store

from mangrove.errors import InvalidInputError
from mangrove.storage.uri import RootUri

__all__ = ["CloudClient", "CloudClients", "build_clients", "load_profile_options"]

_NAMES = {
    "aws_access_key_id": "access_key_id",
    "aws_secret_access_key": "secret_access_key",
    "aws_session_token": "session_token",
    "region": "region",
    "endpoint_url": "endpoint",
}


def load_profile_options(environment: Mapping[str, str]) -> dict[str, str]:
    """Return the options of the user's profile; empty if there is none."""
    home = environment.get("HOME", "")
    profile = environment.get("AWS_PROFILE") or "default"
    config_file = environment.get("AWS_CONFIG_FILE") or os.path.join(home, ".aws", "config")
    credentials_file = environment.get("AWS_SHARED_CREDENTIALS_FILE") or os.path.join(home, ".aws", "credentials")
    found: dict[str, str] = {}
    # The credentials file takes precedence, as in the AWS command line.
    for file, section in (
        (config_file, profile if profile == "default" else f"profile {profile}"),
        (credentials_file, profile),
    ):
        parser = configparser.ConfigParser(interpolation=None)
        # Missing files are skipped; an unreadable one counts as no profile, and obstore reports what is missing.
        try:
            parser.read(file, encoding="utf-8")
        except (configparser.Error, OSError, UnicodeDecodeError):
            continue
        if parser.has_section(section):
            found |= {_NAMES[name]: value for name, value in parser.items(section) if name in _NAMES}
    if "access_key_id" not in found:
        # Roles and single sign-on need the AWS client; a partial profile would mask that.
        return {name: value for name, value in found.items() if name in {"region", "endpoint"}}
    return found


CloudClient: TypeAlias = S3Store | GCSStore | AzureStore

_CLIENT_OPTIONS = frozenset(
    {
        "allow_http",
        "allow_invalid_certificates",
        "connect_timeout",
        "default_content_type",
        "pool_idle_timeout",
        "pool_max_idle_per_host",
        "proxy_ca_certificate",
        "proxy_excludes",
        "proxy_url",
        "read_timeout",
        "root_certificate",
        "timeout",
        "user_agent",
    }
)
_ALIASES = {
    "aws_endpoint": "endpoint",
    "aws_endpoint_url": "endpoint",
    "azure_endpoint": "endpoint",
    "azure_storage_account_name": "account_name",
    "azure_storage_endpoint": "endpoint",
    "endpoint_url": "endpoint",
    "google_base_url": "base_url",
}
"""Other names of the options that decide which server is asked; obstore accepts all of them."""
_ENDPOINT_VARIABLES = {
    "s3": ("AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL", "AWS_ENDPOINT"),
    "gs": ("GOOGLE_BASE_URL",),
    "az": ("AZURE_STORAGE_ENDPOINT", "AZURE_ENDPOINT"),
    "abfss": ("AZURE_STORAGE_ENDPOINT", "AZURE_ENDPOINT"),
}
_RETRIES_MAX = 10
_RETRY_SECONDS_MAX = 180
# A stalled response times out soon and is retried; a large one may take longer. Created objects are small.
_TIMEOUTS = {"connect_timeout": "10s", "read_timeout": "60s", "timeout": "300s"}
_TIMEOUTS_SINGLE_ATTEMPT = {"connect_timeout": "10s", "timeout": "30s"}


@dataclass(frozen=True, slots=True)
class CloudClients:
    """Two clients of one root: `once` never retries, because its caller must see each response."""

    retrying: CloudClient
    once: CloudClient
    lists_sorted: bool
    retries_max: int
    server: str
    """The custom endpoint and the account, as far as they are known."""


def build_clients(root: RootUri, options: Mapping[str, str]) -> CloudClients:
    """Return the clients for a cloud root; nothing is sent yet."""
    rest = {name.lower(): value for name, value in options.items()}
    retries_max = _count("retries_max", rest.pop("retries_max", str(_RETRIES_MAX)))
    unsorted = rest.pop("unsorted_listing", None)
    client_options: dict[str, str | bool] = {name: rest.pop(name) for name in _CLIENT_OPTIONS & rest.keys()}
    config = _config(root, rest)
    endpoint = _endpoint(root, config)
    if endpoint.startswith("http://"):
        client_options["allow_http"] = True
    try:
        return CloudClients(
            retrying=_client(root, config, _TIMEOUTS | client_options, retries_max),
            once=_client(root, config, _TIMEOUTS_SINGLE_ATTEMPT | client_options, 0),
            lists_sorted=not (_may_list_unsorted(root, endpoint) if unsorted is None else _flag(unsorted)),
            retries_max=retries_max,
            server=f"{endpoint} {_account(root, config)}",
        )
    except (BaseError, ValueError) as error:
        sentence = str(error).partition("\n")[0]
        raise InvalidInputError(
            f"the options for {root.text} are invalid: {sentence}; correct or remove them"
        ) from error


def _config(root: RootUri, options: Mapping[str, str]) -> dict[str, str]:
    config = {_ALIASES.get(name, name): value for name, value in options.items()}
    if root.scheme == "s3":
        if "access_key_id" not in config and "AWS_ACCESS_KEY_ID" not in os.environ and "skip_signature" not in config:
            config = load_profile_options(os.environ) | config
    elif root.scheme == "gs":
        if "endpoint" in config:
            config["base_url"] = config.pop("endpoint")
    elif root.account is not None:
        config.setdefault("account_name", root.account)
    return config


def _client(
    root: RootUri, config: Mapping[str, str], client_options: Mapping[str, str | bool], retries: int
) -> CloudClient:
    kinds: dict[str, type[CloudClient]] = {"s3": S3Store, "gs": GCSStore, "az": AzureStore, "abfss": AzureStore}
    # obstore's types require literal keys; it validates the names itself.
    arguments: dict[str, Any] = {
        "prefix": root.path.removesuffix("/") or None,
        "config": dict(config),
        "client_options": dict(client_options),
        "retry_config": {"max_retries": retries, "retry_timeout": timedelta(seconds=_RETRY_SECONDS_MAX)},
    }
    return kinds[root.scheme](root.container, **arguments)


def _count(name: str, text: str) -> int:
    if not text.isdecimal():
        raise InvalidInputError(f"invalid value {text!r} of the option {name}; expected an integer")
    return int(text)


def _flag(text: str) -> bool:
    if text.lower() not in {"true", "false"}:
        raise InvalidInputError(f"invalid value {text!r} of the option unsorted_listing; expected true or false")
    return text.lower() == "true"


def _endpoint(root: RootUri, config: Mapping[str, str]) -> str:
    """Return the custom endpoint, or an empty string."""
    options = [config.get("endpoint"), config.get("base_url")]
    found = next((one for one in options if one is not None), None)
    if found is None:
        found = next((one for one in map(os.environ.get, _ENDPOINT_VARIABLES[root.scheme]) if one), None)
    if found is None:
        return ""
    try:
        parts = urlsplit(found)
        is_url = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:
        is_url = False
    # obstore panics at others.
    if not is_url or re.search(r"[\s\x00-\x1f]", found):
        raise InvalidInputError(f"the endpoint {found!r} is no URL; write it as http://localhost:9000")
    return found


def _account(root: RootUri, config: Mapping[str, str]) -> str:
    """Return the account in which a container of Azure is; names of other buckets are global."""
    if root.scheme in {"s3", "gs"}:
        return ""
    return config.get("account_name") or os.environ.get("AZURE_STORAGE_ACCOUNT_NAME") or ""


def _may_list_unsorted(root: RootUri, endpoint: str) -> bool:
    """Whether to sort listings here: S3 Express has no order, SeaweedFS and Azurite have their own."""
    return bool(endpoint) or root.container.endswith("--x-s3")
