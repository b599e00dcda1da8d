"""Tree keys in the words of people."""

from mangrove.errors import FormatError
from mangrove.layouts.tree.keys import KeyEncoding, NameSizes

__all__ = ["key_text"]


def key_text(key: str, encoding: KeyEncoding, sizes: NameSizes) -> str:
    """Return a tree key as its kind and parts; one of other sizes as it is, with its padding cut."""
    try:
        kind, parts = encoding.parts_of(key, sizes)
    except FormatError:
        return " ".join(key.split())
    return " ".join([kind.word, *map(str, parts)])
