"""REST handlers for catalog configuration, namespaces and listings.

Clients read the bucket with their own credentials. The configuration contains only the
region, endpoint and addressing style, never secrets.
"""

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, Final

from starlette.responses import Response

from mangrove.errors import InvalidInputError
from mangrove.lakehouse.snapshot import Snapshot
from mangrove.model.locators import Kind, NamespaceLocator, TableLocator, ViewLocator
from mangrove.model.objects import NamespaceEntry, TableEntry
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
from mangrove.transaction.aliases import locate_namespace

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
    """Return the storage properties with which a client opens the same store.

    >>> build_storage_properties("s3://bucket/lake/", {"region": "eu-west-1", "secret_access_key": "abc"})
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
    properties: dict[str, str] = {}
    if "region" in given:
        # Java reads the first, PyIceberg the second.
        properties |= {"client.region": given["region"], "s3.region": given["region"]}
    if "endpoint" in given:
        # Servers other than Amazon's rarely support virtual-hosted-style addresses.
        is_hosted = given.get("virtual_hosted_style_request", "").lower() == "true"
        properties |= {
            "s3.endpoint": given["endpoint"],
            "s3.path-style-access": str(not is_hosted).lower(),
            "s3.force-virtual-addressing": str(is_hosted).lower(),
        }
    if given.get("skip_signature", "").lower() == "true":
        properties["s3.anonymous"] = "true"
    return properties


def _azure_properties(root: RootUri, given: Mapping[str, str]) -> dict[str, str]:
    account = root.account or given.get("account_name")
    return {} if account is None else {"adls.account-name": account}


COMMENT: Final = "comment"
"""The property under which engines keep the description of a namespace, table or view."""


def respond_json(value: Any, status: int = 200) -> Response:
    """Return a JSON response."""
    content = json.dumps(value, ensure_ascii=False).encode("utf-8", "replace")
    return Response(content, status, media_type="application/json")


def respond_no_content() -> Response:
    """Return an empty success response."""
    return Response(status_code=204)


def handle_config(requested: RestRequest, endpoints: Callable[[bool], Sequence[str]]) -> Response:
    """Return the configuration of a client; `endpoints` lists the endpoints, given whether the catalog is writable."""
    served = requested.served
    version = resolve_warehouse(served.lake, requested.query.get("warehouse"), served.settings.warehouses)
    is_writable = served.is_writable and version is None
    return respond_json(
        {
            "defaults": build_storage_properties(served.lake.uri, served.lake.storage_options),
            "overrides": {} if version is None else {"prefix": prefix_of(version)},
            "endpoints": endpoints(is_writable),
        }
    )


def handle_list_namespaces(requested: RestRequest) -> Response:
    """List the namespaces; a namespace has no children."""
    pagination = parse_pagination(requested.query)
    snapshot = requested.open_snapshot(pagination.version)
    parent = requested.query.get("parent")
    if parent:
        find_namespace_by_levels(snapshot, parent)
        return _respond_list(PaginatedNames((), None), "namespaces", [])
    page = paginate_names(
        pagination,
        snapshot.version,
        lambda after: _select_addressable(one.name for one in snapshot.namespaces(after=after)),
    )
    return _respond_list(page, "namespaces", [[name] for name in page.names])


def handle_load_namespace(requested: RestRequest) -> Response:
    """Return a namespace with its properties."""
    locator, value = find_namespace(requested.open_snapshot(), requested)
    return respond_json({"namespace": [locator.name], "properties": namespace_properties_of(value)})


def namespace_properties_of(value: NamespaceEntry) -> dict[str, str]:
    """Return the properties of a namespace, with its description as `comment`."""
    comment = {COMMENT: value.description} if value.description else {}
    return {**comment, **value.properties}


def handle_namespace_exists(requested: RestRequest) -> Response:
    """Return success if a namespace exists."""
    find_namespace(requested.open_snapshot(), requested)
    return respond_no_content()


def handle_list_tables(requested: RestRequest) -> Response:
    """List the managed tables of a namespace; external tables are not published."""
    return _respond_names(requested, _list_tables)


def handle_table_exists(requested: RestRequest) -> Response:
    """Return success if a table exists, without publishing its metadata."""
    find_table(requested.open_snapshot(), requested)
    return respond_no_content()


def handle_list_views(requested: RestRequest) -> Response:
    """List the views of a namespace."""
    return _respond_names(requested, _list_views)


def handle_report_metrics(requested: RestRequest) -> Response:
    """Accept a client's scan or commit report; its content is discarded."""
    requested.document()
    find_table(requested.open_snapshot(), requested)
    return respond_no_content()


def _respond_names(
    requested: RestRequest, names: Callable[[Snapshot, NamespaceLocator, str | None], Iterator[str]]
) -> Response:
    pagination = parse_pagination(requested.query)
    snapshot = requested.open_snapshot(pagination.version)
    parent, _ = find_namespace(snapshot, requested)
    own, _ = locate_namespace(snapshot._reading(), parent)
    page = paginate_names(pagination, snapshot.version, lambda after: _select_addressable(names(snapshot, own, after)))
    return _respond_list(page, "identifiers", [{"namespace": [parent.name], "name": name} for name in page.names])


def _select_addressable(names: Iterable[str]) -> Iterator[str]:
    return (name for name in names if is_addressable(name))


def _list_tables(snapshot: Snapshot, parent: NamespaceLocator, after: str | None) -> Iterator[str]:
    following = None if after is None else TableLocator(parent.name, after)
    for locator, value in snapshot._reading().children(Kind.TABLE, parent, after=following):
        if isinstance(locator, TableLocator) and isinstance(value, TableEntry) and is_publishable(value):
            yield locator.name


def _list_views(snapshot: Snapshot, parent: NamespaceLocator, after: str | None) -> Iterator[str]:
    following = None if after is None else ViewLocator(parent.name, after)
    for locator, _ in snapshot._reading().children(Kind.VIEW, parent, after=following):
        assert isinstance(locator, ViewLocator)
        yield locator.name


def _respond_list(page: PaginatedNames, name: str, entries: Sequence[object]) -> Response:
    return respond_json({name: entries, "next-page-token": page.next_token})


_NOT_EMPTY = "NamespaceNotEmptyException"


def handle_create_namespace(requested: RestRequest) -> Response:
    """Create a namespace."""
    document = requested.document()
    levels = document.get("namespace")
    if isinstance(levels, list) and len(levels) > 1:
        raise InvalidInputError(f"namespace {levels!r} has several levels; namespaces have one level")
    locator = parse_namespace(levels)
    check_addressable(locator)
    given = parse_properties(document, "properties")
    own = {name: text for name, text in given.items() if name != COMMENT}
    created = requested.served.lake.create_namespace(locator, properties=own, description=given.get(COMMENT))
    return respond_json({"namespace": [created.name], "properties": namespace_properties_of(created.value)})


def handle_update_namespace_properties(requested: RestRequest) -> Response:
    """Set and remove properties of a namespace."""
    document = requested.document()
    put, removals = parse_properties(document, "updates"), _parse_removals(document)
    both = sorted(put.keys() & set(removals))
    if both:
        return respond_iceberg_error(
            422, f"property {both[0]!r} is both set and removed; send one of them", "UnprocessableEntityException"
        )
    locator, value = find_namespace(requested.open_snapshot(), requested)
    existing = namespace_properties_of(value)
    removed = [name for name in removals if name in existing]
    description = "" if COMMENT in removed else put.get(COMMENT)
    requested.served.lake.alter_namespace(
        locator,
        {name: text for name, text in put.items() if name != COMMENT},
        [name for name in removed if name != COMMENT],
        description=description,
    )
    missing = [name for name in removals if name not in existing]
    return respond_json({"updated": sorted(put), "removed": removed, "missing": missing})


def handle_drop_namespace(requested: RestRequest) -> Response:
    """Drop an empty namespace."""
    locator, _ = find_namespace(requested.open_snapshot(), requested)
    try:
        requested.served.lake.drop_namespace(locator)
    except InvalidInputError as error:
        return respond_iceberg_error(409, str(error), _NOT_EMPTY)
    return respond_no_content()


def _parse_removals(document: dict[str, Any]) -> list[str]:
    removals = document.get("removals") or []
    if not isinstance(removals, list) or not all(isinstance(one, str) for one in removals):
        raise InvalidInputError("'removals' of the request is not a list of strings; send the names of properties")
    return list(dict.fromkeys(removals))
