"""Carrying out UPDATE, DELETE and MERGE with the verbs of tables, on Spark."""

from dataclasses import replace
from typing import assert_never

from mangrove.errors import InvalidInputError
from mangrove.lakehouse.handles import LakeTable
from mangrove.lakehouse.table_merge import TableMerge
from mangrove.lakehouse.transactions import LakeTransaction
from mangrove.model.names import joined_name, quoted_name
from mangrove.model.schema import Schema
from mangrove.model.types import Struct
from mangrove.spark.statements import one_row, renamed_columns
from mangrove.sql.cursor import Piece, SqlName
from mangrove.sql.expressions import Expressions, has_subquery, requalified
from mangrove.sql.inserting import columns_of, managed_table
from mangrove.sql.places import placed
from mangrove.sql.pruning import condition_predicate
from mangrove.sql.qualifying import qualified
from mangrove.sql.row_statements import Assignment, Delete, Merge, MergeClause, Update
from mangrove.sql.tokens import name_chain, tokenize
from mangrove.tables.conditions import Narrowed
from mangrove.tables.predicates import Predicate
from mangrove.tables.row_counts import RowCounts

__all__ = ["change"]


def change(statement: Update | Delete | Merge, transaction: LakeTransaction, expressions: Expressions) -> RowCounts:
    """Change the rows of the table as the statement says."""
    table = managed_table(transaction, expressions.binder.sight, statement.table)
    try:
        return _changed(statement, table, expressions)
    except InvalidInputError as error:
        # Spark saw pieces of the statement only. A look at each finds the place that it means.
        _find_refusal(statement, table, expressions)
        raise error from error.__cause__


def _changed(statement: Update | Delete | Merge, table: LakeTable, expressions: Expressions) -> RowCounts:
    match statement:
        case Delete():
            return _delete(statement, table, expressions)
        case Update():
            return _update(statement, table, expressions)
        case Merge():
            return _merge(statement, table, expressions)
        case _:
            assert_never(statement)


def _find_refusal(statement: Update | Delete | Merge, table: LakeTable, expressions: Expressions) -> None:
    """Raise what Spark refuses about a condition or a value, at its place in the statement."""
    quoted = quoted_name(statement.alias or statement.table.parts[-1])
    tables = f"{quoted_name(table.locator.namespace)}.{quoted_name(table.name)} AS {quoted}"
    asked = [(statement.condition, tables)] if statement.condition is not None else []
    looked_at: list[tuple[Piece, str]] = []
    if isinstance(statement, Update):
        looked_at += [(assignment.value, tables) for assignment in statement.assignments]
    elif isinstance(statement, Merge):
        alias = "" if statement.source_alias is None else f" AS {quoted_name(statement.source_alias)}"
        names = f"({', '.join(map(quoted_name, statement.source_columns))})" if statement.source_columns else ""
        source = f"{statement.source.text}{alias}{names}"
        both = f"{tables}, {source}"
        asked = [(piece, both) for piece, _ in asked]
        seen = {"matched": both, "not matched": source, "not matched by source": tables}
        for clause in statement.clauses:
            asked += [(clause.condition, seen[clause.group])] if clause.condition is not None else []
            looked_at += [(assignment.value, seen[clause.group]) for assignment in clause.assignments]
    for piece, over in asked:
        expressions.try_out(piece, over, is_condition=True)
    for piece, over in looked_at:
        if piece.text.strip().upper() != "DEFAULT":
            expressions.try_out(piece, over)


def _delete(statement: Delete, table: LakeTable, expressions: Expressions) -> RowCounts:
    if statement.condition is None:
        return table.overwrite([])
    condition = expressions.text(statement.condition)
    if has_subquery(condition):
        merge = _alone(table, statement.table, statement.alias, expressions)
        where = requalified(condition, _full_name(statement.table, table, statement.alias))
        return merge.when_matched_delete(where).execute()
    return table.delete(_where(condition, statement, table, expressions), engine="spark")


def _update(statement: Update, table: LakeTable, expressions: Expressions) -> RowCounts:
    schema = columns_of(table)
    names = _names(statement.table, statement.alias)
    values = _assigned(statement.assignments, schema, names, expressions, table)
    condition = None if statement.condition is None else expressions.text(statement.condition)
    if any(map(has_subquery, [*values.values(), condition or ""])):
        full = _full_name(statement.table, table, statement.alias)
        merge = _alone(table, statement.table, statement.alias, expressions)
        spoken = {name: requalified(value, full) for name, value in values.items()}
        return merge.when_matched_update(spoken, None if condition is None else requalified(condition, full)).execute()
    bare = {name: requalified(value, dict.fromkeys(names)) for name, value in values.items()}
    where = None if condition is None else _where(condition, statement, table, expressions)
    return table.update(bare, where, engine="spark")


def _where(
    condition: str, statement: Update | Delete, table: LakeTable, expressions: Expressions
) -> str | Predicate | Narrowed:
    """Return the condition: a predicate, by which files are skipped, where that is certainly the same, or follows."""
    binder = expressions.binder
    names = [statement.alias] if statement.alias else [table.name]
    schema = columns_of(table)
    predicate = condition_predicate(condition, names, schema, binder.time_zone, is_exact=True)
    if predicate is not None:
        return predicate
    bare = requalified(condition, dict.fromkeys(_names(statement.table, statement.alias)))
    # In these words it is no predicate of ours, which might take literals otherwise than this session of Spark's,
    # and Spark refuses what is neither true nor false, where IS TRUE would take the text 'yes'.
    text = f"CASE WHEN ({bare}) THEN TRUE ELSE FALSE END"
    certain = condition_predicate(condition, names, schema, binder.time_zone, is_exact=False)
    return text if certain is None else Narrowed(text, certain)


def _alone(table: LakeTable, name: SqlName, alias: str | None, expressions: Expressions) -> TableMerge:
    """Return a merge with one row that matches all: so subqueries can name the table's row by its alias."""
    one = one_row(expressions.binder.engine.session, "mangrove one")
    return table.merge(one, "true", target_name=alias or name.parts[-1], source_name="mangrove one", engine="spark")


def _merge(statement: Merge, table: LakeTable, expressions: Expressions) -> RowCounts:
    source = expressions.rows(statement.source)
    if statement.source_columns:
        source = renamed_columns(source, statement.source_columns)
    if statement.with_schema_evolution:
        table.evolve(source.select(*map(quoted_name, _used(statement, source.columns))))
    target = statement.alias or statement.table.parts[-1]
    parts = _source_parts(statement.source)
    other = statement.source_alias or (parts[-1] if parts else "source")
    names: dict[tuple[str, ...], str | None] = dict(_full_name(statement.table, table, statement.alias))
    if other.casefold() == target.casefold():
        if statement.source_alias is not None or not parts:
            raise InvalidInputError(f"the table and the source of the merge are both called {target!r}: rename one")
        other = joined_name(*parts)
    if parts and not statement.source_alias:
        names[tuple(part.casefold() for part in parts)] = other
    merge = table.merge(
        source,
        requalified(expressions.text(statement.condition), names),
        target_name=target,
        source_name=other,
        engine="spark",
    )
    schema = columns_of(table)
    for clause in statement.clauses:
        merge = _with_clause(merge, clause, schema, source.columns, (table, statement, expressions, names))
    return merge.execute()


def _used(statement: Merge, source_columns: list[str]) -> list[str]:
    """Return the columns of the source that the merge may bring into the table: all, or those that are set by name."""
    if any(clause.action in ("update all", "insert all") for clause in statement.clauses):
        return source_columns
    named = {assignment.column[-1].casefold() for clause in statement.clauses for assignment in clause.assignments}
    return [name for name in source_columns if name.casefold() in named]


def _with_clause(
    merge: TableMerge,
    clause: MergeClause,
    schema: Schema,
    source_columns: list[str],
    about: tuple[LakeTable, Merge, Expressions, dict[tuple[str, ...], str | None]],
) -> TableMerge:
    table, statement, expressions, names = about
    shared = {column.name.casefold() for column in schema.columns} & {name.casefold() for name in source_columns}
    side = {"not matched": merge.plan.source_name, "not matched by source": merge.plan.target_name}.get(clause.group)

    def spoken(text: str) -> str:
        # Where a row has no match, a bare name can mean a column of the one side alone.
        return requalified(text if side is None else qualified(text, shared, side), names)

    where = None if clause.condition is None else spoken(expressions.text(clause.condition))
    assignments = _placed(clause.assignments, schema, table)
    assigned = _assigned(assignments, schema, _names(statement.table, statement.alias), expressions, table)
    values = {name: spoken(value) for name, value in assigned.items()}
    if clause.action in ("update all", "insert all") and not statement.with_schema_evolution:
        there = {name.casefold() for name in source_columns}
        missing = [column.name for column in schema.columns if column.name.casefold() not in there]
        if missing:
            raise InvalidInputError(f"the source of the merge has no column {missing[0]!r}: name the columns to set")
    match clause.group, clause.action:
        case "matched", "delete":
            return merge.when_matched_delete(where)
        case "matched", _:
            return merge.when_matched_update(None if clause.action == "update all" else values, where)
        case "not matched", _:
            return merge.when_not_matched_insert(None if clause.action == "insert all" else values, where)
        case _, "delete":
            return merge.when_not_matched_by_source_delete(where)
        case _:
            return merge.when_not_matched_by_source_update(values, where)


def _placed(assignments: tuple[Assignment, ...], schema: Schema, table: LakeTable) -> tuple[Assignment, ...]:
    """Return the assignments with the columns to which their places give them, where they name none."""
    if not assignments or assignments[0].column:
        return assignments
    if len(assignments) != len(schema.columns):
        raise InvalidInputError(
            f"an INSERT of the merge has {len(assignments)} values, and {table} has {len(schema.columns)} columns: "
            "name the columns to set"
        )
    return tuple(replace(one, column=(to.name,)) for one, to in zip(assignments, schema.columns, strict=True))


def _assigned(
    assignments: tuple[Assignment, ...],
    schema: Schema,
    names: list[tuple[str, ...]],
    expressions: Expressions,
    table: LakeTable,
) -> dict[str, str]:
    """Return what each column becomes; a field of a struct becomes its struct, made anew."""
    found: dict[str, str] = {}
    fields: dict[str, list[tuple[tuple[str, ...], str]]] = {}
    for assignment in assignments:
        path = assignment.column
        for name in names:
            if tuple(part.casefold() for part in path[: len(name)]) == name and len(path) > len(name):
                path = path[len(name) :]
                break
        with placed(expressions.source.text, assignment.start):
            column = schema.column(path[0])
            if column.name in found or (column.name in fields and len(path) == 1):
                raise InvalidInputError(f"column {column.name!r} of {table} is set twice")
        text = expressions.text(assignment.value)
        if text.strip().upper() == "DEFAULT":
            text = schema.column(*path).default or "NULL"
        if len(path) == 1:
            found[column.name] = text
        else:
            fields.setdefault(column.name, []).append((path[1:], text))
    for whole, changed in fields.items():
        found[whole] = _struct_text(schema.column(whole).type, quoted_name(whole), changed)
    return found


def _struct_text(data_type: object, here: str, changed: list[tuple[tuple[str, ...], str]]) -> str:
    """Return an expression for a struct with some fields changed."""
    if not isinstance(data_type, Struct):
        raise InvalidInputError(f"{here} is no struct: set it as a whole")
    by_field: dict[str, list[tuple[tuple[str, ...], str]]] = {}
    for path, text in changed:
        by_field.setdefault(path[0].casefold(), []).append((path[1:], text))
    known = {column.name.casefold() for column in data_type.columns}
    for name in by_field.keys() - known:
        raise InvalidInputError(f"{here} has no field {name!r}")
    parts = []
    for column in data_type.columns:
        inner = f"{here}.{quoted_name(column.name)}"
        given = by_field.get(column.name.casefold(), [])
        if any(not path for path, _ in given):
            if len(given) > 1:
                raise InvalidInputError(f"{inner} is set twice")
            value = f"({given[0][1]})"
        else:
            value = _struct_text(column.type, inner, given) if given else inner
        name = column.name.replace("'", "\\'")
        parts.append(f"'{name}', {value}")
    return f"named_struct({', '.join(parts)})"


def _names(name: SqlName, alias: str | None) -> list[tuple[str, ...]]:
    """Return by what the columns of the table may be qualified; an alias hides the table's own name."""
    if alias is not None:
        return [(alias.casefold(),)]
    folded = tuple(part.casefold() for part in name.parts)
    return [folded, folded[-1:]]


def _full_name(name: SqlName, table: LakeTable, alias: str | None) -> dict[tuple[str, ...], str | None]:
    """Return how a name with its namespace is said where the table goes by one name."""
    if alias is not None:
        return {}
    full = (table.locator.namespace.casefold(), table.name.casefold())
    return {full: name.parts[-1]}


def _source_parts(source: Piece) -> tuple[str, ...]:
    tokens = tokenize(source.text)
    return name_chain(tokens, 0)[0] if tokens[0].is_name else ()
