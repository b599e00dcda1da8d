"""Tree keys in the words of people."""

from typing import Final

from mangrove.errors import FormatError
from mangrove.layouts.tree.keys import KeyEncoding, NameSizes
from mangrove.model.locators import Kind

__all__ = ["index_key_text", "key_text"]

_INDEX_WORDS: Final = {"o": "revisions in", "x": "deleted from", "y": "names in"}
"""What keys of the DeltaCAT layout's index begin with that are not about a kind of object."""


def key_text(key: str, encoding: KeyEncoding, sizes: NameSizes) -> str:
    """Return a tree key as its kind and parts; one of other sizes as it is, with its padding cut."""
    try:
        kind, parts = encoding.parts_of(key, sizes)
    except FormatError:
        return " ".join(key.split())
    return " ".join([kind.word, *map(str, parts)])


def index_key_text(key: str) -> str:
    r"""Return a key of the DeltaCAT layout's index as its kind and parts.

    >>> index_key_text("1\tsales"), index_key_text("o\t1bcc694f")
    ('namespace sales', 'revisions in 1bcc694f')
    """
    first, *parts = key.split("\t")
    kinds = {str(kind.value): kind.word for kind in Kind}
    return " ".join([_INDEX_WORDS.get(first) or kinds.get(first, first), *parts])
