"""The chapters of the demo that look back, ask, copy and tidy up."""

import shlex
import subprocess
import sys

from mangrove.cli import demo_shop as shop
from mangrove.cli.demo_tour import Tour, count
from mangrove.maintenance.progress import format_bytes

__all__ = ["check", "compaction", "export", "questions", "rollback", "storage", "time_travel"]


def time_travel(tour: Tour) -> int:
    """Upsert, delete too much, look back, and return the version before the mistake."""
    why = "An upsert moves customers to another city; then somebody deletes too much. The past can be read as it was."
    with tour.stage.chapter("Upsert, a mistake, and time travel", why) as facts:
        lake, stage = tour.lake, tour.stage
        moved = lake.table(shop.CUSTOMERS).to_arrow(where="city = 'Lima'").to_pylist()[:5]
        lake.table(shop.CUSTOMERS).upsert([{**row, "city": "Quito"} for row in moved])
        before = lake.version
        lake.table(shop.ORDERS).delete("amount < 100")
        stage.code(
            'lake.table("shop.orders").delete("amount < 100")   # meant: 10',
            f'lake.at({before}).table("shop.orders")                  # or a time',
        )
        orders = {
            f"version {before}": count(lake.at(before), shop.ORDERS),
            f"version {lake.version}, now": count(lake, shop.ORDERS),
        }
        stage.bars(orders, " orders")
        facts |= {"moved": len(moved), "version": before, "orders": list(orders.values())}
    return before


def rollback(tour: Tour, to: int) -> None:
    """Bring an earlier version back."""
    why = "The whole lakehouse as it was, as a new version. Nothing is lost by it, not even the mistake."
    with tour.stage.chapter("Rollback", why) as facts:
        lake = tour.lake
        lake.rollback(to=to)
        now = count(lake, shop.ORDERS)
        tour.stage.code(f"lake.rollback(to={to})")
        tour.stage.say(f"version {lake.version} holds {now:,} orders again", style="green")
        facts |= {"to": to, "version": lake.version, "is_as_before": now == count(lake.at(to), shop.ORDERS)}


_QUESTION = """\
select city, count(*) as orders, sum(amount) as revenue
from shop.orders join shop.customers using (customer_id)
group by city order by revenue desc"""


def questions(tour: Tour, before: int) -> None:
    """Ask in SQL, also about the past, and show how little is read."""
    why = "Any SQL that Spark knows. Its own reader scans the files; the catalog says which, and which not."
    with tour.stage.chapter("Ask it in SQL", why) as facts:
        lake, stage = tour.lake, tour.stage
        stage.code(*_QUESTION.splitlines())
        with stage.waiting("asking Spark"):
            found = lake.sql(_QUESTION).collect()
        cities = {row["city"]: float(row["revenue"]) for row in found}
        stage.bars(cities)
        past = f"select count(*) as orders from shop.orders version as of {before}"  # noqa: S608 - a number of ours
        stage.code(past)
        with stage.waiting("asking Spark"):
            then = lake.sql(past).collect()[0]["orders"]
        table = lake.table(shop.ORDERS)
        files, of_a_day = len(table.scan().plan.scans), len(table.scan(where=_day(shop.CRASHED_DAY)).plan.scans)
        stage.say(f"{then:,} orders. A question about one day would read {of_a_day} of {files} files.")
        facts |= {"cities": dict(cities), "then": then, "files": files, "files_for_a_day": of_a_day}


def export(tour: Tour) -> None:
    """Copy the lakehouse, and let another process open the copy."""
    why = "A named copy that needs nothing but itself. Here another process opens it, without Spark."
    with tour.stage.chapter("Export", why) as facts:
        lake, stage = tour.lake, tour.stage
        stage.code(f'lake.maintenance.export({str(tour.copy)!r}, name="year-end")')
        with stage.waiting("copying"):
            lake.maintenance.export(tour.copy, name="year-end", mode="full")
        words = ["read", str(tour.copy), shop.LEDGER, "--limit", "3"]
        stage.code(f"mangrove {shlex.join(words)}")
        stage.say(*_answer_of(words).splitlines(), style="dim")
        here, there = count(lake, shop.ORDERS), count(tour.open_copy(), shop.ORDERS)
        facts |= {"orders_here": here, "orders_there": there}


def compaction(tour: Tour) -> None:
    """Write many small files, and make few of them."""
    why = "A till commits every hour, so a day's rows lie in many small files. Compaction writes them anew, in few."
    with tour.stage.chapter("Compaction", why) as facts:
        lake, stage = tour.lake, tour.stage
        with stage.waiting("a day at the till"):
            for hour in shop.TILL_HOURS:
                shop.take_hour(lake, shop.TILL_DAY, hour)
        orders = lake.table(shop.ORDERS)
        before, rows = len(orders.scan(where=_day(shop.TILL_DAY)).plan.scans), count(lake, shop.ORDERS)
        with stage.waiting("compacting"):
            lake.maintenance.compact()
        after = len(orders.scan(where=_day(shop.TILL_DAY)).plan.scans)
        stage.code("lake.maintenance.compact()   # every table that needs it")
        stage.say("files to read for the orders of that day:")
        stage.bars({"before": before, "after": after})
        facts |= {
            "files_before": before, "files_after": after, "rows_before": rows, "rows_after": count(lake, shop.ORDERS),
        }  # fmt: skip


def check(tour: Tour) -> None:
    """Check everything."""
    why = "The fsck of a lakehouse: every rule, every file that any version reaches, every row counted."
    with tour.stage.chapter("Check", why) as facts:
        with tour.stage.waiting("checking"):
            report = tour.lake.maintenance.check()
        tour.stage.say(str(report), style="green" if report.is_sound else "red")
        facts |= {"is_sound": report.is_sound, "report": str(report)}


def storage(tour: Tour) -> None:
    """Show what lies in the folder."""
    why = "Nothing but files, and none of them is ever changed: new versions only add some."
    with tour.stage.chapter("What is on storage", why) as facts:
        kinds = {
            "data files, Parquet": "data/**/*.parquet",
            "roots of the tree, one for each version": "_[01]*.ipc",
            "other nodes of the tree": "*/*/*/*-node-*.ipc",
            "definitions of tables, schemas, deltas": "**/*.binpb",
            "all files": "**/*",
        }
        sizes = {
            kind: [path.stat().st_size for path in tour.folder.glob(pattern) if path.is_file()]
            for kind, pattern in kinds.items()
        }
        tour.stage.rows(
            ("files", "of which kind", "size"),
            [(len(found), kind, format_bytes(sum(found))) for kind, found in sizes.items() if found],
        )
        facts |= {kind: len(found) for kind, found in sizes.items()}


def _day(day: int) -> str:
    return f"days(ts) = '{shop.date_of(day)}'"


def _answer_of(words: list[str]) -> str:
    """Return what another process of ours answers."""
    code = "from mangrove.cli.main import main; main()"
    command = [sys.executable, "-c", code, *words]
    return subprocess.run(command, capture_output=True, check=True, encoding="utf-8").stdout  # noqa: S603 - our own
