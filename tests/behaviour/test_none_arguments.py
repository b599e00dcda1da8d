"""A list that may be left out may also be given as None."""

from pathlib import Path

import mangrove
from mangrove.model.properties import Properties


def test_none_is_accepted_for_keys_partitions_and_sort_order(tmp_path: Path) -> None:
    lake = mangrove.create(tmp_path / "lake")
    lake.create_namespace("sales")
    table = lake.create_table("sales.orders", "id bigint", keys=None, partition_by=None, sort_by=None)
    plain = lake.create_table("sales.others", "id bigint")
    assert (table.keys, table.partition_by, table.sort_by) == (plain.keys, plain.partition_by, plain.sort_by)


def test_remove_none_removes_no_properties(tmp_path: Path) -> None:
    lake = mangrove.create(tmp_path / "lake", properties={"owner": "ana"})
    lake.create_namespace("sales", properties={"owner": "ana"})
    lake.create_table("sales.orders", "id bigint", properties={"owner": "ana"})
    lake.create_view("sales.daily", "select id from sales.orders", reads=None, properties={"owner": "ana"})
    altered = (
        lake.alter(remove=None).properties,
        lake.namespace("sales").alter(remove=None).properties,
        lake.table("sales.orders").alter(remove=None).properties,
        lake.view("sales.daily").alter(remove=None).properties,
    )
    assert altered == (Properties({"owner": "ana"}),) * 4


def test_properties_to_remove_may_be_an_iterator(tmp_path: Path) -> None:
    lake = mangrove.create(tmp_path / "lake", properties={"owner": "ana", "team": "shop"})
    assert lake.alter(remove=iter(["owner"])).properties == Properties({"team": "shop"})


def test_a_full_export_takes_none_for_its_tables(tmp_path: Path) -> None:
    lake = mangrove.create(tmp_path / "lake")
    lake.create_namespace("sales")
    lake.maintenance.export(tmp_path / "copy", name="copy", tables=None)
    assert [one.name for one in mangrove.open(tmp_path / "copy").namespaces()] == ["sales"]
