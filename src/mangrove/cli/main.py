"""Entry point of the `mangrove` command: dispatch, error reporting and exit codes.

Exit codes: 0 success, 1 a problem was found or the operation failed, 2 invalid command
or input.
"""

import atexit
import difflib
import gc
import importlib
import json
import os
import sys
from collections.abc import Sequence
from io import TextIOWrapper

import click

from mangrove.cli.environment import LAKE_VARIABLE, check_installed
from mangrove.errors import InvalidInputError, MangroveError

__all__ = ["COMMANDS", "main", "mangrove"]

COMMANDS = {
    "init": ("catalog", "Create an empty lakehouse in a folder or bucket."),
    "ls": ("catalog", "List the namespaces, or the tables and views of one."),
    "show": ("catalog", "Describe the lakehouse, or one of its objects."),
    "create": ("catalog", "Create a namespace, a table or a view."),
    "versions": ("table_versions", "List the versions of a table."),
    "create-version": ("table_versions", "Create the next version of a table."),
    "set-state": ("table_versions", "Set the lifecycle states of table versions in one commit."),
    "drop-version": ("table_versions", "Drop a version of a table."),
    "streams": ("table_versions", "List the streams of a table version."),
    "create-stream": ("table_versions", "Create a staged stream of a table version."),
    "commit-stream": ("table_versions", "Read a table version from another of its streams."),
    "drop-stream": ("table_versions", "Drop a staged or deprecated stream."),
    "partitions": ("table_versions", "List the partitions of a table."),
    "create-partition": ("table_versions", "Create a partition with an id of its own."),
    "deltas": ("table_versions", "List the deltas of a table."),
    "ingest": ("rows", "Load files into a table."),
    "read": ("rows", "Print rows of a table, or write them to a file."),
    "profile": ("rows", "Print statistics of each column of a table."),
    "changes": ("rows", "Print the rows that differ between two versions of a table."),
    "files": ("rows", "List the data files of a table with type and size."),
    "remove-files": ("rows", "Remove files from a table without a schema."),
    "sql": ("sql", "Run SQL statements, separated by semicolons."),
    "shell": ("shell", "Interactive SQL shell."),
    "delete": ("rows", "Delete the rows that match a predicate."),
    "update": ("rows", "Update columns of the rows that match a predicate."),
    "alter": ("catalog", "Change properties, the description, columns or the retention."),
    "rename": ("catalog", "Rename a namespace, a table or a view."),
    "drop": ("catalog", "Drop a namespace, a table or a view."),
    "alias": ("catalog", "List the aliases, or give a namespace or table another name."),
    "access": ("access", "List or change principals, roles and grants."),
    "history": ("history", "List the versions, newest first."),
    "diff": ("history", "Show what changed between two versions."),
    "rollback": ("history", "Restore an earlier version as the newest one."),
    "undo": ("history", "Revert the changes of one version."),
    "tag": ("history", "List the names of versions, or give a version a name."),
    "iceberg": ("rows", "Publish a table as Iceberg metadata."),
    "export": ("maintenance", "Copy a version to another location and give it a name."),
    "convert": ("maintenance", "Convert a lakehouse to another layout or format revision."),
    "expire": ("maintenance", "Expire versions that are past their retention."),
    "vacuum": ("maintenance", "Delete files that no version needs."),
    "compact": ("maintenance", "Compact the data files of one table or of all tables."),
    "compact-metadata": ("maintenance", "Compact the metadata of the newest version."),
    "check": ("maintenance", "Verify every file that the versions reference."),
    "repair-clock": ("maintenance", "Reset version timestamps after a commit from a wrong clock."),
    "upgrade-format": ("maintenance", "Upgrade a lakehouse to the newer format revision."),
    "inspect": ("inspect", "Print any file of either layout as text."),
    "tree": ("tree", "Draw the catalog's B-epsilon tree."),
    "serve": ("serve", "Serve the explorer and the Iceberg REST catalog over HTTP."),
    "completion": ("completion", "Print the shell completion script."),
}
"""Each command in the order of the help, with the module that has it: only the one that runs is imported."""


_EXTRAS: dict[str, list[tuple[str, tuple[str, ...], str]]] = {
    "shell": [("the shell", ("prompt_toolkit", "pygments"), "shell")],
    "serve": [("the server", ("jinja2", "prometheus_client", "starlette", "uvicorn"), "server")],
}
"""What must be installed before the module of a command can be imported."""


class _LateGroup(click.Group):
    """A command group that imports a command on first use."""

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:  # noqa: ARG002
        if cmd_name not in COMMANDS:
            return None
        for what, modules, extra in _EXTRAS.get(cmd_name, ()):
            check_installed(what, modules, extra)
        module = importlib.import_module(f"mangrove.cli.{COMMANDS[cmd_name][0]}")
        if not gc.isenabled():
            # Imported modules live until the process ends, so the garbage collector need not visit them.
            gc.freeze()
            gc.enable()
        command: click.Command = getattr(module, f"{cmd_name.replace('-', '_')}_command")
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        if args[0] not in COMMANDS and not args[0].startswith("-"):
            closest = difflib.get_close_matches(args[0], COMMANDS, 1)
            hint = f"; did you mean {closest[0]!r}?" if closest else ""
            raise click.UsageError(f"unknown command {args[0]!r}{hint}", ctx)
        return super().resolve_command(ctx, args)

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
        _escape_unencodable_output()
        _reduce_start_up()
    try:
        code = mangrove.main(given, prog_name="mangrove", standalone_mode=False)
        sys.stdout.flush()
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
    message = error.format_message().rstrip(".").replace(". Did you mean", "; did you mean")
    sentence = f"{message[:1].lower()}{message[1:]}"
    if sentence.endswith("?"):
        return f"{sentence} See `{command} --help`"
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


def _reduce_start_up() -> None:
    """Reduce the CPU time that a process of its own needs until its command runs."""
    # `get_command` enables it again.
    gc.disable()
    # A query that a closed pipe interrupts leaves cycles, and DuckDB prints a report about objects that remain at exit.
    atexit.register(gc.collect)
    # numpy, which Arrow imports, starts threads for linear algebra. They use more CPU time than most commands.
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")


def _escape_unencodable_output() -> None:
    """Escape characters that the encoding of the terminal lacks, instead of failing."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")
