"""The code of every page runs in an environment made of exactly what the page tells its reader to install."""

import os
import re
import subprocess
from collections.abc import Mapping
from pathlib import Path

import pytest
from tests.docs import page_code
from tests.docs.clean_environments import make_environment
from tests.docs.page_code import Reader, blocks_of, needs_of, requirements_of
from tests.spark.conftest import SHORT_LIVED
from tests.support.s3_server import S3Server

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
README = ROOT / "README.md"
PAGES = sorted(path for path in DOCS.rglob("*.md") if "decisions" not in path.relative_to(DOCS).parts)
LINKING = [*sorted(DOCS.rglob("*.md")), README, ROOT / "CONTRIBUTING.md"]
SECONDS_MAX = 500
_LINK = re.compile(r"\]\(([^)#:]*)(?:#([^)]*))?\)")
_HEADING = re.compile(r"^#+ (.+)$", re.MULTILINE)
_RUN = frozenset({"python", "console", "sh", "sql"})


def pages(*needed: str, run: bool = True) -> list[object]:
    """Return the pages that need just these servers, with code that is run or with none, each by its path."""
    chosen = [
        page
        for page in PAGES
        for text in [page.read_text("utf-8")]
        if needs_of(text) == set(needed)
        and run == any(block.language in _RUN and not block.is_install_line for block in blocks_of(text))
    ]
    return [pytest.param(page, id=str(page.relative_to(DOCS))) for page in chosen]


def environment(**more: str) -> dict[str, str]:
    """Return what a reader's shell knows: nothing of clouds, nor of this process's Python, but what is given."""
    foreign = ("AWS_", "MANGROVE_", "PYTHON", "PYTEST_", "SPARK_", "PYSPARK_", "JAVA_HOME", "VIRTUAL_ENV")
    return {name: value for name, value in os.environ.items() if not name.startswith(foreign)} | more


def run_page(page: Path, folder: Path, variables: Mapping[str, str], *languages: str) -> None:
    """Run the code of a page in an environment made of its install line."""
    python = make_environment(requirements_of(page.read_text("utf-8")))
    # `-I`: this checkout and its own environment are not on the path.
    command = [str(python), "-I", "-W", "error", page_code.__file__, str(page), *languages]
    done = subprocess.run(
        command, cwd=folder, env=variables, capture_output=True, text=True, timeout=SECONDS_MAX, check=False
    )
    assert done.returncode == 0, f"{page.name}\n{done.stdout[-5000:]}\n{done.stderr[-5000:]}"


@pytest.fixture
def variables(path_without_java: str) -> dict[str, str]:
    """The environment variables of a reader on a machine that has no Java."""
    # A session that lives for one page needs few tasks: Spark's default of 200 is for clusters.
    few = "--conf spark.sql.shuffle.partitions=2 pyspark-shell"
    return environment(PATH=path_without_java, PYSPARK_SUBMIT_ARGS=few, **SHORT_LIVED)


@pytest.mark.interop
@pytest.mark.parametrize("page", pages())
def test_the_code_of_a_page_runs_with_the_packages_that_it_installs(
    page: Path, tmp_path: Path, variables: dict[str, str]
) -> None:
    run_page(page, tmp_path, variables)


@pytest.mark.interop
@pytest.mark.parametrize("page", pages("s3"))
def test_the_code_of_a_page_about_buckets_runs_with_the_packages_that_it_installs(
    page: Path, tmp_path: Path, variables: dict[str, str]
) -> None:
    with S3Server("my-bucket") as server:
        known = {
            "AWS_ENDPOINT_URL": server.endpoint,
            "AWS_ACCESS_KEY_ID": "reader",
            "AWS_SECRET_ACCESS_KEY": "secret",
            "AWS_REGION": "us-east-1",
            "AWS_ALLOW_HTTP": "true",
        }
        run_page(page, tmp_path, variables | known)
        assert server.objects


@pytest.mark.interop
def test_the_python_code_of_the_readme_runs_without_extras(tmp_path: Path, variables: dict[str, str]) -> None:
    run_page(README, tmp_path, variables, "python")


@pytest.mark.parametrize("page", pages(run=False))
def test_code_blocks_that_are_not_executed_can_be_parsed(page: Path, tmp_path: Path) -> None:
    Reader(page, tmp_path, environment()).follow()


def anchors_of(page: Path) -> set[str]:
    """Return what the headings of a page are called in addresses."""
    headings = _HEADING.findall(page.read_text("utf-8"))
    return {re.sub(r"[^\w\- ]", "", heading.lower()).strip().replace(" ", "-") for heading in headings}


@pytest.mark.parametrize("page", LINKING, ids=lambda page: str(page.relative_to(ROOT)))
def test_every_link_within_the_repository_has_a_target(page: Path) -> None:
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
def test_code_with_other_output_than_documented_fails(page: str, tmp_path: Path) -> None:
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


def test_an_install_line_lists_the_requirements_of_its_page() -> None:
    page = '# Title\n\n```sh\npip install "mangrove-lake[spark]" deltalake\n```\n\n```python\n>>> 1\n1\n```\n'
    assert requirements_of(page) == ("mangrove-lake[spark]", "deltalake")
    assert requirements_of("```python\n>>> 1\n1\n```\n") == ("mangrove-lake",)


@pytest.mark.parametrize(
    "page",
    [
        "```python\n>>> 1\n1\n```\n```sh\npip install polars\n```\n",
        "```text\npip install mangrove-lake\n```\n",
        "```sh\npip install mangrove-lake\nmangrove init lake\n```\n",
    ],
)
def test_an_install_line_that_is_not_alone_and_first_is_refused(page: str) -> None:
    with pytest.raises(ValueError, match="one install line"):
        requirements_of(page)


@pytest.mark.interop
def test_a_page_that_needs_more_packages_than_it_installs_fails(tmp_path: Path, variables: dict[str, str]) -> None:
    page = tmp_path / "page.md"
    page.write_text("```python\n>>> import pyspark\n```\n", "utf-8")
    with pytest.raises(AssertionError, match="No module named 'pyspark'"):
        run_page(page, tmp_path, variables)
