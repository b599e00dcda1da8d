"""Rendering of explorer pages from Jinja templates with automatic escaping.

Templates escape every value, and an undefined name is an error. No value is marked as
markup. Link targets go through the filter `local`, which refuses URLs of other servers.
"""

import re
from pathlib import Path
from typing import Any, Final

from jinja2 import Environment, FileSystemLoader, StrictUndefined

from mangrove.inspect.formatting import format_count, format_size, format_timestamp, format_value
from mangrove.maintenance.progress import format_quantity
from mangrove.model.locators import TableLocator, ViewLocator, parse_view_name
from mangrove.transaction.deltas import TableTarget
from mangrove.web.links import STATIC, Links

__all__ = ["TEMPLATES_FOLDER", "build_environment", "check_local_url", "render_message_page", "render_page"]

TEMPLATES_FOLDER: Final = Path(__file__).with_name("templates")
_LOCAL_URL: Final = re.compile(r"(?:/(?![/\\])|[?#]).*|/", re.DOTALL)


def check_local_url(url: str) -> str:
    """Return the URL, or raise `ValueError` if it leads to another server or runs a script."""
    if not _LOCAL_URL.fullmatch(url):
        raise ValueError(f"link {url!r} leads out of the explorer; expected a URL that starts with /, ? or #")
    return url


def build_environment() -> Environment:
    """Return the Jinja environment of the explorer."""
    environment = Environment(
        loader=FileSystemLoader(TEMPLATES_FOLDER),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters |= {
        "coordinate": lambda number: f"{number:g}",
        "count": format_count,
        "local": check_local_url,
        "quantity": format_quantity,
        "size": format_size,
        "timestamp": format_timestamp,
        "value": format_value,
    }
    environment.globals |= {
        "Links": Links,
        "STATIC": STATIC,
        "TableLocator": TableLocator,
        "TableTarget": TableTarget,
        "ViewLocator": ViewLocator,
        "parse_view_name": parse_view_name,
    }
    return environment


_ENVIRONMENT: Final = build_environment()


def render_page(template: str, info: Any, api_address: str, **values: Any) -> bytes:
    """Return the page of a template; `info` has the page's version as `seen`, and links keep to that version."""
    return _render(template, info=info, links=Links(info.seen.requested), api_address=api_address, **values)


def render_message_page(title: str, sentence: str) -> bytes:
    """Return a page with one message, for errors."""
    return _render("message.html", title=title, sentence=sentence)


def _render(template: str, **values: Any) -> bytes:
    # Names may hold lone surrogates, which UTF-8 cannot encode.
    return _ENVIRONMENT.get_template(template).render(values).encode("utf-8", "replace")
