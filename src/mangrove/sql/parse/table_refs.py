"""Table references of a query and their AS OF clauses, found with sqlglot.

The text goes to Spark unchanged. Spark reports tables that sqlglot does not find, for
example in new syntax, as missing at their position.
"""

import bisect
import itertools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import sqlglot
from sqlglot import exp
from sqlglot.errors import SqlglotError

from mangrove.errors import InvalidInputError
from mangrove.lakehouse.time_travel import AsOfTime, parse_as_of
from mangrove.sql.parse.as_of import AsOfExpression, find_expression_end, parse_as_of_expression
from mangrove.sql.parse.tokens import SqlToken, SqlTokenKind, parse_text_literal, tokenize

__all__ = [
    "PARAMETER_PREFIX",
    "AnalyzedQuery",
    "InvalidAsOfError",
    "ParsedQuery",
    "TableRef",
    "analyze_query",
    "find_cte",
    "find_table_refs",
    "parse_query_tables",
    "parse_query_tree",
    "parse_table_ref",
]

_NO_ALIAS: Final = frozenset(
    {"AND", "ANTI", "CLUSTER", "CROSS", "DISTRIBUTE", "DO", "ELSE", "END", "EXCEPT", "EXCLUDE", "FOR", "FULL", "GROUP"}
    | {"HAVING", "INNER", "INSERT", "INTERSECT", "JOIN", "LATERAL", "LEFT", "LIMIT", "MINUS", "NATURAL", "OFFSET"}
    | {"ON", "OR", "ORDER", "PIVOT", "QUALIFY", "RIGHT", "SELECT", "SEMI", "SET", "SORT", "TABLESAMPLE", "THEN"}
    | {"UNION", "UNPIVOT", "USING", "WHEN", "WHERE", "WINDOW"}
)
PARAMETER_PREFIX: Final = "mangrove_"
"""The prefix of the name that each `?` gets in the tree, because sqlglot has no positions for them."""
_TRAVEL: Final = {"VERSION": "version", "SYSTEM_VERSION": "version", "TIMESTAMP": "time", "SYSTEM_TIME": "time"}


class InvalidAsOfError(InvalidInputError):
    """The expression after AS OF is invalid; `start` is its position in the query."""

    def __init__(self, message: str, start: int = 0) -> None:
        super().__init__(message)
        self.start = start


@dataclass(frozen=True, slots=True)
class TableRef:
    """A table reference in a query, with its AS OF clause."""

    parts: tuple[str, ...]
    start: int
    end: int
    """The end of the name and its AS OF clause."""
    as_of: int | str | None
    alias_place: int | None
    """The position for an added alias; None if the reference has an alias or cannot have one."""
    computed: AsOfExpression | None = None
    """The AS OF expression if it is not a literal."""


@dataclass(frozen=True, slots=True)
class ParsedQuery:
    """The sqlglot tree of a query: its tables by position, and the qualified columns."""

    tables: dict[int, exp.Table]
    qualified: tuple[tuple[tuple[str, ...], int, int], ...] = ()
    """Column names qualified with a namespace: their parts, and the range of the first two."""
    is_prunable: bool = True
    """Whether sqlglot and Spark interpret its conditions in the same way."""
    is_known: bool = True
    """Whether sqlglot could parse the text."""
    tree: Any = None
    requested: Mapping[int, exp.Table] = field(default_factory=dict)
    """The tables whose conditions can be pushed down."""


@dataclass(frozen=True, slots=True)
class AnalyzedQuery:
    """The analysis of a query text, independent of the lakehouse."""

    text: str
    tokens: list[SqlToken]
    parsed: ParsedQuery
    table_refs: tuple[TableRef, ...]


def analyze_query(text: str) -> AnalyzedQuery:
    """Analyze a query text."""
    tokens = tokenize(text)
    parsed = parse_query_tables(text, tokens)
    return AnalyzedQuery(text, tokens, parsed, tuple(find_table_refs(parsed, tokens)))


def parse_query_tables(text: str, tokens: list[SqlToken]) -> ParsedQuery:
    """Return the tables of a query, without references to its CTEs."""
    tree = _parse_tree(text, tokens)
    tables = _find_tables(tree)
    piped = _cut_at_pipe(text, tokens) if _is_unambiguous(tokens) else None
    is_whole = piped == text
    requested = tables if is_whole else {} if piped is None else _find_tables(_parse_tree(piped, tokens))
    return ParsedQuery(
        {**requested, **tables},
        () if tree is None else tuple(_find_qualified_columns(tree)),
        is_prunable=is_whole and tree is not None,
        is_known=tree is not None,
        tree=tree,
        requested=requested,
    )


def _parse_tree(text: str, tokens: list[SqlToken]) -> Any | None:
    """Return the sqlglot tree of a text, or None if it cannot be parsed; `tokens` may extend beyond the text."""
    numbered = _number_parameters(text, tokens)
    try:
        tree: Any = sqlglot.parse_one(numbered, dialect="spark")
    except (SqlglotError, RecursionError):
        return None
    if numbered != text:
        _restore_positions(tree, tokens)
    return tree


def _find_tables(tree: Any | None) -> dict[int, exp.Table]:
    """Return the tables by the positions of their names."""
    tables = {}
    for table in () if tree is None else tree.find_all(exp.Table):
        place = _position_of(table.parts[0]) if table.parts else None
        if place is not None and isinstance(table.this, exp.Identifier) and find_cte(table) is None:
            tables[place] = table
    return tables


def _cut_at_pipe(text: str, tokens: list[SqlToken]) -> str | None:
    """Return the text up to the first pipe operator other than WHERE, or None if that is not certain.

    sqlglot interprets other pipe operators differently than Spark, but rows that
    `FROM t |> WHERE …` removes are invisible to all later operators.
    """
    depth = 0
    for token, following in itertools.pairwise(tokens):
        depth += (token.text in "([") - (token.text in ")]")
        if token.text == "|>":
            if depth or tokens[0].word != "FROM":
                return None
            if following.word != "WHERE":
                return text[: token.start]
    return text


def parse_query_tree(text: str) -> Any | None:
    """Return the sqlglot tree of a query, or None if sqlglot and Spark may differ."""
    parsed = parse_query_tables(text, tokenize(text))
    return parsed.tree if parsed.is_prunable else None


def _number_parameters(text: str, tokens: list[SqlToken]) -> str:
    """Return the text with a named parameter in place of each `?`."""
    pieces, copied = [], 0
    requested = [token for token in tokens if token.text == "?" and token.start < len(text)]
    for number, token in enumerate(requested):
        pieces += [text[copied : token.start], f":{PARAMETER_PREFIX}{number}"]
        copied = token.end
    return "".join([*pieces, text[copied:]])


def _restore_positions(tree: Any, tokens: list[SqlToken]) -> None:
    """Map the positions in the tree back to the text with the question marks."""
    shifts: list[tuple[int, int]] = []
    for number, token in enumerate(token for token in tokens if token.text == "?"):
        shift = shifts[-1][1] if shifts else 0
        shifts.append((token.start + shift, shift + len(f"{PARAMETER_PREFIX}{number}")))
    starts = [start for start, _ in shifts]
    for node in tree.find_all(exp.Identifier):
        for word in ("start", "end"):
            place = node.meta.get(word)
            before = bisect.bisect_left(starts, place) if place is not None else 0
            if before:
                node.meta[word] = place - shifts[before - 1][1]


def find_cte(table: exp.Table) -> exp.CTE | None:
    """Return the CTE in scope that the table reference names, if there is one."""
    if len(table.parts) != 1:
        return None
    name = table.name.casefold()
    child: Any = table
    parent: Any = child.parent
    while parent is not None:
        if isinstance(parent, exp.With):
            clauses = parent.expressions
            number = next(place for place, clause in enumerate(clauses) if clause is child)
            found = _find_clause(name, clauses[: number + bool(parent.args.get("recursive"))])
            if found is not None:
                return found
            # The later clauses of the same WITH are not in scope.
            owner: Any = parent.parent
            child, parent = owner, owner.parent
            continue
        common = parent.args.get("with_")
        found = None if common is None else _find_clause(name, common.expressions)
        if found is not None:
            return found
        child, parent = parent, parent.parent
    return None


def _find_clause(name: str, clauses: list[exp.CTE]) -> exp.CTE | None:
    return next((clause for clause in reversed(clauses) if clause.alias.casefold() == name), None)


def find_table_refs(parsed: ParsedQuery, tokens: list[SqlToken]) -> list[TableRef]:
    """Return the table references in text order."""
    at = {token.start: place for place, token in enumerate(tokens)}
    table_refs = []
    for start, table in sorted(parsed.tables.items()):
        names = [part.name for part in table.parts]
        last = at.get(_position_of(table.parts[-1]) or -1)
        if start in at and last is not None:
            table_refs.append(parse_table_ref(tokens, tuple(names), at[start], last + 1))
    return table_refs


def _check_as_of(kind: str, as_of: int | str) -> None:
    """Raise an error for a version where a time is expected."""
    if kind == "time" and (isinstance(as_of, int) or not isinstance(parse_as_of(as_of), AsOfTime)):
        raise InvalidInputError(
            f"invalid timestamp {as_of!r} in TIMESTAMP AS OF; use one such as '2026-11-01T08:30:00Z', "
            "or VERSION AS OF for a version or an export name"
        )


def _parse_literal_as_of(tokens: Sequence[SqlToken]) -> int | str | None:
    """Return a literal version, name or time; None for any other expression."""
    if len(tokens) == 1 and tokens[0].kind is SqlTokenKind.NUMBER and tokens[0].text.isdecimal():
        return int(tokens[0].text)
    return parse_text_literal(tokens[0]) if len(tokens) == 1 and tokens[0].kind is SqlTokenKind.TEXT else None


def parse_table_ref(tokens: list[SqlToken], parts: tuple[str, ...], first: int, place: int) -> TableRef:
    """Return the table reference between two token indexes, with the clauses after it."""
    end = tokens[place - 1].end
    as_of: int | str | None = None
    computed: AsOfExpression | None = None
    head = place + (tokens[place].word == "FOR")
    kind = _TRAVEL.get(tokens[head].word)
    if kind and [token.word for token in tokens[head + 1 : head + 3]] == ["AS", "OF"]:
        first_of, place = head + 3, find_expression_end(tokens, head + 3)
        as_of = _parse_literal_as_of(tokens[first_of:place])
        try:
            if as_of is not None:
                _check_as_of(kind, as_of)
            elif place > first_of:
                computed = parse_as_of_expression(kind, tokens[first_of:place])
        except InvalidInputError as error:
            raise InvalidAsOfError(str(error), tokens[first_of].start) from error
        end = tokens[place - 1].end
    after = _skip_sample(tokens, place)
    has_alias = tokens[after].word == "AS" or (tokens[after].is_name and tokens[after].word not in _NO_ALIAS)
    forbids_alias = first > 0 and tokens[first - 1].word == "TABLE"
    alias_place = None if has_alias or forbids_alias else tokens[after - 1].end
    return TableRef(parts, tokens[first].start, end, as_of, alias_place, computed)


def _skip_sample(tokens: list[SqlToken], place: int) -> int:
    """Return the token index after TABLESAMPLE (…) REPEATABLE (…), where the alias belongs."""
    while tokens[place].word in ("TABLESAMPLE", "REPEATABLE") and tokens[place + 1].text == "(":
        depth = 0
        place += 1
        while tokens[place].kind is not SqlTokenKind.END:
            depth += (tokens[place].text == "(") - (tokens[place].text == ")")
            place += 1
            if depth == 0:
                break
    return place


def _is_unambiguous(tokens: list[SqlToken]) -> bool:
    """Return whether sqlglot and Spark interpret all tokens in the same way.

    The meaning of escapes and double quotes depends on settings, and a computed name
    may be that of a CTE.
    """
    for token, following in itertools.pairwise(tokens):
        if token.word == "IDENTIFIER" and following.text == "(":
            return False
        if token.kind is SqlTokenKind.TEXT and (
            token.text[0] != "'" or "\\" in token.text or following.kind is SqlTokenKind.TEXT
        ):
            return False
    return True


def _find_qualified_columns(tree: Any) -> Iterator[tuple[tuple[str, ...], int, int]]:
    for column in tree.find_all(exp.Column):
        parts = column.parts
        if len(parts) > 2 and "start" in parts[0].meta and "end" in parts[1].meta:
            yield tuple(part.name for part in parts), parts[0].meta["start"], parts[1].meta["end"] + 1


def _position_of(identifier: Any) -> int | None:
    start = identifier.meta.get("start")
    return start if isinstance(start, int) else None
