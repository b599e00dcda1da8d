"""Replacement of table references in SQL text, with positions preserved."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from mangrove.lakehouse.sql_port import Frame, PositionedText, SqlErrorInfo
from mangrove.model.names import quote_name
from mangrove.sql.parse.table_refs import TableRef
from mangrove.sql.parse.tokens import SqlFragment, SqlToken, parse_name_chain, tokenize

__all__ = ["TextReplacement", "apply_replacements", "assign_aliases", "find_unresolved_name", "replace_table_name"]


@dataclass(frozen=True, slots=True)
class TextReplacement:
    """The replacement of a part of the query text."""

    start: int
    end: int
    instead: Frame | str
    alias: str | None = None
    alias_place: int | None = None


def replace_table_name(table_ref: TableRef, frame: Frame, alias: str) -> TextReplacement:
    """Return the replacement of a table name, which becomes an alias."""
    return TextReplacement(
        table_ref.start, table_ref.end, frame, None if table_ref.alias_place is None else alias, table_ref.alias_place
    )


def apply_replacements(piece: SqlFragment, replacements: Sequence[TextReplacement]) -> Iterator[PositionedText | Frame]:
    """Yield the query with the replacements; the rest of the text keeps its positions."""
    cuts: list[tuple[int, int, Frame | str]] = []
    for splice in replacements:
        cuts.append((splice.start, splice.end, splice.instead))
        if splice.alias is not None and splice.alias_place is not None:
            cuts.append((splice.alias_place, splice.alias_place, f" AS {splice.alias}"))
    copied = 0
    for start, end, instead in sorted(cuts, key=lambda cut: (cut[0], cut[1])):
        yield PositionedText(piece.text[copied:start], piece.start + copied)
        yield PositionedText(instead, None) if isinstance(instead, str) else instead
        copied = end
    yield PositionedText(piece.text[copied:], piece.start + copied)


def assign_aliases(table_refs: Sequence[TableRef]) -> dict[tuple[str, ...], str]:
    """Return the alias of each table: its name, fully qualified if two have the same."""
    unaliased = {table_ref.parts for table_ref in table_refs if table_ref.alias_place is not None}
    last = [parts[-1].casefold() for parts in unaliased]
    return {
        table_ref.parts: quote_name(table_ref.parts[-1])
        if last.count(table_ref.parts[-1].casefold()) <= 1
        else f"`{'.'.join(table_ref.parts).replace('`', '``')}`"
        for table_ref in table_refs
    }


def find_unresolved_name(error: SqlErrorInfo, tokens: list[SqlToken], place: int) -> tuple[tuple[str, ...], int]:
    """Return the parts of the name that Spark did not resolve, and the index after it."""
    reported, _ = parse_name_chain([*tokenize(error.parameters.get("relationName", "``"))], 0)
    parts, after = parse_name_chain(tokens, place)
    if parts == reported:
        return parts, after
    end = error.end
    last = next((number for number, token in enumerate(tokens) if end is not None and token.end >= end), place)
    return reported, last + 1
