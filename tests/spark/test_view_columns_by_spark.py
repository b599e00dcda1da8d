"""The columns that are told of views without Spark are just those that Spark gives."""

from collections.abc import Iterator

import pytest
from pyspark.sql import SparkSession

from mangrove.expressions.schema_text import parse_schema
from mangrove.model.schema_text import format_type
from mangrove.sql.views import infer_view_columns

pytestmark = pytest.mark.interop

TYPED = "a smallint, b int, c bigint, d float, e double, f decimal(12,3), g string, h boolean, i date, j timestamp"
EXPRESSIONS = [
    *(f"{function}({column})" for function in ("sum", "avg") for column in "abcdef"),
    *(f"{function}({column})" for function in ("min", "max") for column in "abcdefghij"),
    *(f"{one} {sign} {two}" for sign in "+-*" for one in "abce" for two in "abce"),
    *("d + d", "d * e", "e - d"),
    *("count(*)", "count(distinct a)", "count_if(h)", "row_number() over (order by a)", "rank() over (order by a)"),
    *("sum(a) over (partition by b)", "sum(b) filter (where h)", "a = 1", "g like 'x%'", "not h", "h and a > 1"),
    *(
        "a in (1, 2)",
        "g is null",
        "a between 1 and 2",
        "true",
        "'text'",
        "7",
        "(7)",
        "coalesce(b, 7)",
        "coalesce(g, '')",
    ),
    *("case when h then b else 1 end", "case h when true then 'x' end", "upper(g)", "lower(g)", "trim(g)"),
    *("concat(g, 'x', g)", "substring(g, 1, 2)", "left(g, 1)", "right(g, 1)", "replace(g, 'a', 'b')"),
    *("year(i)", "month(j)", "day(i)", "quarter(i)"),
    *(f"cast(c as {kind})" for kind in ("int", "string", "decimal(7,2)", "double", "float", "boolean", "tinyint")),
    *(f"cast(g as {kind})" for kind in ("date", "timestamp", "timestamp_ntz", "binary", "bigint", "varchar(9)")),
]


@pytest.fixture(scope="module")
def typed(spark: SparkSession) -> Iterator[SparkSession]:
    """A session with a view of all types that need no look inside."""
    spark.createDataFrame([], TYPED).createOrReplaceTempView("typed_columns")
    yield spark
    spark.catalog.dropTempView("typed_columns")


def normalize_type_text(text: str) -> str:
    """Return a type as Iceberg tells it: lengths of text and the narrowest whole numbers have no place there."""
    return {"tinyint": "int", "smallint": "int", "varchar(9)": "string"}.get(text, text)


@pytest.mark.parametrize("expression", EXPRESSIONS)
def test_inferred_expression_types_equal_those_of_spark(typed: SparkSession, expression: str) -> None:
    query = f"select {expression} as x from typed_columns"
    told = infer_view_columns(query, lambda _: [(one.name, one.type) for one in parse_schema(TYPED).columns])
    (field,) = typed.sql(query).schema.fields
    assert told is not None, "nothing is told"
    assert [(name, normalize_type_text(format_type(kind))) for name, kind in told] == [
        ("x", normalize_type_text(field.dataType.simpleString()))
    ]
