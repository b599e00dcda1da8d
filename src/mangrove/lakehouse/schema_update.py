"""Schema changes of a table that are committed together."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Self

from mangrove.errors import InvalidInputError, NotFoundError
from mangrove.expressions.expr import RequiresSparkError
from mangrove.lakehouse.engine_port import Engines
from mangrove.lakehouse.table_staging import guard_logs
from mangrove.model.names import quote_name, split_path
from mangrove.model.objects import TableVersion
from mangrove.tables.constraints import (
    add_check_constraint,
    build_check_violation_error,
    check_constraints_of,
    drop_check_constraint,
)
from mangrove.tables.schema_evolution import (
    add_column,
    drop_column,
    move_column,
    rename_column,
    set_column_comment,
    set_column_default,
    set_column_nullability,
    widen_column,
)
from mangrove.tables.table_properties import update_column_properties
from mangrove.tables.table_state import load_table_state
from mangrove.transaction.catalog import alter_table
from mangrove.transaction.deltas import OpenTable, TableTarget, open_table, put_table_version
from mangrove.transaction.transaction import StagedTransaction
from mangrove.transaction.workspace import Workspace

if TYPE_CHECKING:
    from types import TracebackType

    from mangrove.tables.table_state import TableState

__all__ = ["SchemaUpdate", "validate_new_checks"]


@dataclass(frozen=True, slots=True)
class _Change:
    """One change; `validate` refuses it if existing rows violate it, and the rows are guarded until the commit."""

    description: str
    apply: Callable[[TableVersion], TableVersion]
    stops_writers: bool = False
    validate: Callable[[TableState], None] | None = None


class SchemaUpdate:
    """Changes of a table's columns and constraints, committed together.

    Use it in a `with` block, which commits at its end and commits nothing if it raises, or
    chain the changes and call `commit`. A path such as `address.city` names a field of a
    struct.
    """

    def __init__(
        self,
        target: TableTarget,
        engines: Callable[[], Engines],
        run: Callable[[Callable[[StagedTransaction], None], str], None],
    ) -> None:
        self._target = target
        self._engines = engines
        self._run = run
        self._changes: list[_Change] = []

    def __repr__(self) -> str:
        return f"<schema update of {self._target}: {', '.join(one.description for one in self._changes) or 'empty'}>"

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if kind is None:
            self.commit()

    def commit(self) -> None:
        """Commit all changes as one version, or stage them in the transaction that the table belongs to."""
        changes = tuple(self._changes)
        if not changes:
            return

        def statement(transaction: StagedTransaction) -> None:
            for change in changes:
                self._apply(transaction.workspace, change)

        verb = changes[0].description if len(changes) == 1 else "update schema of"
        self._run(statement, f"{verb} {self._target}")
        self._changes.clear()

    def add_column(self, name: str, type_words: str) -> Self:
        """Add a column, which is null in existing rows."""
        return self._add(f"add column {name} to", lambda version: add_column(version, split_path(name), type_words))

    def rename_column(self, name: str, to: str) -> Self:
        """Rename a column; no file is rewritten."""
        return self._add(f"rename column {name} of", lambda version: rename_column(version, split_path(name), to))

    def drop_column(self, name: str) -> Self:
        """Drop a column; earlier versions still have it."""
        return self._add(f"drop column {name} of", lambda version: drop_column(version, split_path(name)))

    def widen(self, name: str, type_words: str) -> Self:
        """Change a column to a wider type; no file is rewritten."""
        return self._add(f"widen {name} of", lambda version: widen_column(version, split_path(name), type_words))

    def move_column(self, name: str, *, after: str | None = None) -> Self:
        """Move a column behind another one of the same struct, or to the first position; no file is rewritten."""
        return self._add(f"move {name} of", lambda version: move_column(version, split_path(name), after))

    def set_comment(self, name: str, comment: str | None) -> Self:
        """Set the comment of a column."""
        return self._add(
            f"comment on {name} of", lambda version: set_column_comment(version, split_path(name), comment)
        )

    def set_default(self, name: str, default: str) -> Self:
        """Set the SQL expression that is written if no value is given."""
        return self._add(
            f"set default of {name} of", lambda version: set_column_default(version, split_path(name), default)
        )

    def drop_default(self, name: str) -> Self:
        """Drop the default of a column."""
        return self._add(
            f"drop default of {name} of", lambda version: set_column_default(version, split_path(name), None)
        )

    def set_not_null(self, name: str) -> Self:
        """Require a value in every row; refused if existing rows have nulls."""

        def validate(state: TableState) -> None:
            path = ".".join(quote_name(part) for part in split_path(name))
            found = _find_rows(self._engines(), state, f"{path} is null")
            if found:
                raise InvalidInputError(
                    f"rows of {state.name} have no value in {name!r}, for example {found}: give them one first"
                )

        return self._add(
            f"set {name} not null in",
            lambda version: set_column_nullability(version, split_path(name), nullable=False),
            stops_writers=True,
            validate=validate,
        )

    def drop_not_null(self, name: str) -> Self:
        """Allow nulls in a column."""
        return self._add(
            f"drop not null of {name} of",
            lambda version: set_column_nullability(version, split_path(name), nullable=True),
            stops_writers=True,
        )

    def add_check(self, name: str, condition: str) -> Self:
        """Add a check constraint: a condition that is true or null for every row, including existing ones."""

        def validate(state: TableState) -> None:
            found = _find_check_violations(self._engines(), state, name, condition)
            if found:
                raise build_check_violation_error(state.name, name, condition, found)

        return self._add(
            f"add check {name} to",
            lambda version: add_check_constraint(version, name, condition),
            stops_writers=True,
            validate=validate,
        )

    def drop_check(self, name: str) -> Self:
        """Drop a check constraint."""
        return self._add(f"drop check {name} of", lambda version: drop_check_constraint(version, name))

    def _add(
        self,
        description: str,
        apply: Callable[[TableVersion], TableVersion],
        *,
        stops_writers: bool = False,
        validate: Callable[[TableState], None] | None = None,
    ) -> Self:
        self._changes.append(_Change(description, apply, stops_writers, validate))
        return self

    def _apply(self, workspace: Workspace, change: _Change) -> None:
        opened = open_table(workspace, self._target)
        changed = change.apply(opened.version)
        if changed == opened.version:
            return  # a version that changes nothing would only conflict with others
        changed, renamed = _rename_in_properties(opened, changed)
        if change.validate is not None:
            state = load_table_state(workspace, self._target)
            change.validate(state)
            guard_logs(workspace, self._target, state)
        # Files that others write with the old columns meanwhile still fit, because column ids stay.
        put_table_version(workspace, self._target, changed, stops_writers=change.stops_writers)
        alter_table(workspace, opened.locator, put=renamed)


def validate_new_checks(engines: Engines, transaction: StagedTransaction, target: TableTarget) -> None:
    """Refuse check constraints that cannot be evaluated, in the transaction that creates the table."""
    state = load_table_state(transaction.workspace, target, with_logs=False)
    for name, condition in check_constraints_of(state.version).items():
        _find_check_violations(engines, state, name, condition)


def _find_check_violations(engines: Engines, state: TableState, name: str, condition: str) -> list[object]:
    """Return examples of rows that violate a condition; refuse a condition that cannot be evaluated."""
    try:
        # A line ends before the bracket closes, so that no comment hides it.
        return _find_rows(engines, state, f"not ({condition}\n)")
    except (InvalidInputError, NotFoundError) as error:
        message = f"the check {name!r}, which is {condition}, cannot be evaluated for rows of {state.name}: {error}"
        raise type(error)(message) from error


def _find_rows(engines: Engines, state: TableState, where: str) -> list[object]:
    """Return examples of rows for which a condition holds, found locally or else by Spark."""
    try:
        return list(engines.local().examples(state, where))
    except RequiresSparkError as reason:
        try:
            spark = engines.spark()
        except InvalidInputError:
            raise reason from None
        return list(spark.examples(state, where))


def _rename_in_properties(opened: OpenTable, changed: TableVersion) -> tuple[TableVersion, Mapping[str, str]]:
    """Update the properties that name columns; return the table version and the properties of the table to put.

    A chosen table version gets its own properties where those of the table would not fit the default version.
    """
    before, after = opened.version.schema, changed.schema
    if before is None or after is None or before == after:
        return changed, {}
    renamed = update_column_properties(str(opened.target), opened.properties, before, after)
    is_chosen = opened.target.version is not None
    own = {name: text for name, text in renamed.items() if is_chosen or name in opened.version.properties}
    if own:
        changed = replace(changed, properties={**changed.properties, **own})
    return changed, {name: text for name, text in renamed.items() if name not in own}
