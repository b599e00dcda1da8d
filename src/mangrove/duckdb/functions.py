"""The functions that have the same results on DuckDB and Spark; all others need Spark.

Where the engines agree only for some values, such as the upper case of ASCII letters, other
values fail when they are computed.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, TypeAlias

from mangrove.duckdb.operators import (
    DIVIDE,
    build_comparison,
    build_remainder,
    cast_to_common_type,
    check_numbers,
    divide_exactly,
    unscale,
)
from mangrove.duckdb.typed_sql import (
    NeedsSparkError,
    TypedSql,
    build_literal,
    cast_explicitly,
    cast_to,
    describe_type,
    quote_string,
    raise_at,
)
from mangrove.duckdb.types import (
    FLOATS,
    INTEGERS,
    TEXTS,
    TIMESTAMPS,
    adjust_decimal,
    build_decimal_sum,
    is_same_type,
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
    Int16,
    Int32,
    Int64,
    List,
    Map,
    TimestampTz,
    Varchar,
)

__all__ = [
    "AGGREGATES",
    "DATE_PARTS",
    "MACROS",
    "SCALARS",
    "WINDOW_FUNCTIONS",
    "Call",
    "add_days",
    "build_concatenation",
    "build_element",
]

_Build: TypeAlias = Callable[[Sequence[TypedSql], object], TypedSql]
"""Builds a call from its arguments and the sqlglot node."""
_SUBSTRING: Final = "mangrove_substring"
MACROS: Final = (
    f"CREATE MACRO {DIVIDE}(a, b) AS CAST(sign(a) * sign(b) AS HUGEINT) * ((abs(a) + abs(b) // 2) // abs(b))",
    f"CREATE MACRO {_SUBSTRING}(t, first, n) AS substring(t, CAST(greatest(first, 0) + 1 AS BIGINT), "
    "CAST(greatest(first + n, 0) - greatest(first, 0) AS BIGINT))",
)
"""The macros that the expressions use: the quotient of two integers, rounded half up, and the part of a string that
begins after `first` characters, which may be negative."""
_LENGTH_MAX: Final = 2**31 - 1


def _build_positive_remainder(arguments: Sequence[TypedSql], node: object) -> TypedSql:
    _check_count(arguments, 2, 2, node)
    left, right = arguments
    if not isinstance(right.literal, int) or right.literal <= 0:
        raise NeedsSparkError("pmod with a divisor other than a positive literal", node)
    value = build_remainder(left, right, node)
    # A remainder and its divisor have different signs or their sum is larger than both, so that it does not overflow.
    text = f"CASE WHEN {value.text} < 0 THEN {value.text} + {right.literal} ELSE {value.text} END"
    return TypedSql(f"CAST({text} AS {to_duckdb_type(value.type)})", value.type)


def build_concatenation(values: Sequence[TypedSql], node: object = None) -> TypedSql:
    """Concatenate strings; the result is null if one of them is."""
    texts = [_convert_to_text("concat", value, node).text for value in values]
    return TypedSql(f"({' || '.join(texts)})" if texts else "''", Varchar())


def _require_text(function: str, value: TypedSql, node: object) -> TypedSql:
    if value.type is None:
        return cast_to(value, Varchar(), node)
    if not isinstance(value.type, TEXTS):
        raise NeedsSparkError(f"{function} of {describe_type(value.type)}", node)
    return value


def _convert_to_text(function: str, value: TypedSql, node: object) -> TypedSql:
    """Return a value as the string to which Spark converts it beside other strings."""
    is_converted = isinstance(value.type, (*INTEGERS, Decimal, Boolean, Date))
    return cast_explicitly(value, Varchar(), node) if is_converted else _require_text(function, value, node)


def _check_count(arguments: Sequence[TypedSql], least: int, most: int | None, node: object) -> None:
    if len(arguments) < least or (most is not None and len(arguments) > most):
        expected = str(least) if least == most else f"at least {least}" if most is None else f"{least} to {most}"
        raise NeedsSparkError(
            f"the function takes {expected} arguments on DuckDB; a call with {len(arguments)} arguments", node
        )


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
    start, *rest = (_require_integer("substring", one, node) for one in arguments[1:])
    length = rest[0] if rest else build_literal(_LENGTH_MAX)
    if start.is_literal and start.literal > 0 and length.is_literal and length.literal >= 0:
        return TypedSql(f"substring({value.text}, {start.literal}, {length.literal})", Varchar())
    before_end = f"WHEN {start.text} < 0 THEN length({value.text}) + {start.text}"
    first = f"CASE WHEN {start.text} > 0 THEN {start.text} - 1 {before_end} ELSE 0 END"
    nulls = " OR ".join(f"{one.text} IS NULL" for one in (value, start, length))
    text = f"{_SUBSTRING}({value.text}, CAST({first} AS BIGINT), greatest(CAST({length.text} AS BIGINT), 0))"
    return TypedSql(f"CASE WHEN {nulls} THEN NULL ELSE {text} END", Varchar())


def _require_integer(function: str, value: TypedSql, node: object) -> TypedSql:
    if not isinstance(value.type, Int16 | Int32):
        raise NeedsSparkError(f"{function} with {describe_type(value.type)} as a number", node)
    return value


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
    """Return the builder of a function of two strings."""

    def build(arguments: Sequence[TypedSql], node: object) -> TypedSql:
        _check_count(arguments, 2, 2, node)
        texts = [_require_text("the function", one, node).text for one in arguments]
        return TypedSql(template.format(*texts), result)

    return build


def _build_replace(arguments: Sequence[TypedSql], node: object) -> TypedSql:
    _check_count(arguments, 2, 3, node)
    texts = [_require_text("replace", one, node).text for one in arguments]
    return TypedSql(f"replace({', '.join([*texts, _QUOTED_EMPTY][:3])})", Varchar())


def _of_padding(name: str) -> _Build:
    def build(arguments: Sequence[TypedSql], node: object) -> TypedSql:
        _check_count(arguments, 2, 3, node)
        value, length = _require_text(name, arguments[0], node), _require_integer(name, arguments[1], node)
        pad = arguments[2].literal if arguments[2:] else " "
        if not isinstance(pad, str) or not pad:
            raise NeedsSparkError(f"{name} with anything but a literal string", node)
        return TypedSql(f"{name}({value.text}, {length.text}, {quote_string(pad)})", Varchar())

    return build


def _build_repeat(arguments: Sequence[TypedSql], node: object) -> TypedSql:
    _check_count(arguments, 2, 2, node)
    value, times = _require_text("repeat", arguments[0], node), _require_integer("repeat", arguments[1], node)
    return TypedSql(f"repeat({value.text}, {times.text})", Varchar())


def _build_split_part(arguments: Sequence[TypedSql], node: object) -> TypedSql:
    _check_count(arguments, 3, 3, node)
    value, mark = (_require_text("split_part", one, node) for one in arguments[:2])
    place = arguments[2].literal
    if not isinstance(mark.literal, str) or not mark.literal or not isinstance(place, int) or place == 0:
        raise NeedsSparkError("split_part with anything but a literal delimiter and position", node)
    return TypedSql(f"split_part({value.text}, {mark.text}, {place})", Varchar())


def _build_translate(arguments: Sequence[TypedSql], node: object) -> TypedSql:
    _check_count(arguments, 3, 3, node)
    value, *signs = (_require_text("translate", one, node) for one in arguments)
    if not all(isinstance(one.literal, str) for one in signs):
        raise NeedsSparkError("translate with anything but literal characters", node)
    return TypedSql(f"translate({value.text}, {signs[0].text}, {signs[1].text})", Varchar())


def _build_joined_text(arguments: Sequence[TypedSql], node: object) -> TypedSql:
    _check_count(arguments, 2, None, node)
    texts = [_convert_to_text("concat_ws", one, node).text for one in arguments]
    return TypedSql(f"concat_ws({', '.join(texts)})", Varchar())


def _build_locate(arguments: Sequence[TypedSql], node: object) -> TypedSql:
    _check_count(arguments, 2, 2, node)
    return SCALARS["instr"](arguments[::-1], node)


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


def _require_unit(value: TypedSql, units: Mapping[str, str], node: object) -> str:
    unit = value.literal.casefold() if isinstance(value.literal, str) else ""
    if unit not in units:
        raise NeedsSparkError(f"a unit other than {', '.join(units)}", node)
    return units[unit]


def _build_date_trunc(arguments: Sequence[TypedSql], node: object) -> TypedSql:
    _check_count(arguments, 2, 2, node)
    unit = _require_unit(arguments[0], {**_DATE_UNITS, **_TIME_UNITS}, node)
    value = arguments[1]
    if not isinstance(value.type, (Date, *TIMESTAMPS)):
        raise NeedsSparkError(f"date_trunc of {describe_type(value.type)}", node)
    text = f"date_trunc('{unit}', CAST({value.text} AS TIMESTAMP))"
    return TypedSql(f"CAST({text} AS {to_duckdb_type(TimestampTz())})", TimestampTz())


def _build_trunc(arguments: Sequence[TypedSql], node: object) -> TypedSql:
    _check_count(arguments, 2, 2, node)
    unit = _require_unit(arguments[1], _DATE_UNITS, node)
    return TypedSql(f"CAST(date_trunc('{unit}', {_require_date(arguments[0], node).text}) AS DATE)", Date())


def _build_date_part(arguments: Sequence[TypedSql], node: object) -> TypedSql:
    _check_count(arguments, 2, 2, node)
    part = arguments[0].literal.casefold() if isinstance(arguments[0].literal, str) else ""
    if part not in DATE_PARTS:
        raise NeedsSparkError(f"a part other than {', '.join(DATE_PARTS)}", node)
    return SCALARS[DATE_PARTS[part]](arguments[1:], node)


def _build_date_format(arguments: Sequence[TypedSql], node: object) -> TypedSql:
    """Format dates and times of four-digit years by a literal pattern of numbers."""
    _check_count(arguments, 2, 2, node)
    value, pattern = arguments
    if not isinstance(value.type, (Date, *TIMESTAMPS)) or not isinstance(pattern.literal, str):
        raise NeedsSparkError("date_format of anything but a date or time and a literal pattern", node)
    parts = _PATTERN_PARTS.findall(pattern.literal)
    if "".join(parts) != pattern.literal:
        raise NeedsSparkError(f"the pattern {pattern.literal!r}", node)
    moment = f"CAST({value.text} AS TIMESTAMP)"
    written = "".join(_PATTERN_LETTERS.get(part, part) for part in parts)
    return _guard_years(f"strftime({moment}, {quote_string(written)})", moment)


def _guard_years(text: str, moment: str) -> TypedSql:
    failure = raise_at("a year with other than four digits needs Spark to be formatted", Varchar())
    return TypedSql(f"CASE WHEN year({moment}) NOT BETWEEN 1000 AND 9999 THEN {failure} ELSE {text} END", Varchar())


def _require_date(value: TypedSql, node: object) -> TypedSql:
    """Return the date of a date or timestamp."""
    return cast_explicitly(value, Date(), node) if isinstance(value.type, TIMESTAMPS) else cast_to(value, Date(), node)


def _build_add_months(arguments: Sequence[TypedSql], node: object) -> TypedSql:
    _check_count(arguments, 2, 2, node)
    day, months = _require_date(arguments[0], node), _require_integer("add_months", arguments[1], node)
    return TypedSql(f"CAST({day.text} + to_months({months.text}) AS DATE)", Date())


def _build_make_date(arguments: Sequence[TypedSql], node: object) -> TypedSql:
    _check_count(arguments, 3, 3, node)
    texts = [_require_integer("make_date", one, node).text for one in arguments]
    return TypedSql(f"make_date({', '.join(texts)})", Date())


def add_days(operator: str) -> _Build:
    """Return the builder of a date plus or minus a number of days."""

    def build(arguments: Sequence[TypedSql], node: object) -> TypedSql:
        _check_count(arguments, 2, 2, node)
        day, days = _require_date(arguments[0], node), arguments[1]
        if not isinstance(days.type, INTEGERS) or days.type == Int64():
            raise NeedsSparkError(f"a number of days that is {describe_type(days.type)}", node)
        return TypedSql(f"({day.text} {operator} {cast_to(days, Int32(), node).text})", Date())

    return build


def _build_datediff(arguments: Sequence[TypedSql], node: object) -> TypedSql:
    _check_count(arguments, 2, 2, node)
    end, start = (_require_date(one, node) for one in arguments)
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
    check_numbers("abs", arguments, node)
    return TypedSql(f"abs({arguments[0].text})", arguments[0].type)


def _of_whole(name: str) -> _Build:
    """Return the builder of ceil or floor."""

    def build(arguments: Sequence[TypedSql], node: object) -> TypedSql:
        _check_count(arguments, 1, 1, node)
        (value,) = arguments
        check_numbers(name, arguments, node)
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
            # Spark has no negative zero here.
            return TypedSql(f"(round({value.text}) + CAST(0 AS DOUBLE))", Float64())
        case Float64() if digits <= _ROUNDED_DIGITS_MAX:
            # Spark rounds the digits with which a double is written; those of large numbers are whole.
            whole = f"isnan({value.text}) OR abs({value.text}) >= 1e15"
            exact = f"CAST(CAST(CAST({value.text} AS VARCHAR) AS DECIMAL(38,{digits})) AS VARCHAR)"
            return TypedSql(f"CASE WHEN {whole} THEN {value.text} ELSE CAST({exact} AS DOUBLE) END", Float64())
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


def _of_cast(target: DataType) -> _Build:
    def build(arguments: Sequence[TypedSql], node: object) -> TypedSql:
        _check_count(arguments, 1, 1, node)
        return cast_explicitly(arguments[0], target, node)

    return build


def _of_null_test(text: str) -> _Build:
    def build(arguments: Sequence[TypedSql], node: object) -> TypedSql:
        _check_count(arguments, 1, 1, node)
        return TypedSql(f"({arguments[0].text} {text})", Boolean())

    return build


def _build_nvl2(arguments: Sequence[TypedSql], node: object) -> TypedSql:
    _check_count(arguments, 3, 3, node)
    yes, no = cast_to_common_type(arguments[1:], node)
    return TypedSql(f"CASE WHEN {arguments[0].text} IS NOT NULL THEN {yes.text} ELSE {no.text} END", yes.type)


def _build_isnan(arguments: Sequence[TypedSql], node: object) -> TypedSql:
    _check_count(arguments, 1, 1, node)
    value = cast_to(arguments[0], Float64(), node)
    return TypedSql(f"coalesce(isnan({value.text}), false)", Boolean())


def _build_sqrt(arguments: Sequence[TypedSql], node: object) -> TypedSql:
    _check_count(arguments, 1, 1, node)
    check_numbers("sqrt", arguments, node)
    return TypedSql(f"sqrt({cast_to(arguments[0], Float64(), node).text})", Float64())


def _build_sign(arguments: Sequence[TypedSql], node: object) -> TypedSql:
    _check_count(arguments, 1, 1, node)
    if to_decimal_type(arguments[0].type) is None:
        raise NeedsSparkError(f"sign of {describe_type(arguments[0].type)}", node)
    return TypedSql(f"CAST(sign({arguments[0].text}) AS DOUBLE)", Float64())


def _build_negative(arguments: Sequence[TypedSql], node: object) -> TypedSql:
    _check_count(arguments, 1, 1, node)
    check_numbers("-", arguments, node)
    return TypedSql(f"(-{arguments[0].text})", arguments[0].type)


def _build_size(arguments: Sequence[TypedSql], node: object) -> TypedSql:
    _check_count(arguments, 1, 1, node)
    (value,) = arguments
    if not isinstance(value.type, List | Map):
        raise NeedsSparkError(f"size of {describe_type(value.type)}", node)
    return TypedSql(
        f"CAST({'len' if isinstance(value.type, List) else 'cardinality'}({value.text}) AS INTEGER)", Int32()
    )


def build_element(value: TypedSql, place: TypedSql, node: object = None) -> TypedSql:
    """Return an element of a list by its index from 0, which must exist, or the value of a map, or null."""
    match value.type:
        case List(element) if isinstance(place.type, INTEGERS):
            failure = raise_at("there is no element with this index", element.type)
            beyond = f"{place.text} < 0 OR {place.text} >= len({value.text})"
            found = f"{value.text}[CAST({place.text} AS BIGINT) + 1]"
            return TypedSql(f"CASE WHEN {beyond} THEN {failure} ELSE {found} END", element.type)
        case Map(key, inner) if is_same_type(key.type, place.type) and is_scannable(key.type):
            return TypedSql(f"{value.text}[{place.text}]", inner.type)
        case _:
            raise NeedsSparkError(f"an element of {describe_type(value.type)} by {describe_type(place.type)}", node)


def _build_array_contains(arguments: Sequence[TypedSql], node: object) -> TypedSql:
    _check_count(arguments, 2, 2, node)
    values, one = arguments
    if not isinstance(values.type, List) or not is_same_type(values.type.element.type, one.type):
        raise NeedsSparkError(f"array_contains of {describe_type(values.type)} and {describe_type(one.type)}", node)
    if not is_scannable(values.type.element.type):
        raise NeedsSparkError(f"a comparison of {describe_type(values.type.element.type)}", node)
    # Without a match, an element that is null makes the result null.
    has_nulls = f"len({values.text}) > list_count({values.text})"
    found = f"CASE WHEN list_contains({values.text}, {one.text}) THEN true WHEN NOT {has_nulls} THEN false END"
    return TypedSql(f"CASE WHEN {values.text} IS NULL OR {one.text} IS NULL THEN NULL ELSE {found} END", Boolean())


DATE_PARTS: Final[dict[str, str]] = {
    **{one: one for one in ("year", "quarter", "month", "day", "dayofweek", "hour", "minute")},
    "week": "weekofyear",
    "dow": "dayofweek",
    "doy": "dayofyear",
}
"""The functions of the parts that EXTRACT and date_part take."""
_DATE_UNITS: Final = {"year": "year", "quarter": "quarter", "month": "month", "week": "week"}
_TIME_UNITS: Final = {one: one for one in ("day", "hour", "minute", "second")}
_PATTERN_LETTERS: Final = {"yyyy": "%Y", "MM": "%m", "dd": "%d", "HH": "%H", "mm": "%M", "ss": "%S"}
_PATTERN_PARTS: Final = re.compile("yyyy(?!y)|MM(?!M)|dd(?!d)|HH(?!H)|mm(?!m)|ss(?!s)|[-/:. _]")
_ROUNDED_DIGITS_MAX: Final = 15
_QUOTED_EMPTY: Final = "''"


def _of_operator(build_pair: Callable[[TypedSql, TypedSql, object], TypedSql]) -> _Build:
    def build(arguments: Sequence[TypedSql], node: object) -> TypedSql:
        _check_count(arguments, 2, 2, node)
        return build_pair(arguments[0], arguments[1], node)

    return build


SCALARS: Final[dict[str, _Build]] = {
    "abs": _build_abs,
    "add_months": _build_add_months,
    "array_contains": _build_array_contains,
    "ascii": _of_text("ascii({})", Int32()),
    "btrim": _of_text("trim({}, ' ')", Varchar()),
    "cardinality": _build_size,
    "ceil": _of_whole("ceil"),
    "ceiling": _of_whole("ceil"),
    "char_length": _of_text("CAST(length({}) AS INTEGER)", Int32()),
    "character_length": _of_text("CAST(length({}) AS INTEGER)", Int32()),
    "coalesce": _build_coalesce,
    "concat": build_concatenation,
    "concat_ws": _build_joined_text,
    "contains": _of_two_texts("contains({}, {})", Boolean()),
    "current_date": _without_arguments("CAST(CAST(current_timestamp AS TIMESTAMP) AS DATE)", Date()),
    "current_timestamp": _without_arguments("current_timestamp", TimestampTz()),
    "date": _of_cast(Date()),
    "date_add": add_days("+"),
    "date_diff": _build_datediff,
    "date_format": _build_date_format,
    "date_part": _build_date_part,
    "date_sub": add_days("-"),
    "date_trunc": _build_date_trunc,
    "datepart": _build_date_part,
    "datediff": _build_datediff,
    "day": _of_time("day({})", Int32()),
    "dayname": _of_time("left(dayname({}), 3)", Varchar()),
    "dayofmonth": _of_time("day({})", Int32()),
    "dayofweek": _of_time("dayofweek({}) + 1", Int32()),
    "dayofyear": _of_time("dayofyear({})", Int32()),
    "endswith": _of_two_texts("ends_with({}, {})", Boolean()),
    "floor": _of_whole("floor"),
    "greatest": _of_extreme("greatest"),
    "hour": _of_time("hour({})", Int32(), takes_dates=False),
    "if": _build_if,
    "ifnull": _build_coalesce,
    "isnan": _build_isnan,
    "isnotnull": _of_null_test("IS NOT NULL"),
    "isnull": _of_null_test("IS NULL"),
    "instr": _of_two_texts("CAST(instr({}, {}) AS INTEGER)", Int32()),
    "last_day": _of_time("last_day({})", Date()),
    "least": _of_extreme("least"),
    "left": _of_end("left"),
    "len": _of_text("CAST(length({}) AS INTEGER)", Int32()),
    "length": _of_text("CAST(length({}) AS INTEGER)", Int32()),
    "lower": _of_text("lower({})", Varchar(), is_ascii=True),
    "lcase": _of_text("lower({})", Varchar(), is_ascii=True),
    "locate": _build_locate,
    "lpad": _of_padding("lpad"),
    "ltrim": _of_text("ltrim({}, ' ')", Varchar()),
    "make_date": _build_make_date,
    "minute": _of_time("minute({})", Int32(), takes_dates=False),
    "mod": _of_operator(build_remainder),
    "month": _of_time("month({})", Int32()),
    "monthname": _of_time("left(monthname({}), 3)", Varchar()),
    "negative": _build_negative,
    "now": _without_arguments("current_timestamp", TimestampTz()),
    "nullif": _build_nullif,
    "nvl": _build_coalesce,
    "nvl2": _build_nvl2,
    "octet_length": _of_text("CAST(strlen({}) AS INTEGER)", Int32()),
    "pmod": _build_positive_remainder,
    "position": _build_locate,
    "quarter": _of_time("quarter({})", Int32()),
    "repeat": _build_repeat,
    "replace": _build_replace,
    "right": _of_end("right"),
    "round": _build_round,
    "rpad": _of_padding("rpad"),
    "rtrim": _of_text("rtrim({}, ' ')", Varchar()),
    "second": _of_time("second({})", Int32(), takes_dates=False),
    "sign": _build_sign,
    "signum": _build_sign,
    "size": _build_size,
    "split_part": _build_split_part,
    "sqrt": _build_sqrt,
    "startswith": _of_two_texts("starts_with({}, {})", Boolean()),
    "substr": _build_substring,
    "substring": _build_substring,
    "to_date": _of_cast(Date()),
    "to_timestamp": _of_cast(TimestampTz()),
    "translate": _build_translate,
    "trim": _of_text("trim({}, ' ')", Varchar()),
    "trunc": _build_trunc,
    "ucase": _of_text("upper({})", Varchar(), is_ascii=True),
    "upper": _of_text("upper({})", Varchar(), is_ascii=True),
    "weekday": _of_time("isodow({}) - 1", Int32()),
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
        # Rows in which one of the values is null are not counted.
        texts = [value.text for value in call.arguments]
        some = " OR ".join(f"{text} IS NULL" for text in texts)
        return TypedSql(call.render("count", f"CASE WHEN {some} THEN NULL ELSE row({', '.join(texts)}) END"), Int64())
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
    digits = unscale(TypedSql(call.render("sum", value.text), total), total)
    count = f"CAST({call.render('count', value.text)} AS HUGEINT)"
    text = divide_exactly(f"{digits} * {10 ** (result.scale - total.scale)}::HUGEINT", count, result)
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


def _of_share(name: str) -> _BuildCall:
    def build(call: Call) -> TypedSql:
        _check_count(call.arguments, 0, 0, call.node)
        return TypedSql(call.render(name), Float64())

    return build


def _build_ntile(call: Call) -> TypedSql:
    count = _require_natural(call.only_argument(), call.node)
    if count < 1:
        raise NeedsSparkError("ntile with anything but a positive literal", call.node)
    return TypedSql(f"CAST({call.render('ntile', str(count))} AS INTEGER)", Int32())


WINDOW_FUNCTIONS: Final[dict[str, _BuildCall]] = {
    "cume_dist": _of_share("cume_dist"),
    "dense_rank": _of_rank("dense_rank"),
    "first_value": _of_frame_end("first_value"),
    "lag": _of_offset("lag"),
    "last_value": _of_frame_end("last_value"),
    "lead": _of_offset("lead"),
    "ntile": _build_ntile,
    "percent_rank": _of_share("percent_rank"),
    "rank": _of_rank("rank"),
    "row_number": _of_rank("row_number"),
}
"""Builders of window functions by name; aggregates are window functions too."""
