"""Make a small lakehouse to look at: a shop's tables, written over a few weeks of made-up orders.

Run as `python examples/sample_lakehouse.py FOLDER`; a lakehouse that is there
already is left as it is. Everything is real: Parquet files with their statistics,
one commit for each load, a rename, a drop and a view.
"""

import io
import sys
from collections.abc import Iterator
from datetime import date, datetime, timedelta
from decimal import Decimal
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

import mangrove
from mangrove.lakehouse.lakehouse import Lakehouse
from mangrove.model.manifests import Author, ColumnStatistics, DataFile, Manifest
from mangrove.model.objects import Delta, DeltaType
from mangrove.model.settings import LakehouseSettings
from mangrove.model.values import Value, lower_bound, upper_bound

__all__ = ["make_sample"]

_DAYS = 12
_FIRST_DAY = date(2026, 11, 1)
_COUNTRIES = ("br", "de", "fr", "id", "in", "nl", "pt", "us")
_AUTHOR = Author("sample_lakehouse", "1")


def make_sample(uri: str, layout: str = "tree") -> Lakehouse:
    """Make the sample at a place that holds no lakehouse."""
    # A small order lets a small lakehouse grow a tree that is worth a look.
    lake = mangrove.create(uri, layout=layout, settings=LakehouseSettings("Mangrove shop", order=8))
    lake.create_namespace("sales", description="Orders and what was sold", properties={"owner": "ana"})
    lake.create_namespace("reference", description="Slow tables that others join")
    lake.create_namespace("staging")
    lake.create_table(
        "sales.orders",
        "order_id bigint not null comment 'given by the shop', customer string, country string, "
        "amount decimal(10,2), ts timestamp",
        keys=["order_id"],
        partition_by=["days(ts)"],
        sort_by=["ts"],
        description="One row for each order",
        properties={"owner": "ana", "retention": "3 years"},
    )
    lake.create_table("reference.countries", "code string not null, name string", keys=["code"])
    with lake.transaction(message="make room for raw loads", author="ana") as transaction:
        for number in range(1, 25):
            name, described = f"staging.load_{number:02}", f"Raw load {number}"
            transaction.create_table(name, "line bigint, body string", description=described)
    for number in range(_DAYS):
        _load_day(lake, _FIRST_DAY + timedelta(days=number), 1_000 * number)
    lake.create_view(
        "sales.daily",
        "select date(ts) as day, country, sum(amount) as amount\nfrom sales.orders\ngroup by date(ts), country",
        reads=["sales.orders"],
        description="What was sold each day",
    )
    lake.rename_table("staging.load_24", "staging.last_load")
    lake.drop_table("staging.load_01")
    lake.alter_table("sales.orders", {"retention": "5 years"})
    return lake


def _load_day(lake: Lakehouse, day: date, first_id: int) -> None:
    """Append a day's orders, and upsert a few of them once more when they are paid."""
    orders = list(_orders(day, first_id, 150 + _spread(day.day) % 250))
    with lake.transaction(message=f"load the orders of {day}", author="nightly load") as transaction:
        transaction.add_delta("sales.orders", (day,), _delta(lake, DeltaType.APPEND, orders, f"orders-{day}"))
    paid = [{**order, "amount": Decimal("9.99")} for order in orders[:: 9 + day.day]]
    with lake.transaction(message=f"correct the orders of {day}", author="ben") as transaction:
        transaction.add_delta("sales.orders", (day,), _delta(lake, DeltaType.UPSERT, paid, f"corrections-{day}"))


def _orders(day: date, first_id: int, count: int) -> Iterator[dict[str, object]]:
    for order_id in range(first_id, first_id + count):
        yield {
            "order_id": order_id,
            "customer": None if order_id % 50 == 0 else f"customer-{_spread(order_id) % 5_000:04}",
            "country": _COUNTRIES[_spread(order_id) % len(_COUNTRIES)],
            "amount": Decimal(100 + _spread(order_id) % 50_000) / 100,
            "ts": datetime(day.year, day.month, day.day) + timedelta(seconds=_spread(order_id) % 86_400),
        }


def _spread(number: int) -> int:
    """Return a number that looks arbitrary and is the same in every run."""
    return (number + 1) * 2_654_435_761 % 2**32 >> 8


def _delta(lake: Lakehouse, kind: DeltaType, orders: list[dict[str, object]], name: str) -> Delta:
    fields: list[tuple[str, pa.DataType]] = [
        ("order_id", pa.int64()),
        ("customer", pa.string()),
        ("country", pa.string()),
        ("amount", pa.decimal128(10, 2)),
        ("ts", pa.timestamp("us")),
    ]
    rows = pa.Table.from_pylist(orders, pa.schema(fields))
    written = io.BytesIO()
    pq.write_table(rows, written)
    data, path = written.getvalue(), f"data/orders/{name}.parquet"
    lake.effects.store.put(path, data)
    statistics = tuple(_statistics(place, rows.column(place - 1).to_pylist()) for place in range(1, 6))
    file = DataFile(path, len(data), len(orders), schema_id=0, statistics=statistics)
    return Delta(kind, Manifest((file,), author=_AUTHOR), author=_AUTHOR)


def _statistics(column_id: int, values: list[Value | None]) -> ColumnStatistics:
    known = [value for value in values if value is not None]
    return ColumnStatistics(
        column_id,
        null_count=len(values) - len(known),
        value_count=len(values),
        minimum=lower_bound(min(known)),
        maximum=upper_bound(max(known)),
    )


def main() -> None:
    """Make the sample in the folder that is named, unless it is there."""
    folder = Path(sys.argv[1]).resolve()
    if not any(folder.glob("_*.ipc")):
        make_sample(folder.as_uri())


if __name__ == "__main__":
    main()
