"""Shell completion of commands, options, tables and columns.

A person waits for it with a finger on the key. So it reads a few files of the
catalog and never any rows, gives up after two seconds, and where something is
wrong it offers nothing: the command itself will say what.

A shell takes what is offered as if it had been typed. Somebody may have called a
table `$(reboot)`, so only names are offered that mean nothing to any shell.

It is click's, with two things mended: fish lost what follows a comma, as in a list
of columns, and zsh knew no completion at all where nobody had switched it on.
"""

import re
import threading
from collections.abc import Callable
from itertools import islice
from typing import Any, Final

import click
from click.shell_completion import BashComplete, CompletionItem, FishComplete, ShellComplete, ZshComplete

from mangrove.cli.command import lake_command
from mangrove.cli.context import CommandContext, is_location, parse_key_values, resolve_cache
from mangrove.errors import MangroveError
from mangrove.lakehouse.lakehouse import Lakehouse

__all__ = ["completion_command", "offer_columns", "offer_files", "offer_names", "offer_namespaces", "offer_tables"]

_WAIT_SECONDS: Final = 2.0
_OFFERED_MAX: Final = 200
_HARMLESS: Final = re.compile(r"[\w.,-]+")

_Offer = Callable[[Lakehouse], list[str]]


def offer_files(_: click.Context, __: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Leave it to the shell to complete a file."""
    return [CompletionItem(incomplete, type="file")]


def offer_namespaces(context: click.Context, _: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """_Offer the namespaces that begin like the word."""
    return _complete_word(context, incomplete, lambda lake: _namespaces(lake, incomplete))


def offer_tables(context: click.Context, _: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """_Offer the tables that begin like the word; as long as several namespaces do, these."""
    return _complete_word(context, incomplete, lambda lake: _tables(lake, incomplete, with_views=False))


def offer_names(context: click.Context, _: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """_Offer namespaces, and tables and views of the one that is named."""
    return _complete_word(context, incomplete, lambda lake: _names(lake, incomplete))


def offer_columns(context: click.Context, _: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """_Offer columns of the table that the words before name, also behind others and a comma."""
    table = _parameters_of(context).get("table")
    if table is None:
        return []
    before, comma, begun = incomplete.rpartition(",")
    return _complete_word(
        context,
        incomplete,
        lambda lake: [f"{before}{comma}{name}" for name in _columns(lake, table) if name.startswith(begun)],
    )


def _complete_word(context: click.Context, incomplete: str, offer: _Offer) -> list[CompletionItem]:
    if is_location(incomplete):
        # The word will be a lakehouse, in the place of the one that the environment names.
        return [CompletionItem(incomplete, type="dir")]
    found: list[str] = []
    looking = threading.Thread(target=_look, args=(_parameters_of(context), offer, found), daemon=True)
    looking.start()
    looking.join(_WAIT_SECONDS)
    return [CompletionItem(name) for name in found if _HARMLESS.fullmatch(name)]


def _parameters_of(context: click.Context) -> dict[str, Any]:
    """Return the words before by the names of their parameters.

    click leaves arguments in `args` where the last word is an option whose value is being typed.
    """
    arguments = [one.name for one in context.command.params if isinstance(one, click.Argument) and one.name]
    left = dict(zip(arguments, context.args, strict=False))
    return {**left, **{name: value for name, value in context.params.items() if value is not None}}


def _look(given: dict[str, Any], offer: _Offer, found: list[str]) -> None:
    """Add to `found` what is offered; nothing where the lakehouse cannot be read."""
    try:
        cache = resolve_cache(given.get("cache"), given.get("cache_bytes"))
        session = CommandContext(
            storage_options=parse_key_values(given.get("storage_options") or (), "--option"), cache=cache
        )
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


_REGISTERED: Final = "    compdef "
_SWITCHED_ON: Final = "    (( $+functions[compdef] )) || { autoload -Uz compinit && compinit; }\n"


class _Zsh(ZshComplete):
    """A script that switches completion on if need be."""

    source_template = ZshComplete.source_template.replace(_REGISTERED, f"{_SWITCHED_ON}{_REGISTERED}")


class _Fish(FishComplete):
    """A script that splits what it is told at the first comma alone."""

    source_template = FishComplete.source_template.replace('string split ","', 'string split --max 1 ","')


_SHELLS: Final[dict[str, type[ShellComplete]]] = {"bash": BashComplete, "zsh": _Zsh, "fish": _Fish}


@lake_command(
    "completion",
    'eval "$(mangrove completion bash)"      # in ~/.bashrc\n'
    'eval "$(mangrove completion zsh)"       # in ~/.zshrc\n'
    "mangrove completion fish | source       # in ~/.config/fish/config.fish",
    takes_lake=False,
)
@click.argument("shell", type=click.Choice([*_SHELLS]))
@click.pass_context
def completion_command(context: click.Context, session: CommandContext, shell: str) -> None:
    """Print the script that completes commands, options and names in a shell.

    Names of namespaces, tables and columns are looked up in the lakehouse that the
    words before name, or that MANGROVE_LAKE does.
    """
    script = _SHELLS[shell](context.find_root().command, {}, "mangrove", "_MANGROVE_COMPLETE").source()
    session.answer({"shell": shell, "script": script}, lambda: script)
