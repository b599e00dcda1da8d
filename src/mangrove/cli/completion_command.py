"""The script by which a shell completes commands, options and names.

It is click's, with two things mended: fish lost what follows a comma, as in a list
of columns, and zsh knew no completion at all where nobody had switched it on.
"""

from typing import Final

import click
from click.shell_completion import BashComplete, FishComplete, ShellComplete, ZshComplete

from mangrove.cli.command import lake_command
from mangrove.cli.session import Session

__all__ = ["completion_command"]

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
def completion_command(context: click.Context, session: Session, shell: str) -> None:
    """Print the script that completes commands, options and names in a shell.

    Names of namespaces, tables and columns are looked up in the lakehouse that the
    words before name, or that MANGROVE_LAKE does.
    """
    script = _SHELLS[shell](context.find_root().command, {}, "mangrove", "_MANGROVE_COMPLETE").source()
    session.answer({"shell": shell, "script": script}, lambda: script)
