"""Chosen expressions have the same values and types on DuckDB and Spark, or fail on both, or DuckDB refuses them.

The expressions are those for which the engines differ by themselves: division, remainders, casts, overflow, rounding,
nulls, positions in strings, dates and times, regular expressions, arrays.
"""

import datetime
import math
from collections.abc import Mapping, Sequence
from decimal import Decimal
from typing import Any

import pytest
from pyspark.sql import SparkSession

import mangrove
from mangrove.errors import InvalidInputError, MangroveError
from mangrove.lakehouse.lakehouse import Lakehouse
from mangrove.lakehouse.new_table import parse_schema_argument
from mangrove.model.schema_text import format_type

pytestmark = pytest.mark.interop

SCHEMA = (
    "k int, n int, m int, i int, l bigint, p decimal(10,2), q decimal(10,3), x double, f double, s string, t string, "
    "u string, d date, e date, z timestamp, w timestamp_ntz, b boolean, c boolean, a array<int>, g map<string,int>"
)
VALUES: dict[str, Sequence[Any]] = {
    "n": [0, 1, -1, 7, -7, 100, None, 2, 3, 5, -2, 10],
    "m": [1, 2, -1, 3, -3, 7, None, 5, 1, -1, 2, -5],
    "i": [0, 1, -1, 2**31 - 2, -(2**31) + 1, None],
    "l": [0, 5 * 10**9, -5 * 10**9, 2**62, -(2**62), None, 1],
    "p": [Decimal(one) for one in ("0.00", "1.25", "-1.25", "2.50", "3.50", "-2.50", "99999999.99", "-0.05")] + [None],
    "q": [Decimal(one) for one in ("1.000", "-0.125", "2.500", "0.001", "-7.777")] + [None],
    "x": [0.0, -0.0, 1.5, 2.5, -2.5, 1e300, math.nan, math.inf, -math.inf, 1e-5, 123456789.125, None],
    "f": [0.0, 2.675, -2.675, 1.005, 0.125, -1e-10, 12345.6789, 2.5, -3.5, 1e9 + 0.015, 999999.995, None],
    "s": ["", "a", "Abc", " pad ", "a%b", "a_b", "x,y,z", "aXbXc", "true", "abcabc", None],
    "t": ["b", "äöü", "日本語", "", "😀bc", "e\u0301x", "ba", None],
    "u": ["2026-02-28", "2024-02-29", "1999-12-31", None],
    "d": [
        *(datetime.date(2020, 2, 29), datetime.date(1969, 12, 31), datetime.date(2026, 11, 15), None),
        *(datetime.date(2021, 1, 3), datetime.date(2024, 1, 31), datetime.date(1900, 3, 1)),
    ],
    "e": [datetime.date(2020, 1, 31), datetime.date(2026, 11, 16), None],
    "z": [
        datetime.datetime(2020, 2, 29, 12, 34, 56, 789012, datetime.UTC),
        datetime.datetime(1969, 12, 31, 23, 59, 59, 999999, datetime.UTC),
        datetime.datetime(2026, 3, 29, 2, 30, 0, 500000, datetime.UTC),
        datetime.datetime(1900, 1, 1, 0, 0, 0, 0, datetime.UTC),
        None,
    ],
    "w": [datetime.datetime(2020, 2, 29, 12, 34, 56, 789012), datetime.datetime(1969, 12, 31, 23, 59, 59), None],
    "b": [True, False, None],
    "c": [True, True, True, False, False, False, None, None, None],
    "a": [[1, 2, 3], [7], [], [1, None], None, [None]],
    "g": [{"a": 1}, {"b": 2, "c": None}, {}, None],
}


def split(text: str) -> list[str]:
    """Return the expressions of a text, which end with semicolons."""
    return [one.strip() for one in text.split(";") if one.strip()]


SAME: Mapping[str, Sequence[str]] = {
    "arithmetic": split("""
        n + m; n - m; n * m; n / m; n div m; n % m; -n; abs(i); i + 1; i - 1; l * 1; l + i; n / nullif(n, 0);
        n % -1; cast(-2147483648 as int) % -1; l % -1; l % 7; l div -3; mod(n, 3); pmod(n, 3); pmod(i, 7);
        pmod(p, 3); p + q; p - q; p * q; p / q; p % q; p % 3; n % 2.5; p / 3; p * 1.5; n / 2.0; p + n; q * l;
        f + p; x + f; x * 2; x / 3e0; x - x; -x; x = x; x < f; x > f; x <=> f; x in (0e0, 2.5e0);
        greatest(x, f); least(x, f); abs(x); n & 3; n | 3; n ^ 3; ~n; l & n; sign(n); signum(p); sqrt(abs(n));
        sqrt(p); negative(n); isnan(x); isnan(n); 1.0 / 3.0;
        cast(1 as decimal(38,0)) / cast(3 as decimal(38,0)); 0.1 + 0.2; 0.1e0 + 0.2e0; 1.5e308 * 10;
        -2147483648; 9223372036854775807; 5L; 5.5BD; .5; 1e2; x'1f';
    """),
    "casts": split("""
        cast(p as int); cast(q as bigint); cast(p as double); cast(p as decimal(12,1)); cast(p as string);
        cast(f as int); cast(f as bigint); cast(f as decimal(20,2)); cast(f as decimal(20,3));
        cast(f as decimal(12,0)); cast(n as boolean); cast(p as boolean); cast(x as boolean); cast(n as string);
        cast(b as string); cast(b as int); cast(n as smallint); cast(n as decimal(20,3)); cast(d as string);
        cast(z as string); cast(w as string); cast(d as timestamp); cast(z as date); cast(d as timestamp_ntz);
        cast(z as timestamp_ntz); cast(w as timestamp); cast(w as date); cast(u as date); cast(u as timestamp);
        cast(cast(z as string) as timestamp); cast(cast(n as string) as int);
        cast(cast(p as string) as decimal(10,2)); cast(cast(p as string) as double); cast(l as double);
        cast(cast(b as string) as boolean); cast(' 7 ' as int); cast('+7' as int); cast('1e3' as double);
        cast('NaN' as double); cast('-Infinity' as double); cast('inf' as double);
        cast('1.005' as decimal(10,2)); cast('-1.005' as decimal(10,2)); cast('YES' as boolean);
        cast('n' as boolean); cast('0' as boolean); cast(null as int);
        cast('2026-02-28 10:00:00+02:00' as timestamp); timestamp '2026-02-28T10:00:00Z';
        timestamp_ntz '2026-02-28 10:00:00'; date '2026-02-28';
    """),
    "rounding": split("""
        round(p, 1); round(p, 0); round(p); round(p, 5); round(q, 2); round(x); round(f, 2); round(f, 1);
        round(x, 2); round(x, 3); round(i); ceil(p); floor(p); ceil(f); floor(f); ceil(n); ceiling(q);
        round(cast(2.675 as double), 2); round(2.5e0); round(-2.5e0); round(2.5); round(-2.5);
        round(0.285e0, 2);
    """),
    "strings": split("""
        substring(s, 0, 2); substring(s, 0); substring(s, -2); substring(s, -2, 1); substring(s, -5, 3);
        substring(s, 2); substring(s, 2, 0); substring(s, 2, -1); substring(s, n); substring(s, n, 2);
        substring(t, n, m); substr(t, -1); substring(t, i, n); substring(t, 2147483647, 2147483647); left(s, 2);
        right(t, 2); length(t); char_length(t); octet_length(t); upper(s); lower(s); repeat(s, 2); repeat(t, m);
        lpad(s, 5, '*'); rpad(s, 5, 'xy'); lpad(s, 3); rpad(s, n, 'xy'); trim(s); ltrim(s); rtrim(s); btrim(s);
        trim(both 'a' from s); trim(leading 'a' from s); trim(trailing 'bc' from s); trim(leading from s);
        concat(s, t); concat(s, n); concat(s, p, b); s || d; n || m; s || t; concat_ws(',', s, t);
        concat_ws('-', s, n, null); concat_ws(null, s); instr(s, 'b'); instr(t, s); instr(s, '');
        locate('b', s); position('b', s); replace(s, 'a', 'xy'); replace(s, 'a'); replace(s, '', 'b');
        replace(t, s, 'b'); translate(s, 'ab', 'xy'); translate(s, 'ab', 'x'); translate(s, 'aa', 'xy');
        translate(t, 'äb', 'öü'); split_part(s, ',', 2); split_part(s, ',', -1); split_part(s, ',', 9);
        split_part(s, 'X', -9); ascii(s); startswith(s, 'a'); endswith(s, t); contains(s, t); contains(s, '');
        s like 'a%'; s like '_'; s not like '%b%'; s ilike 'A%'; s < t; s = 'a '; t > 'ä'; greatest(s, t);
        least(s, 'b'); s in ('a', 'b', null); s between 'a' and 'b'; 'it''s'; 'é' = 'é'; s is distinct from t;
        nullif(s, 'a');
    """),
    "dates": split("""
        year(d); quarter(d); month(d); day(d); dayofweek(d); weekday(d); dayofyear(d); weekofyear(d);
        last_day(d); year(z); hour(z); minute(z); second(z); hour(w); dayname(d); monthname(d);
        extract(year from d); extract(week from d); extract(dow from d); extract(doy from z);
        date_part('month', d); date_trunc('year', z); date_trunc('quarter', z); date_trunc('month', z);
        date_trunc('week', z); date_trunc('day', z); date_trunc('HOUR', z); date_trunc('minute', z);
        date_trunc('second', z); date_trunc('month', d); trunc(d, 'year'); trunc(d, 'quarter');
        trunc(d, 'month'); trunc(d, 'week'); trunc(z, 'month'); date_add(d, 1); date_sub(d, n); date_add(z, 1);
        d + 1; d - n; datediff(d, e); datediff(d, z); d + interval 1 day; d + interval 1 month;
        d - interval 1 month; d + interval 1 year; d + interval '1' week; z + interval 1 day;
        z + interval 1 month; z - interval 1 year; z + interval 90 seconds; w + interval 3 hours;
        add_months(d, 1); add_months(d, -1); add_months(d, n); add_months(e, 12); make_date(2026, 2, 28);
        make_date(2026, abs(n % 12) + 1, 1); date_format(d, 'yyyy-MM'); date_format(z, 'yyyy-MM-dd HH:mm:ss');
        date_format(z, 'yyyyMMdd'); date_format(w, 'dd.MM.yyyy'); to_date(u); to_date(z); to_timestamp(u);
        to_timestamp(d); d = '2020-02-29'; d > '2020-01-01'; z > '2020-01-01'; z > date '2020-01-01';
        d < timestamp '2020-03-01 00:00:00'; w < z; least(d, e); d between e and date '2026-01-01';
        current_date() = current_date; current_timestamp() = now();
    """),
    "nulls and conditions": split("""
        b and c; b or c; not b; b is true; b is not false; b is null; b <=> c; b = c; b < c; !b; b and null;
        null or b; n is distinct from m; n is not distinct from m; n <=> null; null = null;
        case when b then 1 else 2.5 end; case when b then 1 else 2.5e0 end; case when b then 'x' end;
        case n when 1 then 'a' when null then 'b' else 'c' end; case when b then d else z end; if(b, 1, null);
        if(null, 1, 2); coalesce(n, p); coalesce(n, 0); nvl(n, m); nvl2(n, 1, 0); nvl2(n, n, 2.5); ifnull(n, 0);
        nullif(n, 1); nullif(n, 1.0); isnull(n); isnotnull(n); isnull(null); greatest(n, null, 3);
        greatest(n, p); least(n, m); n between 0 and 5; n not between 5 and 0; n in (1, 2, null);
        n not in (1, null); n in (1.0, 2.5); null || 'a';
    """),
    "arrays and maps": split("""
        size(a); cardinality(g); size(g); size(a) = 0; a[0] + 1 from s.v where size(a) > 0; g['a']; g['zz'];
        array_contains(a, 1); array_contains(a, n); a; g;
    """),
}
FAIL: Sequence[str] = split("""
    1 / 0; 1 % 0; 1 div 0; 1.5 / 0; 1.5 % 0; 1e0 / 0; 2147483647 + 1; 9223372036854775807 + 1;
    -cast(-2147483648 as int); abs(cast(-9223372036854775808 as bigint)); cast(300000 as smallint);
    cast(1e20 as bigint); cast('2147483648' as int); cast('2026-02-30' as date); cast(12345.6 as decimal(4,1));
    case when null then 1 end; 1 where null; count(*) filter (where null); 1e400; make_date(2026, 2, 30);
    a[5] from s.v; sum(l) from (values (9223372036854775807), (1)) as v(l);
    99999999999999999999999999999999999999 + 1; cast(1e300 as decimal(10,2)); n + nosuch from s.v;
    k from s.v where i + 2147483647 > 0; k from s.v where -2147483647 - i < 0; k from s.v where 2147483647 * i > 0;
""")
REFUSED: Sequence[str] = split("""
    cast(x as string); cast('1.9' as int); cast('x' as int); cast('2026-2-8' as date); cast('now' as date);
    cast(s as boolean); cast('10:00' as timestamp); timestamp '2026-02-28 10:00:00 Europe/Berlin'; upper(t);
    cast(n as date); cast(n as timestamp); cast(d as int); cast(s as binary); cast(z as bigint); s rlike '^a';
    s regexp 'a.b'; regexp_replace(s, 'a', 'b'); regexp_extract(s, '(a)', 1); split(s, ','); reverse(s);
    initcap(s); format_number(p, 2); format_string('%d', n); soundex(s); levenshtein(s, t); n = '1'; n + '1';
    s + 1; s > n; b = 'true'; b and 'true'; coalesce(s, n); case when b then 1 else 'x' end; md5(s);
    sha2(s, 256); hash(s); base64(s); hex(n); conv('ff', 16, 10); 0x1F; r'a'; 'a\\tb'; s like 'a!%b' escape '!';
    s like any ('a%', 'b%'); s ilike 'Ä%'; bround(p, 1); round(p, -1); round(n, -1); ceil(p, 1); pow(n, 2);
    exp(n); ln(n); sin(n); rand(); uuid(); shiftleft(n, 2); x % 2; pmod(n, m); d - e; z - z; interval 1 day;
    d + interval 1 month 2 days; d + interval '1-2' year to month; d + interval 1 hour;
    z + interval '1.5' second; date_trunc('x', z); date_trunc('millennium', z); trunc(d, 'day'); hour(d);
    year(s); date_format(z, 'EEEE'); date_format(z, 'yy'); date_format(z, 'yyyyy'); date_format(z, 'M');
    to_date(s, 'yyyy'); months_between(d, e); next_day(d, 'MON'); unix_timestamp(z); date_diff(day, d, e);
    extract(epoch from z); from_utc_timestamp(z, 'Asia/Tokyo'); make_timestamp(2026, 1, 1, 1, 1, 1);
    current_timezone(); element_at(a, 1); size(null); explode(a); transform(a, e -> e + 1); sort_array(a);
    array(1, 2); map('a', 1); a = a; struct(1); try_cast(s as int); try_divide(1, 0); typeof(n);
    get_json_object(s, '$.a'); stddev(n) from s.v; percentile(n, 0.5) from s.v; first(n) from s.v;
    collect_list(n) from s.v; max_by(n, m) from s.v; sum(s) from s.v;
    sum(n) over (order by n range between 1 preceding and current row) from s.v; * from range(3);
""")
QUERIES: Sequence[str] = (
    "select count(distinct n, m) v, count(n, m) c, count(distinct n) u from s.v",
    "select min(x), max(x), min(s), max(t), min(b), max(z) from s.v",
    "select x from s.v order by x, k",
    "select x from s.v order by x desc, k",
    "select t from s.v order by t, k",
    "select n from s.v order by n nulls last, k",
    "select x, count(*) c from s.v group by x order by x",
    "select sum(n), sum(p), sum(i), avg(n), avg(p), sum(cast(n as smallint)), avg(distinct p) from s.v",
    "select sum(n), avg(n), min(n), count(n), bool_and(b) from s.v where k < 0",
    "select b, c, sum(n) v from s.v group by rollup(b, c) order by 1, 2, 3",
    "select b, c, sum(n) v from s.v group by cube(b, c) order by 1, 2, 3",
    "select b, count(*) v from s.v group by all order by 1",
    "select n + 1 as o, max(m) v from s.v group by all having max(m) > 0 order by 1",
    "select k, ntile(5) over (order by k) a, cume_dist() over (order by n) c from s.v order by k",
    "select k, lag(n, 1, 0) over (order by k) a, percent_rank() over (order by n) p from s.v order by k",
    "select * except (a, g, x, f) from s.v order by k limit all",
    "select k from s.v where n not in (select m from s.v where m is not null) order by k",
    "select k from s.v where n not in (select m from s.v) order by k",
    "select v.k, o.k as j from s.v join s.v o on v.x = o.x order by 1, 2",
    "select n from s.v union select m from s.v order by 1",
    "select n from s.v except select m from s.v order by 1",
    "select n from s.v intersect all select m from s.v order by 1",
    "select n, p from s.v union all select p, n from s.v order by 1, 2",
)


@pytest.fixture(scope="module")
def lake(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Lakehouse:
    """Make a table with the values that the engines treat differently."""
    spark.conf.set("spark.sql.session.timeZone", "UTC")
    lake = mangrove.create(tmp_path_factory.mktemp("expressions") / "lake")
    lake.create_namespace("s")
    lake.create_table("s.v", SCHEMA).append(
        [{"k": row, **{name: values[row % len(values)] for name, values in VALUES.items()}} for row in range(60)]
    )
    return lake


def build_query(expressions: Sequence[str]) -> str:
    if is_alone(expressions[0]):
        return f"select {expressions[0]}"
    return f"select {', '.join(f'{one} as v{place}' for place, one in enumerate(expressions))} from s.v order by k"


def compute(lake: Lakehouse, query: str, engine: str) -> tuple[list[str], list[tuple[Any, ...]]]:
    """Return the types and the rows of a query; values that equal their like, also NaN and negative zero."""
    frame = lake.sql(query, engine=engine)
    rows = [tuple(map(comparable, row)) for row in frame.collect()]
    return [format_type(column.type) for column in parse_schema_argument(frame.schema).columns], rows


def comparable(value: object) -> object:
    if isinstance(value, datetime.datetime):
        return value.replace(tzinfo=None)
    if isinstance(value, float):
        return repr(value)
    return bytes(value) if isinstance(value, bytearray) else value


def is_alone(expression: str) -> bool:
    return " from s.v" in expression


@pytest.mark.parametrize("kind", SAME)
def test_expressions_have_the_same_values_and_types(lake: Lakehouse, kind: str) -> None:
    together = [one for one in SAME[kind] if not is_alone(one)]
    groups = [together, *([one] for one in SAME[kind] if is_alone(one))]
    for group in groups:
        ours, theirs = (compute(lake, build_query(group), engine) for engine in ("duckdb", "spark"))
        differing = [
            (expression, ours[0][place], theirs[0][place], {(one[place], two[place]) for one, two in pairs})
            for place, expression in enumerate(group)
            if (pairs := [(one, two) for one, two in zip(ours[1], theirs[1], strict=True) if one[place] != two[place]])
            or ours[0][place] != theirs[0][place]
        ]
        assert not differing


@pytest.mark.parametrize("query", QUERIES)
def test_queries_have_the_same_rows(lake: Lakehouse, query: str) -> None:
    ours, theirs = (compute(lake, query, engine) for engine in ("duckdb", "spark"))
    assert ours == theirs


def test_expressions_without_a_value_fail_on_both_engines(lake: Lakehouse) -> None:
    for expression in FAIL:
        with pytest.raises(MangroveError) as failure:
            lake.sql(f"select {expression}", engine="duckdb").collect()
        assert "needs Spark" not in str(failure.value), expression
        with pytest.raises(Exception, match=r"."):
            lake.sql(f"select {expression}", engine="spark").collect()


@pytest.mark.parametrize("expression", REFUSED)
def test_an_expression_that_is_not_known_to_agree_needs_spark(lake: Lakehouse, expression: str) -> None:
    source = "" if " from s.v" in expression or "from range" in expression else " from s.v"
    with pytest.raises(InvalidInputError, match="needs Spark"):
        lake.sql(f"select {expression} as v{source}" if source else f"select {expression}", engine="duckdb").collect()
