"""HTML and SVG elements with automatic escaping.

There is no way to put markup in as text: what is not an `Element` is text, and
text is escaped when it is written. Elements that run or load something, and
links that leave the explorer, are refused when they are made, so that a name
which somebody chose to be hostile has nowhere to go.
"""

import html
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Final, TypeAlias, Union

__all__ = ["Attribute", "Content", "Element", "element", "render", "render_document"]

Content: TypeAlias = Union["Element", str, int, Iterable["Content"], None]
"""What can stand inside an element; None is nothing."""
Attribute: TypeAlias = str | int | float | bool | None
"""The value of an attribute; True is its name alone, None and False leave it out."""

_TAG: Final = re.compile(r"[a-zA-Z][a-zA-Z0-9]*")
_NAME: Final = re.compile(r"[a-zA-Z][a-zA-Z0-9-]*")
_REFUSED: Final = frozenset({"base", "embed", "foreignobject", "iframe", "object", "script", "style"})
_EMPTY: Final = frozenset({"br", "col", "hr", "img", "input", "link", "meta", "wbr"})
_ADDRESSES: Final = frozenset({"action", "formaction", "href", "src", "xlink:href"})
_INSIDE: Final = re.compile(r"(?:/(?![/\\])|[?#]).*|/", re.DOTALL)


@dataclass(frozen=True, slots=True)
class Element:
    """A tag with its attributes and what stands inside it."""

    tag: str
    attributes: tuple[tuple[str, str | None], ...] = ()
    children: tuple["Element | str", ...] = ()

    def __post_init__(self) -> None:
        if not _TAG.fullmatch(self.tag) or self.tag.lower() in _REFUSED:
            raise ValueError(f"<{self.tag}> is not an element that a page may have")
        for name, value in self.attributes:
            if not _NAME.fullmatch(name) or name == "style" or name.lower().startswith("on"):
                raise ValueError(f"{name!r} is not an attribute that <{self.tag}> may have")
            if name in _ADDRESSES and not (value is not None and _INSIDE.fullmatch(value)):
                raise ValueError(f"{value!r} leads out of the explorer: links start with /, ? or #")
        if self.children and self.tag in _EMPTY:
            raise ValueError(f"<{self.tag}> holds nothing")


def element(tag: str, *children: Content, **attributes: Attribute) -> Element:
    """Return an element; in names of attributes `_` stands for `-`, and one at the end is dropped.

    >>> render(element("a", "<b>", href="/tables/x", class_="name", aria_current="page"))
    '<a href="/tables/x" class="name" aria-current="page">&lt;b&gt;</a>'
    """
    given = ((name.rstrip("_").replace("_", "-"), value) for name, value in attributes.items())
    kept = tuple((name, _attribute(value)) for name, value in given if value is not None and value is not False)
    return Element(tag, kept, tuple(_flat(children)))


def render(root: Element) -> str:
    """Return the text of an element with all that it holds."""
    return "".join(_render_node(root))


def render_document(root: Element) -> bytes:
    """Return a whole HTML document; what UTF-8 cannot hold becomes a question mark."""
    return ("<!DOCTYPE html>\n" + render(root)).encode("utf-8", "replace")


def _attribute(value: str | int | float) -> str | None:
    if value is True:
        return None
    return f"{value:g}" if isinstance(value, float) else str(value)


def _flat(contents: Iterable[Content]) -> Iterator[Element | str]:
    for content in contents:
        if content is None:
            continue
        if isinstance(content, Element | str):
            yield content
        elif isinstance(content, int):
            yield str(content)
        else:
            yield from _flat(content)


def _render_node(node: Element | str) -> Iterator[str]:
    if isinstance(node, str):
        yield html.escape(node)
        return
    yield f"<{node.tag}"
    for name, value in node.attributes:
        yield f" {name}" if value is None else f' {name}="{html.escape(value)}"'
    yield ">"
    for child in node.children:
        yield from _render_node(child)
    if node.tag not in _EMPTY:
        yield f"</{node.tag}>"
