"""The grammar of what is left to Spark: only the moment for the whole statement is ours."""

from mangrove.sql.cursor import Cursor, Piece
from mangrove.sql.row_statements import Query
from mangrove.sql.tokens import TokenKind

__all__ = ["parse_query"]


def parse_query(cursor: Cursor) -> Query:
    """Take all that comes as a query, without `AT LAKE VERSION 41` or `AT LAKE TIMESTAMP '…'` at its end."""
    piece = cursor.rest()
    tokens = cursor.tokens[:-1]
    if len(tokens) > 4 and [token.word for token in tokens[-4:-2]] == ["AT", "LAKE"]:
        kind, moment = tokens[-2].word, tokens[-1]
        cursor.place = len(tokens) - 1
        at: int | str | None = None
        if kind == "VERSION" and moment.kind is TokenKind.NUMBER:
            at = cursor.whole_number()
        elif kind in ("VERSION", "TIMESTAMP") and moment.kind is TokenKind.TEXT:
            at = cursor.words_text()
        if at is None:
            raise cursor.refusal("AT LAKE VERSION with a number or an export's name, or AT LAKE TIMESTAMP with a time")
        return Query(Piece(cursor.text[piece.start : tokens[-5].end], piece.start), at)
    return Query(piece)
