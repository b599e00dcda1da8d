"""Column pruning: the columns of each table that a query needs.

The text goes to Spark unchanged, so every column that it names must exist. Names are
taken from the tokens without resolving them: a name counts for each table that may have
it. The tree is used only for stars and for the queries that use their columns.

If more columns may be needed than are named, as with NATURAL or PIVOT, all are read.
"""

import itertools
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Final, TypeAlias

from sqlglot import exp

from mangrove.model.schema import Schema
from mangrove.model.types import Boolean, Date, Int16, Int32, Int64
from mangrove.sql.parse.table_refs import AnalyzedQuery, find_cte
from mangrove.sql.parse.tokens import SqlToken, SqlTokenKind, parse_name_chain
from mangrove.sql.pushdown.scopes import has_only_known_args, is_plain_cte

__all__ = ["ColumnPruning", "Names", "NamesOf", "require_all_columns", "select_read_columns"]

Names: TypeAlias = frozenset[str] | None
"""Case-insensitive names of columns; None is all columns."""
NamesOf: TypeAlias = Callable[[], Names]

_NEEDS_MORE: Final = frozenset({"NATURAL", "PIVOT", "UNPIVOT"})
"""Keywords that use columns without naming them; used as a column name, they only cause more columns to be read."""
_HANDS_ON: Final = ("with_", "expressions", "hint", "from_", "laterals", "joins", "where", "order", "limit", "offset")
_PATTERN_SIGN: Final = re.compile(r"[^\w\s-]")
_WORD: Final = re.compile(r"\w+")
_NARROW: Final = (Boolean, Int16, Int32, Date, Int64)


def require_all_columns() -> Names:
    """Return a requirement of all columns."""
    return None


def select_read_columns(schema: Schema, names: Names) -> tuple[str, ...] | None:
    """Return the columns of a table that are read for these names; None for all.

    If none is needed, as for a count, it is one of a small type.

    >>> from mangrove.expressions.schema_text import parse_schema
    >>> select_read_columns(parse_schema("text string, id bigint"), frozenset())
    ('id',)
    """
    if names is None:
        return None
    found = tuple(column.name for column in schema.columns if column.name.casefold() in names)
    if len(found) == len(schema.columns):
        return None
    narrow = [column.name for kind in _NARROW for column in schema.columns if isinstance(column.type, kind)]
    return found or (*narrow, schema.columns[0].name)[:1]


@dataclass(frozen=True)
class ColumnPruning:
    """The columns that a query text needs of each table; `above` are those needed of its own result."""

    read: AnalyzedQuery
    above: NamesOf = require_all_columns
    _of_queries: dict[int, Names] = field(default_factory=dict)

    def of_table(self, table: exp.Table) -> Names:
        """Return the columns of a table or view that one reference to it can need."""
        return self._of_source(table) if self._is_understood else None

    @cached_property
    def _is_understood(self) -> bool:
        tokens, parsed = self.read.tokens, self.read.parsed
        if not parsed.is_prunable or any(token.word in _NEEDS_MORE or _is_pattern(token) for token in tokens):
            return False
        # Each asterisk must be one that the tree knows, and none may be of its own making.
        known = sum(1 for _ in parsed.tree.find_all(exp.Star, exp.Mul))
        if known != sum(token.text == "*" for token in tokens):
            return False
        # Without FROM, it expands to the columns of the enclosing query.
        return all(select is not None and select.args.get("from_") is not None for _, select in self._stars)

    @cached_property
    def _stars(self) -> list[tuple[Any, Any]]:
        """Each star that expands to columns, with its SELECT."""
        found = self.read.parsed.tree.find_all(exp.Star)
        return [(star, star.find_ancestor(exp.Select)) for star in found if not isinstance(star.parent, exp.Count)]

    @cached_property
    def _named(self) -> "_ReferencedNames":
        # Hints name columns too, and are comments to us.
        hints = _WORD.findall(self.read.text) if "/*+" in self.read.text else ()
        return _ReferencedNames.of(self.read.tokens, hints)

    @cached_property
    def _uses(self) -> Mapping[int, Sequence[exp.Table]]:
        found: dict[int, list[exp.Table]] = {}
        for table in self.read.parsed.tree.find_all(exp.Table):
            clause = find_cte(table)
            if clause is not None:
                found.setdefault(id(clause), []).append(table)
        return found

    def _of_source(self, node: Any) -> Names:
        """Return the columns needed of a FROM or JOIN item."""
        joined = node.parent
        select = joined.parent if isinstance(joined, exp.From | exp.Join) else None
        alias = node.args.get("alias")
        if not isinstance(select, exp.Select) or (alias is not None and alias.args.get("columns")):
            return None
        if not has_only_known_args(node, "this", "db", "alias", "version"):
            return None
        called = str(node.alias_or_name).casefold()
        names = self._named.of_source(called)
        for star, within in self._stars_over(select, called):
            handed_on = self._of_query(select) if within is select and _is_item(star, select) else None
            if handed_on is None:
                return None
            names |= handed_on
        return names

    def _stars_over(self, select: exp.Select, called: str) -> Iterator[tuple[Any, Any]]:
        """Yield the stars that may expand to columns of a source of the SELECT."""
        for star, within in self._stars:
            owner = star.parent if isinstance(star.parent, exp.Column) else None
            if owner is None:
                if within is select:
                    yield star, within
            elif owner.table.casefold() == called and _is_inside(within, select):
                yield star, within

    def _of_query(self, query: exp.Select) -> Names:
        """Return the needed columns of a SELECT; a star passes their names on unchanged."""
        if id(query) not in self._of_queries:
            self._of_queries[id(query)] = None  # A clause that reads itself is read whole.
            self._of_queries[id(query)] = self._around(query) if _hands_names_on(query) else None
        return self._of_queries[id(query)]

    def _around(self, query: exp.Select) -> Names:
        parent = query.parent
        match parent:
            case None:
                return self.above()
            case exp.Subquery():
                return self._of_source(parent)
            case exp.Exists():
                return frozenset()
            case exp.CTE() if is_plain_cte(parent) and not parent.args["alias"].args.get("columns"):
                each = [self._of_source(use) for use in self._uses.get(id(parent), ())]
                known = [names for names in each if names is not None]
                return frozenset().union(*known) if len(known) == len(each) else None
            case _:
                return None


@dataclass(frozen=True, slots=True)
class _ReferencedNames:
    """The names in a text: first parts of dotted names, and all later parts."""

    first: frozenset[str]
    following: frozenset[tuple[str, str]]

    @classmethod
    def of(cls, tokens: Sequence[SqlToken], more: Sequence[str]) -> "_ReferencedNames":
        first: set[str] = {word.casefold() for word in more}
        following: set[tuple[str, str]] = set()
        place = 0
        while place < len(tokens):
            if not tokens[place].is_name:
                place += 1
                continue
            parts, place = parse_name_chain(tokens, place)
            folded = [part.casefold() for part in parts]
            first.add(folded[0])
            following.update(itertools.pairwise(folded))
        return cls(frozenset(first), frozenset(following))

    def of_source(self, called: str) -> frozenset[str]:
        """Return the names that may be columns of the source with this name."""
        return self.first | {name for qualifier, name in self.following if qualifier == called}


def _is_pattern(token: SqlToken) -> bool:
    """Return whether it is a quoted name that Spark may treat as a column name pattern."""
    return token.kind is SqlTokenKind.QUOTED_NAME and _PATTERN_SIGN.search(token.name) is not None


def _is_item(star: Any, select: exp.Select) -> bool:
    """Return whether a star is an item of the SELECT list, and not a function argument."""
    owner = star.parent if isinstance(star.parent, exp.Column) else star
    return any(item is owner for item in select.expressions)


def _is_inside(inner: Any, select: exp.Select) -> bool:
    while inner is not None and inner is not select:
        inner = inner.parent
    return inner is select


def _hands_names_on(select: exp.Select) -> bool:
    """Return whether its result depends on its columns by name only, not by position or number."""
    order = select.args.get("order")
    keys = [] if order is None else [ordered.this for ordered in order.expressions]
    return has_only_known_args(select, *_HANDS_ON) and all(isinstance(key, exp.Column) and key.name for key in keys)
