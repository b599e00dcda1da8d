"""The real server, seen through a real browser: no complaint, nothing that needs to be scrolled sideways."""

import json
import re
import signal
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from tests.web.browser import browser_path, open_browser
from tests.web.conftest import filled, with_rows

import mangrove
from mangrove.model.locators import NamespaceLocator
from mangrove.model.settings import LakehouseSettings

CROSSED = " ".join(f"cross join shop.orders {name}" for name in "bcdef")
PICTURE = b"\x89PNG"
NARROW_PIXELS = 400
PAGES = ("/", "/namespaces", "/namespaces/sales", "/tables/sales.orders", "/views/sales.daily", "/history",
         "/history/3", "/history/3?against=8", "/lineage", "/search?text=o", "/tree", "/storage", "/?version=4",
         "/tables/shop.orders/rows", "/tables/shop.orders/profile", "/tables/shop.orders/history",
         "/tables/shop.orders/changes?to=22", "/tables/shop.orders/files", "/sql")  # fmt: skip

pytestmark = pytest.mark.interop


@contextmanager
def serving(*arguments: str) -> Iterator[str]:
    """Start the server as people do, and yield the address that it announces."""
    process = subprocess.Popen(
        [sys.executable, "-m", "mangrove.server", *arguments, "--port", "0"], stdout=subprocess.PIPE, text=True
    )
    try:
        assert process.stdout is not None
        announced = re.search(r"http://\S+/", process.stdout.readline())
        assert announced is not None
        yield announced[0].rstrip("/")
    finally:
        process.terminate()
        process.wait()
        if process.stdout is not None:
            process.stdout.close()


@pytest.fixture
def uri(tmp_path: Path) -> str:
    lake = filled(mangrove.create(tmp_path / "lake", settings=LakehouseSettings("Shop", order=4)))
    lake.create_namespace(NamespaceLocator("%2e%2e"))
    return with_rows(lake).uri


def fetched(address: str, **headers: str) -> tuple[int, str]:
    request = urllib.request.Request(address, headers=headers)
    try:
        with urllib.request.urlopen(request) as answer:
            return answer.status, answer.read().decode()
    except urllib.error.HTTPError as error:
        with error:
            return error.code, error.read().decode()


def test_the_command_serves_pages_until_it_is_stopped(uri: str) -> None:
    with serving(uri) as address:
        assert fetched(f"{address}/healthz") == (200, "ok\n")
        status, page = fetched(f"{address}/tables/sales.orders")
        assert status == 200
        assert "One row for each order" in page
        # A client that resolves escapes twice would lose this name; the real server must not.
        assert fetched(f"{address}/namespaces/%60%252e%252e%60")[0] == 200
        assert fetched(f"{address}/namespaces/nobody")[0] == 404
        assert fetched(address, Host="evil.example")[0] == 421


def test_ctrl_c_stops_the_command_without_an_error_message(uri: str) -> None:
    command = [sys.executable, "-m", "mangrove.server", uri, "--port", "0"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        address = re.search(r"http://\S+/", process.stdout.readline())
        assert address is not None
        assert fetched(f"{address[0]}healthz")[0] == 200
        process.send_signal(signal.SIGINT)
        _, complaints = process.communicate()
        assert (process.returncode, complaints) == (0, "")


def test_the_command_requires_its_token(uri: str) -> None:
    with serving(uri, "--token", "right-token-1234") as address:
        assert fetched(f"{address}/")[0] == 401
        assert fetched(f"{address}/", Authorization="Bearer right-token-1234")[0] == 200


@pytest.mark.parametrize(
    ("arguments", "code", "sentence"),
    [
        (("--host", "0.0.0.0"), 2, "requires a token"),
        (("--port", "70000"), 2, "invalid port 70000"),
        ((), 1, "no lakehouse at"),
    ],
)
def test_the_command_refuses_in_a_sentence(
    tmp_path: Path, arguments: tuple[str, ...], code: int, sentence: str
) -> None:
    if code == 2:
        mangrove.create(tmp_path / "lake")
    answer = subprocess.run(
        [sys.executable, "-m", "mangrove.server", (tmp_path / "lake").as_uri(), *arguments],
        capture_output=True,
        check=False,
        text=True,
    )
    assert answer.returncode == code
    assert sentence in answer.stderr
    assert answer.stderr.count("\n") == 1


@pytest.mark.skipif(browser_path() is None, reason="no chromium is installed")
def test_a_browser_displays_each_page_without_errors_in_a_narrow_window(uri: str) -> None:
    with serving(uri) as address, open_browser() as browser:
        for page in PAGES:
            for width, is_dark in ((1200, False), (NARROW_PIXELS, True)):
                shown = browser.open(f"{address}{page}", width=width, is_dark=is_dark)
                assert shown.complaints == [], page
                assert shown.title.endswith("Shop · Mangrove"), page
                assert shown.picture.startswith(PICTURE)
                assert shown.width_pixels <= width, page
        missing = browser.open(f"{address}/tables/sales.nothing")
        assert "table sales.nothing does not exist" in missing.text


@pytest.mark.skipif(browser_path() is None, reason="no chromium is installed")
def test_a_long_text_among_many_columns_does_not_make_its_row_high(uri: str) -> None:
    lake = mangrove.open(uri)
    table = lake.create_table("shop.wide", ", ".join(f"column_with_a_long_name_{one} string" for one in range(12)))
    table.append([{f"column_with_a_long_name_{one}": "x" * 3000 if one == 11 else "short" for one in range(12)}])
    with serving(uri) as address, open_browser() as browser:
        browser.open(f"{address}/tables/shop.wide/rows")
        shown = browser.run(
            "document.title = String(document.querySelector('tbody tr').clientHeight < 200)", "document.title != ''"
        )
        assert shown.title == "true"


@pytest.mark.skipif(browser_path() is None, reason="no chromium is installed")
def test_a_browser_rolls_back_by_the_button_of_the_preview(uri: str) -> None:
    newest = mangrove.open(uri).version
    with serving(uri, "--token", "right-token-1234", "--writable") as address, open_browser() as browser:
        browser.open(f"{address}/?token=right-token-1234")
        preview = browser.open(f"{address}/history/3?against={newest}", width=NARROW_PIXELS)
        assert (preview.complaints, preview.width_pixels <= NARROW_PIXELS) == ([], True)
        done = browser.press("button.danger")
        assert done.complaints == []
        assert f"Rolled back from\nversion {newest}" in done.text
    assert mangrove.open(uri).version == newest + 1


@pytest.mark.skipif(browser_path() is None, reason="no chromium is installed")
def test_a_browser_runs_completes_cancels_and_charts_statements(uri: str) -> None:
    def submit(text: str) -> str:
        return f"input.value = {json.dumps(text)}; input.form.requestSubmit()"

    with serving(uri) as address, open_browser() as browser:
        browser.open(f"{address}/sql", width=NARROW_PIXELS)
        browser.run("var input = document.getElementById('text')", "document.readyState == 'complete'")
        shown = browser.run(
            submit("select customer, amount from shop.orders where id < 20 order by id"),
            "document.querySelector('#output table')",
        )
        assert shown.complaints == []
        assert shown.width_pixels <= NARROW_PIXELS
        assert "20 rows" in shown.text
        assert "amount by customer" in shown.text
        assert "skipped" in shown.text
        shown = browser.run(
            submit(
                "select date_trunc('month', timestamp '2026-02-03 04:05:06') as m, timestamp '2026-02-03 04:05:06' as t"
            ),
            "document.querySelector('#output table td.time')",
        )
        assert "2026-02-01\t2026-02-03 04:05:06+00:00" in shown.text
        shown = browser.run(submit("drop table shop.orders"), "document.querySelector('#status.error')")
        assert "only SELECT, EXPLAIN, DESCRIBE and SHOW" in shown.text
        shown = browser.run(
            "input.value = 'select cus'; input.focus(); input.setSelectionRange(10, 10); "
            "input.dispatchEvent(new Event('input'))",
            "!document.getElementById('completions').hidden",
        )
        assert "customer" in shown.text
        shown = browser.run(
            "input.dispatchEvent(new KeyboardEvent('keydown', {key: 'Tab'}))", "input.value == 'select customer'"
        )
        shown = browser.run(
            submit(f"select sum(a.amount * d.amount) from shop.orders a {CROSSED}"),
            "!document.getElementById('cancel').disabled",
        )
        shown = browser.run("document.getElementById('cancel').click()", "document.querySelector('#status.error')")
        assert "the statement was cancelled" in shown.text
        browser.open(f"{address}/sql")
        shown = browser.run("", "document.querySelectorAll('#recent option').length > 3")
        assert "drop table shop.orders" in shown.text
    assert "orders" in [table.name for table in mangrove.open(uri).tables("shop")]
