"""The site builds without a complaint, and its pages load nothing from elsewhere."""

import re
import shutil
import subprocess
import sys
from html.parser import HTMLParser
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
_LOADING = {"img": "src", "script": "src", "link": "href", "iframe": "src", "source": "src", "object": "data"}
_EXTERNAL_URL = re.compile(r"(?:[a-z]+:)?//", re.IGNORECASE)
_STYLE_URL = re.compile(r"url\(\s*['\"]?(?:https?:)?//|@import\s+['\"]?https?:")


class Loads(HTMLParser):
    """Notes what a page loads by itself; links that a reader may click are another thing."""

    def __init__(self) -> None:
        super().__init__()
        self.addresses: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = dict(attrs)
        if tag == "link" and given.get("rel") in {"canonical", "prev", "next"}:
            return
        address = given.get(_LOADING.get(tag, ""))
        if address:
            self.addresses.append(address)


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The site, built as `make docs` builds it."""
    folder = tmp_path_factory.mktemp("site")
    shutil.copytree(ROOT / "docs", folder / "docs")
    shutil.copy(ROOT / "zensical.toml", folder)
    built = subprocess.run(
        [str(Path(sys.executable).parent / "zensical"), "build", "--strict"],
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert built.returncode == 0, built.stdout + built.stderr
    return folder / ".build" / "site"


def test_every_page_is_built_and_in_the_navigation(site: Path) -> None:
    start = (site / "index.html").read_text("utf-8")
    for page in (ROOT / "docs").rglob("*.md"):
        place = page.relative_to(ROOT / "docs").with_suffix("")
        address = (place.parent if place.name == "index" else place).as_posix()
        assert (site / address / "index.html").exists()
        # Decisions are reached by their list, the start page by the site's name.
        if place.parts[0] not in {"decisions", "index"}:
            assert f'href="./{address}/"' in start, f"{place} is in no navigation"


def test_no_page_loads_anything_from_another_host(site: Path) -> None:
    pages = list(site.rglob("*.html"))
    assert pages
    for page in pages:
        loads = Loads()
        loads.feed(page.read_text("utf-8"))
        assert loads.addresses
        elsewhere = [address for address in loads.addresses if _EXTERNAL_URL.match(address)]
        assert not elsewhere, f"{page.relative_to(site)} loads {elsewhere}"
    for style in [*site.rglob("*.css"), *site.rglob("*.svg")]:
        assert not _STYLE_URL.search(style.read_text("utf-8"))


@pytest.mark.parametrize("picture", sorted((ROOT / "docs" / "pictures").glob("*.svg")), ids=lambda path: path.stem)
def test_a_picture_has_alternative_text_and_dark_mode_colours(picture: Path) -> None:
    drawn = picture.read_text("utf-8")
    assert '<title id="name">' in drawn
    assert "prefers-color-scheme: dark" in drawn
