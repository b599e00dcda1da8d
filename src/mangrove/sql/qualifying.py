"""Saying whose column a bare name means where only one side of a merge can be meant."""

from collections.abc import Collection
from typing import Any, Final

import sqlglot
from sqlglot import exp
from sqlglot.errors import SqlglotError

__all__ = ["qualified"]

_HEAD: Final = "SELECT "


def qualified(text: str, columns: Collection[str], name: str) -> str:
    """Return the text with a table's name before the bare names of some columns, which are given in small letters.

    Names inside subqueries and lambdas are left alone. What sqlglot does not
    understand stays as it is: Spark says then that a name is ambiguous.

    >>> qualified("id + f(t.id, x -> x + n)", {"id", "n"}, "s")
    '`s`.id + f(t.id, x -> x + n)'
    """
    try:
        tree: Any = sqlglot.parse_one(_HEAD + text, dialect="spark")
    except (SqlglotError, RecursionError):
        return text
    places = []
    for column in tree.find_all(exp.Column):
        start = column.parts[0].meta.get("start")
        is_own = column.find_ancestor(exp.Select) is tree and column.find_ancestor(exp.Lambda) is None
        if len(column.parts) == 1 and is_own and column.name.casefold() in columns and isinstance(start, int):
            places.append(start - len(_HEAD))
    quoted = "`{}`".format(name.replace("`", "``"))
    for place in sorted(places, reverse=True):
        text = f"{text[:place]}{quoted}.{text[place:]}"
    return text
