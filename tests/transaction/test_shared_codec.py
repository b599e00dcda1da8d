"""What participants of a shared transaction hand to each other: it comes back whole, and damage is refused."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mangrove.errors import FormatError
from mangrove.expressions.schema_text import parse_schema
from mangrove.metastore import Isolation, ObjectRange
from mangrove.model.locators import (
    DeltaLocator,
    Kind,
    Locator,
    NamespaceLocator,
    PartitionLocator,
    StreamLocator,
    TableIdentity,
    TableLocator,
    TableVersionLocator,
    ViewLocator,
)
from mangrove.model.manifests import DataFile, Manifest
from mangrove.model.objects import (
    Delta,
    DeltaType,
    NamespaceEntry,
    Object,
    Partition,
    Stream,
    TableEntry,
    TableVersion,
    ViewEntry,
)
from mangrove.transaction.shared_transactions import SharedWork, decode_work, encode_work

PARTITION = PartitionLocator("home", "table", 1, "stream", "partition")
PUTS: dict[Locator, Object] = {
    NamespaceLocator("sales"): NamespaceEntry("home", "sales", {"a": "b"}),
    TableLocator("sales", "orders"): TableEntry("table", "home", "orders", latest_table_version=1),
    ViewLocator("sales", "daily"): ViewEntry("view", "daily", "select 1", reads=("sales.orders",)),
    TableVersionLocator("home", "table", 1): TableVersion(
        1, parse_schema("id bigint not null, ts timestamp"), keys=(1,)
    ),
    StreamLocator("home", "table", 1, "stream"): Stream("stream"),
    PARTITION: Partition("partition", (None, 7, "x", 1.5)),
    DeltaLocator("home", "table", 1, "stream", "partition", 1): Delta(
        DeltaType.UPSERT, Manifest((DataFile("data/one", 10, 2),))
    ),
}
WORK = SharedWork(
    "transaction",
    Isolation.SERIALIZABLE,
    "message",
    "author",
    {"job": "nightly"},
    PUTS,
    frozenset([TableLocator("sales", "old"), ViewLocator("sales", "old")]),
    frozenset(PUTS),
    frozenset([ObjectRange(Kind.NAMESPACE, None), ObjectRange(Kind.TABLE, NamespaceLocator("sales"), "o")]),
    frozenset(
        [
            NamespaceLocator("sales"),
            ObjectRange(Kind.TABLE_VERSION, TableIdentity("home", "table")),
            ObjectRange(Kind.DELTA, PARTITION),
        ]
    ),
    {"home": "shop"},
)


def test_staged_changes_round_trip() -> None:
    again = decode_work(encode_work(WORK), "here")
    assert again == WORK
    assert encode_work(again) == encode_work(WORK)


@given(st.data())
def test_the_error_for_damage_names_the_shared_transaction(data: st.DataObject) -> None:
    damaged: Any = json.loads(encode_work(WORK))
    at: Any = damaged
    while isinstance(at, dict | list) and at:
        keys = sorted(at) if isinstance(at, dict) else range(len(at))
        key = data.draw(st.sampled_from(list(keys)))
        if data.draw(st.booleans()) or not isinstance(at[key], dict | list):
            at[key] = data.draw(st.sampled_from([None, 7, "odd", [], {}, [1], {"x": 1}]))
            break
        at = at[key]
    try:
        decoded = decode_work(json.dumps(damaged).encode(), "shared transaction 'load'")
    except FormatError as refusal:
        if "shared transaction 'load'" not in str(refusal):
            raise
    else:
        assert decode_work(encode_work(decoded), "again") == decoded


def test_a_scan_without_a_valid_parent_is_rejected() -> None:
    damaged: Any = json.loads(encode_work(WORK))
    damaged["scans"][0][1] = []
    with pytest.raises(FormatError, match="shared transaction 'load'"):
        decode_work(json.dumps(damaged).encode(), "shared transaction 'load'")


@pytest.mark.parametrize("payload", [b"", b"{", b"[]", b"null", b"7", b"{}", b'{"form": 2}', b"\xff"])
def test_an_invalid_payload_is_rejected(payload: bytes) -> None:
    with pytest.raises(FormatError, match="shared transaction 'load'"):
        decode_work(payload, "shared transaction 'load'")
