"""Putting frames in the place of names in a text, so that what is left of it keeps its place."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from mangrove.model.names import quoted_name
from mangrove.spark.statements import Frame, Refused, Text
from mangrove.sql.cursor import Piece
from mangrove.sql.mentions import Mention
from mangrove.sql.tokens import Token, name_chain, tokenize

__all__ = ["Splice", "aliases", "named", "refused_name", "spliced"]


@dataclass(frozen=True, slots=True)
class Splice:
    """What stands in the place of a part of the query."""

    start: int
    end: int
    instead: Frame | str
    alias: str | None = None
    alias_place: int | None = None


def named(mention: Mention, frame: Frame, alias: str) -> Splice:
    """Return the splice for a table, which keeps its name as an alias."""
    return Splice(
        mention.start, mention.end, frame, None if mention.alias_place is None else alias, mention.alias_place
    )


def spliced(piece: Piece, splices: Sequence[Splice]) -> Iterator[Text | Frame]:
    """Yield the query with the splices in it; what is left of the text keeps its place in the statement."""
    cuts: list[tuple[int, int, Frame | str]] = []
    for splice in splices:
        cuts.append((splice.start, splice.end, splice.instead))
        if splice.alias is not None and splice.alias_place is not None:
            cuts.append((splice.alias_place, splice.alias_place, f" AS {splice.alias}"))
    done = 0
    for start, end, instead in sorted(cuts, key=lambda cut: (cut[0], cut[1])):
        yield Text(piece.text[done:start], piece.start + done)
        yield Text(instead, None) if isinstance(instead, str) else instead
        done = end
    yield Text(piece.text[done:], piece.start + done)


def aliases(found: Sequence[Mention]) -> dict[tuple[str, ...], str]:
    """Return how each table is called in the query: by its own name, and in full where two have the same."""
    bare = {mention.parts for mention in found if mention.alias_place is not None}
    last = [parts[-1].casefold() for parts in bare]
    return {
        mention.parts: quoted_name(mention.parts[-1])
        if last.count(mention.parts[-1].casefold()) <= 1
        else f"`{'.'.join(mention.parts).replace('`', '``')}`"
        for mention in found
    }


def refused_name(refusal: Refused, tokens: list[Token], place: int) -> tuple[tuple[str, ...], int]:
    """Return the parts of the name that Spark did not find, and the place after it; it may come from a parameter."""
    said, _ = name_chain([*tokenize(refusal.parameters.get("relationName", "``"))], 0)
    parts, after = name_chain(tokens, place)
    if parts == said:
        return parts, after
    end = refusal.end
    last = next((number for number, token in enumerate(tokens) if end is not None and token.end >= end), place)
    return said, last + 1
