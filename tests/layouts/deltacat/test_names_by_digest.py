"""A reader that knows only the seed document finds every table by the digest of its name, after renames and moves."""

import hashlib
import random
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

import mangrove
from mangrove.layouts.deltacat.paths import MANGROVE_FOLDER

LAYOUTS = ["deltacat", "deltacat-2"]


@pytest.fixture(params=LAYOUTS)
def lake(request: pytest.FixtureRequest, tmp_path: Path) -> mangrove.Lakehouse:
    lake = mangrove.create(tmp_path / "lake", layout=request.param)
    for namespace in ("sales", "finance"):
        lake.create_namespace(namespace)
        for table in ("orders", "returns"):
            made = lake.create_table(f"{namespace}.{table}", schema="id bigint not null, item string", keys=["id"])
            made.append([{"id": 1, "item": f"{namespace} {table}"}])
    return lake


def rename_the_namespace(lake: mangrove.Lakehouse) -> None:
    lake.rename_namespace("sales", "shop")


def rename_the_namespace_there_and_back(lake: mangrove.Lakehouse) -> None:
    lake.rename_namespace("sales", "shop")
    lake.rename_namespace("shop", "sales")


def swap_the_namespaces(lake: mangrove.Lakehouse) -> None:
    with lake.transaction() as transaction:
        transaction.rename_namespace("sales", "spare")
        transaction.rename_namespace("finance", "sales")
        transaction.rename_namespace("spare", "finance")


def rename_a_namespace_and_change_its_tables(lake: mangrove.Lakehouse) -> None:
    with lake.transaction() as transaction:
        transaction.rename_namespace("sales", "shop")
        transaction.drop_table("shop.returns")
        transaction.rename_table("shop.orders", "shop.purchases")
        transaction.create_table("shop.returns", schema="id bigint").append([{"id": 7}])


def move_a_table(lake: mangrove.Lakehouse) -> None:
    lake.table("sales.orders").upsert([{"id": 1, "item": "new"}, {"id": 2, "item": "second"}])
    lake.rename_table("sales.orders", "finance.purchases")
    lake.table("finance.purchases").append([{"id": 3, "item": "after"}])


def move_a_table_there_and_back(lake: mangrove.Lakehouse) -> None:
    lake.rename_table("sales.orders", "finance.purchases")
    lake.table("finance.purchases").append([{"id": 3, "item": "there"}])
    lake.rename_table("finance.purchases", "sales.orders")


def replace_a_table_by_a_moved_one(lake: mangrove.Lakehouse) -> None:
    with lake.transaction() as transaction:
        transaction.drop_table("finance.orders")
        transaction.rename_table("sales.orders", "finance.orders")


def roll_back_a_rename(lake: mangrove.Lakehouse) -> None:
    before = lake.version
    lake.rename_namespace("sales", "shop")
    lake.rename_table("shop.orders", "finance.purchases")
    lake.rollback(before)


CHANGES: list[Callable[[mangrove.Lakehouse], None]] = [
    rename_the_namespace,
    rename_the_namespace_there_and_back,
    swap_the_namespaces,
    rename_a_namespace_and_change_its_tables,
    move_a_table,
    move_a_table_there_and_back,
    replace_a_table_by_a_moved_one,
    roll_back_a_rename,
]


@pytest.mark.parametrize("change", CHANGES, ids=lambda change: change.__name__)
def test_every_table_is_found_by_the_digest_of_its_name(
    lake: mangrove.Lakehouse, tmp_path: Path, change: Callable[[mangrove.Lakehouse], None]
) -> None:
    change(lake)
    assert find_by_digest(tmp_path / "lake", lake) == ids_by_name(lake)


@pytest.mark.parametrize("change", CHANGES, ids=lambda change: change.__name__)
def test_the_catalog_is_read_equally_without_the_mangrove_folder(
    lake: mangrove.Lakehouse, tmp_path: Path, change: Callable[[mangrove.Lakehouse], None]
) -> None:
    change(lake)
    assert read_everything(open_without_our_folder(tmp_path)) == read_everything(lake)


@pytest.mark.parametrize("seed", range(3))
def test_every_table_is_found_after_a_random_history(lake: mangrove.Lakehouse, tmp_path: Path, seed: int) -> None:
    generator = random.Random(seed)
    for _ in range(25):
        change_at_random(lake, generator)
        assert find_by_digest(tmp_path / "lake", lake) == ids_by_name(lake)
    assert read_everything(open_without_our_folder(tmp_path)) == read_everything(lake)


def test_renames_work_in_a_catalog_without_the_mangrove_folder(lake: mangrove.Lakehouse, tmp_path: Path) -> None:
    lake.rename_namespace("sales", "shop")
    other = open_without_our_folder(tmp_path)
    other.rename_table("shop.orders", "shop.purchases")
    assert find_by_digest(tmp_path / "copy", other) == ids_by_name(other)


@pytest.mark.parametrize("layout", LAYOUTS)
def test_a_rename_of_a_namespace_writes_two_empty_files_for_each_table_where_names_contain_it(
    tmp_path: Path, layout: str
) -> None:
    written = {}
    for tables in (2, 12):
        root = tmp_path / f"{tables} tables"
        lake = mangrove.create(root, layout=layout)
        lake.create_namespace("sales")
        with lake.transaction() as transaction:
            for number in range(tables):
                transaction.create_table(f"sales.t{number}", schema="id bigint")
        before = set(root.rglob("*.*"))
        lake.rename_namespace("sales", "shop")
        new = [path for path in set(root.rglob("*.*")) - before if path.is_file()]
        written[tables] = sum(path.stat().st_size == 0 for path in new)
    assert written == ({2: 6, 12: 26} if layout == "deltacat" else {2: 2, 12: 2})


def test_a_table_created_during_the_rename_of_its_namespace_is_found(lake: mangrove.Lakehouse, tmp_path: Path) -> None:
    with lake.transaction() as transaction:
        transaction.rename_namespace("sales", "shop")
        lake.create_table("sales.late", schema="id bigint not null, item string")
        assert find_by_digest(tmp_path / "lake", lake) == ids_by_name(lake)
    assert "shop.late" in ids_by_name(lake)
    assert find_by_digest(tmp_path / "lake", lake) == ids_by_name(lake)


def test_a_move_keeps_the_rows_the_id_and_the_history(lake: mangrove.Lakehouse) -> None:
    table, before = lake.table("sales.orders"), lake.version
    lake.rename_table("sales.orders", "finance.purchases")
    moved = lake.table("finance.purchases")
    assert moved.id == table.id
    assert moved.to_arrow().to_pylist() == [{"id": 1, "item": "sales orders"}]
    assert lake.at(before).table("sales.orders").to_arrow().num_rows == 1
    assert [str(change) for change in lake.diff(before, lake.version).changes] == [
        "renamed table finance.purchases (was sales.orders)"
    ]
    assert lake.maintenance.check().is_sound


def test_a_write_that_a_move_overtakes_is_a_conflict_and_succeeds_when_repeated(lake: mangrove.Lakehouse) -> None:
    transaction = lake.transaction()
    transaction.table("sales.orders").append([{"id": 9, "item": "late"}])
    lake.rename_table("sales.orders", "finance.purchases")
    with pytest.raises(mangrove.ConflictError):
        transaction.commit()
    lake.table("finance.purchases").append([{"id": 9, "item": "late"}])
    assert lake.table("finance.purchases").to_arrow().num_rows == 2


def change_at_random(lake: mangrove.Lakehouse, generator: random.Random) -> None:
    tables = sorted(ids_by_name(lake))
    spaces = sorted(namespace.name for namespace in lake.namespaces())
    fresh = f"n{lake.version}"
    match generator.randrange(5):
        case 0:
            lake.rename_namespace(generator.choice(spaces), fresh)
        case 1:
            lake.rename_table(generator.choice(tables), f"{generator.choice(spaces)}.{fresh}")
        case 2:
            made = lake.create_table(f"{generator.choice(spaces)}.{fresh}", schema="id bigint, item string")
            made.append([{"id": 1}])
        case 3 if len(tables) > 2:
            lake.drop_table(generator.choice(tables))
        case _:
            lake.table(generator.choice(tables)).append([{"id": lake.version, "item": "more"}])


def ids_by_name(lake: mangrove.Lakehouse) -> dict[str, str]:
    return {str(table): table.id for namespace in lake.namespaces() for table in namespace.tables()}


def read_everything(lake: mangrove.Lakehouse) -> dict[str, tuple[str, str, list[dict[str, object]]]]:
    tables = [table for namespace in lake.namespaces() for table in namespace.tables()]
    return {str(table): (table.id, str(table.schema), table.to_arrow().sort_by("id").to_pylist()) for table in tables}


def open_without_our_folder(tmp_path: Path) -> mangrove.Lakehouse:
    shutil.copytree(tmp_path / "lake", tmp_path / "copy", ignore=shutil.ignore_patterns(MANGROVE_FOLDER.strip("/")))
    return mangrove.open(tmp_path / "copy")


def find_by_digest(root: Path, lake: mangrove.Lakehouse) -> dict[str, str]:
    """Resolve each name as the seed document describes it, from files alone."""
    is_seed = not (root / "txn" / "success").exists()
    found = {}
    for name in ids_by_name(lake):
        namespace, table = name.split(".")
        namespace_id = follow_mapping(root / digest(namespace))
        table_id = follow_mapping(root / namespace_id / digest(f"{namespace}|{table}" if is_seed else table))
        newest = max(files_in(root / namespace_id / table_id / "rev"), default="_delete_")
        assert "_delete_" not in newest, f"{name} has no folder in that of its namespace"
        found[name] = table_id
    assert count_live_mappings(root) == len(found) + len(list(lake.namespaces())), "a former name is still mapped"
    return found


def count_live_mappings(root: Path) -> int:
    """Return the number of namespaces and tables that are mapped."""
    newest = [max(files_in(folder)) for pattern in ("?" * 40, "*/" + "?" * 40) for folder in root.glob(pattern)]
    return sum("_delete_" not in name for name in newest)


def follow_mapping(folder: Path) -> str:
    newest = max(files_in(folder))
    assert "_delete_" not in newest
    return newest.rpartition(".")[2]


def files_in(folder: Path) -> Iterator[str]:
    return (path.name for path in folder.rglob("*") if path.is_file())


def digest(canonical: str) -> str:
    return hashlib.sha1(canonical.encode(), usedforsecurity=False).hexdigest()
