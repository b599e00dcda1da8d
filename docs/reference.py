"""Write the reference pages, and the list of decisions, from the code and its docstrings.

    docs/reference/python.md          what `import mangrove` gives, and what that gives in turn
    docs/reference/command-line.md    the help of every command
    docs/reference/properties.md      settings, properties and environment variables
    docs/reference/errors.md          the seven errors
    docs/decisions/index.md           every decision by its title
    docs/examples.md                  what each of the examples shows

Run by `make docs`; with `--check` nothing is written, and a page that is out of
date is an error. What has no docstring is an error too: there would be nothing
to say about it.
"""

import argparse
import ast
import dataclasses
import enum
import importlib
import inspect
import re
import sys
import textwrap
from collections.abc import Iterator, Mapping
from pathlib import Path

import click

__all__ = ["command_page", "decision_page", "error_page", "example_page", "fresh_pages", "property_page", "python_page"]

ROOT = Path(__file__).parent.parent
DOCS = ROOT / "docs"
SOURCE = ROOT / "src" / "mangrove"
WRITTEN = "<!-- Written by `make docs` from the code, not by hand. -->\n"
HELP_WIDTH = 96

FIRST_FUNCTIONS = ["mangrove.create", "mangrove.open", "mangrove.check"]
EXPRESSION_FUNCTIONS = ["mangrove.expr", "mangrove.col", "mangrove.lit"]
SPARK_FUNCTIONS = [
    "mangrove.spark.session.local_session",
    "mangrove.spark.registration.register",
    "mangrove.spark.registration.attach",
]
CLASSES = {
    "Doing": [
        "mangrove.lakehouse.lakehouse.Lakehouse",
        "mangrove.lakehouse.catalog.ReadableCatalog",
        "mangrove.lakehouse.catalog.WritableCatalog",
        "mangrove.lakehouse.transaction.Transaction",
        "mangrove.lakehouse.shared_transaction.SharedTransaction",
        "mangrove.lakehouse.snapshot.Snapshot",
        "mangrove.lakehouse.namespace.Namespace",
        "mangrove.lakehouse.table.Table",
        "mangrove.lakehouse.view.View",
        "mangrove.lakehouse.table.TableSnapshot",
        "mangrove.lakehouse.scan.TableScan",
        "mangrove.lakehouse.schema_update.SchemaUpdate",
        "mangrove.lakehouse.merge.TableMerge",
        "mangrove.lakehouse.maintenance.Maintenance",
        "mangrove.expressions.sql_expression.Expr",
        "mangrove.model.schema.Schema",
        "mangrove.sql.session.SqlSession",
    ],
    "Answers": [
        "mangrove.tables.write_plan.RowCounts",
        "mangrove.transaction.history.HistoryEntry",
        "mangrove.lakehouse.diff.Diff",
        "mangrove.lakehouse.diff.ObjectChange",
        "mangrove.lakehouse.diff.RowChange",
        "mangrove.tables.scan_plan.ScanPlan",
        "mangrove.maintenance.check.CheckReport",
        "mangrove.tables.compaction.CompactionReport",
        "mangrove.maintenance.expiry.ExpiryReport",
        "mangrove.maintenance.vacuum.VacuumReport",
        "mangrove.maintenance.export.ExportReport",
        "mangrove.maintenance.export_records.Export",
        "mangrove.maintenance.convert.conversion.ConvertReport",
        "mangrove.sql.results.Result",
    ],
    "Choices": [
        "mangrove.metastore.Isolation",
        "mangrove.maintenance.export.ExportMode",
        "mangrove.model.objects.TableType",
        "mangrove.lakehouse.diff.ChangeKind",
    ],
}
INNER = frozenset(
    {
        *("add_delta", "change", "core", "fill", "maintained", "new_id", "try_checks"),
        *("opened", "put_table_version", "reading", "snapshot_at", "state"),
        *("check_privilege", "privilege_on", "restrict"),
    }
)
"""Names without an underscore that the layers of Mangrove need of each other, and users do not."""
_EMPTY = {"NO_PROPERTIES": "{}"}
_PROPERTY = re.compile(r"(?:tree|table|transaction|write|compaction|stream|deltacat|mangrove)\.[a-z0-9.]*[a-z0-9-]+")
_VARIABLE = re.compile(r"MANGROVE_[A-Z_]+")
_NOTED = ("mangrove.", "deltacat.")


def _named(path: str) -> object:
    module, _, name = path.rpartition(".")
    return getattr(importlib.import_module(module), name)


def _said(value: object, what: str) -> str:
    text = inspect.getdoc(value)
    if not text:
        raise SystemExit(f"{what} has no docstring: say what it is for, since the reference is made from it")
    return text


def _signature(function: object, name: str) -> str:
    """Return the call as it is written in the code, without `self`, broken where it is long."""
    source = textwrap.dedent(inspect.getsource(inspect.unwrap(function)))  # type: ignore[arg-type]
    node = next(one for one in ast.walk(ast.parse(source)) if isinstance(one, ast.FunctionDef))
    arguments = node.args
    if arguments.args and arguments.args[0].arg in {"self", "cls"}:
        arguments.args = arguments.args[1:]
    for argument in [*arguments.args, *arguments.kwonlyargs]:
        argument.annotation = _unquoted(argument.annotation)
    parts = _arguments(arguments, inspect.unwrap(function).__globals__)  # type: ignore[arg-type]
    returns = "" if node.returns is None else f" -> {ast.unparse(_unquoted(node.returns) or node.returns)}"
    line = f"def {name}({', '.join(parts)}){returns}: ..."
    if len(line) <= HELP_WIDTH:
        return line
    return f"def {name}(\n" + "".join(f"    {part},\n" for part in parts) + f"){returns}: ..."


def _unquoted(annotation: ast.expr | None) -> ast.expr | None:
    if isinstance(annotation, ast.Constant) and isinstance(annotation.value, str):
        return ast.parse(annotation.value, mode="eval").body
    return annotation


def _arguments(arguments: ast.arguments, known: Mapping[str, object]) -> list[str]:
    defaults = [None] * (len(arguments.args) - len(arguments.defaults)) + [*arguments.defaults]
    parts = [_argument(one, default, known) for one, default in zip(arguments.args, defaults, strict=True)]
    if arguments.vararg:
        parts.append(f"*{arguments.vararg.arg}")
    elif arguments.kwonlyargs:
        parts.append("*")
    named = zip(arguments.kwonlyargs, arguments.kw_defaults, strict=True)
    parts += [_argument(one, default, known) for one, default in named]
    if arguments.kwarg:
        parts.append(f"**{ast.unparse(arguments.kwarg)}")
    return parts


def _argument(argument: ast.arg, default: ast.expr | None, known: Mapping[str, object]) -> str:
    text = ast.unparse(argument)
    if default is None:
        return text
    value = ast.unparse(default)
    if isinstance(default, ast.Name):
        # A constant of the module says nothing to a reader; a mapping that cannot change stands for an empty one.
        value = repr(known[default.id]) if isinstance(known[default.id], int | str) else _EMPTY.get(default.id, value)
    return f"{text} = {value}"


def _function_entry(function: object, name: str, heading: str) -> str:
    title = f"{heading} `{name}`"
    return f"{title}\n\n```pyi\n{_signature(function, name.rpartition('.')[2])}\n```\n\n{_said(function, name)}\n"


def _own_members(cls: type, told: set[type]) -> Iterator[tuple[str, object]]:
    """Yield what a class has, in the order of the code; what a class told elsewhere has is left to that one."""
    seen: set[str] = set()
    elsewhere = {base for one in told if one is not cls and issubclass(cls, one) for base in one.__mro__}
    for owner in cls.__mro__:
        if owner is object or not owner.__module__.startswith("mangrove") or owner in elsewhere:
            continue
        for name, member in vars(owner).items():
            if name.startswith("_") or name in seen or name in INNER:
                continue
            if inspect.isfunction(member) or isinstance(member, property):
                seen.add(name)
                yield name, member


def _class_entry(cls: type, told: set[type]) -> str:
    name = cls.__name__
    parts = [f"### `{name}`\n\n{_said(cls, name)}\n"]
    also = [base.__name__ for base in cls.__mro__[1:] if base in told]
    if also:
        parts.append(f"Has all that {' and '.join(f'[`{one}`](#{one.lower()})' for one in also)} has.\n")
    if issubclass(cls, enum.Enum):
        parts.append("".join(f'* `{one.name}`: `"{one.value}"`\n' for one in cls))
    elif dataclasses.is_dataclass(cls):
        parts.append("".join(f"* `{field.name}`: `{_type_text(field.type)}`\n" for field in dataclasses.fields(cls)))
    members = list(_own_members(cls, told))
    properties = [(one, member) for one, member in members if isinstance(member, property)]
    if properties:
        rows = "".join(f"| `{one}` | {_cell(_said(member, f'{name}.{one}'))} |\n" for one, member in properties)
        parts.append(f"| property | |\n|---|---|\n{rows}")
    parts += [
        _function_entry(member, f"{name}.{one}", "####") for one, member in members if not isinstance(member, property)
    ]
    return "\n".join(parts)


def _type_text(annotation: object) -> str:
    text = (
        annotation.__name__ if isinstance(annotation, type) and not hasattr(annotation, "__args__") else str(annotation)
    )
    return re.sub(r"[a-z_]+(?:\.[a-z_]+)*\.([A-Z])", r"\1", text)


def _cell(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|")


def python_page() -> str:
    """Return the page on what programs call."""
    told = {_named(path) for paths in CLASSES.values() for path in paths}
    classes: set[type] = {one for one in told if isinstance(one, type)}
    parts = [
        WRITTEN,
        "# Python\n",
        "What is not on this page is not for users, and may change without notice. "
        "Everything starts with one of these functions. `mangrove.__version__` is the installed version.\n",
        *(_function_entry(_named(path), path, "##") for path in FIRST_FUNCTIONS),
    ]
    for title, paths in CLASSES.items():
        parts.append(f"## {title}\n")
        for path in paths:
            cls = _named(path)
            assert isinstance(cls, type)
            parts.append(_class_entry(cls, classes))
    parts.append("## Expressions\n")
    parts += [_function_entry(_named(path), path, "###") for path in EXPRESSION_FUNCTIONS]
    parts.append("## On Spark\n")
    parts += [_function_entry(_named(path), path, "###") for path in SPARK_FUNCTIONS]
    return "\n".join(parts)


def command_page() -> str:
    """Return the page with the help of every command."""
    cli = importlib.import_module("mangrove.cli.main")
    group: click.Group = cli.mangrove
    settings = {**group.context_settings, "terminal_width": HELP_WIDTH, "max_content_width": HELP_WIDTH, "color": False}
    context = click.Context(group, info_name="mangrove", **settings)
    parts = [
        WRITTEN,
        "# Command line\n",
        "Exit codes: 0 done; 1 a problem was found or the work failed; 2 the command or its input cannot be meant. "
        "Answers go to the output stream, everything else to the error stream. With `--json` both are JSON.\n",
        f"```text\n{group.get_help(context)}\n```\n",
    ]
    for name in group.list_commands(context):
        command = group.get_command(context, name)
        assert command is not None
        own = click.Context(command, info_name=name, parent=context, **settings)
        parts.append(f"## `mangrove {name}`\n\n```text\n{command.get_help(own)}\n```\n")
    return "\n".join(parts)


def _constants(pattern: re.Pattern[str]) -> Iterator[tuple[str, str]]:
    """Yield each text of the code that is a name of the pattern and is given a name itself, with its docstring."""
    for path in sorted(SOURCE.rglob("*.py")):
        body = ast.parse(path.read_text("utf-8")).body
        for statement, following in zip(body, [*body[1:], None], strict=True):
            if not isinstance(statement, ast.Assign | ast.AnnAssign) or not isinstance(statement.value, ast.Constant):
                continue
            value = statement.value.value
            if isinstance(value, str) and pattern.fullmatch(value):
                said = following.value if isinstance(following, ast.Expr) else None
                if not isinstance(said, ast.Constant) or not isinstance(said.value, str):
                    place = path.relative_to(ROOT)
                    raise SystemExit(
                        f"{place}:{statement.lineno}: {value!r} has no docstring below it; say what it means"
                    )
                yield value, inspect.cleandoc(said.value)


def _settings_rows() -> str:
    module = importlib.import_module("mangrove.model.settings")
    settings = module.LakehouseSettings
    source = ast.parse(inspect.getsource(settings)).body[0]
    assert isinstance(source, ast.ClassDef)
    said = {
        one.target.id: following.value.value
        for one, following in zip(source.body, source.body[1:], strict=False)
        if isinstance(one, ast.AnnAssign)
        and isinstance(one.target, ast.Name)
        and isinstance(following, ast.Expr)
        and isinstance(following.value, ast.Constant)
    }
    default = settings()
    rows = []
    for field in dataclasses.fields(settings):
        if field.name not in said:
            raise SystemExit(f"LakehouseSettings.{field.name} has no docstring below it; say what it means")
        value = getattr(default, field.name)
        shown = f"{value:,}" if isinstance(value, int) else (f"`{value!r}`" if value else "none")
        rows.append(f"| `{field.name}` | {shown} | {_cell(str(said[field.name]))} |\n")
    return "".join(rows)


def property_page() -> str:
    """Return the page on settings, properties and environment variables."""
    properties = sorted(_constants(_PROPERTY))
    listed = [f"| `{name}` | {_cell(said)} |\n" for name, said in properties if not name.startswith(_NOTED)]
    noted = [f"| `{name}` | {_cell(said)} |\n" for name, said in properties if name.startswith(_NOTED)]
    variables = [f"| `{name}` | {_cell(said)} |\n" for name, said in sorted(_constants(_VARIABLE))]
    return "\n".join(
        [
            WRITTEN,
            "# Settings and properties\n",
            "## Settings of a lakehouse\n",
            "Given to `mangrove.create` as `settings=LakehouseSettings(…)`, from `mangrove.model.settings`. "
            "`maximum_version_age_millis` and `minimum_versions_to_keep` can be changed later, with `lake.alter`; "
            "the sizes cannot.\n",
            f"| setting | default | meaning |\n|---|---|---|\n{_settings_rows()}",
            "## Properties that are heeded\n",
            "Texts under a name, put with `lake.alter({…})`, `alter_table` or when the object is made. "
            "A name that is not listed here is yours.\n",
            f"| property | meaning |\n|---|---|\n{''.join(listed)}",
            "## Names that Mangrove writes\n",
            f"| name | meaning |\n|---|---|\n{''.join(noted)}",
            "## Environment variables\n",
            f"| variable | meaning |\n|---|---|\n{''.join(variables)}",
            "Options and variables of stores are on the page about [buckets](../how-to/storage.md).\n",
        ]
    )


def error_page() -> str:
    """Return the page on errors."""
    module = importlib.import_module("mangrove.errors")
    _, _, drawn = _said(module, "mangrove.errors").partition("\n\n")
    tree, _, rest = drawn.partition("\n\n")
    rows = []
    for name in module.__all__:
        error = getattr(module, name)
        code = "–" if error is module.MangroveError else ("2" if error is module.InvalidInputError else "1")
        rows.append(f"| `mangrove.{name}` | {_cell(_said(error, name))} | {code} |\n")
    return "\n".join(
        [
            WRITTEN,
            "# Errors\n",
            "Six classes, one for each thing that a caller does next. "
            "Python's own exceptions come through only where a program is wrong.\n",
            f"```text\n{textwrap.dedent(tree)}\n```\n",
            f"{rest}\n",
            f"| class | means | exit code of the command line |\n|---|---|---|\n{''.join(rows)}",
        ]
    )


def decision_page() -> str:
    """Return the list of decisions."""
    entries = []
    for path in sorted((DOCS / "decisions").glob("[0-9]*.md")):
        title = path.read_text("utf-8").partition("\n")[0].removeprefix("# ")
        number, _, words = title.partition(". ")
        entries.append(f"| {number} | [{words}]({path.name}) |\n")
    return "\n".join(
        [
            WRITTEN,
            "# Decisions\n",
            "What was hard to decide, or would be costly to change: the problem, the decision, "
            "what was rejected and why, and the consequences, also the unpleasant ones.\n",
            f"| | |\n|---|---|\n{''.join(entries)}",
        ]
    )


def example_page() -> str:
    """Return the list of examples, each in its own words."""
    entries = []
    folder = ROOT / "examples"
    for path in sorted([*folder.glob("*.py"), *folder.glob("*/__main__.py")]):
        said = ast.get_docstring(ast.parse(path.read_text("utf-8"))) or ""
        sentence, _, rest = said.partition("\n")
        # What is indented is how to run it.
        shown = re.sub(
            r"(?m)^((?: {4}.+\n?)+)", lambda run: f"```text\n{textwrap.dedent(run[0]).rstrip()}\n```\n", rest
        )
        name = path.relative_to(ROOT).as_posix().removesuffix("/__main__.py")
        entries.append(f"## `{name}`\n\n{sentence}\n{shown.rstrip()}\n")
    return "\n".join([WRITTEN, "# Examples\n", "Complete, small, and run by the tests.\n", *entries])


def fresh_pages() -> dict[Path, str]:
    """Return every page that is written by this program."""
    return {
        DOCS / "reference" / "python.md": python_page(),
        DOCS / "reference" / "command-line.md": command_page(),
        DOCS / "reference" / "properties.md": property_page(),
        DOCS / "reference" / "errors.md": error_page(),
        DOCS / "decisions" / "index.md": decision_page(),
        DOCS / "examples.md": example_page(),
    }


def main() -> None:
    """Write the pages, or only compare."""
    parser = argparse.ArgumentParser(description="Write the reference pages from the code.")
    parser.add_argument("--check", action="store_true", help="write nothing; fail if a page is out of date")
    only_check = parser.parse_args().check
    for path, text in fresh_pages().items():
        if path.exists() and path.read_text("utf-8") == text:
            continue
        if only_check:
            sys.exit(f"{path.relative_to(ROOT)} is out of date; run: make docs")
        path.parent.mkdir(exist_ok=True)
        path.write_text(text, "utf-8")


if __name__ == "__main__":
    main()
