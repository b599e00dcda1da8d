"""What a line of the SQL shell means, decided without a terminal: is it whole, is it short, what could follow."""

import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from mangrove.errors import InvalidInputError
from mangrove.sql.splitting import split_script
from mangrove.sql.tokens import TokenKind, tokenize

__all__ = ["HELP", "Short", "is_whole", "prompt_text", "short_command", "suggestions"]

HELP = (
    ("\\d", "list the namespaces, or with a name the columns of a table"),
    ("\\t [NAMESPACE]", "list the tables and views"),
    ("\\log", "show the versions, newest first"),
    ("\\use NAMESPACE", "look names up in that namespace"),
    ("\\i FILE", "run the statements of a file"),
    ("\\timing", "say how long statements take, or stop saying it"),
    ("\\?", "show this"),
    ("\\q", "leave, as Ctrl-D does"),
)
"""The short commands, each with what it does."""

_KEYWORDS = (
    "ALTER", "AND", "AS", "ASC", "BEGIN", "BETWEEN", "BY", "CALL", "CASE", "CAST", "COMMIT", "COUNT", "CREATE",
    "DELETE", "DESC", "DESCRIBE", "DISTINCT", "DROP", "ELSE", "END", "EXISTS", "EXPLAIN", "FROM", "GROUP", "HAVING",
    "IN", "INSERT", "INTO", "IS", "JOIN", "LEFT", "LIKE", "LIMIT", "MERGE", "NAMESPACE", "NOT", "NULL", "ON", "OR",
    "ORDER", "OVERWRITE", "PARTITIONED", "PRIMARY KEY", "ROLLBACK", "SELECT", "SET", "SHOW HISTORY",
    "SHOW NAMESPACES", "SHOW TABLES", "SUM", "TABLE", "THEN", "TIMESTAMP AS OF", "TRUNCATE", "UNION", "UPDATE", "USE",
    "USING", "VALUES", "VERSION AS OF", "VIEW", "WHEN", "WHERE", "WITH",
)  # fmt: skip
_WORD = re.compile(r"[\w.`]*$")
_LEAVING = frozenset({"exit", "quit", "\\q"})


@dataclass(frozen=True, slots=True)
class Short:
    """A short command and what was written behind it."""

    name: str
    argument: str = ""


def short_command(text: str) -> Short | None:
    r"""Return the short command that a text is, or None for SQL.

    >>> short_command("\\d shop.orders"), short_command("quit;"), short_command("select 1")
    (Short(name='\\d', argument='shop.orders'), Short(name='\\q', argument=''), None)
    """
    words = text.strip().rstrip(";").split(maxsplit=1)
    if not words:
        return None
    if words[0].lower() in _LEAVING and len(words) == 1:
        return Short("\\q")
    if not words[0].startswith("\\"):
        return None
    known = {name.split()[0] for name, _ in HELP}
    if words[0] not in known:
        raise InvalidInputError(f"there is no short command {words[0]}: \\? lists those that there are")
    return Short(words[0], words[1].strip() if len(words) == 2 else "")


def is_whole(text: str) -> bool:
    r"""Return whether Return ends the input: a short command, nothing at all, or statements up to a semicolon.

    >>> is_whole("select 1"), is_whole("select 1;"), is_whole("select ';"), is_whole("\\d"), is_whole("quit")
    (False, True, False, True, True)
    """
    stripped = text.strip()
    if not stripped or stripped.startswith("\\") or stripped.lower() in _LEAVING:
        return True
    try:
        tokens = [token for token in tokenize(stripped) if token.kind is not TokenKind.END]
        parts = split_script(stripped)
    except InvalidInputError:
        # A quote is still open, unless the text ends as a statement does: then let it be refused with its place.
        return False
    is_ended = bool(tokens) and tokens[-1].text == ";"
    # Inside of a block the last semicolon belongs to a statement of the block.
    return is_ended and not (parts and parts[-1].text.endswith(";"))


def prompt_text(namespace: str, isolation: str | None) -> str:
    """Return what stands before the input; a star says that a transaction is open.

    >>> prompt_text("default", None), prompt_text("shop", "serializable")
    ('default> ', 'shop*serializable> ')
    """
    return f"{namespace}> " if isolation is None else f"{namespace}*{isolation}> "


def suggestions(
    before: str, names: Callable[[], Iterable[str]], columns: Callable[[str], Sequence[str]]
) -> list[tuple[str, int]]:
    """Return what could follow, each with how many characters of the input it replaces.

    `names` gives tables, views and namespaces; `columns` those of a table, or none.
    """
    if before.lstrip().startswith("\\") and " " not in before.lstrip():
        written = before.lstrip()
        return [(name.split()[0], len(written)) for name, _ in HELP if name.startswith(written)]
    match = _WORD.search(before)
    word = match[0] if match else ""
    if not word:
        return []
    known = list(names())
    mentioned = [name for name in known if name in before]
    found = [
        *(column for name in mentioned for column in columns(name)),
        *known,
        *(keyword.lower() if word.islower() else keyword for keyword in _KEYWORDS),
    ]
    fitting = [one for one in dict.fromkeys(found) if one.lower().startswith(word.lower()) and one != word]
    return [(one, len(word)) for one in fitting]
