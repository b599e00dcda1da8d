"""The commands about what is in a lakehouse: init, ls, show, create, drop, rename."""

from collections.abc import Sequence
from dataclasses import replace
from itertools import chain
from typing import Final

import click
from rich.console import RenderableType

from mangrove.cli.catalog_views import (
    entries_view,
    lake_view,
    namespace_view,
    namespaces_view,
    table_view,
    view_view,
)
from mangrove.cli.command import lake_command
from mangrove.cli.completing import offer_names, offer_namespaces
from mangrove.cli.facts import (
    EntryFacts,
    LakeFacts,
    NamespaceFacts,
    TableFacts,
    ViewFacts,
    as_json,
    lake_facts,
    namespace_facts,
    table_facts,
    view_facts,
)
from mangrove.cli.long_lists import LINES_SHOWN, cut, most_lines
from mangrove.cli.looking import looked_at
from mangrove.cli.places import key_values
from mangrove.cli.session import Session
from mangrove.errors import InvalidInputError, NotFoundError
from mangrove.lakehouse.catalog import Catalog
from mangrove.lakehouse.layouts import LAYOUTS
from mangrove.lakehouse.moments import millis_of_duration
from mangrove.lakehouse.opening import create_on
from mangrove.model.locators import TableLocator, ViewLocator
from mangrove.model.names import split_name
from mangrove.model.settings import LakehouseSettings

__all__ = ["create_command", "drop_command", "init_command", "ls_command", "rename_command", "show_command"]

_REMEDY: Final = "--limit shows them, --prefix those whose names begin so"
_Shown = LakeFacts | NamespaceFacts | TableFacts | ViewFacts


@lake_command(
    "init", "mangrove init ./lake\nmangrove init s3://bucket/lake --layout deltacat --option region=eu-west-1"
)
@click.option("--layout", type=click.Choice(LAYOUTS), default="tree", show_default=True, help="How it lies on storage.")
@click.option("--name", default="", help="What people call it.")
@click.option("--order", type=int, help="How many children a node of the tree has at most.  [default: 128]")
@click.option("--keep", metavar="DURATION", help="How long versions are kept, such as 30d.  [default: 7d]")
@click.option("--property", "properties", multiple=True, metavar="KEY=VALUE", help="A property of the lakehouse.")
def init_command(
    session: Session, lake: str, layout: str, name: str, order: int | None, keep: str | None, properties: Sequence[str]
) -> None:
    """Make a new, empty lakehouse in a folder or bucket."""
    settings = LakehouseSettings(name=name, properties=key_values(properties, "--property"))
    if order is not None:
        settings = replace(settings, order=order)
    if keep is not None:
        settings = replace(settings, maximum_version_age_millis=millis_of_duration(keep))
    made = create_on(session.effects(lake), layout=layout, settings=settings)
    facts = lake_facts(made, made.reading())
    session.answer(as_json(facts), lambda: f"made a lakehouse at {facts.uri} in the {facts.layout} layout")


@lake_command("ls", "mangrove ls ./lake\nmangrove ls ./lake sales --at 2026-11-01")
@click.argument("namespace", required=False, metavar="[NAMESPACE]", shell_complete=offer_namespaces)
@click.option("--at", metavar="WHEN", help="As of a version, a time or the name of an export.")
@click.option("--prefix", default="", help="Only names that start with this.")
@click.option(
    "--limit",
    type=click.IntRange(min=0),
    help=f"At most so many.  [default: {LINES_SHOWN} on a terminal, in JSON and pipes all]",
)
def ls_command(
    session: Session, lake: str, namespace: str | None, at: str | None, prefix: str, limit: int | None
) -> None:
    """List the namespaces, or the tables and views of one."""
    catalog = looked_at(session.open(lake), at)
    most = most_lines(limit, as_json=session.as_json)
    asked = None if most is None else most + 1
    if namespace is None:
        named = cut(map(namespace_facts, catalog.namespaces(prefix, limit=asked)), most)
        session.answer(as_json(named.shown), lambda: named.with_more(namespaces_view(named.shown), _REMEDY))
        return
    tables = (
        EntryFacts(str(table), f"{table.table_type.value} table", table.value.table_format, table.description)
        for table in catalog.tables(namespace, prefix, limit=asked)
    )
    views = (
        EntryFacts(str(view), "view", view.value.dialect, view.description)
        for view in catalog.views(namespace, prefix, limit=asked)
    )
    entries = cut(chain(tables, views), most)
    session.answer(as_json(entries.shown), lambda: entries.with_more(entries_view(namespace, entries.shown), _REMEDY))


@lake_command("show", "mangrove show ./lake sales.orders\nmangrove show ./lake --json")
@click.argument("name", required=False, metavar="[NAME]", shell_complete=offer_names)
@click.option("--at", metavar="WHEN", help="As of a version, a time or the name of an export.")
def show_command(session: Session, lake: str, name: str | None, at: str | None) -> None:
    """Show the lakehouse, or a namespace, table or view of it."""
    opened = session.open(lake)
    seen = looked_at(opened, at)
    facts: _Shown = lake_facts(opened, seen.snapshot) if name is None else _named(seen, name)
    session.answer(as_json(facts), lambda: _drawn(facts))


@lake_command(
    "create",
    "mangrove create ./lake sales --property owner=ana\n"
    "mangrove create ./lake sales.orders --key id --partition-by 'days(ts)' \\\n"
    "    --schema 'id bigint, amount decimal(10,2), ts timestamp'\n"
    "mangrove create ./lake sales.daily --view 'select 1 as one'",
)
@click.argument("name")
@click.option("--schema", help="The columns of a table as SQL text, or @FILE that holds it.")
@click.option("--key", "keys", multiple=True, metavar="COLUMN", help="A column that identifies rows.")
@click.option(
    "--partition-by", multiple=True, metavar="TERM", help="A column, or a term such as days(ts), bucket(8, id)."
)
@click.option("--sort-by", multiple=True, metavar="TERM", help="A column, with asc or desc.")
@click.option("--location", metavar="URI", help="Where the data of an external table lies.")
@click.option("--format", "table_format", help="The format of an external table, such as parquet.")
@click.option("--view", "query", metavar="SQL", help="Make a view of this query.")
@click.option("--description", help="What it is for.")
@click.option("--property", "properties", multiple=True, metavar="KEY=VALUE", help="A property of it.")
@click.option("--if-not-exists", is_flag=True, help="Leave what is there as it is.")
def create_command(
    session: Session, lake: str, name: str, schema: str | None, keys: Sequence[str], partition_by: Sequence[str],
    sort_by: Sequence[str], location: str | None, table_format: str | None, query: str | None,
    description: str | None, properties: Sequence[str], if_not_exists: bool,
) -> None:  # fmt: skip
    """Make a namespace, a table (its name has a dot) or a view."""
    pairs = key_values(properties, "--property")
    is_namespace = len(split_name(name)) == 1
    of_tables = [schema, keys, partition_by, sort_by, location, table_format, query]
    if is_namespace and any(of_tables):
        raise InvalidInputError(
            f"{name!r} has no dot, so it is a namespace, which has no columns: write namespace.{name} for a table"
        )
    if query is not None and any(of_tables[:-1]):
        raise InvalidInputError("a view has no schema, keys or location of its own: give --view alone")
    columns = None if schema is None else _text_of(schema)
    opened = session.open(lake)
    if is_namespace:
        opened.create_namespace(name, properties=pairs, description=description, if_not_exists=if_not_exists)
    elif query is not None:
        _create_view(opened, name, query, pairs, description, if_not_exists=if_not_exists)
    else:
        opened.create_table(
            name, columns, keys=keys, partition_by=partition_by, sort_by=sort_by,
            table_type="managed" if location is None else "external", table_format=table_format, location=location,
            properties=pairs, description=description, if_not_exists=if_not_exists,
        )  # fmt: skip
    facts = _named(opened, name)
    word = _word(facts)
    version = opened.version
    session.answer(
        {"version": version, word: as_json(facts)}, lambda: f"{word} {name} is there, as of version {version}"
    )


@lake_command("drop", "mangrove drop ./lake sales.orders\nmangrove drop ./lake sales --cascade")
@click.argument("name", shell_complete=offer_names)
@click.option("--cascade", is_flag=True, help="Drop a namespace together with all that is in it.")
@click.option("--if-exists", is_flag=True, help="Do nothing where there is nothing of that name.")
def drop_command(session: Session, lake: str, name: str, cascade: bool, if_exists: bool) -> None:
    """Drop a namespace, a table or a view; earlier versions still have it."""
    opened = session.open(lake)
    try:
        word = _word(_named(opened, name))
    except NotFoundError:
        if not if_exists:
            raise
        session.answer({"dropped": None, "version": opened.version}, lambda: f"there is no {name}, nothing was dropped")
        return
    if cascade and word != "namespace":
        raise InvalidInputError(f"{name} is a {word}, and only a namespace has anything in it: leave --cascade out")
    if word == "namespace":
        opened.drop_namespace(name, cascade=cascade)
    elif word == "view":
        opened.drop_view(name)
    else:
        opened.drop_table(name)
    version = opened.version
    session.answer(
        {"dropped": name, "kind": word, "version": version},
        lambda: f"dropped {word} {name} in version {version}; `mangrove rollback` to {version - 1} brings it back",
    )


@lake_command("rename", "mangrove rename ./lake sales.orders sales.orders_2026")
@click.argument("name", shell_complete=offer_names)
@click.argument("new_name")
def rename_command(session: Session, lake: str, name: str, new_name: str) -> None:
    """Give a namespace, a table or a view another name; nothing of its data moves."""
    if split_name(name) == split_name(new_name):
        raise InvalidInputError(f"{name} is called so already: give another name")
    opened = session.open(lake)
    word = _word(_named(opened, name))
    if word == "namespace":
        opened.rename_namespace(name, new_name)
    elif word == "view":
        opened.rename_view(name, new_name)
    else:
        opened.rename_table(name, new_name)
    version = opened.version
    session.answer(
        {"renamed": name, "to": new_name, "kind": word, "version": version},
        lambda: f"{word} {name} is called {new_name} as of version {version}",
    )


def _named(catalog: Catalog, name: str) -> NamespaceFacts | TableFacts | ViewFacts:
    """Return what there is of that name: a namespace, or a table or view of one."""
    parts = split_name(name)
    if len(parts) == 1:
        return namespace_facts(catalog.namespace(name))
    if len(parts) != 2:
        raise InvalidInputError(f"{name!r} has {len(parts)} parts: write namespace, or namespace.table")
    reading = catalog.reading()
    if reading.get(TableLocator(*parts)) is None and reading.get(ViewLocator(*parts)) is not None:
        return view_facts(catalog.view(name))
    return table_facts(catalog.table(name))


def _create_view(
    catalog: Catalog, name: str, query: str, pairs: dict[str, str], description: str | None, *, if_not_exists: bool
) -> None:
    there = catalog.reading().get(ViewLocator(*split_name(name))) if if_not_exists else None
    if there is None:
        reads = _names_read(query, split_name(name)[0])
        catalog.create_view(name, query, reads=reads, properties=pairs, description=description)


def _names_read(query: str, namespace: str) -> tuple[str, ...]:
    try:
        from mangrove.sql.view_reads import names_read  # noqa: PLC0415 - what takes SQL apart may not be installed
    except ModuleNotFoundError:
        return ()
    return names_read(query, namespace)


def _text_of(schema: str) -> str:
    """Return the text of a schema, from the file that `@` names if it does."""
    if not schema.startswith("@"):
        return schema
    try:
        with open(schema[1:], encoding="utf-8") as file:
            return file.read()
    except (OSError, UnicodeDecodeError) as error:
        raise InvalidInputError(f"the schema cannot be read from {schema[1:]} ({error}): name another file") from error


def _word(facts: _Shown) -> str:
    return type(facts).__name__.removesuffix("Facts").lower()


def _drawn(facts: _Shown) -> RenderableType:
    match facts:
        case LakeFacts():
            return lake_view(facts)
        case NamespaceFacts():
            return namespace_view(facts)
        case TableFacts():
            return table_view(facts)
        case ViewFacts():
            return view_view(facts)
