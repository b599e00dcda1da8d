"""Translation of Spark SQL expressions to DuckDB, with the names and types of a scope."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, Final

from sqlglot import exp

from mangrove.duckdb.functions import (
    AGGREGATES,
    DATE_PARTS,
    SCALARS,
    WINDOW_FUNCTIONS,
    Call,
    add_days,
    build_concatenation,
    build_element,
)
from mangrove.duckdb.operators import (
    build_arithmetic,
    build_bitwise,
    build_comparison,
    build_division,
    build_integer_division,
    build_remainder,
    cast_to_common_type,
)
from mangrove.duckdb.typed_sql import (
    NeedsSparkError,
    SqlAnalysisError,
    TypedSql,
    build_literal,
    build_number,
    cast_explicitly,
    cast_to,
    describe_type,
    match_types,
    quote_string,
    require_boolean,
)
from mangrove.duckdb.types import INTEGERS, NUMBERS, TEXTS, TIMESTAMPS, ValueType, is_scannable
from mangrove.errors import InvalidInputError
from mangrove.expressions.schema_text import parse_type
from mangrove.lakehouse.sql_port import Arguments
from mangrove.model.names import quote_name
from mangrove.model.types import Boolean, Date, Struct

__all__ = [
    "ExpressionTranslator",
    "Field",
    "SelectScope",
    "check_clauses",
    "is_aggregate_call",
    "name_expression",
    "render_order",
]

_COMPARISONS: Final = {
    exp.EQ: "=",
    exp.NEQ: "<>",
    exp.LT: "<",
    exp.LTE: "<=",
    exp.GT: ">",
    exp.GTE: ">=",
    exp.NullSafeEQ: "IS NOT DISTINCT FROM",
    exp.NullSafeNEQ: "IS DISTINCT FROM",
}
_BITWISE: Final = {exp.BitwiseAnd: "&", exp.BitwiseOr: "|", exp.BitwiseXor: "^"}
_PREDICATES: Final = (*_COMPARISONS, exp.In, exp.Between, exp.Like, exp.ILike, exp.Is)
_DATE_UNITS: Final = ("YEAR", "MONTH", "WEEK", "DAY")
_TIME_UNITS: Final = (*_DATE_UNITS, "HOUR", "MINUTE", "SECOND")
_ARGUMENTS: Final[dict[type, tuple[str, ...]]] = {
    exp.Anonymous: ("this", "expressions"),
    exp.Bracket: ("this", "expressions"),
    exp.Between: ("this", "low", "high", "negate"),
    exp.Case: ("this", "ifs", "default"),
    exp.Cast: ("this", "to", "_type"),
    exp.Column: ("this", "table", "db", "catalog"),
    exp.Div: ("this", "expression", "typed", "safe"),
    exp.DPipe: ("this", "expression", "safe"),
    exp.If: ("this", "true", "false"),
    exp.In: ("this", "expressions", "query", "negate"),
    exp.ILike: ("this", "expression", "negate"),
    exp.Like: ("this", "expression", "negate"),
    exp.Literal: ("this", "is_string"),
    exp.Subquery: ("this", "with_", "order", "limit", "offset"),
    exp.Substring: ("this", "start", "length"),
    exp.Trim: ("this", "expression", "position"),
    exp.Window: ("this", "partition_by", "order", "spec", "over"),
}
"""The arguments of nodes that are translated."""
_UNIT_FIRST: Final = ("date_add", "date_diff", "datediff")
"""The functions of dates that also take a unit, which is no column."""
_SUGGESTIONS_MAX: Final = 5


@dataclass(frozen=True, slots=True)
class Field:
    """A column that expressions can reference."""

    name: str
    value: TypedSql
    table: str | None = None


@dataclass
class SelectScope:
    """The columns that the expressions of one SELECT can reference."""

    parent: "SelectScope | None" = None
    fields: list[Field] = field(default_factory=list)
    merged: dict[str, Field] = field(default_factory=dict)
    """The columns of USING, by case-folded name, which hide those of the tables for unqualified names."""
    aliases: dict[str, TypedSql] = field(default_factory=dict)
    """The columns of the SELECT list so far, by case-folded name."""
    grouped: frozenset[str] | None = None
    """The expressions of GROUP BY; None if the SELECT has no aggregates."""

    def find(self, table: str | None, name: str) -> list[Field]:
        """Return the fields with a name, of a table or of any table."""
        if table is None and name in self.merged:
            return [self.merged[name]]
        return [
            one
            for one in self.fields
            if one.name.casefold() == name and (table is None or (one.table or "").casefold() == table)
        ]


def check_clauses(node: Any, *allowed: str) -> None:
    """Raise NeedsSparkError if a node has a clause that is not translated."""
    for name, value in node.args.items():
        if value and name not in allowed:
            raise NeedsSparkError(f"{name.strip('_').upper().replace('_', ' ')} in {node.key.upper()}", node)


def is_aggregate_call(node: Any) -> bool:
    """Return whether a node calls an aggregate function, not a window function."""
    if not isinstance(node, exp.Anonymous) or str(node.this).casefold() not in AGGREGATES:
        return False
    parent = node.parent.parent if isinstance(node.parent, exp.Filter) else node.parent
    return not (isinstance(parent, exp.Window) and parent.find(exp.Anonymous) is node)


class ExpressionTranslator:
    """Translates the expressions of one SELECT."""

    def __init__(
        self,
        scope: SelectScope,
        arguments: Arguments,
        positions: Sequence[int],
        query: Callable[[Any, SelectScope], tuple[str, Sequence[tuple[str, ValueType]]]],
    ) -> None:
        self.scope = scope
        self._arguments = arguments
        self._positions = positions
        """The positions of all `?`, in order."""
        self._query = query
        self._is_checked = True
        """Whether columns outside of aggregates must be grouped."""

    def translate(self, node: Any) -> TypedSql:
        """Return an expression in DuckDB's SQL."""
        if self._is_checked and self.scope.grouped is not None:
            with self._unchecked():
                unchecked = self._translate(node)
            if unchecked.text in self.scope.grouped:
                return unchecked
        return self._translate(node)

    def translate_condition(self, node: Any) -> str:
        """Return a condition in DuckDB's SQL; NULL is none, unless an operator converts it."""
        return require_boolean(self.translate(node), node).text

    def _condition(self, node: Any) -> TypedSql:
        """Return an operand of AND, OR or NOT, for which Spark converts NULL and strings."""
        value = self.translate(node)
        if isinstance(value.type, TEXTS):
            raise NeedsSparkError("a string as a condition", node)
        return cast_to(value, Boolean()) if value.type is None else require_boolean(value, node)

    @contextmanager
    def _unchecked(self) -> Iterator[None]:
        before, self._is_checked = self._is_checked, False
        try:
            yield
        finally:
            self._is_checked = before

    def _translate(self, node: Any) -> TypedSql:
        check_clauses(node, *_ARGUMENTS.get(type(node), ("this", "expression")))
        value = self._translate_node(node)
        return TypedSql(f"(NOT {value.text})", Boolean()) if node.args.get("negate") else value

    def _translate_node(self, node: Any) -> TypedSql:
        match node:
            case exp.Column():
                return self._translate_column(node)
            case exp.Paren():
                inner = self.translate(node.this)
                return inner if inner.is_literal else TypedSql(f"({inner.text})", inner.type)
            case exp.Literal() if node.is_string:
                return build_literal(str(node.this))
            case exp.Literal():
                return build_number(str(node.this))
            case exp.Neg(this=exp.Literal() as literal) if not literal.is_string:
                return build_number(f"-{literal.this}")
            case exp.Null():
                return build_literal(None)
            case exp.Boolean():
                return build_literal(bool(node.this))
            case exp.HexString():
                return build_literal(bytes.fromhex(str(node.this)))
            case exp.Placeholder():
                return build_literal(self._find_argument(node))
            case exp.Cast() if type(node) is exp.Cast:
                return cast_explicitly(self.translate(node.this), self._parse_type(node.to), node)
            case exp.Anonymous():
                return self._translate_call(node)
            case exp.Substring():
                parts = (node.this, node.args.get("start"), node.args.get("length"))
                return SCALARS["substring"]([self.translate(one) for one in parts if one is not None], node)
            case exp.Trim():
                return self._translate_trim(node)
            case exp.Bracket() if len(node.expressions) == 1:
                return build_element(self.translate(node.this), self.translate(node.expressions[0]), node)
            case exp.Window() | exp.Filter():
                return self._translate_window(node)
            case exp.Subquery() | exp.Exists() | exp.In():
                return self._translate_subquery(node)
            case exp.Case() | exp.If():
                return self._translate_case(node)
            case _:
                return self._translate_operator(node)

    def _translate_operator(self, node: Any) -> TypedSql:
        match node:
            case exp.And() | exp.Or():
                operator = "AND" if isinstance(node, exp.And) else "OR"
                left, right = self._condition(node.left), self._condition(node.right)
                return TypedSql(f"({left.text} {operator} {right.text})", Boolean())
            case exp.Not():
                return TypedSql(f"(NOT {self._condition(node.this).text})", Boolean())
            case exp.Add() | exp.Sub() if isinstance(node.right, exp.Interval):
                return self._add_interval(node)
            case exp.BitwiseNot():
                value = self.translate(node.this)
                if not isinstance(value.type, INTEGERS):
                    raise NeedsSparkError(f"~ with {describe_type(value.type)}", node)
                return TypedSql(f"(~{value.text})", value.type)
            case exp.BitwiseAnd() | exp.BitwiseOr() | exp.BitwiseXor():
                return build_bitwise(_BITWISE[type(node)], self.translate(node.left), self.translate(node.right), node)
            case exp.Add() | exp.Sub() | exp.Mul():
                operator = {exp.Add: "+", exp.Sub: "-", exp.Mul: "*"}[type(node)]
                left, right = self.translate(node.left), self.translate(node.right)
                if isinstance(left.type, Date) and isinstance(right.type, INTEGERS) and operator != "*":
                    return add_days(operator)([left, right], node)
                return build_arithmetic(operator, left, right, node)
            case exp.Div():
                return build_division(self.translate(node.left), self.translate(node.right), node)
            case exp.Mod():
                return build_remainder(self.translate(node.left), self.translate(node.right), node)
            case exp.IntDiv():
                return build_integer_division(self.translate(node.left), self.translate(node.right), node)
            case exp.DPipe():
                return build_concatenation([self.translate(node.left), self.translate(node.right)], node)
            case exp.Neg():
                value = self.translate(node.this)
                if not isinstance(value.type, NUMBERS):
                    raise NeedsSparkError(f"- with {describe_type(value.type)}", node)
                return TypedSql(f"(-{value.text})", value.type)
            case exp.Extract():
                part = str(node.this.name).casefold()
                if part not in DATE_PARTS:
                    raise NeedsSparkError(f"EXTRACT of {part.upper()}", node)
                return SCALARS[DATE_PARTS[part]]([self.translate(node.expression)], node)
            case _:
                return self._translate_predicate(node)

    def _translate_predicate(self, node: Any) -> TypedSql:
        if isinstance(node, _PREDICATES) and any(isinstance(one, _PREDICATES) for one in (node.this, node.expression)):
            raise NeedsSparkError("a chain of comparisons without parentheses", node)
        match node:
            case _ if type(node) in _COMPARISONS:
                operator = _COMPARISONS[type(node)]
                return build_comparison(operator, self.translate(node.left), self.translate(node.right), node)
            case exp.Between():
                value = self.translate(node.this)
                low = build_comparison(">=", value, self.translate(node.args["low"]), node)
                high = build_comparison("<=", value, self.translate(node.args["high"]), node)
                return TypedSql(f"({low.text} AND {high.text})", Boolean())
            case exp.Is(expression=exp.Null()):
                return TypedSql(f"({self.translate(node.this).text} IS NULL)", Boolean())
            case exp.Is(expression=exp.Boolean() as truth):
                word = "TRUE" if truth.this else "FALSE"
                return TypedSql(f"({self._condition(node.this).text} IS {word})", Boolean())
            case exp.Like() | exp.ILike():
                return self._translate_like(node)
            case _:
                raise NeedsSparkError(type(node).__name__.upper(), node)

    def _translate_like(self, node: Any) -> TypedSql:
        value, pattern = self.translate(node.this), self.translate(node.expression)
        if not isinstance(value.type, TEXTS) or not isinstance(pattern.literal, str):
            raise NeedsSparkError("LIKE with anything but a string and a literal pattern", node)
        if "\\" in pattern.literal:
            raise NeedsSparkError("a LIKE pattern with a backslash", node)
        if isinstance(node, exp.ILike):
            lower = SCALARS["lower"]
            value, pattern = lower([value], node), lower([pattern], node)
        return TypedSql(f"({value.text} LIKE {pattern.text})", Boolean())

    def _translate_trim(self, node: Any) -> TypedSql:
        name = {"LEADING": "ltrim", "TRAILING": "rtrim"}.get(str(node.args.get("position") or "").upper(), "trim")
        value = self.translate(node.this)
        if node.args.get("expression") is None:
            return SCALARS[name]([value], node)
        characters = self.translate(node.expression)
        if not isinstance(value.type, TEXTS) or not isinstance(characters.literal, str) or not characters.literal:
            raise NeedsSparkError("TRIM of anything but a string and literal characters", node)
        return TypedSql(f"{name}({value.text}, {characters.text})", value.type)

    def _translate_column(self, node: Any) -> TypedSql:
        if isinstance(node.this, exp.Star):
            raise NeedsSparkError("* in an expression", node)
        parts = [str(part.name) for part in node.parts]
        scope: SelectScope | None = self.scope
        while scope is not None:
            value = self._resolve(scope, parts, node)
            if value is not None:
                self._check_grouped(scope, value, node)
                return value
            if len(parts) == 1 and parts[0].casefold() in scope.aliases:
                return scope.aliases[parts[0].casefold()]
            scope = scope.parent
        if len(parts) == 1 and parts[0].casefold() in ("current_date", "current_timestamp"):
            return SCALARS[parts[0].casefold()]([], node)
        names = [quote_name(one.name) for one in self.scope.fields]
        raise SqlAnalysisError(
            "the column does not exist",
            node,
            "UNRESOLVED_COLUMN." + ("WITH_SUGGESTION" if names else "WITHOUT_SUGGESTION"),
            {
                "objectName": ".".join(f"`{part}`" for part in parts),
                "proposal": ", ".join(f"`{name.strip('`')}`" for name in names[:_SUGGESTIONS_MAX]),
            },
        )

    def _resolve(self, scope: SelectScope, parts: Sequence[str], node: Any) -> TypedSql | None:
        """Return the column that a name references in a scope: of a table, or a field of a struct."""
        folded = [part.casefold() for part in parts]
        for table, name, rest in (
            (None, folded[0], folded[1:]),
            *([(folded[0], folded[1], folded[2:])] if parts[1:] else ()),
        ):
            fields = scope.find(table, name)
            if len(fields) > 1:
                raise SqlAnalysisError(f"column {'.'.join(parts)} is ambiguous; qualify it with its table", node)
            if fields and (not rest or isinstance(fields[0].value.type, Struct)):
                value = fields[0].value
                for one in rest:
                    value = self._get_field(value, one, node)
                return value
        return None

    def _get_field(self, value: TypedSql, name: str, node: Any) -> TypedSql:
        columns = value.type.columns if isinstance(value.type, Struct) else ()
        column = next((one for one in columns if one.name.casefold() == name.casefold()), None)
        if column is None:
            raise SqlAnalysisError(f"there is no field {name!r} in {describe_type(value.type)}", node)
        return TypedSql(f"struct_extract({value.text}, {quote_string(column.name)})", column.type)

    def _check_grouped(self, scope: SelectScope, value: TypedSql, node: Any) -> None:
        if self._is_checked and scope is self.scope and scope.grouped is not None and value.text not in scope.grouped:
            raise SqlAnalysisError(
                f"column {node.name} is neither in GROUP BY nor in an aggregate function", node, "MISSING_AGGREGATION"
            )

    def _find_argument(self, node: Any) -> object:
        if isinstance(node.this, int):
            number = list(self._positions).index(node.this)
            given = () if self._arguments is None or isinstance(self._arguments, Mapping) else self._arguments
            if number >= len(given):
                raise SqlAnalysisError(
                    f"the statement has more parameters than the {len(given)} given arguments",
                    node,
                    "UNBOUND_SQL_PARAMETER",
                )
            return given[number]
        named = self._arguments if isinstance(self._arguments, Mapping) else {}
        if node.name not in named:
            raise SqlAnalysisError(f"no argument for parameter {node.name!r}", node, "UNBOUND_SQL_PARAMETER")
        return named[node.name]

    def _parse_type(self, node: Any) -> Any:
        try:
            is_nanos = node.this is exp.DType.DATETIME64
            found = parse_type("timestamptz_ns" if is_nanos else node.sql("spark"))
        except InvalidInputError as error:
            raise NeedsSparkError(f"the type {node.sql('spark')}", node) from error
        if not is_scannable(found):
            raise NeedsSparkError(f"a cast to {describe_type(found)}", node)
        return found

    def _translate_call(self, node: Any, clauses: str = "", *, is_window: bool = False) -> TypedSql:
        name = str(node.this).casefold()
        if name in AGGREGATES and not is_window and self.scope.grouped is None:
            raise SqlAnalysisError(f"the aggregate function {name} is not allowed here", node)
        if name in AGGREGATES or (is_window and name in WINDOW_FUNCTIONS):
            call = self._build_call(node, clauses, is_window=is_window)
            return (AGGREGATES.get(name) or WINDOW_FUNCTIONS[name])(call)
        if name in _UNIT_FIRST and len(node.expressions) == 3:
            raise NeedsSparkError(f"function {name} with a unit", node)
        if name in SCALARS and not clauses:
            return SCALARS[name]([self.translate(one) for one in node.expressions], node)
        raise NeedsSparkError(f"function {name}", node)

    def _build_call(self, node: Any, clauses: str, *, is_window: bool) -> Call:
        arguments, distinct = list(node.expressions), ""
        if arguments and isinstance(arguments[0], exp.Distinct):
            distinct, arguments = "DISTINCT ", list(arguments[0].expressions)
        if len(arguments) == 1 and isinstance(arguments[0], exp.Star):
            arguments = []
        # The arguments of a window function are computed from grouped rows, those of an aggregate are not.
        if is_window:
            return Call([self.translate(one) for one in arguments], node, distinct, clauses)
        with self._unchecked():
            return Call([self.translate(one) for one in arguments], node, distinct, clauses)

    def _translate_window(self, node: Any) -> TypedSql:
        if isinstance(node, exp.Filter):
            with self._unchecked():
                condition = self.translate_condition(node.expression.this)
            return self._translate_call(node.this, f" FILTER (WHERE {condition})")
        call, clauses = node.this, ""
        if isinstance(call, exp.Filter):
            clauses = f" FILTER (WHERE {self.translate_condition(call.expression.this)})"
            call = call.this
        if not isinstance(call, exp.Anonymous):
            raise NeedsSparkError(f"{type(call).__name__.upper()} OVER", node)
        parts = []
        if node.args.get("partition_by"):
            parts.append("PARTITION BY " + ", ".join(self.translate(one).text for one in node.args["partition_by"]))
        if node.args.get("order"):
            items = node.args["order"].expressions
            parts.append("ORDER BY " + ", ".join(render_order(one, self.translate(one.this)) for one in items))
        parts += _render_frame(node.args.get("spec"))
        return self._translate_call(call, f"{clauses} OVER ({' '.join(parts)})", is_window=True)

    def _translate_subquery(self, node: Any) -> TypedSql:
        match node:
            case exp.Exists():
                text, _ = self._query(node.this, self.scope)
                return TypedSql(f"EXISTS ({text})", Boolean())
            case exp.Subquery():
                text, columns = self._query(node, self.scope)
                if len(columns) != 1:
                    raise SqlAnalysisError(f"a subquery as a value has {len(columns)} columns; expected one", node)
                return TypedSql(f"({text})", columns[0][1])
            case exp.In() if node.args.get("query"):
                value = self.translate(node.this)
                text, columns = self._query(node.args["query"], self.scope)
                if len(columns) != 1:
                    raise SqlAnalysisError(f"the subquery of IN has {len(columns)} columns; expected one", node)
                left, right = cast_to_common_type((value, TypedSql("c0", columns[0][1])), node)
                # ruff: noqa: S608 - the text is generated; values are quoted literals
                return TypedSql(f"({left.text} IN (SELECT {right.text} FROM ({text})))", Boolean())
            case _:
                value = self.translate(node.this)
                items = [match_types(value, self.translate(one), node) for one in node.expressions]
                if any(left is not value for left, _ in items):
                    raise NeedsSparkError("IN with a literal before it", node)
                value, *values = cast_to_common_type([value, *(right for _, right in items)], node)
                return TypedSql(f"({value.text} IN ({', '.join(one.text for one in values)}))", Boolean())

    def _translate_case(self, node: Any) -> TypedSql:
        if isinstance(node, exp.If):
            parts = (node.this, node.args.get("true"), node.args.get("false"))
            return SCALARS["if"]([self.translate(one) for one in parts if one is not None], node)
        branches = node.args["ifs"]
        default = node.args.get("default")
        values = [self.translate(branch.args["true"]) for branch in branches]
        values = cast_to_common_type([*values, *([self.translate(default)] if default is not None else [])], node)
        if node.this is None:
            conditions = [self.translate(branch.this) for branch in branches]
            tests = [require_boolean(one, branch.this).text for one, branch in zip(conditions, branches, strict=True)]
        else:
            operand = self.translate(node.this)
            tests = [build_comparison("=", operand, self.translate(branch.this), node).text for branch in branches]
        text = "".join(f" WHEN {test} THEN {value.text}" for test, value in zip(tests, values, strict=False))
        last = f" ELSE {values[-1].text}" if default is not None else ""
        return TypedSql(f"CASE{text}{last} END", values[0].type)

    def _add_interval(self, node: Any) -> TypedSql:
        value, interval = self.translate(node.left), node.right
        unit = str(interval.args["unit"].name).upper().removesuffix("S") if interval.args.get("unit") else ""
        amount = str(interval.this.name) if isinstance(interval.this, exp.Literal) else ""
        units = (
            _DATE_UNITS if isinstance(value.type, Date) else _TIME_UNITS if isinstance(value.type, TIMESTAMPS) else ()
        )
        if unit not in units or not amount.removeprefix("-").isdecimal():
            raise NeedsSparkError(f"this interval with {describe_type(value.type)}", node)
        operator = "+" if isinstance(node, exp.Add) else "-"
        text = f"({value.text} {operator} INTERVAL ({amount}) {unit})"
        return TypedSql(f"CAST({text} AS DATE)" if isinstance(value.type, Date) else text, value.type)


def render_order(item: Any, value: TypedSql) -> str:
    """Return an item of ORDER BY; without NULLS the order of nulls is Spark's."""
    if value.type is not None and not is_scannable(value.type):
        raise NeedsSparkError(f"ORDER BY {describe_type(value.type)}", item)
    direction = "DESC" if item.args.get("desc") else "ASC"
    return f"{value.text} {direction} NULLS {'FIRST' if item.args.get('nulls_first') else 'LAST'}"


def _render_frame(spec: Any) -> list[str]:
    if spec is None:
        return []
    bounds = []
    for word in ("start", "end"):
        bound = spec.args.get(word)
        side = spec.args.get(f"{word}_side") or ""
        if isinstance(bound, exp.Literal) and str(spec.args["kind"]).upper() == "ROWS":
            bounds.append(f"{int(str(bound.this))} {side}")
        elif isinstance(bound, str):
            bounds.append(f"{bound} {side}".strip())
        else:
            raise NeedsSparkError("this window frame", spec)
    return [f"{spec.args['kind']} BETWEEN {bounds[0]} AND {bounds[1]}"]


def name_expression(node: Any) -> str:
    """Return the name that Spark gives to a column without an alias."""
    match node:
        case exp.Alias():
            return str(node.alias)
        case exp.Column() | exp.Dot():
            return str(node.name)
        case exp.Paren():
            return name_expression(node.this)
        case exp.Star():
            return "1"
        case exp.Distinct():
            return "DISTINCT " + ", ".join(name_expression(one) for one in node.expressions)
        case exp.Anonymous():
            return f"{str(node.this).lower()}({', '.join(name_expression(one) for one in node.expressions)})"
        case exp.Literal():
            return str(node.this)
        case exp.Add() | exp.Sub() | exp.Mul() | exp.Div() | exp.Mod():
            operator = {exp.Add: "+", exp.Sub: "-", exp.Mul: "*", exp.Div: "/", exp.Mod: "%"}[type(node)]
            return f"({name_expression(node.left)} {operator} {name_expression(node.right)})"
        case exp.Subquery():
            return "scalarsubquery()"
        case _:
            return str(node.sql("spark"))
