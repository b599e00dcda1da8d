"""Execution of CALL and the procedures of maintenance, table versions, streams and aliases."""

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any, Final

from mangrove.errors import InvalidInputError, NotFoundError
from mangrove.lakehouse.alias import Alias
from mangrove.lakehouse.lakehouse import Lakehouse
from mangrove.lakehouse.table import Table
from mangrove.lakehouse.transaction import Transaction
from mangrove.model.json_codec import parse_partition_values
from mangrove.model.objects import STREAM_FORMAT
from mangrove.sql.execute.show import InlineResult
from mangrove.sql.parse.statements import CallStatement, SqlLiteral, SqlParameter
from mangrove.sql.parse.tokens import build_error_at
from mangrove.sql.resolver import StatementSource, qualify_name
from mangrove.transaction.deltas import TableTarget

__all__ = ["PROCEDURES", "TABLE_PROCEDURES", "Procedure", "TableProcedure", "execute_call"]


@dataclass(frozen=True, slots=True)
class Procedure:
    """The argument names in order, the required ones first, and the implementation."""

    arguments: tuple[str, ...]
    required: int
    run: Callable[[Lakehouse, str, Mapping[str, Any]], InlineResult]


@dataclass(frozen=True, slots=True)
class TableProcedure:
    """A procedure about one table, which a transaction can contain; the first argument is the table."""

    arguments: tuple[str, ...]
    required: int
    run: Callable[[Table, Mapping[str, Any]], InlineResult]
    part: str | None = None
    """The argument that chooses a part of the table; it is left out if the name of the table does so."""


def execute_call(
    statement: CallStatement,
    source: StatementSource,
    lake: Lakehouse,
    transaction: Transaction | None,
    namespace: str,
) -> InlineResult:
    """Run the procedure and return its report."""
    name = statement.name.parts[-1].lower()
    procedure = PROCEDURES.get(name) or TABLE_PROCEDURES.get(name)
    if procedure is None or len(statement.name.parts) > 2:
        known = ", ".join(sorted([*PROCEDURES, *TABLE_PROCEDURES]))
        raise NotFoundError(f"unknown procedure {'.'.join(statement.name.parts)}; expected one of {known}")
    given = _bind_arguments(name, procedure, _bind_parameters(statement, source))
    if isinstance(procedure, TableProcedure):
        catalog: Lakehouse | Transaction = transaction or lake
        chosen: dict[str, Any] = {key: value for key, value in given.items() if key == procedure.part}
        return procedure.run(catalog.table(qualify_name(str(given["table"]), namespace), **chosen), given)
    if transaction is not None:
        raise InvalidInputError(f"procedure {name} cannot run inside a transaction; COMMIT or ROLLBACK first")
    return procedure.run(lake, namespace, given)


def _bind_parameters(statement: CallStatement, source: StatementSource) -> CallStatement:
    """Return the statement with values in the place of its parameters."""

    def bind(argument: SqlLiteral | SqlParameter) -> SqlLiteral:
        if not isinstance(argument, SqlParameter):
            return argument
        value = source.find_argument(argument.name, argument.start)
        if value is None or isinstance(value, int | float | str | Mapping):
            return value
        raise build_error_at(
            source.text,
            argument.start,
            f"unsupported argument type {type(value).__name__}; expected a number, string, mapping, bool or None",
        )

    named = {name: bind(argument) for name, argument in statement.named.items()}
    return replace(statement, positional=tuple(map(bind, statement.positional)), named=named)


def _bind_arguments(name: str, procedure: Procedure | TableProcedure, statement: CallStatement) -> dict[str, Any]:
    signature = ", ".join(procedure.arguments)
    if len(statement.positional) > len(procedure.arguments):
        raise InvalidInputError(f"{name} takes ({signature}), but {len(statement.positional)} arguments are given")
    names, required = procedure.arguments, procedure.required
    given_count = len(statement.positional) + len(statement.named)
    if isinstance(procedure, TableProcedure) and procedure.part and given_count < required:
        names = tuple(name for name in names if name != procedure.part)
        required -= 1
    arguments = dict(zip(names, statement.positional, strict=False))
    for key, value in statement.named.items():
        if key not in procedure.arguments:
            raise InvalidInputError(f"{name} has no argument {key}; it takes ({signature})")
        if key in arguments:
            raise InvalidInputError(f"argument {key} of {name} is given by position and by name; remove one of them")
        arguments[key] = value
    missing = [key for key in names[:required] if arguments.get(key) is None]
    if missing:
        raise InvalidInputError(f"{name} requires {missing[0]}; it takes ({signature})")
    return {key: value for key, value in arguments.items() if value is not None}


def _compact(lake: Lakehouse, namespace: str, given: Mapping[str, Any]) -> InlineResult:
    table = lake.table(qualify_name(str(given["table"]), namespace))
    before = len(table.scan().files())
    bounds = {name: given[name] for name in ("engine", "bytes_max", "files_max", "full") if name in given}
    table.compact(**bounds)
    after = len(table.scan().files())
    return InlineResult("table string, files_before bigint, files_after bigint", ((str(table), before, after),))


def _expire(lake: Lakehouse, _: str, given: Mapping[str, Any]) -> InlineResult:
    report = lake.maintenance.expire(dry_run=bool(given.get("dry_run", False)))
    return InlineResult("versions_expired bigint, versions_kept bigint", ((len(report.versions), report.kept),))


def _vacuum(lake: Lakehouse, _: str, given: Mapping[str, Any]) -> InlineResult:
    report = lake.maintenance.vacuum(dry_run=bool(given.get("dry_run", False)), grace=given.get("grace"))
    row = (len(report.paths), report.files_listed, report.size_bytes)
    return InlineResult("files_deleted bigint, files_listed bigint, size_bytes bigint", (row,))


def _export(lake: Lakehouse, _: str, given: Mapping[str, Any]) -> InlineResult:
    tables = tuple(name.strip() for name in str(given.get("tables", "")).split(",") if name.strip())
    report = lake.maintenance.export(
        given["destination"],
        given["name"],
        given.get("mode", "full"),
        at=given.get("at"),
        tables=tables,
    )
    made = report.export
    row = (made.name, made.version, made.location, report.files_copied, report.bytes_copied)
    return InlineResult(
        "name string, version bigint, location string, files_copied bigint, bytes_copied bigint", (row,)
    )


def _rollback(lake: Lakehouse, _: str, given: Mapping[str, Any]) -> InlineResult:
    before = lake.version
    version = lake.rollback(given["to"], message=str(given.get("message", "")))
    return InlineResult("version_before bigint, version bigint", ((before, version),))


def _check(lake: Lakehouse, _: str, given: Mapping[str, Any]) -> InlineResult:
    report = lake.maintenance.check(sample=given.get("sample"), repair=bool(given.get("repair", False)))
    return InlineResult("path string, rule string", tuple((problem.path, problem.rule) for problem in report))


def _create_table_version(table: Table, given: Mapping[str, Any]) -> InlineResult:
    options: dict[str, Any] = {
        name: _split_list(given[name]) for name in ("keys", "partition_by", "sort_by") if name in given
    }
    options |= {
        name: given[name]
        for name in ("schema", "description", "version", "state", "stream_id", "properties", "schemaless")
        if name in given
    }
    return _version_row(table.create_version(**options))


def _set_table_version_state(table: Table, given: Mapping[str, Any]) -> InlineResult:
    table.set_state(given["state"])
    return _version_row(table)


def _drop_table_version(table: Table, _: Mapping[str, Any]) -> InlineResult:
    table.drop_version()
    return InlineResult("table string, version bigint", ((str(table.locator), table.target.version),))


def _create_stream(table: Table, given: Mapping[str, Any]) -> InlineResult:
    return _stream_row(table.create_stream(given.get("stream_id"), given.get("format", STREAM_FORMAT)))


def _commit_stream(table: Table, _: Mapping[str, Any]) -> InlineResult:
    table.commit_stream()
    return _stream_row(table)


def _drop_stream(table: Table, _: Mapping[str, Any]) -> InlineResult:
    table.drop_stream()
    return _stream_row(table)


def _create_partition(table: Table, given: Mapping[str, Any]) -> InlineResult:
    made = table.create_partition(parse_partition_values(given["partition_values"]), given["partition_id"])
    return InlineResult("table string, partition_id string", ((str(table), made.partition_id),))


def _stream_row(table: Table) -> InlineResult:
    owner = TableTarget(table.locator, table.target.version)
    return InlineResult("table string, stream_id string", ((str(owner), table.target.stream_id),))


def _version_row(table: Table) -> InlineResult:
    (one,) = (one for one in table.versions() if one.version == table.target.version)
    row = (str(table.locator), one.version, one.state, one.is_default)
    return InlineResult("table string, version bigint, state string, is_default boolean", (row,))


def _split_list(text: object) -> list[str]:
    """Return the columns of a list, such as "id, days(ts)"; commas inside brackets do not split."""
    return [part.strip() for part in re.split(r",(?![^()]*\))", str(text)) if part.strip()]


def _rollback_table(table: Table, given: Mapping[str, Any]) -> InlineResult:
    table.rollback(given["to"])
    return InlineResult("table string, to string", ((str(table), str(given["to"])),))


def _create_alias(lake: Lakehouse, _: str, given: Mapping[str, Any]) -> InlineResult:
    return _build_alias_rows([lake.create_alias(given["name"], given["target"])])


def _drop_alias(lake: Lakehouse, _: str, given: Mapping[str, Any]) -> InlineResult:
    lake.drop_alias(given["name"])
    return _list_aliases(lake, _, {})


def _list_aliases(lake: Lakehouse, _: str, __: Mapping[str, Any]) -> InlineResult:
    return _build_alias_rows(lake.aliases())


def _build_alias_rows(aliases: Iterable[Alias]) -> InlineResult:
    rows = tuple((alias.name, alias.target, alias.kind.word) for alias in aliases)
    return InlineResult("alias string, target string, kind string", rows)


PROCEDURES: Final[Mapping[str, Procedure]] = {
    "compact": Procedure(("table", "engine", "bytes_max", "files_max", "full"), 1, _compact),
    "expire": Procedure(("dry_run",), 0, _expire),
    "vacuum": Procedure(("dry_run", "grace"), 0, _vacuum),
    "export": Procedure(("destination", "name", "mode", "at", "tables"), 2, _export),
    "rollback": Procedure(("to", "message"), 1, _rollback),
    "check": Procedure(("sample", "repair"), 0, _check),
    "create_alias": Procedure(("name", "target"), 2, _create_alias),
    "drop_alias": Procedure(("name",), 1, _drop_alias),
    "aliases": Procedure((), 0, _list_aliases),
}

TABLE_PROCEDURES: Final[Mapping[str, TableProcedure]] = {
    "create_table_version": TableProcedure(
        (
            "table",
            "schema",
            "keys",
            "partition_by",
            "sort_by",
            "state",
            "version",
            "description",
            "stream_id",
            "properties",
            "schemaless",
        ),
        1,
        _create_table_version,
    ),
    "rollback_table": TableProcedure(("table", "to"), 2, _rollback_table),
    "set_table_version_state": TableProcedure(("table", "version", "state"), 3, _set_table_version_state, "version"),
    "drop_table_version": TableProcedure(("table", "version"), 2, _drop_table_version, "version"),
    "create_stream": TableProcedure(("table", "stream_id", "format"), 1, _create_stream),
    "commit_stream": TableProcedure(("table", "stream_id"), 2, _commit_stream, "stream_id"),
    "create_partition": TableProcedure(("table", "partition_id", "partition_values"), 3, _create_partition),
    "drop_stream": TableProcedure(("table", "stream_id"), 2, _drop_stream, "stream_id"),
}
