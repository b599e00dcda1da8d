"""Moments that are computed, and parameters by their places, in queries and changes."""

from collections.abc import Iterator
from typing import Any

import pytest

import mangrove
from mangrove import InvalidInputError, Lakehouse, NotFoundError
from mangrove.sql.session import SqlSession


@pytest.fixture(scope="module")
def lake(sql_engine: str, tmp_path_factory: pytest.TempPathFactory) -> Lakehouse:
    """A table whose row `n` came with version `n`, and an export of version 3."""
    folder = tmp_path_factory.mktemp("moments")
    lake = mangrove.create(folder / "lake")
    lake.create_namespace("s")
    lake.create_table("s.t", "v bigint")
    while lake.version < 5:
        lake.table("s.t").append([{"v": lake.version + 1}])
    lake.maintenance.export(str(folder / "export"), "year-end", at=3)
    return lake


@pytest.fixture
def session(lake: Lakehouse, sql_engine: str) -> Iterator[SqlSession]:
    session = SqlSession(lake, engine=sql_engine)
    yield session
    session.close()


def newest(session: SqlSession, text: str, arguments: Any = None) -> int | None:
    (found,) = session.run(f"select max(v) as v from {text}", arguments).rows()
    assert found[0] is None or isinstance(found[0], int)
    return found[0]


@pytest.mark.parametrize(
    ("text", "arguments", "expected"),
    [
        ("s.t version as of :v", {"v": 4}, 4),
        ("s.t version as of :v as x where x.v < :most", {"v": 4, "most": 4}, 3),
        ("s.t version as of :v", {"v": "year-end"}, 3),
        ("s.t version as of 'year-end'", None, 3),
        ("s.t version as of concat('year', '-end')", None, 3),
        ("s.t timestamp as of current_timestamp() x", None, 5),
        ("s.t timestamp as of :moment", {"moment": "2999-01-01"}, 5),
        ("s.t timestamp as of cast(current_date() + 2 as timestamp)", None, 5),
        ("(select * from s.t timestamp as of date_add(current_date(), 1) limit 9) as y", None, 5),
        ("s.t as u join s.t version as of :v as w using (v) at lake version :w + 1", {"v": 4, "w": 3}, 4),
    ],
)
def test_the_as_of_value_may_be_an_expression(session: SqlSession, text: str, arguments: Any, expected: int) -> None:
    assert newest(session, text, arguments) == expected


@pytest.mark.needs_spark
@pytest.mark.parametrize(
    ("text", "arguments", "expected"),
    [
        ("s.t for system_version as of ? where v < ? + 0", [4, 4], 3),
        (
            "s.t timestamp as of current_timestamp() - interval -1 day 2 hours where v > 0",
            None,
            5,
        ),
        ("identifier(?) where v < ?", ["s.t", 5], 4),
    ],
)
def test_as_of_takes_what_only_spark_computes(session: SqlSession, text: str, arguments: Any, expected: int) -> None:
    assert newest(session, text, arguments) == expected


@pytest.mark.parametrize(
    ("text", "kind", "message"),
    [
        ("s.t timestamp as of v", InvalidInputError, r"TIMESTAMP AS OF is evaluated before any row is read.* `v`"),
        (
            "s.t timestamp as of (select max(v) from s.t)",
            InvalidInputError,
            "TIMESTAMP AS OF cannot contain a subquery",
        ),
        ("s.t timestamp as of 1 + 1", InvalidInputError, r"TIMESTAMP AS OF 1 \+ 1 is 2; expected a timestamp"),
        ("s.t timestamp as of cast(null as date)", InvalidInputError, "is None; expected a timestamp"),
        ("s.t version as of 1.5 + 1", InvalidInputError, "VERSION AS OF .* expected a version number"),
        ("s.t version as of :v", NotFoundError, "99"),
        ("s.t timestamp as of current_timestamp() - interval 30 years", NotFoundError, "line 1, column 25: "),
    ],
)
def test_an_invalid_as_of_value_is_reported_with_its_table(
    session: SqlSession, text: str, kind: type[Exception], message: str
) -> None:
    with pytest.raises(kind, match=message):
        newest(session, text, {"v": 99} if ":v" in text else None)


def test_row_changes_accept_as_of_expressions_and_positional_parameters(session: SqlSession, lake: Lakehouse) -> None:
    session.run("create table s.u (v bigint, w bigint) partitioned by (w)")
    session.run("insert into s.u partition (w = ?) select v + ? from s.t version as of ? where v = ?", [7, 10, 4, 3])
    assert session.run("select v, w from s.u").rows() == [(13, 7)]
    merge = (
        "merge into s.u using s.t timestamp as of current_timestamp() + interval 1 hour as x on u.v = x.v + ? "
        "when matched then update set w = ? when not matched and x.v > ? then insert (v, w) values (x.v, ?)"
    )
    session.run(merge, [10, 70, 4, 71])
    assert sorted(session.run("select v, w from s.u").rows()) == [(5, 71), (13, 70)]
    session.run("delete from s.u where v in (select v from s.t version as of :v)", {"v": lake.version})
    assert session.run("select v, w from s.u").rows() == [(13, 70)]


def test_an_as_of_expression_of_a_view_is_evaluated_on_read(session: SqlSession) -> None:
    session.run("create view s.before as select * from s.t timestamp as of current_timestamp() + interval 1 day")
    assert newest(session, "s.before") == 5
