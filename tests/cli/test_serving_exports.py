"""The server opens what other commands open: an export on top of its source, and a bucket behind a cache."""

import json
import signal
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from pyiceberg.catalog.rest import RestCatalog
from tests.support.s3_server import S3Server

import mangrove

PAGES = ("", "namespaces/sales", "tables/sales.orders", "history", "tree", "storage", "healthz", "metrics")


@contextmanager
def served(*words: str) -> Iterator[dict[str, str]]:
    """Serve with these words in a process of its own, and hand out the addresses that it tells."""
    command = [sys.executable, "-c", "from mangrove.cli.main import main; main()", "serve", *words]
    with subprocess.Popen(
        [*command, "--port", "0", "--json"], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as serving:
        assert serving.stdout is not None
        assert serving.stderr is not None
        try:
            told = serving.stdout.readline()
            assert told, serving.stderr.read()
            yield json.loads(told)
        finally:
            serving.send_signal(signal.SIGINT)


def page(address: str) -> str:
    with urllib.request.urlopen(address, timeout=60) as answer:
        assert answer.status == 200
        text: str = answer.read().decode()
        return text


def filled(place: str, **options: Any) -> mangrove.Lakehouse:
    lake = mangrove.create(place, **options)
    lake.create_namespace("sales")
    lake.create_table("sales.orders", "id bigint").append([{"id": 1}, {"id": 2}])
    return lake


@pytest.mark.parametrize("layout", ["tree", "deltacat"])
@pytest.mark.parametrize("mode", ["minimal", "partial"])
def test_a_partial_export_is_served_together_with_its_source(tmp_path: Path, layout: str, mode: str) -> None:
    tables = ["sales.orders"] if mode == "partial" else []
    lake = filled(str(tmp_path / "lake"), layout=layout)
    lake.maintenance.export(str(tmp_path / "copy"), name="copy", mode=mode, tables=tables)
    with served(str(tmp_path / "copy")) as told:
        for name in PAGES:
            assert page(told["address"] + name)
        assert "orders" in page(told["address"] + "namespaces/sales")
        table = RestCatalog("copy", uri=told["iceberg"]).load_table("sales.orders")
        assert sorted(table.scan().to_arrow()["id"].to_pylist()) == [1, 2]


def test_a_server_uses_its_cache_and_counts_the_requests_to_the_bucket(tmp_path: Path) -> None:
    folder = tmp_path / "cache"
    with S3Server() as bucket:
        filled("s3://bucket/lake", storage_options=bucket.options)
        options = [word for key, value in bucket.options.items() for word in ("--option", f"{key}={value}")]
        with served("s3://bucket/lake", *options, "--cache", str(folder)) as told:
            page(told["address"] + "tables/sales.orders")
            assert any(path.is_file() for path in folder.rglob("*"))
            assert 'mangrove_storage_requests_total{kind="reads"} 0' not in page(told["address"] + "metrics")
