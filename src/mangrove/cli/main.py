"""Entry point of the `mangrove` command: dispatch, error reporting and exit codes.

Exit codes: 0 success, 1 a problem was found or the operation failed, 2 invalid command
or input.
"""

import importlib
import json
import os
import sys
from collections.abc import Sequence

import click

from mangrove.cli.context import LAKE_VARIABLE
from mangrove.cli.startup import (
    RestartRequired,
    block_pandas_import,
    escape_unencodable_output,
    restart_process,
    was_restarted,
)
from mangrove.errors import InvalidInputError, MangroveError

__all__ = ["COMMANDS", "main", "mangrove"]

COMMANDS = {
    "init": ("catalog_commands", "Make a new, empty lakehouse in a folder or bucket."),
    "ls": ("catalog_commands", "List the namespaces, or the tables and views of one."),
    "show": ("catalog_commands", "Show the lakehouse, or a namespace, table or view of it."),
    "create": ("catalog_commands", "Make a namespace, a table (its name has a dot) or a view."),
    "ingest": ("ingest_command", "Write the rows of files into a table."),
    "read": ("read_command", "Show rows of a table."),
    "sql": ("sql_command", "Run SQL on Spark: statements separated by semicolons, until the first error."),
    "shell": ("shell_command", "Talk SQL with a lakehouse."),
    "delete": ("change_commands", "Delete the rows of a table for which a predicate holds."),
    "update": ("change_commands", "Set columns of the rows of a table."),
    "rename": ("catalog_commands", "Give a namespace, a table or a view another name."),
    "drop": ("catalog_commands", "Drop a namespace, a table or a view."),
    "log": ("history_commands", "Show the versions, newest first."),
    "diff": ("history_commands", "Show what changed between two versions."),
    "rollback": ("history_commands", "Make an earlier version the newest."),
    "iceberg": ("iceberg_command", "Show a table to engines that read Iceberg."),
    "export": ("export_command", "Give a version a name that keeps it."),
    "convert": ("convert_command", "Tell a lakehouse again in another layout or format revision."),
    "expire": ("upkeep_commands", "Forget versions that are older than the lakehouse keeps them."),
    "vacuum": ("upkeep_commands", "Delete the files that no version needs."),
    "compact": ("upkeep_commands", "Write the rows of a table anew, or of every table."),
    "check": ("upkeep_commands", "Look for broken rules in every file that the versions reach."),
    "repair-clock": ("upkeep_commands", "Date versions by this machine's clock again."),
    "upgrade": ("upkeep_commands", "Bring a lakehouse to the newer format revision."),
    "inspect": ("inspect_command", "Print any file of either layout as text."),
    "tree": ("tree_command", "Draw the tree that holds the catalog."),
    "serve": ("serve_command", "Show a lakehouse in the browser, until Ctrl-C."),
    "bench": ("bench_command", "Measure what a lakehouse costs on a disk or bucket: times and requests."),
    "demo": ("demo_command", "Take a guided tour: a small shop on local disk, with Spark, in about two minutes."),
    "completion": ("completion_command", "Print the script that completes commands, options and names in a shell."),
}
"""Each command in the order of the help, with the module that has it: only the one that runs is imported."""

_WITH_FRAMES = frozenset({"demo", "shell", "sql"})
"""Commands that always use Spark or pandas."""


class _LateGroup(click.Group):
    """A command group that imports a command on first use."""

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:  # noqa: ARG002
        if cmd_name not in COMMANDS:
            return None
        module = importlib.import_module(f"mangrove.cli.{COMMANDS[cmd_name][0]}")
        command: click.Command = getattr(module, f"{cmd_name.replace('-', '_')}_command")
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:  # noqa: ARG002
        with formatter.section("Commands"):
            formatter.write_dl([(name, sentence) for name, (_, sentence) in COMMANDS.items()])


def _print_version(context: click.Context, _: click.Parameter, is_requested: bool) -> None:
    if not is_requested:
        return
    from importlib.metadata import version  # noqa: PLC0415 - imports half of the mail package

    click.echo(f"mangrove {version('mangrove-lake')}")
    context.exit()


@click.group(
    cls=_LateGroup,
    context_settings={"help_option_names": ["-h", "--help"]},
    epilog="\b\nExample:\n  mangrove init ./lake\n  mangrove create ./lake sales\n"
    "  mangrove create ./lake sales.orders --schema 'id bigint, amount double'\n"
    "  mangrove ls ./lake",
)
@click.option(
    "--version",
    is_flag=True,
    is_eager=True,
    expose_value=False,
    help="Show the version and exit.",
    callback=_print_version,
)
def mangrove() -> None:
    """A storage-only lakehouse: transactional tables as plain files in a bucket.

    LAKE is a folder or a URI (s3://, gs://, az://). It defaults to the environment
    variable MANGROVE_LAKE.
    """


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command line and exit with its code."""
    given = list(sys.argv[1:] if arguments is None else arguments)
    if arguments is None:
        escape_unencodable_output()
    if arguments is None and not (_WITH_FRAMES.intersection(given[:1]) or was_restarted()):
        block_pandas_import()
    try:
        code = mangrove.main(given, prog_name="mangrove", standalone_mode=False)
        sys.stdout.flush()
    except RestartRequired:
        restart_process()
    except click.exceptions.NoArgsIsHelpError as error:
        sys.stderr.write(error.format_message() + "\n")
        code = 2
    except click.UsageError as error:
        code = _report_failure(given, "UsageError", _usage_sentence(error), 2)
    except click.ClickException as error:
        code = _report_failure(given, type(error).__name__, error.format_message(), 2)
    except InvalidInputError as error:
        code = _report_failure(given, type(error).__name__, str(error), 2)
    except MangroveError as error:
        code = _report_failure(given, type(error).__name__, str(error), 1)
    except BrokenPipeError:
        # The reader closed the pipe. Redirect buffered output, so that the flush at exit does not fail.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        code = 1
    except (click.Abort, KeyboardInterrupt):
        code = _report_failure(
            given, "Interrupted", "interrupted; completed commits are kept, others have no effect", 1
        )
    except Exception as error:  # noqa: BLE001 - the outermost handler reports every error
        code = _report_failure(given, type(error).__name__, _describe_unexpected_error(error), 1)
    sys.exit(code if isinstance(code, int) else 0)


def _usage_sentence(error: click.UsageError) -> str:
    command = "mangrove" if error.ctx is None else error.ctx.command_path
    message = error.format_message().rstrip(".")
    sentence = f"{message[:1].lower()}{message[1:]}"
    if isinstance(error, click.MissingParameter) and error.param is not None and error.param.name == "lake":
        return f"{sentence}; give a folder or a URI, or set {LAKE_VARIABLE}; see `{command} --help`"
    return f"{sentence}; see `{command} --help`"


def _describe_unexpected_error(error: Exception) -> str:
    return (
        f"internal error ({type(error).__name__}: {error}); "
        "run `mangrove check` to verify the lakehouse, and report this as a bug"
    )


def _report_failure(given: Sequence[str], kind: str, message: str, code: int) -> int:
    """Print an error to stderr and return the exit code."""
    if "--json" in given:
        sys.stderr.write(json.dumps({"error": kind, "message": message, "exit_code": code}, ensure_ascii=False) + "\n")
    else:
        sys.stderr.write(f"mangrove: {message}\n")
    return code
