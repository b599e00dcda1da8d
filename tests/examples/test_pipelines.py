"""The small pipelines of the examples run, say what they promise, and leave sound lakehouses behind."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from tests.support.s3_server import S3Server

import mangrove

EXAMPLES = Path(__file__).parents[2] / "examples"
PRINTED = {
    "nightly_cdc_merge": [
        "customers-0001.jsonl: applied 3 changes\ncustomers-0001.jsonl: was applied already",
        "{'id': 2, 'name': 'ben', 'city': 'Lima'}",
        "{'id': 3, 'name': 'cleo', 'city': 'Quito', '_change_type': 'delete'}",
    ],
    "write_audit_publish": [
        "readers see 0 orders",
        "published as version",
        "discarded: 1 amounts below zero, 1 orders of nobody",
        "in the end there are 3 orders, and open loads: []",
    ],
    "star_schema": ["2026-11-14    95  from 3 sales", "sold most: rug 80, lamp 60, mug 55"],
}


def printed_by(example: str, *arguments: str, **environment: str) -> str:
    """Return what an example prints that ends well."""
    known = {name: value for name, value in os.environ.items() if not name.startswith(("AWS_", "MANGROVE_"))}
    ran = subprocess.run(
        [sys.executable, str(EXAMPLES / f"{example}.py"), *arguments],
        env=known | environment,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert ran.returncode == 0, ran.stderr
    return ran.stdout


@pytest.mark.parametrize("example", PRINTED)
def test_each_pipeline_produces_its_documented_result(example: str, tmp_path: Path) -> None:
    printed = printed_by(example, str(tmp_path))
    for wanted in PRINTED[example]:
        assert wanted in printed
    assert mangrove.open(tmp_path / "lake").maintenance.check().is_sound


def test_a_lakehouse_is_moved_from_disk_to_a_bucket_with_its_history(tmp_path: Path) -> None:
    with S3Server("my-bucket") as server:
        printed = printed_by(
            "disk_to_s3",
            str(tmp_path / "lake"),
            "s3://my-bucket/lake",
            AWS_ENDPOINT_URL=server.endpoint,
            AWS_ACCESS_KEY_ID="reader",
            AWS_SECRET_ACCESS_KEY="secret",
            AWS_REGION="us-east-1",
        )
        assert server.objects
    assert "first run, while others write: 7 versions" in printed
    assert "8 versions of" in printed
    assert "(7 were there already)" in printed
    assert "s3://my-bucket/lake/ has version 7, as the folder has 7" in printed
    assert "shop.orders: 271 rows, in the folder 271" in printed
    assert "no problem in 8 of 8 versions" in printed
