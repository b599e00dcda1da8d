"""Which tables and views the query of a view names, told from its text alone."""

from typing import Final

from mangrove.errors import InvalidInputError
from mangrove.model.names import check_name, joined_name
from mangrove.sql.mentions import read_query

__all__ = ["names_read"]

_PARTS: Final = 2


def names_read(text: str, namespace: str) -> tuple[str, ...]:
    """Return the names that a query reads; those without a namespace are in `namespace`.

    A query that cannot be taken apart names nothing: Spark will say what is wrong
    with it, or knows more of it than we do. What no object of a lakehouse can be
    called is Spark's own, such as the path of a file.

    >>> names_read("with c as (select 1) select * from orders join far.`my.rows` join c join csv.`/a`", "shop")
    ('shop.orders', 'far.`my.rows`')
    """
    try:
        found = [mention.parts for mention in read_query(text).mentions]
    except InvalidInputError:
        return ()
    pairs = [(namespace, *parts) if len(parts) == 1 else parts for parts in found]
    return tuple(dict.fromkeys(joined_name(*pair) for pair in pairs if _is_ours(pair)))


def _is_ours(parts: tuple[str, ...]) -> bool:
    try:
        for part in parts:
            check_name(part)
    except InvalidInputError:
        return False
    return len(parts) == _PARTS
