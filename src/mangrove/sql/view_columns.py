"""Which columns the query of a view gives, told from its text where that is certain, without starting Spark."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

from sqlglot import exp

from mangrove.errors import InvalidInputError
from mangrove.model.types import DataType
from mangrove.sql.certain_types import certain_type
from mangrove.sql.mentions import common_clause, parsed_tree
from mangrove.sql.scopes import Columns, Scope, Scopes, plain_type

__all__ = ["ToldColumns", "told_columns"]

ToldColumns: TypeAlias = tuple[tuple[str, DataType], ...]
_UNNAMED: Final = "\0"


def told_columns(text: str, columns_of: Callable[[tuple[str, ...]], Columns | None]) -> ToldColumns | None:
    """Return the names and exact types of the columns that a query gives, or None where somebody else must say.

    `columns_of` tells those of a table or view by the parts of its name. A query that
    reads a table at a moment is told to nobody: other engines count moments differently.
    """
    try:
        tree = parsed_tree(text)
    except InvalidInputError:
        return None
    if tree is None or any(table.args.get("version") for table in tree.find_all(exp.Table)):
        return None
    return _Telling(columns_of).told(tree)


@dataclass(frozen=True)
class _Telling:
    columns_of: Callable[[tuple[str, ...]], Columns | None]

    def told(self, query: Any) -> ToldColumns | None:
        match query:
            case exp.SetOperation() if not query.args.get("by_name") and not query.args.get("with_"):
                left, right = self.told(query.this), self.told(query.expression)
                # Only of equal types is it certain what the whole has.
                is_same = left is not None and right is not None and _types(left) == _types(right)
                return left if is_same else None
            case exp.Select():
                return self._selected(query)
            case _:
                return None

    def _selected(self, select: exp.Select) -> ToldColumns | None:
        scopes = Scopes(self._of_table, _exact_type)
        if select.find(exp.SetOperation) or not all(scopes.scope(one).is_known for one in select.find_all(exp.Select)):
            return None
        outputs = scopes.outputs(select)
        if outputs is None:
            return None
        found = [(output.name, output.type) for output in outputs]
        names = [name for name, _ in found]
        if len(set(names)) < len(names) or not names:
            return None
        spelled = {**self._spelled(select), **_spelled_here(select)}
        told = [(spelled.get(name, name), kind) for name, kind in found if kind and not name.startswith(_UNNAMED)]
        return tuple(told) if len(told) == len(found) else None

    def _of_table(self, table: exp.Table) -> Columns | None:
        return self.columns_of(tuple(part.name for part in table.parts))

    def _spelled(self, select: exp.Select) -> dict[str, str]:
        """Return how tables spell their columns: names are looked up without regard to case."""
        tables = [table for table in select.find_all(exp.Table) if common_clause(table) is None]
        return {name.casefold(): name for table in tables for name, _ in self._of_table(table) or ()}


def _spelled_here(select: exp.Select) -> dict[str, str]:
    named = [item.alias_or_name for item in select.expressions if not item.is_star]
    renamed = [column.name for source in select.find_all(exp.TableAlias) for column in source.args.get("columns") or ()]
    return {name.casefold(): name for name in (*renamed, *named)}


def _exact_type(scope: Scope, node: Any) -> DataType | None:
    return certain_type(node, lambda inner: plain_type(scope, inner))


def _types(columns: ToldColumns) -> list[DataType]:
    return [kind for _, kind in columns]
