"""What a shell offers for the word that is being typed: namespaces, tables and columns of the lakehouse that is meant.

A person waits for it with a finger on the key. So it reads a few files of the
catalog and never any rows, gives up after two seconds, and where something is
wrong it offers nothing: the command itself will say what.

A shell takes what is offered as if it had been typed. Somebody may have called a
table `$(reboot)`, so only names are offered that mean nothing to any shell.
"""

import re
import threading
from collections.abc import Callable
from itertools import islice
from typing import Any, Final

import click
from click.shell_completion import CompletionItem

from mangrove.cli.places import is_place, key_values
from mangrove.cli.session import Session, given_cache
from mangrove.errors import MangroveError
from mangrove.lakehouse.lakehouse import Lakehouse

__all__ = ["offer_columns", "offer_files", "offer_names", "offer_namespaces", "offer_tables"]

_WAIT_SECONDS: Final = 2.0
_OFFERED_MAX: Final = 200
_HARMLESS: Final = re.compile(r"[\w.,-]+")

_Offer = Callable[[Lakehouse], list[str]]


def offer_files(_: click.Context, __: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Leave it to the shell to complete a file."""
    return [CompletionItem(incomplete, type="file")]


def offer_namespaces(context: click.Context, _: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """_Offer the namespaces that begin like the word."""
    return _offered(context, incomplete, lambda lake: _namespaces(lake, incomplete))


def offer_tables(context: click.Context, _: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """_Offer the tables that begin like the word; as long as several namespaces do, these."""
    return _offered(context, incomplete, lambda lake: _tables(lake, incomplete, with_views=False))


def offer_names(context: click.Context, _: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """_Offer namespaces, and tables and views of the one that is named."""
    return _offered(context, incomplete, lambda lake: _names(lake, incomplete))


def offer_columns(context: click.Context, _: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """_Offer columns of the table that the words before name, also behind others and a comma."""
    table = _given(context).get("table")
    if table is None:
        return []
    before, comma, begun = incomplete.rpartition(",")
    return _offered(
        context,
        incomplete,
        lambda lake: [f"{before}{comma}{name}" for name in _columns(lake, table) if name.startswith(begun)],
    )


def _offered(context: click.Context, incomplete: str, offer: _Offer) -> list[CompletionItem]:
    if is_place(incomplete):
        # The word will be a lakehouse, in the place of the one that the environment names.
        return [CompletionItem(incomplete, type="dir")]
    found: list[str] = []
    looking = threading.Thread(target=_look, args=(_given(context), offer, found), daemon=True)
    looking.start()
    looking.join(_WAIT_SECONDS)
    return [CompletionItem(name) for name in found if _HARMLESS.fullmatch(name)]


def _given(context: click.Context) -> dict[str, Any]:
    """Return the words before by the names of their parameters.

    click leaves arguments in `args` where the last word is an option whose value is being typed.
    """
    arguments = [one.name for one in context.command.params if isinstance(one, click.Argument) and one.name]
    left = dict(zip(arguments, context.args, strict=False))
    return {**left, **{name: value for name, value in context.params.items() if value is not None}}


def _look(given: dict[str, Any], offer: _Offer, found: list[str]) -> None:
    """Add to `found` what is offered; nothing where the lakehouse cannot be read."""
    try:
        cache = given_cache(given.get("cache"), given.get("cache_bytes"))
        session = Session(storage_options=key_values(given.get("storage_options") or (), "--option"), cache=cache)
        found.extend(islice(offer(session.open(given["lake"])), _OFFERED_MAX))
    except (MangroveError, KeyError, TypeError, OSError):
        return


def _namespaces(lake: Lakehouse, begun: str) -> list[str]:
    return [str(one) for one in lake.namespaces(begun, limit=_OFFERED_MAX)]


def _names(lake: Lakehouse, begun: str) -> list[str]:
    namespaces = [] if "." in begun else _namespaces(lake, begun)
    return namespaces if len(namespaces) > 1 else [*namespaces, *_tables(lake, begun, with_views=True)]


def _tables(lake: Lakehouse, begun: str, *, with_views: bool) -> list[str]:
    namespace, dot, name = begun.partition(".")
    if not dot:
        found = _namespaces(lake, begun)
        if len(found) != 1:
            return [f"{one}." for one in found]
        namespace, name = found[0], ""
    tables = [str(one) for one in lake.tables(namespace, name, limit=_OFFERED_MAX)]
    return [*tables, *map(str, lake.views(namespace, name, limit=_OFFERED_MAX))] if with_views else tables


def _columns(lake: Lakehouse, table: str) -> list[str]:
    schema = lake.table(table).schema
    return [] if schema is None else [column.name for column in schema.columns]
