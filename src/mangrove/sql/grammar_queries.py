"""The grammar of what is left to Spark: only the moment for the whole statement is ours."""

from mangrove.sql.computed_moments import ComputedMoment, computed_moment, expression_end
from mangrove.sql.cursor import Cursor, Piece
from mangrove.sql.row_statements import Query
from mangrove.sql.tokens import TokenKind, text_value

__all__ = ["parse_query"]

_KINDS = {"VERSION": "version", "TIMESTAMP": "time"}


def parse_query(cursor: Cursor) -> Query:
    """Take all that comes as a query, without `AT LAKE VERSION 41` or `AT LAKE TIMESTAMP '…'` at its end."""
    first = cursor.place
    piece = cursor.rest()
    tokens = cursor.tokens
    for place in range(first + 1, len(tokens) - 3):
        words = [token.word for token in tokens[place : place + 3]]
        if words[:2] == ["AT", "LAKE"] and words[2] in _KINDS and expression_end(tokens, place + 3) == len(tokens) - 1:
            cursor.place = place + 3
            query = Piece(cursor.text[piece.start : tokens[place - 1].end], piece.start)
            at = _moment(cursor, _KINDS[words[2]])
            cursor.place = len(tokens) - 1
            return Query(query, at)
    return Query(piece)


def _moment(cursor: Cursor, kind: str) -> int | str | ComputedMoment:
    behind = cursor.tokens[cursor.place : -1]
    if len(behind) == 1 and kind == "version" and behind[0].kind is TokenKind.NUMBER:
        return cursor.whole_number()
    if len(behind) == 1 and behind[0].kind is TokenKind.TEXT:
        return text_value(behind[0])
    if not behind or (len(behind) == 1 and behind[0].kind is TokenKind.NUMBER):
        raise cursor.refusal("AT LAKE VERSION with a number or an export's name, or AT LAKE TIMESTAMP with a time")
    return computed_moment(kind, behind)
