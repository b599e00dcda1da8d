"""Shell completion of commands, options, tables and columns.

Completion reads only catalog metadata, gives up after two seconds, and offers nothing
on errors: the command itself reports them.

Shells insert completions unquoted. A table may be named `$(reboot)`, so only names
without shell metacharacters are offered.

The scripts are click's with two fixes: fish dropped text after a comma, as in a list
of columns, and zsh failed if `compinit` had not run.
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
from mangrove.inspect.summary import list_entries, list_namespaces, load_table_schema
from mangrove.metastore import MetastoreSnapshot
from mangrove.model.locators import parse_table_name

__all__ = ["completion_command", "offer_columns", "offer_files", "offer_names", "offer_namespaces", "offer_tables"]

_WAIT_SECONDS: Final = 2.0
_OFFERED_MAX: Final = 200
_SHELL_SAFE: Final = re.compile(r"[\w.,-]+")

_Offer = Callable[[MetastoreSnapshot], list[str]]


def offer_files(_: click.Context, __: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Let the shell complete a file path."""
    return [CompletionItem(incomplete, type="file")]


def offer_namespaces(context: click.Context, _: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Offer the namespaces that start with the word."""
    return _complete_word(context, incomplete, lambda snapshot: _namespaces(snapshot, incomplete))


def offer_tables(context: click.Context, _: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Offer the tables that start with the word, or the namespaces while several match."""
    return _complete_word(context, incomplete, lambda snapshot: _tables(snapshot, incomplete, with_views=False))


def offer_names(context: click.Context, _: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Offer namespaces, and the tables and views of a namespace."""
    return _complete_word(context, incomplete, lambda snapshot: _names(snapshot, incomplete))


def offer_columns(context: click.Context, _: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Offer the columns of the table argument, also after a comma."""
    table = _parameters_of(context).get("table")
    if table is None:
        return []
    before, comma, prefix = incomplete.rpartition(",")
    return _complete_word(
        context,
        incomplete,
        lambda snapshot: [f"{before}{comma}{name}" for name in _columns(snapshot, table) if name.startswith(prefix)],
    )


def _complete_word(context: click.Context, incomplete: str, offer: _Offer) -> list[CompletionItem]:
    if is_location(incomplete):
        # The word is a lakehouse that overrides MANGROVE_LAKE.
        return [CompletionItem(incomplete, type="dir")]
    names: list[str] = []
    lookup = threading.Thread(target=_look_up, args=(_parameters_of(context), offer, names), daemon=True)
    lookup.start()
    lookup.join(_WAIT_SECONDS)
    return [CompletionItem(name) for name in names if _SHELL_SAFE.fullmatch(name)]


def _parameters_of(context: click.Context) -> dict[str, Any]:
    """Return the values of the preceding arguments and options by parameter name.

    click leaves arguments in `args` if the value of an option is being typed.
    """
    arguments = [one.name for one in context.command.params if isinstance(one, click.Argument) and one.name]
    left = dict(zip(arguments, context.args, strict=False))
    return {**left, **{name: value for name, value in context.params.items() if value is not None}}


def _look_up(given: dict[str, Any], offer: _Offer, names: list[str]) -> None:
    """Add the offered names to `names`; add nothing if the lakehouse cannot be read."""
    try:
        cache = resolve_cache(given.get("cache"), given.get("cache_bytes"))
        session = CommandContext(
            storage_options=parse_key_values(given.get("storage_options") or (), "--option"), cache=cache
        )
        names.extend(islice(offer(session.open_metastore(given["lake"]).metastore.latest()), _OFFERED_MAX))
    except (MangroveError, KeyError, TypeError, OSError):
        return


def _namespaces(snapshot: MetastoreSnapshot, prefix: str) -> list[str]:
    return [one.name for one in list_namespaces(snapshot, prefix, _OFFERED_MAX)]


def _names(snapshot: MetastoreSnapshot, prefix: str) -> list[str]:
    namespaces = [] if "." in prefix else _namespaces(snapshot, prefix)
    return namespaces if len(namespaces) > 1 else [*namespaces, *_tables(snapshot, prefix, with_views=True)]


def _tables(snapshot: MetastoreSnapshot, prefix: str, *, with_views: bool) -> list[str]:
    namespace, dot, name = prefix.partition(".")
    if not dot:
        namespaces = _namespaces(snapshot, prefix)
        if len(namespaces) != 1:
            return [f"{one}." for one in namespaces]
        namespace, name = namespaces[0], ""
    entries = list_entries(snapshot, namespace, name, _OFFERED_MAX)
    return [one.name for one in entries if with_views or one.kind != "view"]


def _columns(snapshot: MetastoreSnapshot, table: str) -> list[str]:
    schema = load_table_schema(snapshot, parse_table_name(table))
    return [] if schema is None else [column.name for column in schema.columns]


_REGISTERED: Final = "    compdef "
_SWITCHED_ON: Final = "    (( $+functions[compdef] )) || { autoload -Uz compinit && compinit; }\n"


class _Zsh(ZshComplete):
    """A script that runs `compinit` if necessary."""

    source_template = ZshComplete.source_template.replace(_REGISTERED, f"{_SWITCHED_ON}{_REGISTERED}")


class _Fish(FishComplete):
    """A script that splits completions at the first comma only."""

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
    """Print the shell completion script.

    The script completes commands and options, and namespaces, tables and columns of
    the lakehouse given by LAKE or MANGROVE_LAKE.
    """
    script = _SHELLS[shell](context.find_root().command, {}, "mangrove", "_MANGROVE_COMPLETE").source()
    session.answer({"shell": shell, "script": script}, lambda: script)
