"""What a merge does with each row: clauses in order, of which the first that applies decides."""

import enum
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from mangrove.errors import InvalidInputError
from mangrove.model.schema import Schema
from mangrove.tables.assigning import Assignable, checked_assignments
from mangrove.tables.expressions import Binary, ColumnPath, Expression, conjuncts

__all__ = ["MergeClause", "MergeKind", "MergePlan", "clause_values", "equal_columns", "equal_pair"]


class MergeKind(enum.Enum):
    """Which rows a clause is about, and what becomes of them."""

    MATCHED_UPDATE = "when matched update"
    MATCHED_DELETE = "when matched delete"
    INSERT = "when not matched insert"
    UNMATCHED_UPDATE = "when not matched by source update"
    UNMATCHED_DELETE = "when not matched by source delete"


@dataclass(frozen=True, slots=True)
class MergeClause:
    """One `when`; without values an update or insert takes all columns that source and table have in common."""

    kind: MergeKind
    where: str | None = None
    values: Mapping[str, Assignable] | None = None


@dataclass(frozen=True, slots=True)
class MergePlan:
    """What a merge compares and does; expressions call the table and the source by these names."""

    on: str
    clauses: tuple[MergeClause, ...] = ()
    target_name: str = "t"
    source_name: str = "s"

    def __post_init__(self) -> None:
        object.__setattr__(self, "clauses", tuple(self.clauses))
        if not self.on.strip():
            raise InvalidInputError("a merge needs a condition: on='t.id = s.id'")
        if self.target_name.casefold() == self.source_name.casefold():
            raise InvalidInputError(f"the table and the source of a merge are both called {self.target_name!r}")

    def of_kinds(self, *kinds: MergeKind) -> tuple[MergeClause, ...]:
        """Return the clauses of some kinds, in order."""
        return tuple(clause for clause in self.clauses if clause.kind in kinds)

    def check(self) -> None:
        """Refuse a merge that does nothing, and clauses that can never be reached."""
        if not self.clauses:
            raise InvalidInputError(
                "the merge has no clause: say what to do, for example .when_matched_update().when_not_matched_insert()"
            )
        for kinds in (
            (MergeKind.MATCHED_UPDATE, MergeKind.MATCHED_DELETE),
            (MergeKind.INSERT,),
            (MergeKind.UNMATCHED_UPDATE, MergeKind.UNMATCHED_DELETE),
        ):
            for clause in self.of_kinds(*kinds)[:-1]:
                if clause.where is None:
                    raise InvalidInputError(
                        f"`{clause.kind.value}` has no `where` and is not the last of its kind: "
                        "what follows it is never reached"
                    )


def clause_values(
    clause: MergeClause, schema: Schema, source_columns: Sequence[str], plan: MergePlan
) -> dict[str, Assignable]:
    """Return what a clause puts into which columns, by the columns' own names."""
    if clause.values is not None:
        return checked_assignments(clause.values, schema)
    if clause.kind is MergeKind.UNMATCHED_UPDATE:
        raise InvalidInputError(f"`{clause.kind.value}` has no source row: say what to set")
    there = {name.casefold(): name for name in source_columns}
    common = [column.name for column in schema.columns if column.name.casefold() in there]
    if not common:
        raise InvalidInputError(
            f"the source has none of the table's columns ({', '.join(schema.names)}): say which values to take"
        )
    return {name: f"{_quoted(plan.source_name)}.{_quoted(there[name.casefold()])}" for name in common}


def equal_columns(on: Expression, plan: MergePlan) -> list[tuple[str, str]]:
    """Return the columns of the table that must be equal to columns of the source, each with that one."""
    pairs = (equal_pair(condition, plan) for condition in conjuncts(on))
    return [pair for pair in pairs if pair is not None]


def equal_pair(condition: Expression, plan: MergePlan) -> tuple[str, str] | None:
    """Return the column of the table and that of the source if the condition is that they are equal."""
    target, source = plan.target_name.casefold(), plan.source_name.casefold()
    match condition:
        case Binary("=", ColumnPath((first, one)), ColumnPath((second, other))):
            sides = (first.casefold(), second.casefold())
            return (one, other) if sides == (target, source) else (other, one) if sides == (source, target) else None
        case _:
            return None


def _quoted(name: str) -> str:
    return f"`{name.replace('`', '``')}`"
