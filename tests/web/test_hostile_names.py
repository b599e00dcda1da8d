"""Whatever somebody calls a thing, a page shows it as text and leads to it."""

import html
import re
from html.parser import HTMLParser
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from jinja2 import UndefinedError
from starlette.testclient import TestClient
from tests.web.conftest import HOSTILE, HOSTILE_TEXT, visitor

from mangrove.lakehouse.opening import create_on_store
from mangrove.model.locators import NamespaceLocator, TableLocator
from mangrove.storage.memory import MemoryStore
from mangrove.testing.effects import build_deterministic_effects
from mangrove.testing.strategies import names
from mangrove.web.links import Links
from mangrove.web.rendering import TEMPLATES_FOLDER, build_environment, check_local_url, render_message_page


class Reader(HTMLParser):
    """Notes the tags, attributes and text that a browser would find."""

    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.tags: list[str] = []
        self.attributes: list[tuple[str, str | None]] = []
        self.text = ""

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.attributes += attrs

    def handle_data(self, data: str) -> None:
        self.text += data


def read(page: str) -> Reader:
    reader = Reader()
    reader.feed(page)
    reader.close()
    return reader


def follow(client: TestClient, page: str, name: str) -> str:
    """Return the page to which the link with this name leads."""
    links = {
        html.unescape(text): html.unescape(way) for way, text in re.findall(r'<a href="([^"]*)">([^<]*)</a>', page)
    }
    answer = client.get(links[name])
    assert answer.status_code == 200, answer.text
    return answer.text


@pytest.mark.parametrize("name", [HOSTILE, "...", "a.b", "`", "``.`", "?version=1", "#", "&amp;", "名前", "a;b"])
def test_a_hostile_name_is_escaped_on_every_page_and_its_links_work(name: str) -> None:
    lake = create_on_store(build_deterministic_effects(MemoryStore()))
    lake.create_namespace(NamespaceLocator(name), description=HOSTILE_TEXT, properties={HOSTILE_TEXT: HOSTILE_TEXT})
    column = f"`{HOSTILE_TEXT.replace('`', '')}` string comment 'x'"
    lake.create_table(TableLocator(name, name), column, description=HOSTILE_TEXT, properties={"k": HOSTILE_TEXT})
    lake.alter_table(TableLocator(name, name), {"k": "other"})
    with visitor(lake) as client:
        namespaces = client.get("/namespaces").text
        namespace = follow(client, namespaces, name)
        table = follow(client, namespace, name)
        others = [client.get(way).text for way in ("/", "/history", "/history/2", "/history/3", "/tree", "/storage")]
        for page in (namespaces, namespace, table, *others):
            found = read(page)
            assert "script" not in found.tags
            assert "img" not in found.tags
            assert not [attribute for attribute, _ in found.attributes if attribute.startswith("on")]
        assert HOSTILE_TEXT in read(table).text
        assert HOSTILE_TEXT in read(namespace).text


@pytest.mark.parametrize(
    "where", ["/?version=", "/history?before=", "/tree?node=", "/namespaces?prefix=", "/tables/", "/x"]
)
def test_text_of_the_url_is_escaped_in_responses(client: TestClient, where: str) -> None:
    for hostile in ("%3Cscript%3Ealert(1)%3C%2Fscript%3E", "%22%3E%3Cimg%20src%3Dx%3E", "%00", "%ff", "%E2%80%AE"):
        answer = client.get(where + hostile)
        assert answer.status_code in (200, 400, 404), answer.text
        assert not {"script", "img"} & set(read(answer.text).tags)


@given(st.text(alphabet=st.characters(exclude_categories=["Cs"], exclude_characters="\r\0")), st.text())
def test_text_and_attributes_round_trip_through_an_html_parser(text: str, attribute: str) -> None:
    template = build_environment().from_string('<p title="{{ attribute }}">{{ text }}</p>')
    page = template.render(text=text, attribute=attribute.replace("\r", "").replace("\0", ""))
    found = read(page)
    assert found.tags == ["p"]
    assert found.text == text
    assert len(found.attributes) == 1


@given(names())
def test_a_link_to_a_name_is_one_path_segment_that_browsers_do_not_normalize(name: str) -> None:
    path = Links().table(TableLocator(name, name))
    steps = path.split("/")
    assert len(steps) == 3
    assert steps[2].replace("%2e", ".").replace("%2E", ".") not in (".", "..")
    assert not set(path) & set("?#\\ \"'<>")


REFUSED = re.compile(
    r"<\s*(?:base|embed|foreignobject|iframe|object|script|style)\b"  # elements that run or load something
    r"|\s(?:on\w+|style)\s*="  # attributes that run or style something
    r"|=\s*\{[{%]"  # a value without quotes could start another attribute
    r"|\|\s*safe\b|\bautoescape\b",  # text as markup
    re.IGNORECASE,
)
LINK = re.compile(r"\b(?:action|formaction|href|src)\s*=\s*(\"[^\"]*\"|'[^']*'|\S+)", re.IGNORECASE)
ALLOWED_LINK = re.compile(r'"(?:\{\{[^{}]* \| local \}\}|\{\{ STATIC \}\}/[a-z.]+|/|#[a-z]+)"')


OWN_SCRIPT = '<script type="module" src="{{ STATIC }}/editor.js"></script>'


def rejected_markup(template: str) -> list[str]:
    """Return what a template may not have: inline scripts and styles, unescaped values and unchecked links."""
    template = template.replace(OWN_SCRIPT, "")
    links = [link for link in LINK.findall(template) if not ALLOWED_LINK.fullmatch(link)]
    return [*REFUSED.findall(template), *links]


@pytest.mark.parametrize("path", sorted(TEMPLATES_FOLDER.iterdir()), ids=lambda path: path.name)
def test_no_template_runs_something_or_links_without_a_check(path: Path) -> None:
    assert rejected_markup(path.read_text("utf-8")) == []


@pytest.mark.parametrize("tag", ["script", "SCRIPT", "style", "iframe", "object", "foreignObject"])
def test_an_element_that_runs_something_is_refused_in_a_template(tag: str) -> None:
    assert rejected_markup(f"<p><{tag} class='x'></p>")


@pytest.mark.parametrize(
    "attribute", ['onclick="x"', 'onLoad="x"', 'style="x"', "title={{ x }}", 'href="{{ x }}"', "href=/x", 'src="//x"']
)
def test_an_attribute_that_runs_something_is_refused_in_a_template(attribute: str) -> None:
    assert rejected_markup(f"<p {attribute}>")


@pytest.mark.parametrize("text", ["{{ x | safe }}", "{{ x|safe }}", "{% autoescape false %}"])
def test_text_as_markup_is_refused_in_a_template(text: str) -> None:
    assert rejected_markup(f"<p>{text}</p>")


@pytest.mark.parametrize(
    "address", ["javascript:alert(1)", "//evil.example", "/\\evil.example", "https://x", "data:,x", ""]
)
def test_a_link_outside_the_explorer_is_rejected(address: str) -> None:
    with pytest.raises(ValueError, match="leads out"):
        check_local_url(address)
    with pytest.raises(ValueError, match="leads out"):
        build_environment().from_string('<a href="{{ address | local }}">').render(address=address)


def test_an_undefined_name_in_a_template_is_an_error() -> None:
    with pytest.raises(UndefinedError):
        build_environment().from_string("{{ nothing }}").render()


def test_a_lone_surrogate_does_not_break_a_page() -> None:
    assert b"<h1>?</h1>" in render_message_page("\ud800", "")
