"""sqlglot trees of SQL expressions: the dialect, and errors with their position.

The dialect is Spark's, reduced to the words that an expression needs. Every other
word is a name, as it is in Spark, and a function keeps the name it is written with.
"""

import itertools
import re
from collections.abc import Callable, Sequence
from typing import Any, Final

from sqlglot import Token, TokenType, exp
from sqlglot.dialects.spark import Spark
from sqlglot.errors import ParseError, TokenError
from sqlglot.parsers.spark import SparkParser

from mangrove.errors import InvalidInputError
from mangrove.model.schema import NESTING_MAX as TYPE_NESTING_MAX
from mangrove.model.schema_text import TYPES_ALLOWED

__all__ = ["SqlText", "column_path_of", "parse_sql_tree", "tokenize_text", "unquote_text"]

_NESTING_MAX: Final = 100
_SPARK_WORDS: Final = (
    *("AND", "AS", "BETWEEN", "CASE", "ELSE", "END", "FALSE", "IN", "IS", "LIKE", "NOT", "NULL", "OR", "THEN", "TRUE"),
    *("WHEN", "==", "<=>", "<>", "!=", "<=", ">=", "||", "::"),
)
_SPARK_TYPES: Final = (
    *("ARRAY", "BIGINT", "BINARY", "BOOL", "BOOLEAN", "BYTE", "CHAR", "CHARACTER", "DATE", "DEC", "DECIMAL", "DOUBLE"),
    *("FLOAT", "FLOAT4", "FLOAT8", "INT", "INT2", "INT4", "INTEGER", "LIST", "LONG", "MAP", "NUMERIC", "REAL", "SHORT"),
    *("SMALLINT", "STRING", "STRUCT", "TEXT", "TIME", "TIMESTAMP", "TIMESTAMPTZ", "TIMESTAMP_NTZ", "TIMETZ", "TINYINT"),
    "VARCHAR",
)
_TYPES: Final = {
    **{word: Spark.Tokenizer.KEYWORDS[word] for word in _SPARK_TYPES},
    "BYTES": TokenType.BINARY,
    "FIXED": TokenType.FIXEDSTRING,
    "INT8": TokenType.BIGINT,
    "TIMESTAMP_LTZ": TokenType.TIMESTAMPTZ,
    "TIMESTAMP_NS": TokenType.TIMESTAMP_NS,
    # sqlglot has no such type; this one of another dialect is not used here.
    "TIMESTAMPTZ_NS": TokenType.DATETIME64,
}
_OPENING: Final = {TokenType.L_PAREN: TokenType.R_PAREN, TokenType.L_BRACKET: TokenType.R_BRACKET}
_VALUES: Final = frozenset({TokenType.NUMBER, TokenType.STRING})
_EMPTY_PLACES: Final = frozenset(
    {(TokenType.COMMA, kind) for kind in (TokenType.COMMA, TokenType.R_PAREN, TokenType.R_BRACKET, TokenType.GT)}
    | {(kind, TokenType.COMMA) for kind in (TokenType.L_PAREN, TokenType.L_BRACKET, TokenType.LT)}
)
_WORD: Final = re.compile(r"\w+")
_PREFIXES: Final = frozenset({TokenType.NOT, TokenType.DASH, TokenType.PLUS})
_NEGATABLE: Final = frozenset({TokenType.IN, TokenType.BETWEEN, TokenType.LIKE})
_OPERAND_ENDS: Final = frozenset(
    {TokenType.VAR, TokenType.IDENTIFIER, TokenType.NUMBER, TokenType.STRING, TokenType.R_PAREN, TokenType.R_BRACKET}
    | {TokenType.NULL, TokenType.TRUE, TokenType.FALSE, TokenType.END, *_TYPES.values()}
)
_EXPECTED: Final = (
    (re.compile(r"Required keyword: 'this'"), "a column or a value before the operator"),
    (re.compile(r"Required"), "a column or a value"),
    (re.compile(r"Expected type", re.IGNORECASE), f"one of the types {TYPES_ALLOWED}"),
    (re.compile(r"Expected name"), "a column's name"),
    (re.compile(r"Expected inner"), "`<` and the types inside it"),
    (re.compile(r"Expected comment"), "a quoted comment"),
    (re.compile(r"Expect(?:ing|ed) (\S+)"), None),
)


def _build_comparison_parser(operation: type[exp.Expr]) -> Callable[[Any, exp.Expr], exp.Expr]:
    def parse(parser: Any, operand: exp.Expr) -> exp.Expr:
        found: exp.Expr = parser.expression(operation(this=operand, expression=parser._parse_bitwise()))
        return found

    return parse


def _parse_plus(parser: Any) -> exp.Expr | None:
    """Parse `+` before an operand as two `-`, because it takes numbers only; sqlglot would drop it."""
    operand: exp.Expr | None = parser._parse_unary()
    if operand is None or (isinstance(operand, exp.Literal) and not operand.is_string):
        return operand
    return exp.Neg(this=exp.Neg(this=operand))


def _parse_in(parser: Any, operand: exp.Expr) -> exp.Expr:
    if not parser._match(TokenType.L_PAREN):
        parser.raise_error("Expecting (")
    if parser._match(TokenType.R_PAREN, advance=False):
        parser.raise_error("Required value")
    items = parser._parse_csv(lambda: _parse_item(parser))
    if not parser._match(TokenType.R_PAREN):
        parser.raise_error("Expecting )")
    return exp.In(this=operand, expressions=items)


def _parse_item(parser: Any) -> exp.Expr | None:
    """Parse a list item; single values skip the operator rules, because lists can be long."""
    is_alone = parser._curr.token_type in _VALUES and parser._next.token_type in (TokenType.COMMA, TokenType.R_PAREN)
    item: exp.Expr | None = parser._parse_primary() if is_alone else parser._parse_disjunction()
    return item


def _parse_between(parser: Any, operand: exp.Expr) -> exp.Expr:
    low = parser._parse_bitwise()
    if not parser._match(TokenType.AND):
        parser.raise_error("Expecting and")
    found: exp.Expr = parser.expression(exp.Between(this=operand, low=low, high=parser._parse_bitwise()))
    return found


def _parse_is(parser: Any, operand: exp.Expr) -> exp.Expr:
    negated = parser._match(TokenType.NOT)
    if not parser._match(TokenType.NULL):
        parser.raise_error("Expecting null")
    found = exp.Is(this=operand, expression=exp.Null())
    return exp.Not(this=found) if negated else found


def _parse_like(parser: Any, operand: exp.Expr) -> exp.Expr:
    found: exp.Expr = parser.expression(exp.Like(this=operand, expression=parser._parse_bitwise()))
    return found


def _parse_columns(parser: Any) -> exp.Expr:
    return exp.Schema(expressions=parser._parse_csv(lambda: _parse_column_definition(parser)))


def _parse_column_definition(parser: Any, *, is_nested: bool = False) -> exp.Expr:
    name = parser._curr
    is_quoted = name.token_type is TokenType.IDENTIFIER
    if not name or not (is_quoted or (name.token_type is not TokenType.STRING and _WORD.fullmatch(name.text))):
        parser.raise_error("Expected name")
    parser._advance()
    parser._match(TokenType.COLON)
    kind = parser._parse_bare_type()
    if not isinstance(kind, exp.DataType):
        parser.raise_error("Expected type")
    constraints = _parse_constraints(parser, is_nested=is_nested)
    return exp.ColumnDef(this=exp.Identifier(this=name.text, quoted=True), kind=kind, constraints=constraints)


def _parse_constraints(parser: Any, *, is_nested: bool = True) -> list[exp.Expr]:
    """Parse `not null`, `null`, a comment and, outside of other types, a default, in any order."""
    found: list[exp.Expr] = []
    while True:
        if parser._match_pair(TokenType.NOT, TokenType.NULL):
            found.append(exp.NotNullColumnConstraint())
        elif parser._match(TokenType.NULL):
            found.append(exp.NotNullColumnConstraint(allow_null=True))
        elif parser._match_text_seq("COMMENT"):
            if not parser._match(TokenType.STRING):
                parser.raise_error("Expected comment")
            found.append(exp.CommentColumnConstraint(this=parser._prev.text))
        elif not is_nested and parser._match_text_seq("DEFAULT"):
            parser._advance()
            found.append(exp.DefaultColumnConstraint(this=parser._prev.text))
        else:
            return found


def _build_typed_literal(_parser: Any, value: exp.Expr, data_type: exp.DataType) -> exp.Expr:
    """Return `date '…'` as a separate node; sqlglot would make it a cast."""
    return exp.Introducer(this=data_type, expression=value)


# ruff: noqa: ARG002, RUF012 - sqlglot says what the tables and methods of a dialect are.
class _MangroveSql(Spark):
    """The part of Spark's dialect in which expressions, predicates and types are written."""

    class Tokenizer(Spark.Tokenizer):
        """A tokenizer without statement keywords and with `''` as an escaped quote."""

        KEYWORDS = {**{word: Spark.Tokenizer.KEYWORDS[word] for word in _SPARK_WORDS}, **_TYPES}
        STRING_ESCAPES = ["\\", "'", '"']

    class Parser(SparkParser):
        """A parser with the operator precedence of Spark that keeps function calls as written."""

        STRICT_CAST = True
        EXPRESSION_PARSERS = {
            exp.Condition: SparkParser.EXPRESSION_PARSERS[exp.Condition],
            exp.DataType: lambda parser: parser._parse_bare_type() or parser.raise_error("Expected type"),
            exp.ColumnDef: _parse_column_definition,
            exp.Schema: _parse_columns,
        }
        EQUALITY = {}
        COMPARISON = {}
        TERM = {TokenType.PLUS: exp.Add, TokenType.DASH: exp.Sub, TokenType.DPIPE: exp.DPipe}
        UNARY_PARSERS = {TokenType.PLUS: _parse_plus, TokenType.DASH: SparkParser.UNARY_PARSERS[TokenType.DASH]}
        RANGE_PARSERS = {
            **{kind: _build_comparison_parser(operation) for kind, operation in SparkParser.EQUALITY.items()},
            **{kind: _build_comparison_parser(operation) for kind, operation in SparkParser.COMPARISON.items()},
            TokenType.BETWEEN: _parse_between,
            TokenType.IN: _parse_in,
            TokenType.IS: _parse_is,
            TokenType.LIKE: _parse_like,
        }
        FUNCTIONS = {}
        FUNCTION_PARSERS = {"CAST": SparkParser.FUNCTION_PARSERS["CAST"]}
        NO_PAREN_FUNCTIONS = {}
        NO_PAREN_FUNCTION_PARSERS = {"CASE": SparkParser.NO_PAREN_FUNCTION_PARSERS["CASE"]}
        TYPE_LITERAL_PARSERS = dict.fromkeys(exp.DType, _build_typed_literal)

        def _parse_equality(self, *args: Any, **options: Any) -> exp.Expr | None:
            if self._match(TokenType.NOT):
                negated: exp.Expr = self.expression(exp.Not(this=self._parse_equality()))
                return negated
            found: exp.Expr | None = super()._parse_equality(*args, **options)
            return found

        def _parse_types(
            self,
            check_func: bool = False,
            schema: bool = False,
            allow_identifiers: bool = True,
            with_collation: bool = False,
        ) -> exp.Expr | None:
            """Parse a type; nested types may have `not null` and a comment, which Spark does not support."""
            found = self._parse_bare_type(check_func=check_func)
            if isinstance(found, exp.DataType) and not check_func:
                found.meta["constraints"] = _parse_constraints(self)
            return found

        def _parse_struct_types(self, type_required: bool = False) -> exp.Expr | None:
            return _parse_column_definition(self, is_nested=True)

        def _parse_bare_type(self, *, check_func: bool = False) -> exp.Expr | None:
            first: Any = self._curr
            found: exp.Expr | None = super()._parse_types(check_func=check_func, schema=True, allow_identifiers=False)
            if isinstance(found, exp.DataType) and first:
                found.meta.update(start=first.start, end=self._prev.end)
                if found.args.get("nested") and not found.expressions and not check_func:
                    self.raise_error("Expected inner")
            return found


class SqlText:
    """The text that is parsed, for error messages."""

    def __init__(
        self,
        text: str,
        what: str,
        refusal: type[InvalidInputError] = InvalidInputError,
        advice: str = "",
        ending: str = "an operator such as `and`, `or` or the end",
    ) -> None:
        self.text = text
        self.ending = ending
        self.what = what
        self._refusal = refusal
        self._advice = advice

    def error_at(self, start: int, end: int, expected: str) -> InvalidInputError:
        """Return the error that something else was expected between two positions."""
        found = repr(self.text[start:end]) if start < len(self.text.rstrip()) else "the end"
        return self._refusal(
            f"the {self.what} has {found} at position {start}; expected {expected}: {self.text!r}" + self._advice
        )

    def error(self, node: exp.Expr, expected: str) -> InvalidInputError:
        """Return the error that something else was expected than a part of the tree."""
        places = [part.meta for part in node.walk() if "start" in part.meta]
        if not places:
            return self._refusal(
                f"the {self.what} has {node.sql('spark')!r}; expected {expected}: {self.text!r}" + self._advice
            )
        return self.error_at(
            min(place["start"] for place in places), max(place["end"] for place in places) + 1, expected
        )

    def error_too_deep(self) -> InvalidInputError:
        """Return the error that the text nests too deep."""
        return InvalidInputError(f"the {self.what} is nested too deeply; remove parentheses")


def parse_sql_tree(sql: SqlText, into: type[exp.Expr] = exp.Condition) -> Any:
    """Return the sqlglot tree of a text; raise an error unless it is a single expression."""
    tokens = tokenize_text(sql.text, sql.what)
    if into is not exp.Condition:
        tokens = _join_defaults(sql, tokens)
    _check_brackets(sql, tokens)
    _check_lists(sql, tokens, is_schema=into is not exp.Condition)
    if into is exp.Condition:
        if not tokens:  # the text is a comment
            raise sql.error_at(len(sql.text), len(sql.text), "a name or a value")
        _check_operands(sql, tokens)
    parser: Any = _MangroveSql().parser(error_message_context=len(sql.text))
    try:
        trees = parser.parse_into(into, tokens, sql.text)
    except ParseError as error:
        raise _translate_error(sql, error, is_at_end=not parser._curr) from error
    except RecursionError as error:
        raise sql.error_too_deep() from error
    if not trees:  # the text begins with ELSE, which ends the statements of a block
        raise sql.error_at(tokens[0].start, tokens[0].end + 1, "a name or a value")
    return trees[0]


def tokenize_text(text: str, what: str) -> list[Token]:
    """Return the sqlglot tokens of a text."""
    try:
        return _MangroveSql().tokenize(text)
    except TokenError as error:
        raise InvalidInputError(f"the {what} has an unterminated quote or comment: {text!r}") from error


def unquote_text(literal: str) -> str:
    """Return the value of a string literal, without quotes and escapes."""
    return str(tokenize_text(literal, "text")[0].text)


def column_path_of(node: Any) -> tuple[str, ...] | None:
    """Return the path of a column node, outermost name first, or None for other nodes."""
    if isinstance(node, exp.Dot) and isinstance(node.expression, exp.Identifier):
        outer = column_path_of(node.this)
        return None if outer is None else (*outer, node.expression.name)
    if not isinstance(node, exp.Column) or not all(isinstance(part, exp.Identifier) for part in node.parts):
        return None
    return tuple(part.name for part in node.parts)


def _check_brackets(sql: SqlText, tokens: Sequence[Token]) -> None:
    """Reject unbalanced brackets and several statements, which sqlglot accepts."""
    closing: list[TokenType] = []
    prefixes = 0
    for token in tokens:
        kind = token.token_type
        if kind in _OPENING:
            closing.append(_OPENING[kind])
        is_closing = kind in (TokenType.R_PAREN, TokenType.R_BRACKET)
        if (is_closing and (not closing or closing.pop() is not kind)) or kind is TokenType.SEMICOLON:
            raise sql.error_at(token.start, token.end + 1, sql.ending)
        prefixes = prefixes + 1 if kind in _PREFIXES else 0
        if len(closing) + prefixes > _NESTING_MAX:
            raise sql.error_too_deep()
    if closing:
        raise sql.error_at(len(sql.text), len(sql.text), f"`{')' if closing[-1] is TokenType.R_PAREN else ']'}`")


def _check_lists(sql: SqlText, tokens: Sequence[Token], *, is_schema: bool) -> None:
    """Reject empty list items, which sqlglot accepts."""
    for first, second in itertools.pairwise(tokens):
        kinds = (first.token_type, second.token_type)
        if kinds in _EMPTY_PLACES or (is_schema and kinds == (TokenType.L_PAREN, TokenType.R_PAREN)):
            expected = "a type or a whole number" if is_schema else "a column or a value"
            raise sql.error_at(second.start, second.end + 1, expected)


def _check_operands(sql: SqlText, tokens: Sequence[Token]) -> None:
    """Reject `a not null` and `case when` without `then`, which sqlglot accepts."""
    for before, first, second in zip(tokens, tokens[1:], tokens[2:], strict=False):
        is_after_operand = first.token_type is TokenType.NOT and before.token_type in _OPERAND_ENDS
        if is_after_operand and second.token_type not in _NEGATABLE:
            raise sql.error_at(first.start, first.end + 1, sql.ending)
    if sum((token.token_type is TokenType.WHEN) - (token.token_type is TokenType.THEN) for token in tokens):
        raise sql.error_at(len(sql.text), len(sql.text), "one `then` after each `when`")


def _join_defaults(sql: SqlText, tokens: Sequence[Token]) -> list[Token]:
    """Return the tokens with each default as one token, because it may be any Spark expression."""
    found: list[Token] = []
    depth = place = 0
    while place < len(tokens):
        token = tokens[place]
        depth += (token.token_type is TokenType.LT) - (token.token_type is TokenType.GT)
        if depth >= TYPE_NESTING_MAX:
            raise InvalidInputError(
                f"types are nested more than {TYPE_NESTING_MAX} levels deep at position {token.start}"
            )
        is_word = token.token_type is TokenType.VAR and token.text.upper() == "DEFAULT"
        is_name = not found or found[-1].token_type is TokenType.COMMA
        found.append(token)
        place += 1
        if is_word and not is_name and depth == 0:
            end = _find_default_end(sql, tokens, place)
            first, last = tokens[place], tokens[end - 1]
            written = sql.text[first.start : last.end + 1]
            found.append(Token(TokenType.STRING, written, first.line, first.col, first.start, last.end))
            place = end
    return found


def _find_default_end(sql: SqlText, tokens: Sequence[Token], start: int) -> int:
    """Return the index after an expression, which ends at a comma, a comment or `not null` outside of brackets."""
    depth, place = 0, start
    while place < len(tokens):
        token = tokens[place]
        if depth == 0 and place > start and _begins_constraint(tokens, place):
            break
        if token.token_type in _OPENING:
            depth += 1
        elif depth == 0 and token.token_type in (TokenType.COMMA, TokenType.R_PAREN, TokenType.R_BRACKET):
            break
        elif token.token_type in _OPENING.values():
            depth -= 1
        place += 1
    if depth or place == start:
        at = tokens[place].start if place < len(tokens) else len(sql.text)
        raise sql.error_at(at, at + 1, "an expression with balanced parentheses")
    return place


def _begins_constraint(tokens: Sequence[Token], place: int) -> bool:
    before, token, following = tokens[place - 1], tokens[place], tokens[min(place + 1, len(tokens) - 1)]
    if token.token_type is TokenType.NOT:
        return following.token_type is TokenType.NULL and before.token_type is not TokenType.IS
    return token.text.upper() == "COMMENT" and following.token_type is TokenType.STRING


def _translate_error(sql: SqlText, error: ParseError, *, is_at_end: bool) -> InvalidInputError:
    found = error.errors[0]
    description = str(found.get("description"))
    start = len(found.get("start_context") or "")
    end = start + len(found.get("highlight") or "")
    expected = sql.ending if description.startswith("Invalid expression") else description
    for pattern, wording in _EXPECTED:
        match = pattern.match(description)
        if match is not None:
            expected = wording or f"`{match[1].lower()}`"
            break
    return sql.error_at(len(sql.text) if is_at_end else start, end, expected)
