"""Random expressions of what DuckDB accepts have the same values and types on Spark and DuckDB."""

import datetime
import math
import random
from collections import Counter
from collections.abc import Sequence
from decimal import Decimal
from typing import Any

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

import mangrove
from mangrove.errors import InvalidInputError
from mangrove.lakehouse.lakehouse import Lakehouse
from mangrove.lakehouse.new_table import parse_schema_argument

pytestmark = pytest.mark.interop

ORDER = "order by k, i, j, l, p, s, t, d, z, x, b, q"
COLUMNS = {
    "int": ["i", "j", "3", "-7", "0"],
    "bigint": ["l", "cast(i as bigint)", "4294967296"],
    "decimal": ["p", "q", "1.5", "0.05", "-2.345"],
    "double": ["x", "1e2", "cast(i as double)"],
    "string": ["s", "t", "'a_b%'", "'  x '", "'2026-02-30'", "''"],
    "date": ["d", "date '2024-02-29'", "date '1900-01-31'"],
    "timestamp": ["z", "timestamp '2026-11-16 23:59:59.5'"],
    "boolean": ["b", "true", "cast(null as boolean)"],
}
FUNCTIONS = {
    "int": [
        "abs({int})",
        "length({string})",
        "year({date})",
        "month({timestamp})",
        "dayofweek({date})",
        "hour({timestamp})",
        "second({timestamp})",
        "datediff({date}, {date})",
        "{int} % nullif({int}, 0)",
        "{int} + {int}",
        "{int} * {int}",
        "-({int})",
        "coalesce({int}, {int})",
        "cast({decimal} as int)",
        "cast({double} as int)",
        "nullif({int}, {int})",
        "weekofyear({date})",
        "instr({string}, 'b')",
        "greatest({int}, {int})",
        "quarter({date})",
        "dayofyear({date})",
        "cast({boolean} as int)",
    ],
    "bigint": [
        "{int} div nullif({int}, 0)",
        "{bigint} + {int}",
        "ceil({double})",
        "floor({double})",
        "{bigint} - {bigint}",
        "cast({int} as bigint)",
    ],
    "decimal": [
        "{decimal} + {decimal}",
        "{decimal} * {decimal}",
        "{decimal} / nullif({decimal}, 0)",
        "{decimal} - {int}",
        "{decimal} * {int}",
        "round({decimal}, 1)",
        "ceil({decimal})",
        "floor({decimal})",
        "cast({decimal} as decimal(12,1))",
        "abs({decimal})",
        "{int} / nullif({decimal}, 0)",
        "if({boolean}, {decimal}, {int})",
        "cast({int} as decimal(20,3))",
        "least({decimal}, {decimal})",
    ],
    "double": [
        "{int} / nullif({int}, 0)",
        "{double} * {double}",
        "{double} - {decimal}",
        "{double} / nullif({double}, 0)",
        "cast({decimal} as double)",
        "round({double})",
        "coalesce({double}, {int})",
    ],
    "string": [
        "concat({string}, {string})",
        "{string} || {string}",
        "trim({string})",
        "ltrim({string})",
        "rtrim({string})",
        "substring({string}, 2, 3)",
        "left({string}, 2)",
        "right({string}, 2)",
        "upper({string})",
        "lower({string})",
        "replace({string}, 'a', 'xy')",
        "cast({int} as string)",
        "cast({decimal} as string)",
        "cast({date} as string)",
        "cast({boolean} as string)",
        "case when {boolean} then {string} else 'z' end",
    ],
    "date": [
        "date_add({date}, 3)",
        "date_sub({date}, {int} % 1000)",
        "last_day({date})",
        "{date} + interval 1 month",
        "{date} - interval 1 year",
        "cast({timestamp} as date)",
        "to_date({timestamp})",
        "coalesce({date}, {date})",
    ],
    "timestamp": ["{timestamp} + interval 90 minutes", "cast({date} as timestamp)", "{timestamp} - interval 1 month"],
    "boolean": [
        "{int} < {int}",
        "{decimal} >= {int}",
        "{decimal} = {decimal}",
        "{double} > {decimal}",
        "{string} <= {string}",
        "{date} < {date}",
        "{timestamp} > {date}",
        "{string} like '%a_'",
        "{int} in (1, 2, {int})",
        "{boolean} and {boolean}",
        "{boolean} or {boolean}",
        "not {boolean}",
        "{int} is null",
        "{string} <=> {string}",
        "{int} between {int} and {int}",
        "startswith({string}, 'a')",
        "contains({string}, '_')",
        "{bigint} <> {decimal}",
        "{boolean} is true",
        "{string} not like 'a%'",
        "{int} not in (1, null)",
    ],
}
AGGREGATES = [
    *(
        "count(*)",
        "count({string})",
        "count(distinct {int})",
        "sum({int} % 1000)",
        "sum({decimal})",
        "avg({int} % 1000)",
    ),
    *(
        "avg({decimal})",
        "min({string})",
        "max({date})",
        "min({timestamp})",
        "bool_and({boolean})",
        "count_if({boolean})",
    ),
    *("sum({bigint} % 1000)", "max({double})", "sum({decimal}) / count(*)", "sum(distinct {int} % 7)"),
]


@pytest.fixture(scope="module")
def lake(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Lakehouse:
    """Make a table of extreme values, for which many expressions have no result, and one of plain values."""
    spark.conf.set("spark.sql.session.timeZone", "UTC")
    lake = mangrove.create(tmp_path_factory.mktemp("agree") / "lake")
    lake.create_namespace("s")
    chance = random.Random(7)
    epoch = datetime.datetime(2020, 1, 1, tzinfo=datetime.UTC)
    plain: dict[str, list[Any]] = {
        "i": [0, 1, -1, 7, 100],
        "j": [2, 3, -5, 1000],
        "l": [0, 5, -100_000],
        "p": [Decimal("0.05"), Decimal("-12.34"), Decimal("99.99"), Decimal(0)],
        "q": [Decimal("0.000001"), Decimal("-12.123456"), Decimal(3)],
        "x": [0.0, 2.5, -3.7],
        "s": ["", "a", "ab_", "Abc", " pad ", "a%b"],
        "t": ["b", "zz", "a_b"],
        "d": [datetime.date(2020, 2, 29), datetime.date(1969, 12, 31), datetime.date(2026, 11, 16)],
        "z": [epoch, epoch - datetime.timedelta(days=40_000, microseconds=1), epoch.replace(microsecond=5)],
        "b": [True, False],
    }
    extremes: dict[str, list[Any]] = {
        "i": [-(2**31)],
        "l": [-(10**12), 2**62],
        "p": [Decimal("99999999.99")],
        "q": [Decimal("-1234567890.123456")],
        "x": [-0.0, math.nan, math.inf, 1e300],
        "t": ["äöü"],
    }
    for name, more in (("plain", {}), ("t", extremes)):
        table = lake.create_table(
            f"s.{name}",
            "k int, i int, j int, l bigint, p decimal(10,2), q decimal(30,6), x double, s string, t string, d date, "
            "z timestamp, b boolean",
        )
        table.append(
            [
                {"k": row % 3, **{one: chance.choice([None, *some, *more.get(one, [])]) for one, some in plain.items()}}
                for row in range(40)
            ]
        )
    return lake


def build(chance: random.Random, kind: str, depth: int) -> str:
    if depth == 0 or chance.random() < 0.2:
        return chance.choice(COLUMNS[kind])
    return fill(chance, chance.choice(FUNCTIONS[kind]), depth - 1)


def fill(chance: random.Random, template: str, depth: int) -> str:
    while "{" in template:
        before, _, rest = template.partition("{")
        kind, _, after = rest.partition("}")
        template = f"{before}({build(chance, kind, depth)}){after}"
    return template


def comparable(value: object) -> object:
    """Return a value that equals its like: NaN equals NaN, and PySpark has times in UTC without their zone."""
    if isinstance(value, datetime.datetime):
        return value.replace(tzinfo=None)
    return "NaN" if isinstance(value, float) and math.isnan(value) else value


def compare(lake: Lakehouse, query: str) -> str:
    """Return what both engines do with a query: the same, fail, or DuckDB refuses it; raise an error if they differ."""
    try:
        frame = lake.sql(query, engine="duckdb")
        ours = [tuple(map(comparable, row)) for row in frame.collect()]
    except InvalidInputError as error:
        if "needs Spark" in str(error):
            return "refused"
        with pytest.raises((PySparkException, InvalidInputError)):
            lake.sql(query, engine="spark").collect()
        return "failed"
    expected = lake.sql(query, engine="spark")
    theirs = [tuple(map(comparable, row)) for row in expected.collect()]
    assert ours == theirs, query
    types = [[column.type for column in parse_schema_argument(one).columns] for one in (frame.schema, expected.schema)]
    assert types[0] == types[1], query
    return "same"


def check_outcomes(outcomes: Sequence[str]) -> None:
    """Check that nearly all queries over plain values have rows on both engines."""
    answered = [one for one in outcomes if one != "refused"]
    assert answered.count("same") >= 0.9 * len(outcomes), Counter(outcomes)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(2))
def test_random_expressions_have_the_same_values(lake: Lakehouse, seed: int) -> None:
    chance, outcomes = random.Random(seed), []
    for _ in range(20):
        kind = chance.choice(list(FUNCTIONS))
        where = chance.choice(["", f" where {build(chance, 'boolean', 1)}"])
        outcomes.append(compare(lake, f"select k, {build(chance, kind, 2)} as v from s.plain{where} {ORDER}"))
    check_outcomes(outcomes)


@pytest.mark.slow
def test_random_aggregates_have_the_same_values(lake: Lakehouse) -> None:
    chance, outcomes = random.Random(99), []
    for _ in range(20):
        aggregate = fill(chance, chance.choice(AGGREGATES), 1)
        outcomes.append(compare(lake, f"select k, {aggregate} as v from s.plain group by k order by k"))
    check_outcomes(outcomes)


@pytest.mark.parametrize("kind", FUNCTIONS)
def test_each_function_has_the_same_values(lake: Lakehouse, kind: str) -> None:
    chance, outcomes = random.Random(kind), []
    for template in FUNCTIONS[kind]:
        compare(lake, f"select k, {fill(chance, template, 0)} as v from s.t {ORDER}")
        outcomes.append(compare(lake, f"select k, {fill(chance, template, 0)} as v from s.plain {ORDER}"))
    check_outcomes(outcomes)


def test_conditions_that_are_null_agree(lake: Lakehouse) -> None:
    for query, outcome in {
        "select case when null then 1 else 2 end as a": "failed",
        "select if(null, 1, 2) as a": "same",
        "select case when null and true then 1 else 2 end as a": "same",
        "select case null when null then 1 else 2 end as a": "same",
        f"select case i when null then 'x' else 'y' end as v, nullif(i, null) as w from s.t {ORDER}": "same",
        f"select i from s.t where not null {ORDER}": "same",
    }.items():
        assert compare(lake, query) == outcome


def test_windows_and_null_order_agree(lake: Lakehouse) -> None:
    for query in (
        "select k, i, rank() over (partition by k order by i) r from s.t order by k, i, r",
        "select k, i, sum(j) over (partition by k order by i, j, l, p rows between 1 preceding and current row) r "
        "from s.t order by k, i, r",
        "select i, s from s.t order by i desc, s nulls last",
        "select k, lag(i) over (partition by k order by i, j) r from s.t order by k, r",
        "select k, avg(p) over (partition by k) r from s.t order by k, r",
    ):
        assert compare(lake, query) == "same"


def test_strings_with_quotes_agree(lake: Lakehouse) -> None:
    assert compare(lake, "select 'it''s' as a, \"double\" as b, '100%' like '100%' as c") == "same"
