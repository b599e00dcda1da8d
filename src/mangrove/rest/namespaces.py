"""REST handlers for catalog configuration, namespaces and listings.

Who may read the bucket brings credentials of their own. What is told is only
where it is and how its addresses look, which a client could not guess.
"""

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, Final

from starlette.responses import Response

from mangrove.errors import InvalidInputError
from mangrove.lakehouse.snapshot import LakeSnapshot
from mangrove.model.locators import Kind, NamespaceLocator, TableLocator, ViewLocator
from mangrove.model.objects import Namespace, Table
from mangrove.rest.errors import respond_iceberg_error
from mangrove.rest.paging import PaginatedNames, paginate_names, parse_pagination
from mangrove.rest.request import (
    RestRequest,
    check_addressable,
    find_namespace,
    find_namespace_by_levels,
    find_table,
    is_addressable,
    is_publishable,
    parse_namespace,
    parse_properties,
)
from mangrove.rest.warehouses import prefix_of, resolve_warehouse
from mangrove.storage.uri import RootUri, parse_root_uri

__all__ = [
    "COMMENT",
    "build_storage_properties",
    "handle_config",
    "handle_create_namespace",
    "handle_drop_namespace",
    "handle_list_namespaces",
    "handle_list_tables",
    "handle_list_views",
    "handle_load_namespace",
    "handle_namespace_exists",
    "handle_report_metrics",
    "handle_table_exists",
    "handle_update_namespace_properties",
    "namespace_properties_of",
    "respond_json",
    "respond_no_content",
]


def build_storage_properties(uri: str, options: Mapping[str, str] | None = None) -> dict[str, str]:
    """Return the properties with which a client's own reader opens the same store.

    >>> build_storage_properties("s3://bucket/lake/", {"region": "eu-west-1", "secret_access_key": "never told"})
    {'client.region': 'eu-west-1', 's3.region': 'eu-west-1'}
    """
    given = {name.lower(): value for name, value in (options or {}).items()}
    root = parse_root_uri(uri)
    match root.scheme:
        case "s3":
            return _s3_properties(given)
        case "gs":
            return {"gcs.service.host": given["base_url"]} if "base_url" in given else {}
        case "az" | "abfss":
            return _azure_properties(root, given)
        case _:
            return {}


def _s3_properties(given: Mapping[str, str]) -> dict[str, str]:
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


def _azure_properties(root: RootUri, given: Mapping[str, str]) -> dict[str, str]:
    account = root.account or given.get("account_name")
    return {} if account is None else {"adls.account-name": account}


COMMENT: Final = "comment"
"""The property under which engines keep what a namespace, table or view is for."""


def respond_json(found: Any, status: int = 200) -> Response:
    """Return an answer in JSON."""
    content = json.dumps(found, ensure_ascii=False).encode("utf-8", "replace")
    return Response(content, status, media_type="application/json")


def respond_no_content() -> Response:
    """Return the answer that says yes, and no more."""
    return Response(status_code=204)


def handle_config(requested: RestRequest, endpoints: Callable[[bool], Sequence[str]]) -> Response:
    """Return how a client talks to this server; `endpoints` tells what is served, with writing or without."""
    served = requested.served
    version = resolve_warehouse(served.lake, requested.query.get("warehouse"))
    is_writable = served.is_writable and version is None
    return respond_json(
        {
            "defaults": build_storage_properties(served.lake.uri, served.lake.storage_options),
            "overrides": {} if version is None else {"prefix": prefix_of(version)},
            "endpoints": endpoints(is_writable),
        }
    )


def handle_list_namespaces(requested: RestRequest) -> Response:
    """Return the namespaces; below one there are none."""
    wanted = parse_pagination(requested.query)
    seen = requested.seen(wanted.version)
    parent = requested.query.get("parent")
    if parent:
        find_namespace_by_levels(seen, parent)
        return _respond_list(PaginatedNames((), None), "namespaces", [])
    page = paginate_names(
        wanted, seen.version, lambda after: _reachable(one.name for one in seen.namespaces(after=after))
    )
    return _respond_list(page, "namespaces", [[name] for name in page.names])


def handle_load_namespace(requested: RestRequest) -> Response:
    """Return a namespace with its properties."""
    locator, value = find_namespace(requested.seen(), requested)
    return respond_json({"namespace": [locator.name], "properties": namespace_properties_of(value)})


def namespace_properties_of(value: Namespace) -> dict[str, str]:
    """Return the properties of a namespace as engines read them: what it is for is one of them."""
    told = {COMMENT: value.description} if value.description else {}
    return {**told, **value.properties}


def handle_namespace_exists(requested: RestRequest) -> Response:
    """Say whether a namespace is there."""
    find_namespace(requested.seen(), requested)
    return respond_no_content()


def handle_list_tables(requested: RestRequest) -> Response:
    """Return the tables of a namespace that can be shown: those whose rows the lakehouse keeps."""
    return _names_answer(requested, _tables)


def handle_table_exists(requested: RestRequest) -> Response:
    """Say whether a table is there; nothing is written for it yet."""
    find_table(requested.seen(), requested)
    return respond_no_content()


def handle_list_views(requested: RestRequest) -> Response:
    """Return the views of a namespace."""
    return _names_answer(requested, _views)


def handle_report_metrics(requested: RestRequest) -> Response:
    """Take a client's report of a scan or a commit; that it came is counted, and nothing of it is kept."""
    requested.document()
    find_table(requested.seen(), requested)
    return respond_no_content()


def _names_answer(
    requested: RestRequest, names: Callable[[LakeSnapshot, NamespaceLocator, str | None], Iterator[str]]
) -> Response:
    wanted = parse_pagination(requested.query)
    seen = requested.seen(wanted.version)
    parent, _ = find_namespace(seen, requested)
    page = paginate_names(wanted, seen.version, lambda after: _reachable(names(seen, parent, after)))
    return _respond_list(page, "identifiers", [{"namespace": [parent.name], "name": name} for name in page.names])


def _reachable(names: Iterable[str]) -> Iterator[str]:
    return (name for name in names if is_addressable(name))


def _tables(seen: LakeSnapshot, parent: NamespaceLocator, after: str | None) -> Iterator[str]:
    following = None if after is None else TableLocator(parent.name, after)
    for locator, value in seen.reading().children(Kind.TABLE, parent, after=following):
        if isinstance(locator, TableLocator) and isinstance(value, Table) and is_publishable(value):
            yield locator.name


def _views(seen: LakeSnapshot, parent: NamespaceLocator, after: str | None) -> Iterator[str]:
    following = None if after is None else ViewLocator(parent.name, after)
    for locator, _ in seen.reading().children(Kind.VIEW, parent, after=following):
        assert isinstance(locator, ViewLocator)
        yield locator.name


def _respond_list(page: PaginatedNames, name: str, entries: Sequence[object]) -> Response:
    return respond_json({name: entries, "next-page-token": page.next_token})


_NOT_EMPTY = "NamespaceNotEmptyException"


def handle_create_namespace(requested: RestRequest) -> Response:
    """Make a namespace."""
    document = requested.document()
    locator = parse_namespace(document.get("namespace"))
    check_addressable(locator)
    given = parse_properties(document, "properties")
    own = {name: text for name, text in given.items() if name != COMMENT}
    made = requested.served.lake.create_namespace(locator, properties=own, description=given.get(COMMENT))
    return respond_json({"namespace": [made.name], "properties": namespace_properties_of(made.value)})


def handle_update_namespace_properties(requested: RestRequest) -> Response:
    """Put and remove properties of a namespace."""
    document = requested.document()
    put, removals = parse_properties(document, "updates"), _removals(document)
    both = sorted(put.keys() & set(removals))
    if both:
        return respond_iceberg_error(
            422, f"{both[0]!r} is both put and removed: do one of them", "UnprocessableEntityException"
        )
    locator, value = find_namespace(requested.seen(), requested)
    there = namespace_properties_of(value)
    gone = [name for name in removals if name in there]
    description = "" if COMMENT in gone else put.get(COMMENT)
    requested.served.lake.alter_namespace(
        locator,
        {name: text for name, text in put.items() if name != COMMENT},
        [name for name in gone if name != COMMENT],
        description=description,
    )
    missing = [name for name in removals if name not in there]
    return respond_json({"updated": sorted(put), "removed": gone, "missing": missing})


def handle_drop_namespace(requested: RestRequest) -> Response:
    """Drop a namespace that is empty."""
    locator, _ = find_namespace(requested.seen(), requested)
    try:
        requested.served.lake.drop_namespace(locator)
    except InvalidInputError as error:
        return respond_iceberg_error(409, str(error), _NOT_EMPTY)
    return respond_no_content()


def _removals(document: dict[str, Any]) -> list[str]:
    found = document.get("removals") or []
    if not isinstance(found, list) or not all(isinstance(one, str) for one in found):
        raise InvalidInputError("the removals of the request are no list of texts: give the names of properties")
    return list(dict.fromkeys(found))
