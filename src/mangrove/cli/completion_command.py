"""The script by which a shell completes commands, options and names."""

import click
from click.shell_completion import get_completion_class

from mangrove.cli.command import lake_command
from mangrove.cli.session import Session
from mangrove.errors import InvalidInputError

__all__ = ["completion_command"]

_SHELLS = ("bash", "zsh", "fish")


@lake_command("completion", 'eval "$(mangrove completion bash)"      # in ~/.bashrc', takes_lake=False)
@click.argument("shell", type=click.Choice(_SHELLS))
@click.pass_context
def completion_command(context: click.Context, session: Session, shell: str) -> None:
    """Print the script that completes commands, options and names in a shell.

    Names of namespaces, tables and columns are looked up in the lakehouse that the
    words before name, or that MANGROVE_LAKE does.
    """
    found = get_completion_class(shell)
    if found is None:
        raise InvalidInputError(f"there is no completion for {shell!r}: use one of {', '.join(_SHELLS)}")
    script = found(context.find_root().command, {}, "mangrove", "_MANGROVE_COMPLETE").source()
    session.answer({"shell": shell, "script": script}, lambda: script)
