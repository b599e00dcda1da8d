"""Columns, references and nesting of views."""

import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

from sqlglot import exp

from mangrove.errors import InvalidInputError, MangroveError
from mangrove.model.names import check_name, join_name
from mangrove.model.types import DataType
from mangrove.sql.parse.table_refs import analyze_query, find_cte, parse_query_tree
from mangrove.sql.pushdown.scopes import Scope, Scopes, TypedColumns, find_plain_type
from mangrove.sql.type_inference import infer_exact_type

__all__ = ["ViewColumns", "annotate_view_errors", "enter_view", "find_referenced_names", "infer_view_columns"]

_PARTS: Final = 2


def find_referenced_names(text: str, namespace: str) -> tuple[str, ...]:
    """Return the names that a query reads; those without a namespace are in `namespace`.

    A query that cannot be parsed references nothing; Spark reports its errors. Names
    that no object of a lakehouse can have, such as file paths, are left to Spark.

    >>> query = "with c as (select 1) select * from orders join far.`my.rows` join c join csv.`/a`"
    >>> find_referenced_names(query, "shop")
    ('shop.orders', 'far.`my.rows`')
    """
    try:
        names = [table_ref.parts for table_ref in analyze_query(text).table_refs]
    except InvalidInputError:
        return ()
    pairs = [(namespace, *parts) if len(parts) == 1 else parts for parts in names]
    return tuple(dict.fromkeys(join_name(*pair) for pair in pairs if _is_valid_name(pair)))


def _is_valid_name(parts: tuple[str, ...]) -> bool:
    try:
        for part in parts:
            check_name(part)
    except InvalidInputError:
        return False
    return len(parts) == _PARTS


_DEEP_MAX: Final = 50
_REPORTED_MAX: Final = 5
_CANNOT_BE_READ: Final = re.compile(r"cannot read view [^:]+: ")


def enter_view(above: tuple[str, ...], name: str) -> tuple[str, ...]:
    """Return the chain of nested views with `name` added; raise an error for a cycle or too many levels.

    >>> enter_view(("s.a",), "s.b")
    ('s.a', 's.b')
    """
    if name in above:
        chain = " reads ".join((*above[above.index(name) :], name))
        raise InvalidInputError(
            f"view {name} reads itself: {chain}; drop one of these views, or replace it with another query"
        )
    if len(above) >= _DEEP_MAX:
        chain = " reads ".join((*above[:_REPORTED_MAX], "…", name))
        raise InvalidInputError(
            f"views are nested more than {_DEEP_MAX} levels deep: {chain}; replace one of them by a table "
            "(CREATE TABLE … AS SELECT …)"
        )
    return (*above, name)


@contextmanager
def annotate_view_errors(name: str) -> Iterator[None]:
    """Add the name of the innermost view to an error."""
    try:
        yield
    except MangroveError as error:
        if _CANNOT_BE_READ.match(str(error)):
            raise
        # Only the first line: a caret in the view's text would not match the user's statement.
        raise type(error)(f"cannot read view {name}: {str(error).splitlines()[0]}") from error


ViewColumns: TypeAlias = tuple[tuple[str, DataType], ...]
_UNNAMED: Final = "\0"


def infer_view_columns(text: str, columns_of: Callable[[tuple[str, ...]], TypedColumns | None]) -> ViewColumns | None:
    """Return the names and exact types of the result columns of a query, or None if they cannot be inferred.

    `columns_of` returns the columns of a table or view by the parts of its name. A query
    with an AS OF clause has no result, because other engines count versions differently.
    """
    try:
        tree = parse_query_tree(text)
    except InvalidInputError:
        return None
    if tree is None or any(table.args.get("version") for table in tree.find_all(exp.Table)):
        return None
    return _ViewColumnInference(columns_of).infer(tree)


@dataclass(frozen=True)
class _ViewColumnInference:
    columns_of: Callable[[tuple[str, ...]], TypedColumns | None]

    def infer(self, query: Any) -> ViewColumns | None:
        match query:
            case exp.SetOperation() if not query.args.get("by_name") and not query.args.get("with_"):
                left, right = self.infer(query.this), self.infer(query.expression)
                # The type of a set operation is certain only if both sides have equal types.
                is_same = left is not None and right is not None and _types(left) == _types(right)
                return left if is_same else None
            case exp.Select():
                return self._infer_select(query)
            case _:
                return None

    def _infer_select(self, select: exp.Select) -> ViewColumns | None:
        scopes = Scopes(self._of_table, _exact_type)
        if select.find(exp.SetOperation) or not all(scopes.scope(one).is_known for one in select.find_all(exp.Select)):
            return None
        outputs = scopes.outputs(select)
        if outputs is None:
            return None
        columns = [(output.name, output.type) for output in outputs]
        names = [name for name, _ in columns]
        if len(set(names)) < len(names) or not names:
            return None
        spellings = {**self._table_spellings(select), **_find_spellings(select)}
        typed = [(spellings.get(name, name), kind) for name, kind in columns if kind and not name.startswith(_UNNAMED)]
        return tuple(typed) if len(typed) == len(columns) else None

    def _of_table(self, table: exp.Table) -> TypedColumns | None:
        return self.columns_of(tuple(part.name for part in table.parts))

    def _table_spellings(self, select: exp.Select) -> dict[str, str]:
        """Return the spelling of each column in its table, by its case-folded name."""
        tables = [table for table in select.find_all(exp.Table) if find_cte(table) is None]
        return {name.casefold(): name for table in tables for name, _ in self._of_table(table) or ()}


def _find_spellings(select: exp.Select) -> dict[str, str]:
    named = [item.alias_or_name for item in select.expressions if not item.is_star]
    renamed = [column.name for source in select.find_all(exp.TableAlias) for column in source.args.get("columns") or ()]
    return {name.casefold(): name for name in (*renamed, *named)}


def _exact_type(scope: Scope, node: Any) -> DataType | None:
    return infer_exact_type(node, lambda inner: find_plain_type(scope, inner))


def _types(columns: ViewColumns) -> list[DataType]:
    return [kind for _, kind in columns]
