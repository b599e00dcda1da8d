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
from mangrove.transaction.deltas import split_version

__all__ = ["ViewColumns", "annotate_view_errors", "enter_view", "find_referenced_names", "infer_view_columns"]

_PARTS: Final = 2


def find_referenced_names(text: str, namespace: str) -> tuple[str, ...]:
    """Return the names that a query reads; those without a namespace are in `namespace`.

    A query that cannot be taken apart names nothing: Spark will say what is wrong
    with it, or knows more of it than we do. What no object of a lakehouse can be
    called is Spark's own, such as the path of a file.

    >>> query = "with c as (select 1) select * from orders join far.`my.rows` join c join csv.`/a`"
    >>> find_referenced_names(query, "shop")
    ('shop.orders', 'far.`my.rows`')
    """
    try:
        found = [table_ref.parts for table_ref in analyze_query(text).table_refs]
    except InvalidInputError:
        return ()
    pairs = [(namespace, *parts) if len(parts) == 1 else split_version(parts)[0] for parts in found]
    return tuple(dict.fromkeys(join_name(*pair) for pair in pairs if _is_ours(pair)))


def _is_ours(parts: tuple[str, ...]) -> bool:
    try:
        for part in parts:
            check_name(part)
    except InvalidInputError:
        return False
    return len(parts) == _PARTS


_DEEP_MAX: Final = 50
_REPORTED_MAX: Final = 5
_CANNOT_BE_READ: Final = re.compile(r"the view [^:]+ cannot be read: ")


def enter_view(above: tuple[str, ...], name: str) -> tuple[str, ...]:
    """Return the views inside which the query of the view `name` stands, if it stands inside those `above`.

    >>> enter_view(("s.a",), "s.b")
    ('s.a', 's.b')
    """
    if name in above:
        way = " reads ".join((*above[above.index(name) :], name))
        raise InvalidInputError(
            f"the view {name} reads itself: {way}. Drop one of them, or make it anew to read something else"
        )
    if len(above) >= _DEEP_MAX:
        way = " reads ".join((*above[:_REPORTED_MAX], "…", name))
        raise InvalidInputError(
            f"more than {_DEEP_MAX} views stand in each other: {way}. Keep the rows of one of them in a table "
            "(CREATE TABLE … AS SELECT …), and read that"
        )
    return (*above, name)


@contextmanager
def annotate_view_errors(name: str) -> Iterator[None]:
    """Say of an error in which view it is: in the innermost, which is the one to be mended."""
    try:
        yield
    except MangroveError as error:
        if _CANNOT_BE_READ.match(str(error)):
            raise
        # Its first line says all; a caret in the view's text would stand below the user's.
        raise type(error)(f"the view {name} cannot be read: {str(error).splitlines()[0]}") from error


ViewColumns: TypeAlias = tuple[tuple[str, DataType], ...]
_UNNAMED: Final = "\0"


def infer_view_columns(text: str, columns_of: Callable[[tuple[str, ...]], TypedColumns | None]) -> ViewColumns | None:
    """Return the names and exact types of the columns that a query gives, or None where somebody else must say.

    `columns_of` tells those of a table or view by the parts of its name. A query that
    reads a table at a moment is told to nobody: other engines count moments differently.
    """
    try:
        tree = parse_query_tree(text)
    except InvalidInputError:
        return None
    if tree is None or any(table.args.get("version") for table in tree.find_all(exp.Table)):
        return None
    return _ViewColumnInference(columns_of).told(tree)


@dataclass(frozen=True)
class _ViewColumnInference:
    columns_of: Callable[[tuple[str, ...]], TypedColumns | None]

    def told(self, query: Any) -> ViewColumns | None:
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

    def _selected(self, select: exp.Select) -> ViewColumns | None:
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
        spelled = {**self._spelled(select), **_find_spellings(select)}
        told = [(spelled.get(name, name), kind) for name, kind in found if kind and not name.startswith(_UNNAMED)]
        return tuple(told) if len(told) == len(found) else None

    def _of_table(self, table: exp.Table) -> TypedColumns | None:
        return self.columns_of(tuple(part.name for part in table.parts))

    def _spelled(self, select: exp.Select) -> dict[str, str]:
        """Return how tables spell their columns: names are looked up without regard to case."""
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
