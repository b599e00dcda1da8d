"""What every row of a table must be: defaults, columns that are never null, conditions; and the order of columns."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mangrove import tables
from mangrove.errors import InvalidInputError, NotFoundError
from mangrove.lakehouse.table_staging import table_state
from mangrove.lakehouse.table_verbs import TableVerbs
from mangrove.model.names import quoted_name, split_path
from mangrove.transaction.deltas import open_table
from mangrove.transaction.transaction import Transaction

if TYPE_CHECKING:
    from mangrove.tables.table_state import TableState

__all__ = ["TableConstraints"]


class TableConstraints(TableVerbs):
    """What is asked of rows before they are written."""

    @property
    def checks(self) -> dict[str, str]:
        """The conditions that every row fulfils, by name."""
        return tables.constraints.checks_of(open_table(self.catalog.reading(), self.locator).version)

    def add_check(self, name: str, condition: str) -> None:
        """Ask that a condition holds for every row, those that are there too; unknown counts as held."""

        def holds(state: TableState) -> None:
            found = self._breaking_check(state, name, condition)
            if found:
                raise tables.constraints.broken_check(state.name, name, condition, found)

        self._evolve(
            f"add check {name} to",
            lambda version: tables.constraints.with_check(version, name, condition),
            stops_writers=True,
            holds=holds,
        )

    def try_checks(self, transaction: Transaction) -> None:
        """Refuse conditions that cannot be asked of any row, in the transaction that makes the table."""
        state = table_state(transaction.workspace, self.locator, with_logs=False)
        for name, condition in tables.constraints.checks_of(state.version).items():
            self._breaking_check(state, name, condition)

    def drop_check(self, name: str) -> None:
        """Ask it no more."""
        self._evolve(f"drop check {name} of", lambda version: tables.constraints.without_check(version, name))

    def set_default(self, name: str, default: str | None) -> None:
        """Say by an SQL expression what is written where no value is given; None says nothing any more."""
        self._evolve(
            f"set default of {name} of",
            lambda version: tables.evolution.with_default(version, split_path(name), default),
        )

    def set_not_null(self, name: str) -> None:
        """Ask that a column has a value in every row, those that are there too."""

        def holds(state: TableState) -> None:
            path = ".".join(quoted_name(part) for part in split_path(name))
            found = self._breaking(state, f"{path} is null")
            if found:
                raise InvalidInputError(
                    f"rows of {state.name} have no value in {name!r}, for example {found}: give them one first"
                )

        self._evolve(
            f"set {name} not null in",
            lambda version: tables.evolution.with_nullability(version, split_path(name), nullable=False),
            stops_writers=True,
            holds=holds,
        )

    def drop_not_null(self, name: str) -> None:
        """Allow a column to have no value."""
        self._evolve(
            f"drop not null of {name} of",
            lambda version: tables.evolution.with_nullability(version, split_path(name), nullable=True),
            stops_writers=True,
        )

    def set_comment(self, name: str, comment: str | None) -> None:
        """Say what a column is for."""
        self._evolve(
            f"comment on {name} of", lambda version: tables.evolution.with_comment(version, split_path(name), comment)
        )

    def move_column(self, name: str, *, after: str | None = None) -> None:
        """Put a column behind another one beside it, or first; no file is touched."""
        self._evolve(
            f"move {name} of", lambda version: tables.evolution.with_column_moved(version, split_path(name), after)
        )

    def _breaking_check(self, state: TableState, name: str, condition: str) -> list[object]:
        """Return examples of rows that break a condition; refuse one that is none."""
        try:
            # A line ends before the bracket closes, so that no comment hides it.
            return self._breaking(state, f"not ({condition}\n)")
        except (InvalidInputError, NotFoundError) as error:
            message = f"the check {name!r}, which is {condition}, cannot be asked of rows of {state.name}: {error}"
            raise type(error)(message) from error

    def _breaking(self, state: TableState, where: str) -> list[object]:
        """Return examples of rows that a condition means, found here or else by Spark."""
        engines = self._engines()
        try:
            return list(engines.local().examples(state, where))
        except tables.expressions.BeyondArrowError as reason:
            try:
                spark = engines.spark()
            except InvalidInputError:
                raise reason from None
            return list(spark.examples(state, where))
