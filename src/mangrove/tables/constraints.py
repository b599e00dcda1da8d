"""Conditions that every row of a table fulfils, kept with the table's version under their names."""

import itertools
from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from mangrove.errors import AlreadyExistsError, InvalidInputError, NotFoundError
from mangrove.model.names import check_name
from mangrove.model.objects import TableVersion
from mangrove.model.sql_tokens import TokenKind, tokenize
from mangrove.tables.suggesting import did_you_mean

__all__ = [
    "CHECK_PREFIX",
    "SUBQUERY_REFUSED",
    "broken_check",
    "checks_of",
    "refuse_if_checked",
    "subquery_place",
    "with_check",
    "without_check",
]

CHECK_PREFIX: Final = "mangrove.check."
"""The properties of a table version that hold conditions begin so; the rest is the name of each."""

SUBQUERY_REFUSED: Final = (
    "is asked of each row as it is written, and a subquery would ask others: write a condition on the row's own columns"
)


def checks_of(version: TableVersion) -> dict[str, str]:
    """Return the conditions by name."""
    return {
        name.removeprefix(CHECK_PREFIX): text
        for name, text in version.properties.items()
        if name.startswith(CHECK_PREFIX)
    }


def subquery_place(condition: str) -> int | None:
    """Return where the first query between brackets begins.

    >>> subquery_place("a in (select b from t)"), subquery_place("(values > 3) and 'in (select 1)' <> a")
    (6, None)
    """
    tokens = tokenize(condition)
    for mark, word, following in zip(tokens, tokens[1:], tokens[2:], strict=False):
        if mark.kind is TokenKind.MARK and mark.value == "(" and word.kind is TokenKind.WORD:
            is_name = following.kind in (TokenKind.WORD, TokenKind.QUOTED_NAME)
            match word.value.upper():
                case "SELECT":
                    return word.start
                case "WITH" | "FROM" | "TABLE" if is_name:
                    # Alone they may be names of columns.
                    return word.start
                case "VALUES" if following.value == "(":
                    return word.start
    return None


def refuse_if_checked(version: TableVersion, path: Sequence[str]) -> None:
    """Refuse to take away or rename a column that a condition names: no row could be written any more."""
    for name, condition in checks_of(version).items():
        if _names(condition, path):
            raise InvalidInputError(
                f"column {'.'.join(path)!r} is named by the check {name!r}, which is {condition}: drop the check first"
            )


def _names(condition: str, path: Sequence[str]) -> bool:
    """Return whether a condition names a column, or something in it.

    >>> _names("a.b > 1", ["a"]), _names("`A`.b > 1", ["a", "b"]), _names("b.a > 1 or 'a' = a(1)", ["a"])
    (True, True, False)
    """
    wanted = [part.casefold() for part in path]
    tokens, chain = tokenize(condition), list[str]()
    for token, following in itertools.pairwise(tokens):
        if token.kind not in (TokenKind.WORD, TokenKind.QUOTED_NAME):
            chain = chain if chain and token.value == "." else []
            continue
        chain = [*chain, token.value.casefold()]
        if following.value != "." or following.kind is not TokenKind.MARK:
            is_call = following.kind is TokenKind.MARK and following.value == "("
            if chain[: len(wanted)] == wanted and not is_call:
                return True
            chain = []
    return False


def with_check(version: TableVersion, name: str, condition: str) -> TableVersion:
    """Return the table version with one more condition."""
    check_name(name, "check")
    if name in checks_of(version):
        raise AlreadyExistsError(f"there is a check {name!r} already: drop it first")
    if not condition.strip():
        raise InvalidInputError(f"the check {name!r} has no condition: write what must hold, as in 'amount >= 0'")
    if subquery_place(condition) is not None:
        raise InvalidInputError(f"the check {name!r} {SUBQUERY_REFUSED}")
    return replace(version, properties={**version.properties, CHECK_PREFIX + name: condition})


def without_check(version: TableVersion, name: str) -> TableVersion:
    """Return the table version without one of its conditions."""
    there = checks_of(version)
    if name not in there:
        raise NotFoundError(f"there is no check {name!r}{did_you_mean(name, list(there)) if there else ''}")
    left = {key: text for key, text in version.properties.items() if key != CHECK_PREFIX + name}
    return replace(version, properties=left)


def broken_check(table: str, name: str, condition: str, examples: object) -> InvalidInputError:
    """Return the error about rows that do not fulfil a condition."""
    return InvalidInputError(
        f"rows for {table} break the check {name!r}, which is {condition}, for example {examples}: "
        "correct them or drop the check"
    )
