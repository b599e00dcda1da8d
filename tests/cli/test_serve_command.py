"""The command that serves: it announces itself once it can be opened, and refuses what is unsafe or not there."""

import json
import signal
import subprocess
import sys
import urllib.request
from typing import Any

import pytest


def test_serve_listens_on_the_printed_address_and_stops_on_ctrl_c(lake: str) -> None:
    command = [
        sys.executable,
        "-c",
        "from mangrove.cli.main import main; main()",
        "serve",
        lake,
        "--port",
        "0",
        "--json",
    ]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as serving:
        assert serving.stdout is not None
        assert serving.stderr is not None
        try:
            told = json.loads(serving.stdout.readline())
            for address in (f"{told['address']}healthz", f"{told['iceberg']}/v1/config"):
                with urllib.request.urlopen(address, timeout=60) as answer:
                    assert answer.status == 200
        finally:
            serving.send_signal(signal.SIGINT)
        assert (serving.wait(timeout=60), serving.stderr.read()) == (0, "")


def test_serve_writes_an_audit_line_for_each_request_that_may_change_something(lake: str) -> None:
    program = "from mangrove.cli.main import main; main()"
    command = [sys.executable, "-c", program, "serve", lake, "--port", "0", "--json"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as serving:
        assert serving.stdout is not None
        assert serving.stderr is not None
        try:
            address = json.loads(serving.stdout.readline())["address"]
            body = json.dumps({"id": "1", "text": "select 1"}).encode()
            for request in (f"{address}history", urllib.request.Request(f"{address}api/sql", body)):
                with urllib.request.urlopen(request, timeout=60) as answer:
                    assert answer.status == 200
        finally:
            serving.send_signal(signal.SIGINT)
        (line,) = serving.stderr.read().splitlines()
    assert " INFO mangrove.audit " in line
    entry = json.loads(line[line.index("{") :])
    assert (entry["method"], entry["path"], entry["status"]) == ("POST", "/api/sql", 200)


PROGRAMS = ("from mangrove.cli.main import main; main()", "from mangrove.server.__main__ import main; main()")


@pytest.mark.parametrize("program", PROGRAMS)
def test_serve_prints_the_explorer_and_catalog_addresses(lake: str, program: str) -> None:
    words = ["serve", lake] if "cli" in program else [lake]
    command = [sys.executable, "-c", program, *words, "--port", "0"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as serving:
        assert serving.stdout is not None
        try:
            first, second = serving.stdout.readline(), serving.stdout.readline()
        finally:
            serving.send_signal(signal.SIGINT)
    address = first.split()[1]
    assert first == f"Explorer: {address} (Ctrl-C stops the server)\n"
    assert second == f"Iceberg REST catalog: {address}iceberg\n"


@pytest.mark.parametrize(
    ("words", "code", "told"),
    [
        (("--writable",), 2, "requires a token"),
        (("--host", "0.0.0.0"), 2, "requires a token"),
        (("--port", "70000"), 2, "70000"),
        (("--token", "short"), 2, "expected at least 16"),
        (("--tls-cert", "cert.pem"), 2, "must be given together"),
        (("--tls-cert", "cert.pem", "--tls-key", "key.pem"), 2, "cannot be used"),
        (("--max-connections-per-peer", "0"), 2, "max-connections-per-peer"),
    ],
)
def test_invalid_serve_options_are_rejected(run: Any, lake: str, words: tuple[str, ...], code: int, told: str) -> None:
    done = run("serve", lake, *words)
    assert (done.code, done.out) == (code, "")
    assert told in done.err


def test_a_missing_lakehouse_is_not_served(run: Any, tmp_path: Any) -> None:
    done = run("serve", str(tmp_path / "none"))
    assert (done.code, "create one" in done.err) == (1, True)
