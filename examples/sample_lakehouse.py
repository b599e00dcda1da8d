"""Make a small lakehouse to look at: a shop's tables, loaded day by day, corrected, renamed, dropped.

Run as `python examples/sample_lakehouse.py FOLDER`; a lakehouse that is there
already is left as it is.
"""

import sys
from collections.abc import Iterator
from datetime import date, datetime, timedelta
from decimal import Decimal
from pathlib import Path

import mangrove
from mangrove.model.settings import LakehouseSettings

__all__ = ["make_sample"]

_DAYS = 10
_FIRST_DAY = date(2026, 11, 1)
_COUNTRIES = ("br", "de", "fr", "id", "in", "nl", "pt", "us")


def make_sample(uri: str, layout: str = "tree") -> mangrove.Lakehouse:
    """Make the sample at a place that holds no lakehouse."""
    # A small order lets a small lakehouse grow a tree that is worth a look.
    lake = mangrove.create(uri, layout=layout, settings=LakehouseSettings("Mangrove shop", order=8))
    lake.create_namespace("sales", description="Orders and what was sold", properties={"owner": "ana"})
    lake.create_namespace("reference", description="Slow tables that others join")
    lake.create_namespace("staging")
    lake.create_table(
        "sales.orders",
        "order_id bigint not null comment 'given by the shop', customer string, country string, "
        "amount decimal(10,2), day date, ts timestamp",
        keys=["day", "order_id"],
        partition_by=["day"],
        sort_by=["ts"],
        description="One row for each order",
        properties={"owner": "ana", "retention": "3 years"},
    )
    lake.create_table("reference.countries", "code string not null, name string", keys=["code"])
    lake.table("reference.countries").append([{"code": code, "name": code.upper()} for code in _COUNTRIES])
    with lake.transaction(message="make room for raw loads", author="ana") as transaction:
        for number in range(1, 25):
            name, described = f"staging.load_{number:02}", f"Raw load {number}"
            transaction.create_table(name, "line bigint, body string", description=described)
    for number in range(_DAYS):
        _load_day(lake, _FIRST_DAY + timedelta(days=number), 1_000 * number)
    lake.create_view(
        "sales.daily",
        "select day, country, sum(amount) as amount\nfrom sales.orders\ngroup by day, country",
        reads=["sales.orders"],
        description="What was sold each day",
    )
    lake.table("sales.orders").delete("country = 'nl' and amount > 400")
    lake.rename_table("staging.load_24", "staging.last_load")
    lake.drop_table("staging.load_01")
    lake.alter_table("sales.orders", {"retention": "5 years"})
    return lake


def _load_day(lake: mangrove.Lakehouse, day: date, first_id: int) -> None:
    """Append a day's orders, and correct a few of them."""
    orders = list(_orders(day, first_id, 150 + _spread(day.day) % 250))
    with lake.transaction(message=f"load the orders of {day}", author="nightly load") as transaction:
        transaction.table("sales.orders").append(orders)
    corrected = [{**order, "amount": Decimal("9.99")} for order in orders[:: 9 + day.day]]
    with lake.transaction(message=f"correct the orders of {day}", author="ben") as transaction:
        transaction.table("sales.orders").upsert(corrected)


def _orders(day: date, first_id: int, count: int) -> Iterator[dict[str, object]]:
    for order_id in range(first_id, first_id + count):
        yield {
            "order_id": order_id,
            "customer": None if order_id % 50 == 0 else f"customer-{_spread(order_id) % 5_000:04}",
            "country": _COUNTRIES[_spread(order_id) % len(_COUNTRIES)],
            "amount": Decimal(100 + _spread(order_id) % 50_000) / 100,
            "day": day,
            "ts": datetime(day.year, day.month, day.day) + timedelta(seconds=_spread(order_id) % 86_400),
        }


def _spread(number: int) -> int:
    """Return a number that looks arbitrary and is the same in every run."""
    return (number + 1) * 2_654_435_761 % 2**32 >> 8


def main() -> None:
    """Make the sample in the folder that is named, unless it is there."""
    folder = Path(sys.argv[1]).resolve()
    if not any(folder.glob("_*.ipc")):
        make_sample(folder.as_uri())


if __name__ == "__main__":
    main()
