"""What follows a table's name in a query says at which moment it is read."""

import pytest

from mangrove.sql.parse.table_refs import InvalidAsOfError, analyze_query


def moments(text: str) -> list[int | str | None]:
    return [table_ref.as_of for table_ref in analyze_query(text).table_refs]


def test_each_table_of_a_query_has_its_own_as_of_clause() -> None:
    tables = ["version as of 3 x", "timestamp as of '2026-11-01' y", "version as of 'year-end' z"]
    text = "select * from " + " join ".join(f"a.b {table}" for table in tables)
    assert moments(text) == [3, "2026-11-01", "year-end"]


@pytest.mark.parametrize("moment", ["3", "'3'", "'year-end'", "'2026-13-01'"])
def test_a_time_is_never_read_as_a_version_or_an_export(moment: str) -> None:
    with pytest.raises(InvalidAsOfError, match=r"invalid timestamp|is no time") as refused:
        moments(f"select * from a.b timestamp as of {moment}")
    assert refused.value.start == len("select * from a.b timestamp as of ")
