"""Every block of code in the documentation runs, page by page, as a reader would follow it."""

import os
import re
from pathlib import Path

import pytest
from tests.docs.page_code import Reader, blocks_of, needs_of

from mangrove.testing.s3_server import S3Server

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
PAGES = sorted(path for path in DOCS.rglob("*.md") if "decisions" not in path.relative_to(DOCS).parts)
LINKING = [*sorted(DOCS.rglob("*.md")), ROOT / "README.md", ROOT / "CONTRIBUTING.md"]
_LINK = re.compile(r"\]\(([^)#:]*)(?:#([^)]*))?\)")
_HEADING = re.compile(r"^#+ (.+)$", re.MULTILINE)


def pages(*needed: str) -> list[object]:
    """Return the pages that need just this, each by its path."""
    chosen = [page for page in PAGES if needs_of(page.read_text("utf-8")) == set(needed)]
    return [pytest.param(page, id=str(page.relative_to(DOCS))) for page in chosen]


def environment(**more: str) -> dict[str, str]:
    """Return what a reader's shell knows: nothing of clouds but what is given."""
    return {name: value for name, value in os.environ.items() if not name.startswith(("AWS_", "MANGROVE_"))} | more


@pytest.mark.parametrize("page", pages())
def test_the_code_of_a_page_runs(page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Reader(page, tmp_path, environment()).follow()


@pytest.mark.parametrize("page", pages("s3"))
def test_the_code_of_a_page_about_buckets_runs(page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with S3Server("my-bucket") as server:
        known = {
            "AWS_ENDPOINT_URL": server.endpoint,
            "AWS_ACCESS_KEY_ID": "reader",
            "AWS_SECRET_ACCESS_KEY": "secret",
            "AWS_REGION": "us-east-1",
            "AWS_ALLOW_HTTP": "true",
        }
        for name, value in known.items():
            monkeypatch.setenv(name, value)
        assert Reader(page, tmp_path, environment(**known)).follow()
        assert server.objects


@pytest.mark.interop
@pytest.mark.parametrize("page", pages("spark"))
def test_the_code_of_a_page_with_spark_runs(
    page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, spark: object
) -> None:
    monkeypatch.chdir(tmp_path)
    assert Reader(page, tmp_path, environment()).follow()


def anchors_of(page: Path) -> set[str]:
    """Return what the headings of a page are called in addresses."""
    headings = _HEADING.findall(page.read_text("utf-8"))
    return {re.sub(r"[^\w\- ]", "", heading.lower()).strip().replace(" ", "-") for heading in headings}


@pytest.mark.parametrize("page", LINKING, ids=lambda page: str(page.relative_to(ROOT)))
def test_every_link_within_the_repository_leads_somewhere(page: Path) -> None:
    for target, anchor in _LINK.findall(page.read_text("utf-8")):
        there = page.parent / target if target else page
        assert there.exists(), f"{page.name} links to {target}, which is not there"
        if anchor:
            assert anchor in anchors_of(there), f"{page.name} links to the heading {anchor} of {there.name}"


def test_a_block_knows_its_language_and_its_line() -> None:
    (block,) = blocks_of("# Title\n\n```python\n>>> 1\n1\n```\n")
    assert (block.language, block.code, block.line) == ("python", ">>> 1\n1\n", 4)


@pytest.mark.parametrize(
    "page",
    [
        "```python\n>>> 1 + 1\n3\n```\n",
        "```python\nraise SystemExit\n```\n",
        "```sh\nfalse\n```\n",
        "```console\n$ echo one\ntwo\n```\n",
        "```json\n{\n```\n",
        "```brainfuck\n+\n```\n",
    ],
)
def test_code_that_does_not_do_what_its_page_says_is_noticed(page: str, tmp_path: Path) -> None:
    path = tmp_path / "page.md"
    path.write_text(page, "utf-8")
    with pytest.raises((AssertionError, SystemExit, ValueError)):
        Reader(path, tmp_path, environment()).follow()


def test_blocks_share_a_folder_and_names(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    path = tmp_path / "page.md"
    path.write_text(
        "```python\nnumber = 7\n```\n```sh\necho seven > file.txt\n```\n```python\n>>> number\n7\n```\n"
        "```console\n$ cat file.txt\nseven\n```\n"
    )
    assert Reader(path, tmp_path, environment()).follow() == 4
