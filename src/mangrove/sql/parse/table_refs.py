"""Table references of a query and their AS OF clauses, found with sqlglot.

The text itself goes to Spark as it is. What is not found here, because sqlglot
does not know some new syntax, Spark reports as not found, with its place.
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
"""What each `?` is called in the tree, with its number behind it: sqlglot does not say where they stand."""
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
    """Where the name and its moment end."""
    moment: int | str | None
    alias_place: int | None
    """Where an alias is to be written so that columns can be qualified; None where there is one, or cannot be."""
    computed: AsOfExpression | None = None
    """The moment, where it is not written out."""


@dataclass(frozen=True, slots=True)
class ParsedQuery:
    """The sqlglot tree of a query: its tables by position, and the qualified columns."""

    tables: dict[int, exp.Table]
    qualified: tuple[tuple[tuple[str, ...], int, int], ...] = ()
    """Names of columns that begin with a namespace: their parts, and where the first two stand."""
    is_prunable: bool = True
    """Whether sqlglot understands conditions just as Spark does."""
    is_known: bool = True
    """Whether sqlglot understood the text at all."""
    tree: Any = None
    requested: Mapping[int, exp.Table] = field(default_factory=dict)
    """The tables that stand where their conditions are understood."""


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
    tree = _tree(text, tokens)
    tables = _tables(tree)
    piped = _cut_at_pipe(text, tokens) if _is_plain(tokens) else None
    is_whole = piped == text
    requested = tables if is_whole else {} if piped is None else _tables(_tree(piped, tokens))
    return ParsedQuery(
        {**requested, **tables},
        () if tree is None else tuple(_find_qualified_columns(tree)),
        is_prunable=is_whole and tree is not None,
        is_known=tree is not None,
        tree=tree,
        requested=requested,
    )


def _tree(text: str, tokens: list[SqlToken]) -> Any | None:
    """Return what sqlglot makes of a text, of which these are the tokens, and perhaps more; None where it cannot."""
    numbered = _number_parameters(text, tokens)
    try:
        tree: Any = sqlglot.parse_one(numbered, dialect="spark")
    except (SqlglotError, RecursionError):
        return None
    if numbered != text:
        _put_back(tree, tokens)
    return tree


def _tables(tree: Any | None) -> dict[int, exp.Table]:
    """Return the tables by the places of their names."""
    tables = {}
    for table in () if tree is None else tree.find_all(exp.Table):
        place = _place(table.parts[0]) if table.parts else None
        if place is not None and isinstance(table.this, exp.Identifier) and find_cte(table) is None:
            tables[place] = table
    return tables


def _cut_at_pipe(text: str, tokens: list[SqlToken]) -> str | None:
    """Return a text up to where pipes do more than ask for conditions; None where that is not certain.

    What sqlglot makes of other pipes is not always what Spark does, but what
    `FROM t |> WHERE …` leaves out no later pipe sees.
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
    pieces, done = [], 0
    requested = [token for token in tokens if token.text == "?" and token.start < len(text)]
    for number, token in enumerate(requested):
        pieces += [text[done : token.start], f":{PARAMETER_PREFIX}{number}"]
        done = token.end
    return "".join([*pieces, text[done:]])


def _put_back(tree: Any, tokens: list[SqlToken]) -> None:
    """Give what is in the tree the places that it has in the text with the question marks."""
    grown: list[tuple[int, int]] = []
    for number, token in enumerate(token for token in tokens if token.text == "?"):
        so_far = grown[-1][1] if grown else 0
        grown.append((token.start + so_far, so_far + len(f"{PARAMETER_PREFIX}{number}")))
    starts = [start for start, _ in grown]
    for node in tree.find_all(exp.Identifier):
        for word in ("start", "end"):
            place = node.meta.get(word)
            before = bisect.bisect_left(starts, place) if place is not None else 0
            if before:
                node.meta[word] = place - grown[before - 1][1]


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
            # Its owner's other clauses come after it and are not in sight.
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
    found = []
    for start, table in sorted(parsed.tables.items()):
        names = [part.name for part in table.parts]
        last = at.get(_place(table.parts[-1]) or -1)
        if start in at and last is not None:
            found.append(parse_table_ref(tokens, tuple(names), at[start], last + 1))
    return found


def _check_as_of(kind: str, moment: int | str) -> None:
    """Raise an error for a version where a time is expected."""
    if kind == "time" and (isinstance(moment, int) or not isinstance(parse_as_of(moment), AsOfTime)):
        raise InvalidInputError(
            f"invalid timestamp {moment!r} in TIMESTAMP AS OF; use one such as '2026-11-01T08:30:00Z', "
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
    moment: int | str | None = None
    computed: AsOfExpression | None = None
    head = place + (tokens[place].word == "FOR")
    kind = _TRAVEL.get(tokens[head].word)
    if kind and [token.word for token in tokens[head + 1 : head + 3]] == ["AS", "OF"]:
        first_of, place = head + 3, find_expression_end(tokens, head + 3)
        moment = _parse_literal_as_of(tokens[first_of:place])
        try:
            if moment is not None:
                _check_as_of(kind, moment)
            elif place > first_of:
                computed = parse_as_of_expression(kind, tokens[first_of:place])
        except InvalidInputError as error:
            raise InvalidAsOfError(str(error), tokens[first_of].start) from error
        end = tokens[place - 1].end
    behind = _after_sample(tokens, place)
    has_alias = tokens[behind].word == "AS" or (tokens[behind].is_name and tokens[behind].word not in _NO_ALIAS)
    cannot = first > 0 and tokens[first - 1].word == "TABLE"
    alias_place = None if has_alias or cannot else tokens[behind - 1].end
    return TableRef(parts, tokens[first].start, end, moment, alias_place, computed)


def _after_sample(tokens: list[SqlToken], place: int) -> int:
    """Return the place after TABLESAMPLE (…) REPEATABLE (…), where the alias belongs."""
    while tokens[place].word in ("TABLESAMPLE", "REPEATABLE") and tokens[place + 1].text == "(":
        depth = 0
        place += 1
        while tokens[place].kind is not SqlTokenKind.END:
            depth += (tokens[place].text == "(") - (tokens[place].text == ")")
            place += 1
            if depth == 0:
                break
    return place


def _is_plain(tokens: list[SqlToken]) -> bool:
    """Return whether nothing is there that sqlglot and Spark may take differently.

    What escapes mean, and what double quotes are, depends on settings. And a name
    that is computed may be any, also that of a WITH clause.
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


def _place(identifier: Any) -> int | None:
    start = identifier.meta.get("start")
    return start if isinstance(start, int) else None
