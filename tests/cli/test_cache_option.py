"""A cache that is named on the command line, in the environment or from Python, before a bucket."""

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.cli.conftest import Run
from tests.support.s3_server import S3Server

import mangrove
from mangrove.effects import wait_for_pending
from mangrove.errors import InvalidInputError
from mangrove.lakehouse.cache import build_cache_settings
from mangrove.storage.opening import open_store

LAKE = "s3://bucket/lake"


@pytest.fixture
def server() -> Iterator[S3Server]:
    with S3Server() as started:
        yield started


@pytest.fixture
def words(server: S3Server) -> list[str]:
    """Make a lakehouse in the bucket, and return the options with which commands find it."""
    lake = mangrove.create(LAKE, storage_options=server.options)
    lake.create_namespace("sales")
    orders = lake.create_table("sales.orders", "id bigint not null, amount double", keys=["id"])
    orders.append([{"id": number, "amount": number / 2} for number in range(100)])
    wait_for_pending(lake.effects, 60.0)  # who finds an old hint reads the roots that came after it
    return [word for key, value in server.options.items() for word in ("--option", f"{key}={value}")]


def requested(run: Run, *command: str) -> tuple[Any, dict[str, int]]:
    """Return what a command answered, and what storage was asked."""
    ran = run(*command, "--json", "--stats")
    assert ran.code == 0, ran.err
    return ran.json, json.loads(ran.err)["storage"]


@pytest.mark.parametrize(
    "command",
    [("ls", LAKE, "sales"), ("show", LAKE, "sales.orders"), ("read", LAKE, "sales.orders", "--where", "id < 3")],
    ids=lambda command: command[0],
)
def test_a_repeated_command_only_checks_for_a_newer_version(
    run: Run, words: list[str], tmp_path: Path, command: tuple[str, ...]
) -> None:
    cache = ["--cache", str(tmp_path / "cache")]
    plain, without = requested(run, *command, *words)
    first = requested(run, *command, *words, *cache)[0]
    again, spent = requested(run, *command, *words, *cache)
    assert plain == first == again
    assert spent["total"] < without["total"]
    # Whether it is an export, two hints, the newest root and two names after it, and once more the next.
    assert spent["reads"] <= 8
    assert spent["bytes_read"] < 10_000


def test_the_environment_sets_the_cache_folder_and_size(
    run: Run, words: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "cache"
    monkeypatch.setenv("MANGROVE_CACHE", str(folder))
    monkeypatch.setenv("MANGROVE_CACHE_BYTES", "1")
    requested(run, "read", LAKE, "sales.orders", *words)
    assert not any(path.is_file() for path in folder.rglob("*"))
    monkeypatch.setenv("MANGROVE_CACHE_BYTES", "1000000")
    requested(run, "read", LAKE, "sales.orders", *words)
    assert any(path.is_file() for path in folder.rglob("*"))


def test_a_local_folder_is_not_cached(run: Run, lake: str, tmp_path: Path) -> None:
    folder = tmp_path / "cache"
    assert run("ls", lake, "--cache", str(folder)).code == 0
    opened = mangrove.open(lake, cache=folder, cache_bytes_max=1_000)
    assert [one.name for one in opened.namespaces()] == ["sales"]
    mangrove.create(f"memory://{tmp_path.name.replace('_', '-')}-0", cache=folder).create_namespace("n")
    assert not folder.exists()


def test_check_vacuum_and_export_bypass_the_cache(run: Run, words: list[str], server: S3Server, tmp_path: Path) -> None:
    cache = ["--cache", str(tmp_path / "cache")]
    rows = requested(run, "read", LAKE, "sales.orders", *words, *cache)[0]
    store = open_store(LAKE, server.options)
    (path,) = (entry.path for entry in store.list("data/"))
    store.delete_many([path])
    assert requested(run, "read", LAKE, "sales.orders", *words, *cache)[0] == rows
    checked = run("check", LAKE, *words, *cache, "--json")
    assert checked.code == 1
    assert path in checked.out
    exported = run("export", LAKE, "s3://bucket/copy", "kept", *words, *cache)
    assert exported.code == 1
    assert "missing" in exported.err


SCRIPT = """
import json, resource, sys
import mangrove
if sys.argv[3]:
    resource.setrlimit(resource.RLIMIT_FSIZE, (int(sys.argv[3]), resource.RLIM_INFINITY))
lake = mangrove.open("s3://bucket/lake", storage_options=json.loads(sys.argv[1]), cache=sys.argv[2])
for number in range(5):
    lake.table("sales.orders").upsert([{"id": int(sys.argv[4]), "amount": float(number)}])
    assert lake.table("sales.orders").to_arrow().num_rows >= 100
print(sorted(lake.table("sales.orders").to_arrow(where="id < 50").column("id").to_pylist()) == list(range(50)))
"""


@pytest.mark.slow
@pytest.mark.parametrize("file_size_max", ["", "40"], ids=["with room", "on a full disk"])
def test_processes_share_a_folder_and_see_each_others_commits(
    words: list[str], server: S3Server, tmp_path: Path, file_size_max: str
) -> None:
    assert words
    folder = tmp_path / "cache"
    given = [json.dumps(server.options), str(folder), file_size_max]
    workers = [
        subprocess.Popen([sys.executable, "-c", SCRIPT, *given, str(1_000 + number)], stdout=subprocess.PIPE, text=True)
        for number in range(3)
    ]
    assert [worker.communicate(timeout=300)[0] for worker in workers] == ["True\n"] * 3
    assert any(path.is_file() for path in folder.rglob("*")) is not bool(file_size_max)
    lake = mangrove.open(LAKE, storage_options=server.options, cache=folder)
    rows = {row["id"]: row["amount"] for row in lake.table("sales.orders").to_arrow(where="id >= 1000").to_pylist()}
    assert rows == {1_000: 4.0, 1_001: 4.0, 1_002: 4.0}
    assert lake.maintenance.check().problems == ()


@pytest.mark.parametrize(
    "given",
    [
        {"cache": ""},
        {"cache": 5},
        {"cache": b"/tmp/cache"},
        {"cache": "a\0b"},
        {"cache": __file__},
        {"cache": f"{__file__}/below"},
        {"cache": "/dev/null"},
        {"cache": "~nobody-has-this-name/cache"},
        {"cache": "s3://bucket/cache"},
        {"cache": "somewhere", "cache_bytes_max": 0},
        {"cache": "somewhere", "cache_bytes_max": -1},
        {"cache": "somewhere", "cache_bytes_max": True},
        {"cache": "somewhere", "cache_bytes_max": 1e9},
        {"cache_bytes_max": 1_000},
    ],
    ids=str,
)
def test_an_invalid_cache_is_rejected_and_nothing_is_created(
    server: S3Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, given: dict[str, Any]
) -> None:
    monkeypatch.chdir(tmp_path)
    for use in (mangrove.create, mangrove.open):
        with pytest.raises(InvalidInputError, match="cache"):
            use(LAKE, storage_options=server.options, **given)
    assert list(open_store(LAKE, server.options).list()) == []
    assert list(tmp_path.iterdir()) == []


def test_a_tilde_in_the_cache_path_is_expanded(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    found = build_cache_settings("~/cache")
    assert found is not None
    assert found.folder == str(tmp_path / "cache")


def test_a_cache_path_that_is_a_file_is_rejected(run: Run, words: list[str]) -> None:
    refused = run("ls", LAKE, *words, "--cache", __file__)
    assert refused.code == 2
    assert "needs a folder" in refused.err
    assert run("ls", LAKE, *words, "--cache", "x", "--cache-bytes", "0").code == 2
