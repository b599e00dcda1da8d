"""An alias in the DeltaCAT layout is a name mapping that a reader of the seed document resolves by its digest."""

import hashlib
from collections.abc import Iterator

import pytest

import mangrove
from mangrove.errors import AlreadyExistsError, NotFoundError
from mangrove.lakehouse.lakehouse import Lakehouse

_NUMBERS = iter(range(10**6))


@pytest.fixture(params=["deltacat", "deltacat-2"])
def shop(request: pytest.FixtureRequest) -> Lakehouse:
    lake = mangrove.create(f"memory://alias-mappings-{next(_NUMBERS)}/", layout=request.param)
    lake.create_namespace("shop")
    lake.create_table("shop.orders", "id bigint").append([{"id": 1}])
    return lake


def list_mappings(lake: Lakehouse, folder: str) -> list[tuple[str, str]]:
    """Return the operation and target of each mapping file in the folder, which are all empty."""
    return [*_parse(lake, folder)]


def _parse(lake: Lakehouse, folder: str) -> Iterator[tuple[str, str]]:
    for path in sorted(entry.path for entry in lake.effects.store.list(f"{folder}/")):
        assert lake.effects.store.read(path) == b""
        _, operation, *_ = path.rpartition("/")[2].split("_")
        yield operation, path.rpartition(".")[2]


def is_revision_2(lake: Lakehouse) -> bool:
    return any(entry.path.startswith("txn/success/") for entry in lake.effects.store.list("txn/"))


def digest(lake: Lakehouse, *names: str) -> str:
    """Return the digest of a canonical string as the seed says, or of the own name as DeltaCAT 2 does."""
    canonical = names[-1] if is_revision_2(lake) else "|".join(names)
    return hashlib.sha1(canonical.encode(), usedforsecurity=False).hexdigest()


def test_the_mapping_of_an_alias_is_created_moved_and_deleted_like_that_of_a_name(shop: Lakehouse) -> None:
    namespace, table = shop.namespace("shop").id, shop.table("shop.orders").id
    folder = f"{namespace}/{digest(shop, 'shop', 'purchases')}"
    shop.create_alias("shop.purchases", "shop.orders")
    shop.create_alias("store", "shop")
    assert list_mappings(shop, folder) == [("create", table)]
    assert list_mappings(shop, digest(shop, "store")) == [("create", namespace)]
    shop.rename_table("shop.orders", "shop.sales")
    assert list_mappings(shop, folder) == [("create", table)]
    shop.rename_namespace("shop", "market")
    if not is_revision_2(shop):
        assert list_mappings(shop, folder) == [("create", table), ("delete", table)]
        assert list_mappings(shop, f"{namespace}/{digest(shop, 'market', 'purchases')}") == [("create", table)]
    shop.drop_alias("store")
    assert list_mappings(shop, digest(shop, "store")) == [("create", namespace), ("delete", namespace)]


def test_an_alias_is_resolved_without_the_folder_of_mangrove(shop: Lakehouse) -> None:
    shop.create_alias("shop.purchases", "shop.orders")
    shop.create_alias("store", "shop")
    store = shop.effects.store
    store.delete_many([entry.path for entry in store.list("mangrove/")])
    opened = mangrove.open(shop.uri)
    for name in ("shop.purchases", "store.orders", "store.purchases"):
        assert str(opened.table(name)) == "shop.orders"
        assert opened.table(name).to_arrow().num_rows == 1
    with pytest.raises(NotFoundError):
        opened.table("shop.other")
    opened.rename_table("shop.orders", "shop.sales")
    assert str(opened.table("shop.purchases")) == "shop.sales"
    opened.drop_alias("shop.purchases")
    with pytest.raises(NotFoundError):
        opened.table("shop.purchases")


def test_an_alias_follows_a_table_to_another_namespace_whose_tables_its_mapping_cannot_name(shop: Lakehouse) -> None:
    namespace, table = shop.namespace("shop").id, shop.table("shop.orders").id
    folder = f"{namespace}/{digest(shop, 'shop', 'purchases')}"
    shop.create_alias("shop.purchases", "shop.orders")
    shop.create_namespace("archive")
    shop.rename_table("shop.orders", "archive.orders")
    assert list_mappings(shop, folder) == [("create", table), ("delete", table)]
    assert str(mangrove.open(shop.uri).table("shop.purchases")) == "archive.orders"
    assert mangrove.open(shop.uri).table("shop.purchases").to_arrow().num_rows == 1
    shop.rename_namespace("archive", "history")
    assert str(mangrove.open(shop.uri).table("shop.purchases")) == "history.orders"
    shop.rename_table("history.orders", "shop.sales")
    assert [operation for operation, _ in list_mappings(shop, folder)][-1] != "delete"
    assert mangrove.open(shop.uri).table("shop.purchases").id == table
    assert shop.maintenance.check().problems == ()
    shop.drop_alias("shop.purchases")
    assert list_mappings(shop, folder)[-1] == ("delete", table)
    assert shop.maintenance.check().problems == ()


def test_check_reports_an_alias_that_only_its_mapping_records_until_it_is_created_by_name(shop: Lakehouse) -> None:
    shop.create_alias("shop.purchases", "shop.orders")
    folder = f"{shop.namespace('shop').id}/{digest(shop, 'shop', 'purchases')}"
    store = shop.effects.store
    store.delete_many([entry.path for entry in store.list("mangrove/")])
    opened = mangrove.open(shop.uri)
    assert list(opened.aliases()) == []
    (problem,) = opened.maintenance.check().problems
    assert (problem.path, "record it with create_alias" in problem.rule) == (folder, True)
    opened.rename_namespace("shop", "market")
    if not is_revision_2(shop):
        # The digest of the new name cannot be computed without the name, so the alias is lost until the way back.
        with pytest.raises(NotFoundError):
            opened.table("market.purchases")
    opened.rename_namespace("market", "shop")
    opened.create_alias("shop.purchases", "shop.orders", if_not_exists=True)
    assert [str(alias) for alias in opened.aliases()] == ["shop.purchases → shop.orders"]
    assert opened.maintenance.check().problems == ()
    opened.rename_namespace("shop", "market")
    assert str(opened.table("market.purchases")) == "market.orders"
    with pytest.raises(AlreadyExistsError):
        opened.create_alias("market.purchases", "market.orders")


def test_an_alias_that_only_its_mapping_records_is_not_created_for_another_table(shop: Lakehouse) -> None:
    shop.create_alias("shop.purchases", "shop.orders")
    shop.create_table("shop.other", "id bigint")
    store = shop.effects.store
    store.delete_many([entry.path for entry in store.list("mangrove/")])
    with pytest.raises(AlreadyExistsError):
        mangrove.open(shop.uri).create_alias("shop.purchases", "shop.other")
