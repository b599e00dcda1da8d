"""The operators and functions that have the same results on DuckDB and Spark; all others need Spark.

Where the engines agree only for some values, such as the upper case of ASCII letters, other
values fail when they are computed.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final, TypeAlias

from mangrove.duckdb.typed_sql import (
    NeedsSparkError,
    SqlAnalysisError,
    TypedSql,
    cast_explicitly,
    cast_to,
    describe_type,
    match_types,
    raise_at,
)
from mangrove.duckdb.types import (
    FLOATS,
    INTEGERS,
    NUMBERS,
    TEXTS,
    TIMESTAMPS,
    adjust_decimal,
    build_decimal_sum,
    find_common_type,
    is_scannable,
    to_decimal_type,
    to_duckdb_type,
)
from mangrove.model.types import (
    DECIMAL_PRECISION_MAX,
    Boolean,
    DataType,
    Date,
    Decimal,
    Float64,
    Int32,
    Int64,
    TimestampTz,
    Varchar,
)

__all__ = [
    "AGGREGATES",
    "MACROS",
    "SCALARS",
    "WINDOW_FUNCTIONS",
    "Call",
    "build_arithmetic",
    "build_comparison",
    "build_concatenation",
    "build_division",
    "build_integer_division",
    "build_remainder",
    "cast_to_common_type",
]

_Build: TypeAlias = Callable[[Sequence[TypedSql], object], TypedSql]
"""Builds a call from its arguments and the sqlglot node."""
_DIVIDE: Final = "mangrove_divide"
MACROS: Final = (
    f"CREATE MACRO {_DIVIDE}(a, b) AS CAST(sign(a) * sign(b) AS HUGEINT) * ((abs(a) + abs(b) // 2) // abs(b))",
)
"""The macros that the expressions use: the quotient of two integers, rounded half up."""
_DIVISION_BY_ZERO: Final = "division by zero; use NULLIF for the divisor"


def build_comparison(operator: str, left: TypedSql, right: TypedSql, node: object = None) -> TypedSql:
    """Compare two values after the conversions that Spark makes."""
    left, right = cast_to_common_type(match_types(left, right, node), node)
    if left.type is not None and not is_scannable(left.type):
        raise NeedsSparkError(f"a comparison of {describe_type(left.type)}", node)
    return TypedSql(f"({left.text} {operator} {right.text})", Boolean())


def cast_to_common_type(values: Sequence[TypedSql], node: object = None) -> list[TypedSql]:
    """Convert values to the common type that Spark gives them."""
    is_common, common = find_common_type([value.type for value in values])
    if not is_common:
        names = ", ".join(dict.fromkeys(describe_type(value.type) for value in values))
        raise NeedsSparkError(f"the conversion of {names} to a common type", node)
    return list(values) if common is None else [cast_to(value, common, node) for value in values]


def build_arithmetic(operator: str, left: TypedSql, right: TypedSql, node: object = None) -> TypedSql:
    """Add, subtract or multiply two numbers; an overflow is an error on both engines."""
    _check_numbers(operator, (left, right), node)
    left, right = match_types(left, right, node)
    first, second = to_decimal_type(left.type), to_decimal_type(right.type)
    is_decimal = isinstance(left.type, Decimal) or isinstance(right.type, Decimal)
    if not is_decimal or first is None or second is None:
        left, right = cast_to_common_type((left, right), node)
        return TypedSql(f"({left.text} {operator} {right.text})", left.type)
    left, right = cast_to(left, first, node), cast_to(right, second, node)
    text = f"({left.text} {operator} {right.text})"
    if operator == "*":
        scale, precision = first.scale + second.scale, first.precision + second.precision + 1
    else:
        scale = max(first.scale, second.scale)
        precision = max(first.precision - first.scale, second.precision - second.scale) + scale + 1
    if scale > DECIMAL_PRECISION_MAX:
        raise NeedsSparkError(f"a decimal with {scale} digits after the point", node)
    result = adjust_decimal(precision, scale)
    # DuckDB computes with the same scale and at most 38 digits; an overflow is an error.
    return TypedSql(text if result.scale == scale else f"CAST({text} AS {to_duckdb_type(result)})", result)


def build_division(left: TypedSql, right: TypedSql, node: object = None) -> TypedSql:
    """Divide two numbers: exactly if one is a decimal, else as doubles."""
    _check_numbers("/", (left, right), node)
    left, right = match_types(left, right, node)
    first, second = to_decimal_type(left.type), to_decimal_type(right.type)
    is_decimal = isinstance(left.type, Decimal) or isinstance(right.type, Decimal)
    if not is_decimal or first is None or second is None:
        left, right = cast_to(left, Float64(), node), cast_to(right, Float64(), node)
        return _guard_divisor(f"{left.text} / {right.text}", Float64(), left, right)
    left, right = cast_to(left, first, node), cast_to(right, second, node)
    return _divide_decimals((left, first), (right, second), node)


def _divide_decimals(dividend: tuple[TypedSql, Decimal], divisor: tuple[TypedSql, Decimal], node: object) -> TypedSql:
    (left, first), (right, second) = dividend, divisor
    scale = max(6, first.scale + second.precision + 1)
    result = adjust_decimal(first.precision - first.scale + second.scale + scale, scale)
    shift = result.scale - first.scale + second.scale
    if shift < 0:
        raise NeedsSparkError("a division of decimals with so many digits", node)
    above, below = _unscale(left, first), _unscale(right, second)
    return _guard_divisor(_divide_exactly(f"{above} * {10**shift}::HUGEINT", below, result), result, left, right)


def _divide_exactly(dividend: str, divisor: str, result: Decimal) -> str:
    """Return the quotient of two integers, rounded half up and scaled as a decimal."""
    unit = f"CAST('{_format_unit(result.scale)}' AS DECIMAL({max(result.scale, 1)},{result.scale}))"
    return f"CAST(CAST({_DIVIDE}({dividend}, {divisor}) AS DECIMAL(38,0)) * {unit} AS {to_duckdb_type(result)})"


def _unscale(value: TypedSql, kind: Decimal) -> str:
    """Return the digits of a decimal as an integer."""
    if kind.scale == 0:
        return f"CAST({value.text} AS HUGEINT)"
    return f"CAST({value.text} * CAST({10**kind.scale} AS DECIMAL({kind.scale + 1},0)) AS HUGEINT)"


def _format_unit(scale: int) -> str:
    return "1" if scale == 0 else f"0.{'0' * (scale - 1)}1"


def _guard_divisor(text: str, result: DataType, left: TypedSql, right: TypedSql) -> TypedSql:
    """Return a division that fails for the divisor zero, unless the dividend is null."""
    if right.is_literal and right.literal not in (0, None):
        return TypedSql(f"({text})", result)
    failure = raise_at(_DIVISION_BY_ZERO, result)
    is_zero = f"{right.text} = 0 AND {left.text} IS NOT NULL"
    return TypedSql(f"CASE WHEN {is_zero} THEN {failure} ELSE {text} END", result)


def build_remainder(left: TypedSql, right: TypedSql, node: object = None) -> TypedSql:
    """Return the remainder of two integers, with the sign of the dividend."""
    left, right = _match_integers("%", left, right, node)
    assert left.type is not None
    return _guard_divisor(f"{left.text} % {right.text}", left.type, left, right)


def build_integer_division(left: TypedSql, right: TypedSql, node: object = None) -> TypedSql:
    """Return the quotient of two integers without its fraction, as a bigint."""
    left, right = (cast_to(one, Int64(), node) for one in _match_integers("div", left, right, node))
    return _guard_divisor(f"{left.text} // {right.text}", Int64(), left, right)


def _match_integers(operator: str, left: TypedSql, right: TypedSql, node: object) -> tuple[TypedSql, TypedSql]:
    if not isinstance(left.type, INTEGERS) or not isinstance(right.type, INTEGERS):
        kinds = f"{describe_type(left.type)} and {describe_type(right.type)}"
        raise NeedsSparkError(f"{operator} of {kinds}", node)
    left, right = cast_to_common_type((left, right), node)
    return left, right


def build_concatenation(values: Sequence[TypedSql], node: object = None) -> TypedSql:
    """Concatenate strings; the result is null if one of them is."""
    texts = [_require_text("concat", value, node).text for value in values]
    return TypedSql(f"({' || '.join(texts)})" if texts else "''", Varchar())


def _check_numbers(operator: str, values: Sequence[TypedSql], node: object) -> None:
    for value in values:
        if not isinstance(value.type, NUMBERS):
            raise NeedsSparkError(f"{operator} with {describe_type(value.type)}", node)


def _require_text(function: str, value: TypedSql, node: object) -> TypedSql:
    if value.type is None:
        return cast_to(value, Varchar(), node)
    if not isinstance(value.type, TEXTS):
        raise NeedsSparkError(f"{function} of {describe_type(value.type)}", node)
    return value


def _check_count(arguments: Sequence[TypedSql], least: int, most: int | None, node: object) -> None:
    if len(arguments) < least or (most is not None and len(arguments) > most):
        expected = str(least) if least == most else f"at least {least}" if most is None else f"{least} to {most}"
        raise SqlAnalysisError(f"the function takes {expected} arguments, but {len(arguments)} are given", node)


def _of_text(template: str, result: DataType, *, is_ascii: bool = False) -> _Build:
    """Return the builder of a function of one string; `is_ascii` refuses other characters when it is computed."""

    def build(arguments: Sequence[TypedSql], node: object) -> TypedSql:
        _check_count(arguments, 1, 1, node)
        value = _require_text("the function", arguments[0], node)
        text = template.format(value.text)
        if is_ascii:
            failure = raise_at("the case of characters other than ASCII needs Spark", result)
            text = f"CASE WHEN strlen({value.text}) > length({value.text}) THEN {failure} ELSE {text} END"
        return TypedSql(text, result)

    return build


def _build_substring(arguments: Sequence[TypedSql], node: object) -> TypedSql:
    _check_count(arguments, 2, 3, node)
    value = _require_text("substring", arguments[0], node)
    start, *length = [_require_natural(one, node) for one in arguments[1:]]
    if start < 1:
        raise NeedsSparkError("substring from a position before 1", node)
    return TypedSql(f"substring({', '.join([value.text, str(start), *map(str, length)])})", Varchar())


def _of_end(name: str) -> _Build:
    def build(arguments: Sequence[TypedSql], node: object) -> TypedSql:
        _check_count(arguments, 2, 2, node)
        value = _require_text(name, arguments[0], node)
        return TypedSql(f"{name}({value.text}, {_require_natural(arguments[1], node)})", Varchar())

    return build


def _require_natural(value: TypedSql, node: object) -> int:
    if not isinstance(value.literal, int) or isinstance(value.literal, bool) or value.literal < 0:
        raise NeedsSparkError("a position or length other than a literal number from 0", node)
    return value.literal


def _of_two_texts(template: str, result: DataType) -> _Build:
    """Return the builder of a function of a string and a literal that is not empty."""

    def build(arguments: Sequence[TypedSql], node: object) -> TypedSql:
        _check_count(arguments, 2, 2, node)
        value, part = (_require_text("the function", one, node) for one in arguments)
        if not isinstance(part.literal, str) or not part.literal:
            raise NeedsSparkError("a search for anything but a literal string", node)
        return TypedSql(template.format(value.text, part.text), result)

    return build


def _build_replace(arguments: Sequence[TypedSql], node: object) -> TypedSql:
    _check_count(arguments, 3, 3, node)
    value, search, new = (_require_text("replace", one, node) for one in arguments)
    if not isinstance(search.literal, str) or not search.literal:
        raise NeedsSparkError("a search for anything but a literal string", node)
    return TypedSql(f"replace({value.text}, {search.text}, {new.text})", Varchar())


def _of_time(template: str, result: DataType, *, takes_dates: bool = True) -> _Build:
    """Return the builder of a function of one date or timestamp, in UTC."""

    def build(arguments: Sequence[TypedSql], node: object) -> TypedSql:
        _check_count(arguments, 1, 1, node)
        (value,) = arguments
        if not isinstance(value.type, (Date, *TIMESTAMPS) if takes_dates else TIMESTAMPS):
            raise NeedsSparkError(f"a part of {describe_type(value.type)}", node)
        text = f"CAST({value.text} AS TIMESTAMP)" if isinstance(value.type, TimestampTz) else value.text
        return TypedSql(f"CAST({template.format(text)} AS {to_duckdb_type(result)})", result)

    return build


def _add_days(operator: str) -> _Build:
    def build(arguments: Sequence[TypedSql], node: object) -> TypedSql:
        _check_count(arguments, 2, 2, node)
        day, days = cast_to(arguments[0], Date(), node), arguments[1]
        if not isinstance(days.type, INTEGERS) or days.type == Int64():
            raise NeedsSparkError(f"a number of days that is {describe_type(days.type)}", node)
        return TypedSql(f"({day.text} {operator} {cast_to(days, Int32(), node).text})", Date())

    return build


def _build_datediff(arguments: Sequence[TypedSql], node: object) -> TypedSql:
    _check_count(arguments, 2, 2, node)
    end, start = (cast_to(one, Date(), node) for one in arguments)
    return TypedSql(f"CAST({end.text} - {start.text} AS INTEGER)", Int32())


def _build_coalesce(arguments: Sequence[TypedSql], node: object) -> TypedSql:
    _check_count(arguments, 1, None, node)
    values = cast_to_common_type(arguments, node)
    return TypedSql(f"coalesce({', '.join(value.text for value in values)})", values[0].type)


def _build_nullif(arguments: Sequence[TypedSql], node: object) -> TypedSql:
    _check_count(arguments, 2, 2, node)
    test = build_comparison("=", arguments[0], arguments[1], node)
    return TypedSql(f"CASE WHEN {test.text} THEN NULL ELSE {arguments[0].text} END", arguments[0].type)


def _of_extreme(name: str) -> _Build:
    def build(arguments: Sequence[TypedSql], node: object) -> TypedSql:
        _check_count(arguments, 2, None, node)
        values = cast_to_common_type(arguments, node)
        return TypedSql(f"{name}({', '.join(value.text for value in values)})", values[0].type)

    return build


def _build_abs(arguments: Sequence[TypedSql], node: object) -> TypedSql:
    _check_count(arguments, 1, 1, node)
    _check_numbers("abs", arguments, node)
    return TypedSql(f"abs({arguments[0].text})", arguments[0].type)


def _of_whole(name: str) -> _Build:
    """Return the builder of ceil or floor."""

    def build(arguments: Sequence[TypedSql], node: object) -> TypedSql:
        _check_count(arguments, 1, 1, node)
        (value,) = arguments
        _check_numbers(name, arguments, node)
        result: DataType = Int64()
        if isinstance(value.type, Decimal):
            result = Decimal(min(value.type.precision - value.type.scale + 1, DECIMAL_PRECISION_MAX), 0)
        return TypedSql(f"CAST({name}({value.text}) AS {to_duckdb_type(result)})", result)

    return build


def _build_round(arguments: Sequence[TypedSql], node: object) -> TypedSql:
    _check_count(arguments, 1, 2, node)
    value = arguments[0]
    digits = _require_natural(arguments[1], node) if len(arguments) > 1 else 0
    match value.type:
        case Decimal(precision, scale):
            new_scale = min(scale, digits)
            result = Decimal(min(precision - scale + 1 + new_scale, DECIMAL_PRECISION_MAX), new_scale)
            return TypedSql(f"CAST({value.text} AS {to_duckdb_type(result)})", result)
        case _ if isinstance(value.type, INTEGERS):
            return value
        case Float64() if digits == 0:
            return TypedSql(f"round({value.text})", Float64())
        case _:
            raise NeedsSparkError(f"round of {describe_type(value.type)} to {digits} digits", node)


def _without_arguments(text: str, result: DataType) -> _Build:
    def build(arguments: Sequence[TypedSql], node: object) -> TypedSql:
        _check_count(arguments, 0, 0, node)
        return TypedSql(text, result)

    return build


def _build_if(arguments: Sequence[TypedSql], node: object) -> TypedSql:
    _check_count(arguments, 3, 3, node)
    condition, *branches = arguments
    yes, no = cast_to_common_type(branches, node)
    test = cast_to(condition, Boolean(), node).text
    return TypedSql(f"CASE WHEN {test} THEN {yes.text} ELSE {no.text} END", yes.type)


def _build_to_date(arguments: Sequence[TypedSql], node: object) -> TypedSql:
    _check_count(arguments, 1, 1, node)
    return cast_explicitly(arguments[0], Date(), node)


SCALARS: Final[dict[str, _Build]] = {
    "abs": _build_abs,
    "ceil": _of_whole("ceil"),
    "ceiling": _of_whole("ceil"),
    "char_length": _of_text("CAST(length({}) AS INTEGER)", Int32()),
    "character_length": _of_text("CAST(length({}) AS INTEGER)", Int32()),
    "coalesce": _build_coalesce,
    "concat": build_concatenation,
    "contains": _of_two_texts("contains({}, {})", Boolean()),
    "current_date": _without_arguments("CAST(CAST(current_timestamp AS TIMESTAMP) AS DATE)", Date()),
    "current_timestamp": _without_arguments("current_timestamp", TimestampTz()),
    "date": _build_to_date,
    "date_add": _add_days("+"),
    "date_diff": _build_datediff,
    "date_sub": _add_days("-"),
    "datediff": _build_datediff,
    "day": _of_time("day({})", Int32()),
    "dayofmonth": _of_time("day({})", Int32()),
    "dayofweek": _of_time("dayofweek({}) + 1", Int32()),
    "dayofyear": _of_time("dayofyear({})", Int32()),
    "endswith": _of_two_texts("ends_with({}, {})", Boolean()),
    "floor": _of_whole("floor"),
    "greatest": _of_extreme("greatest"),
    "hour": _of_time("hour({})", Int32(), takes_dates=False),
    "if": _build_if,
    "ifnull": _build_coalesce,
    "instr": _of_two_texts("CAST(instr({}, {}) AS INTEGER)", Int32()),
    "last_day": _of_time("last_day({})", Date()),
    "least": _of_extreme("least"),
    "left": _of_end("left"),
    "len": _of_text("CAST(length({}) AS INTEGER)", Int32()),
    "length": _of_text("CAST(length({}) AS INTEGER)", Int32()),
    "lower": _of_text("lower({})", Varchar(), is_ascii=True),
    "lcase": _of_text("lower({})", Varchar(), is_ascii=True),
    "ltrim": _of_text("ltrim({}, ' ')", Varchar()),
    "minute": _of_time("minute({})", Int32(), takes_dates=False),
    "month": _of_time("month({})", Int32()),
    "now": _without_arguments("current_timestamp", TimestampTz()),
    "nullif": _build_nullif,
    "nvl": _build_coalesce,
    "quarter": _of_time("quarter({})", Int32()),
    "replace": _build_replace,
    "right": _of_end("right"),
    "round": _build_round,
    "rtrim": _of_text("rtrim({}, ' ')", Varchar()),
    "second": _of_time("second({})", Int32(), takes_dates=False),
    "startswith": _of_two_texts("starts_with({}, {})", Boolean()),
    "substr": _build_substring,
    "substring": _build_substring,
    "to_date": _build_to_date,
    "trim": _of_text("trim({}, ' ')", Varchar()),
    "ucase": _of_text("upper({})", Varchar(), is_ascii=True),
    "upper": _of_text("upper({})", Varchar(), is_ascii=True),
    "weekofyear": _of_time("weekofyear({})", Int32()),
    "year": _of_time("year({})", Int32()),
}
"""Builders of scalar functions by name."""


@dataclass(frozen=True, slots=True)
class Call:
    """A call of an aggregate or window function."""

    arguments: Sequence[TypedSql]
    node: object
    distinct: str = ""
    """The keyword before the arguments."""
    clauses: str = ""
    """The FILTER and OVER clauses."""

    def render(self, name: str, *arguments: str) -> str:
        """Return the call of a function of DuckDB with the clauses."""
        return f"{name}({self.distinct}{', '.join(arguments)}){self.clauses}"

    def only_argument(self) -> TypedSql:
        """Return the argument of a function that has one."""
        _check_count(self.arguments, 1, 1, self.node)
        return self.arguments[0]


_BuildCall: TypeAlias = Callable[[Call], TypedSql]


def _build_count(call: Call) -> TypedSql:
    if len(call.arguments) > 1:
        raise NeedsSparkError("count of several columns", call.node)
    return TypedSql(call.render("count", *(value.text for value in call.arguments)), Int64())


def _build_sum(call: Call) -> TypedSql:
    value = call.only_argument()
    match value.type:
        case Decimal():
            return TypedSql(call.render("sum", value.text), build_decimal_sum(value.type))
        case _ if isinstance(value.type, INTEGERS):
            # DuckDB sums in 128 bits; a sum beyond a bigint is an error on both engines.
            return TypedSql(f"CAST({call.render('sum', value.text)} AS BIGINT)", Int64())
        case _ if isinstance(value.type, FLOATS):
            return TypedSql(call.render("sum", cast_to(value, Float64()).text), Float64())
        case _:
            raise NeedsSparkError(f"sum of {describe_type(value.type)}", call.node)


def _build_average(call: Call) -> TypedSql:
    value = call.only_argument()
    if isinstance(value.type, (*INTEGERS, *FLOATS)):
        return TypedSql(call.render("avg", cast_to(value, Float64()).text), Float64())
    if not isinstance(value.type, Decimal):
        raise NeedsSparkError(f"avg of {describe_type(value.type)}", call.node)
    total = build_decimal_sum(value.type)
    result = adjust_decimal(value.type.precision + 4, value.type.scale + 4)
    digits = _unscale(TypedSql(call.render("sum", value.text), total), total)
    count = f"CAST({call.render('count', value.text)} AS HUGEINT)"
    text = _divide_exactly(f"{digits} * {10 ** (result.scale - total.scale)}::HUGEINT", count, result)
    return TypedSql(text, result)


def _of_ordered(name: str) -> _BuildCall:
    def build(call: Call) -> TypedSql:
        value = call.only_argument()
        if value.type is not None and not is_scannable(value.type):
            raise NeedsSparkError(f"{name} of {describe_type(value.type)}", call.node)
        return TypedSql(call.render(name, value.text), value.type)

    return build


def _of_booleans(name: str) -> _BuildCall:
    def build(call: Call) -> TypedSql:
        return TypedSql(call.render(name, cast_to(call.only_argument(), Boolean(), call.node).text), Boolean())

    return build


def _build_count_if(call: Call) -> TypedSql:
    test = cast_to(call.only_argument(), Boolean(), call.node)
    if call.distinct:
        raise NeedsSparkError("count_if of distinct values", call.node)
    return TypedSql(call.render("count", f"CASE WHEN {test.text} THEN 1 END"), Int64())


AGGREGATES: Final[dict[str, _BuildCall]] = {
    "avg": _build_average,
    "bool_and": _of_booleans("bool_and"),
    "bool_or": _of_booleans("bool_or"),
    "count": _build_count,
    "count_if": _build_count_if,
    "every": _of_booleans("bool_and"),
    "max": _of_ordered("max"),
    "mean": _build_average,
    "min": _of_ordered("min"),
    "some": _of_booleans("bool_or"),
    "sum": _build_sum,
}
"""Builders of aggregate functions by name."""


def _of_rank(name: str) -> _BuildCall:
    def build(call: Call) -> TypedSql:
        _check_count(call.arguments, 0, 0, call.node)
        return TypedSql(f"CAST({call.render(name)} AS INTEGER)", Int32())

    return build


def _of_offset(name: str) -> _BuildCall:
    def build(call: Call) -> TypedSql:
        _check_count(call.arguments, 1, 3, call.node)
        value, *rest = call.arguments
        arguments = [value.text, *(str(_require_natural(one, call.node)) for one in rest[:1])]
        if len(rest) > 1 and value.type is not None:
            arguments.append(cast_to(rest[1], value.type, call.node).text)
        return TypedSql(call.render(name, *arguments), value.type)

    return build


def _of_frame_end(name: str) -> _BuildCall:
    def build(call: Call) -> TypedSql:
        value = call.only_argument()
        return TypedSql(call.render(name, value.text), value.type)

    return build


WINDOW_FUNCTIONS: Final[dict[str, _BuildCall]] = {
    "dense_rank": _of_rank("dense_rank"),
    "first_value": _of_frame_end("first_value"),
    "lag": _of_offset("lag"),
    "last_value": _of_frame_end("last_value"),
    "lead": _of_offset("lead"),
    "rank": _of_rank("rank"),
    "row_number": _of_rank("row_number"),
}
"""Builders of window functions by name; aggregates are window functions too."""
