"""How clients reach the bucket: the options of a lakehouse in Iceberg's words, and never a secret.

Who may read the bucket brings credentials of their own. What is told is only
where it is and how its addresses look, which a client could not guess.
"""

from collections.abc import Mapping

from mangrove.storage.uri import RootUri, parse_root

__all__ = ["storage_words"]


def storage_words(uri: str, options: Mapping[str, str] | None = None) -> dict[str, str]:
    """Return the properties with which a client's own reader opens the same store.

    >>> storage_words("s3://bucket/lake/", {"region": "eu-west-1", "secret_access_key": "never told"})
    {'client.region': 'eu-west-1', 's3.region': 'eu-west-1'}
    """
    given = {name.lower(): value for name, value in (options or {}).items()}
    root = parse_root(uri)
    match root.scheme:
        case "s3":
            return _s3_words(given)
        case "gs":
            return {"gcs.service.host": given["base_url"]} if "base_url" in given else {}
        case "az" | "abfss":
            return _azure_words(root, given)
        case _:
            return {}


def _s3_words(given: Mapping[str, str]) -> dict[str, str]:
    found: dict[str, str] = {}
    if "region" in given:
        # Java reads the first, PyIceberg the second.
        found |= {"client.region": given["region"], "s3.region": given["region"]}
    if "endpoint" in given:
        # Servers other than Amazon's rarely have a name of their own for each bucket.
        is_hosted = given.get("virtual_hosted_style_request", "").lower() == "true"
        found |= {
            "s3.endpoint": given["endpoint"],
            "s3.path-style-access": str(not is_hosted).lower(),
            "s3.force-virtual-addressing": str(is_hosted).lower(),
        }
    if given.get("skip_signature", "").lower() == "true":
        found["s3.anonymous"] = "true"
    return found


def _azure_words(root: RootUri, given: Mapping[str, str]) -> dict[str, str]:
    account = root.account or given.get("account_name")
    return {} if account is None else {"adls.account-name": account}
