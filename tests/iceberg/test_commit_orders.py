"""Which rows the deletes of a client are about: commits of several snapshots, and addresses in other spellings."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from tests.iceberg.iceberg_client import Client, Written

import mangrove
from mangrove.effects import wait_for_pending
from mangrove.errors import InvalidInputError

Step = tuple[int, Sequence[Written]]
"""Files, and how many snapshots after the one that is shown they come."""


@pytest.fixture
def client(tmp_path: Path) -> Client:
    lake = mangrove.create(str(tmp_path / "lake"))
    lake.create_namespace("shop")
    lake.create_table("shop.orders", "id bigint not null, s string").append(rows_of(1, 2, 3))
    return Client(lake, "shop.orders")


def rows_of(*ids: int, s: str = "old") -> list[dict[str, Any]]:
    return [{"id": one, "s": s} for one in ids]


def is_rejected_in_order(client: Client, steps: Sequence[Step], told: str) -> None:
    """Check that files of several snapshots are refused, and that nothing has changed by that."""
    request = client.request_of_steps(steps)
    wait_for_pending(client.lake.effects, 60.0)
    before = client.lake.version, [*client.lake.effects.store.list()]
    with pytest.raises(InvalidInputError, match=told):
        client.send(request)
    assert (client.lake.version, [*client.lake.effects.store.list()]) == before


def test_equality_deletes_of_rows_of_the_same_commit_are_rejected(client: Client) -> None:
    steps = [(1, [client.rows(rows_of(4))]), (2, [client.keys([{"id": 4}], ["id"])])]
    is_rejected_in_order(client, steps, "one at a time")


def test_equality_deletes_and_rows_in_several_snapshots_of_a_commit_are_rejected(client: Client) -> None:
    steps = [
        (number, [client.keys([{"id": 2}], ["id"]), client.rows(rows_of(2, s=f"new {number}"))]) for number in (1, 2)
    ]
    is_rejected_in_order(client, steps, "one at a time")


def test_equality_deletes_with_an_older_sequence_number_are_rejected(client: Client) -> None:
    is_rejected_in_order(client, [(0, [client.keys([{"id": 2}], ["id"])])], "one at a time")


def test_equality_deletes_do_not_apply_to_later_snapshots_of_the_same_commit(client: Client) -> None:
    again = client.rows(rows_of(3, s="again"))
    client.send(client.request_of_steps([(1, [client.keys([{"id": 3}], ["id"])]), (2, [again])]))
    assert client.ids() == client.seen_ids() == [1, 2, 3]
    found = client.lake.table("shop.orders").to_arrow(where="id = 3").to_pylist()
    assert found == rows_of(3, s="again")


def test_position_deletes_of_a_file_of_a_later_snapshot_are_rejected(client: Client) -> None:
    later = client.rows(rows_of(4))
    steps = [(1, [client.numbers({later.address: [0]})]), (2, [later])]
    is_rejected_in_order(client, steps, "at that snapshot")


def test_position_deletes_apply_to_earlier_snapshots_of_the_same_commit(client: Client) -> None:
    first, last = client.rows(rows_of(4, 5)), client.rows(rows_of(6))
    client.send(client.request_of_steps([(1, [first]), (2, [client.numbers({first.address: [0]})]), (3, [last])]))
    assert client.ids() == client.seen_ids() == [1, 2, 3, 5, 6]


def test_symbolic_links_are_rejected(client: Client, tmp_path: Path) -> None:
    target = client.rows(rows_of(4))
    path = Path(target.address.removeprefix("file://"))
    path.rename(tmp_path / "elsewhere.parquet")
    path.symlink_to(tmp_path / "elsewhere.parquet")
    is_rejected_in_order(client, [(1, [target])], "not a file of the lakehouse")
    inside = client.rows(rows_of(4), path="data/folder/a.parquet")
    folder = Path(inside.address.removeprefix("file://")).parent
    folder.rename(tmp_path / "folder")
    folder.symlink_to(tmp_path / "folder")
    is_rejected_in_order(client, [(1, [inside])], "not a file of the lakehouse")
    request = client.request([client.rows(rows_of(5))])
    listed = Path(request["updates"][0]["snapshot"]["manifest-list"].removeprefix("file://"))
    listed.rename(tmp_path / "elsewhere.avro")
    listed.symlink_to(tmp_path / "elsewhere.avro")
    with pytest.raises(InvalidInputError, match="not a file of the lakehouse"):
        client.send(request)
    assert client.ids() == [1, 2, 3]


def spelled(address: str) -> str:
    return address.replace("file:///", "file:/", 1)


def test_a_file_under_two_spellings_is_one_file(client: Client) -> None:
    first = client.rows(rows_of(4), path="data/one.parquet")
    again = client.rows(rows_of(4), path="data/one.parquet", address=spelled(first.address))
    is_rejected_in_order(client, [(1, [first, again])], "listed twice")
    client.commit([first])
    is_rejected_in_order(client, [(1, [again])], "count twice|listed twice")


def test_row_numbers_are_of_a_file_under_any_spelling(client: Client) -> None:
    (address,) = client.contents()
    client.commit([client.numbers({spelled(address): [1], address: [0]})])
    assert client.ids() == client.seen_ids() == [3]
