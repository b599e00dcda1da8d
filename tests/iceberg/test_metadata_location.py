"""The address of a metadata file: what people ask a table for, and what they are told where there is none."""

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from pyiceberg.table import StaticTable

import mangrove
from mangrove.errors import InvalidInputError, NotFoundError
from mangrove.lakehouse.lakehouse import Lakehouse


@pytest.fixture
def lake(tmp_path: Path) -> Lakehouse:
    found = mangrove.create(tmp_path / "lake")
    found.create_namespace("shop")
    found.create_table("shop.sales", as_=[{"id": 1}, {"id": 2}])
    return found


def _ids(address: str) -> list[Any]:
    found: list[Any] = StaticTable.from_metadata(address).scan().to_arrow().column("id").to_pylist()
    return sorted(found)


def test_a_table_returns_its_metadata_location_now_and_at_earlier_versions(lake: Lakehouse) -> None:
    before = lake.version
    sales = lake.table("shop.sales")
    sales.append([{"id": 3}])
    assert _ids(sales.iceberg()) == [1, 2, 3]
    assert _ids(lake.at(before).table("shop.sales").iceberg()) == [1, 2]
    assert sales.iceberg() == lake.at(lake.version).table("shop.sales").iceberg()


def test_a_restored_state_has_the_same_metadata_location(lake: Lakehouse) -> None:
    sales = lake.table("shop.sales")
    address, before = sales.iceberg(), lake.version
    sales.append([{"id": 3}])
    assert sales.iceberg() != address
    lake.rollback(to=before)
    assert lake.rename_table("shop.sales", "shop.sold").iceberg() == address


def test_a_full_export_publishes_its_own_files(lake: Lakehouse, tmp_path: Path) -> None:
    lake.table("shop.sales").iceberg()
    lake.maintenance.export(tmp_path / "copy", "copied")
    address = mangrove.open(tmp_path / "copy").table("shop.sales").iceberg()
    (task,) = StaticTable.from_metadata(address).scan().plan_files()
    assert address.startswith((tmp_path / "copy").as_uri())
    assert task.file.file_path.startswith((tmp_path / "copy").as_uri())
    assert _ids(address) == [1, 2]


def test_the_metadata_contains_the_commit_time_of_the_version(lake: Lakehouse) -> None:
    found = StaticTable.from_metadata(lake.table("shop.sales").iceberg())
    assert found.metadata.last_updated_ms == lake._reading().commit.created_at_millis


def test_publishing_a_table_creates_no_version(lake: Lakehouse) -> None:
    before = lake.version
    lake.table("shop.sales").iceberg()
    assert mangrove.open(lake.uri).version == before


def test_uncommitted_changes_are_not_published(lake: Lakehouse) -> None:
    with pytest.raises(InvalidInputError, match="commit it"), lake.transaction() as transaction:
        transaction.table("shop.sales").iceberg()


def test_publishing_an_in_memory_table_is_rejected() -> None:
    lake = mangrove.create("memory://shown-address")
    lake.create_namespace("shop")
    table = lake.create_table("shop.sales", as_=[{"id": 1}])
    with pytest.raises(InvalidInputError, match="in a folder or a bucket"):
        table.iceberg()


def test_publishing_an_external_or_dropped_table_is_rejected(lake: Lakehouse) -> None:
    outside = lake.create_table(
        "shop.outside", "id int", table_type="external", table_format="PARQUET", location="s3://other/folder/"
    )
    with pytest.raises(InvalidInputError, match=r"shop\.outside"):
        outside.iceberg()
    outside.drop()
    with pytest.raises(NotFoundError):
        outside.iceberg()


@pytest.mark.parametrize("character", ["?", "#"])
def test_publishing_below_a_path_that_engines_truncate_is_rejected(tmp_path: Path, character: str) -> None:
    lake = mangrove.create(tmp_path / f"a{character}b")
    lake.create_namespace("shop")
    table = lake.create_table("shop.sales", as_=[{"id": 1}])
    with pytest.raises(InvalidInputError, match="move it"):
        table.iceberg()
    assert not any("metadata" in str(path) for path in tmp_path.rglob("*"))


def test_without_pyiceberg_the_error_names_the_package_to_install(lake: Lakehouse) -> None:
    program = (
        "import sys; sys.modules['pyiceberg'] = None; import mangrove\n"
        f"mangrove.open({lake.uri!r}).table('shop.sales').iceberg()"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert done.stderr.strip().endswith("PyIceberg is not installed: pip install 'mangrove-lake[iceberg]'")
