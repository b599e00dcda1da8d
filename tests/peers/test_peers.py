"""Every test that is skipped without a peer is run by `make test-peers`, and a missing peer is no failure."""

import re
from collections.abc import Mapping
from pathlib import Path

import pytest
from benchmarks.peers.environments import NotAvailable
from tests.conftest import record_skipped_tests
from tests.peers.__main__ import PEERS, Peer, install_peers, main

ROOT = Path(__file__).parents[2]
CONDITION = re.compile(
    r"needs_(?:iceberg_\w+|trino),?\n|skipif\(|pytest\.skip\(\"there is no|azurite_server|is not installed\""
)
OF_THE_PLATFORM = {
    "tests/cli/test_serve_workers.py",
    "tests/local/test_table_rows.py",
    "tests/storage/test_local.py",
    "tests/web/test_connections.py",
}
"""Files with tests that other operating systems cannot run; no peer is missing."""


def test_every_test_file_that_needs_a_peer_belongs_to_one() -> None:
    listed = {path for peer in PEERS for path in peer.tests}
    found = {
        path.relative_to(ROOT).as_posix()
        for path in (ROOT / "tests").rglob("test_*.py")
        if path != Path(__file__) and CONDITION.search(path.read_text("utf-8"))
    }
    assert found - OF_THE_PLATFORM == listed


def test_a_peer_that_cannot_be_installed_is_listed_and_the_others_are_used() -> None:
    def refuse() -> Mapping[str, str]:
        raise NotAvailable("no registry")

    peers = [Peer("one", (), refuse), Peer("two", (), lambda: {"FOUND": "here"}), Peer("three", ())]
    assert install_peers(peers) == ({"FOUND": "here"}, {"one": "no registry"})


def test_a_failed_download_is_listed() -> None:
    def lose_connection() -> Mapping[str, str]:
        raise ConnectionResetError("connection reset")

    assert install_peers([Peer("one", (), lose_connection)])[1] == {"one": "ConnectionResetError: connection reset"}


def test_an_unknown_peer_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["--only", "Oracle"])
    assert "'Iceberg clients'" in capsys.readouterr().err


def test_every_peer_that_the_merge_run_chooses_exists() -> None:
    chosen = re.findall(r"--only \"'([^']+)'", (ROOT / ".ci" / "run").read_text("utf-8"))
    assert chosen
    assert set(chosen) <= {peer.name for peer in PEERS}


def test_a_test_that_a_later_run_executes_is_no_longer_listed_as_skipped(tmp_path: Path) -> None:
    listed = tmp_path / "ci" / "skipped.txt"
    record_skipped_tests(listed, ["a", "b", "c"], {"a": "no\nTrino", "b": "no Java"})
    record_skipped_tests(listed, ["b", "d"], {"d": "no shell"})
    assert listed.read_text() == "a\tno Trino\nd\tno shell\n"
