"""Defects that independent tests of table versions, aliases, undo and isolation found."""

import pytest

import mangrove
from mangrove.effects import Effects
from mangrove.errors import ConflictError, InvalidInputError, NotFoundError
from mangrove.lakehouse.lakehouse import Lakehouse
from mangrove.lakehouse.opening import create_on_store
from mangrove.wiring import LocalEngines


@pytest.fixture
def shop(effects: Effects, layout: str) -> Lakehouse:
    lake = create_on_store(effects, layout=layout, engines=LocalEngines)
    lake.create_namespace("s")
    lake.create_table("s.t", "id bigint not null, v bigint", keys=["id"]).append([{"id": 1, "v": 100}])
    return lake


def test_the_change_feed_refuses_a_table_version_that_was_created_again_after_a_rollback(shop: Lakehouse) -> None:
    table, created = shop.table("s.t"), shop.version
    table.create_version()
    table.version(2).append([{"id": 2, "v": 5000}])
    before = shop.version
    shop.rollback(to=created)
    table.create_version("id bigint not null, name string", keys=["id"])
    table.version(2).append([{"id": 2, "name": "Ann"}])
    with pytest.raises(InvalidInputError, match="dropped and created again"):
        shop.table("s.t").version(2).changes(before)


@pytest.mark.parametrize("state", ["beta", "deleted"])
def test_a_table_without_a_default_version_does_not_stop_compaction(shop: Lakehouse, state: str) -> None:
    shop.create_table("s.u", "id bigint", keys=["id"]).version(1).set_state(state)
    for number in range(2, 5):
        shop.table("s.t").append([{"id": number, "v": 1}])
    assert "s.t" in shop.maintenance.compact()


@pytest.mark.parametrize("position", [0, -1, 2**62 + 1, 2**63 - 1, "5", 5.5, True])
def test_an_invalid_stream_position_is_refused_before_a_file_is_written(shop: Lakehouse, position: object) -> None:
    before = {entry.path for entry in shop.effects.store.list("") if "/data/" in f"/{entry.path}"}
    with pytest.raises(InvalidInputError, match="invalid stream position"):
        shop.table("s.t").append([{"id": 2, "v": 1}], position=position)  # type: ignore[arg-type]
    assert {entry.path for entry in shop.effects.store.list("") if "/data/" in f"/{entry.path}"} == before


@pytest.mark.parametrize("name", ["s.t.version_1", "s|t|1"])
def test_two_table_versions_for_one_table_are_refused(shop: Lakehouse, name: str) -> None:
    shop.table("s.t").create_version()
    assert str(shop.resolve(name).canonical) == "s|t|1"
    with pytest.raises(InvalidInputError, match="names table version 1, but version is 2"):
        shop.table(name, version=2)


def test_a_missing_alias_is_reported_with_the_existing_ones(lake: Lakehouse) -> None:
    lake.create_namespace("s")
    with pytest.raises(NotFoundError, match="existing aliases: none"):
        lake.drop_alias("s.none")


def test_a_write_after_a_merge_without_changes_is_not_blind(shop: Lakehouse) -> None:
    transaction = shop.transaction()
    table = transaction.table("s.t")
    merging = table.merge([{"id": 1}], on="t.id = s.id")
    counts = merging.when_matched_update({"v": mangrove.expr("t.v + 1")}, "t.v > 1000").execute()
    assert counts.updated == 0
    table.upsert([{"id": 1, "v": 0}])
    shop.table("s.t").update({"v": 5000}, where="id = 1")
    with pytest.raises(ConflictError):
        transaction.commit()
    assert shop.table("s.t").to_arrow()["v"].to_pylist() == [5000]


@pytest.mark.parametrize("keys", [["id"], []])
def test_undo_does_not_restore_a_delta_beside_its_rewritten_rows(keys: list[str]) -> None:
    lake = mangrove.create(f"memory://rewritten-{len(keys)}", compatible_with="deltacat")
    lake.create_namespace("s")
    table = lake.create_table("s.t", "id bigint not null, v bigint", keys=keys)
    table.append([{"id": 1, "v": 0}])
    table.append([{"id": 9, "v": 0}])
    appended = lake.version
    table.append([{"id": 2, "v": 0}])
    kept = lake.version
    table.update({"v": 5})
    updated = lake.version
    lake.rollback(to=kept)
    undone = lake.undo(appended)
    lake.rollback(to=updated)
    with pytest.raises(ConflictError, match="cannot be undone"):
        lake.undo(undone)
    assert sorted(table.to_arrow()["id"].to_numpy().tolist()) == [1, 2, 9]


@pytest.mark.parametrize("text", [r"'a\%'", r"'a\\%'"])
def test_an_escaped_wildcard_at_the_end_of_a_pattern_is_plain(shop: Lakehouse, text: str) -> None:
    table = shop.create_table("s.texts", "text string")
    table.append([{"text": one} for one in ("a%", "a\\b", "ab", "a")])
    assert table.to_arrow(where=f"text like {text}").to_pylist() == [{"text": "a%"}]
    assert table.delete(f"text like {text} and concat(text, '') <> ''").deleted == 1
    assert sorted(row["text"] for row in table.to_arrow().to_pylist()) == ["a", "a\\b", "ab"]
