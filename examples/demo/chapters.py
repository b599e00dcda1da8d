"""The chapters of the demo: one commit, a crash, a conflict, time travel, SQL, export and maintenance."""

import shlex
import signal
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import shop
from presenter import Presenter

import mangrove
from mangrove.lakehouse.catalog import Catalog
from mangrove.lakehouse.transaction import Transaction
from mangrove.maintenance.progress import format_bytes

__all__ = ["Tour", "present_chapters"]


@dataclass(frozen=True, slots=True)
class Tour:
    """What every chapter needs: the output, the lakehouse, the folders, and how Spark is started."""

    presenter: Presenter
    lake: mangrove.Lakehouse
    folder: Path
    copy: Path
    start_spark: Callable[[], Any]


def present_chapters(tour: Tour) -> None:
    """Run all chapters in order."""
    create_tables(tour)
    spark = load_with_spark(tour)
    close_days(tour, spark)
    kill_job(tour)
    resolve_conflict(tour)
    version_before_mistake = travel_in_time(tour)
    roll_back(tour, version_before_mistake)
    query_in_sql(tour, version_before_mistake)
    export_copy(tour)
    compact_files(tour)
    check_lakehouse(tour)
    list_files(tour)


def create_tables(tour: Tour) -> None:
    """Create the namespaces and tables."""
    why = "No server, no database, no lock service. One commit creates two namespaces and four tables."
    with tour.presenter.chapter("A lakehouse is a folder", why) as results:
        version = shop.create_tables(tour.lake)
        tour.presenter.code(f"lake = mangrove.create({str(tour.folder)!r})")
        tour.presenter.rows(("table", "columns"), list(shop.COLUMNS.items()))
        results |= {"version": version, "tables": list(shop.COLUMNS)}


def load_with_spark(tour: Tour) -> Any:
    """Start Spark, load the first days, and return the session."""
    why = "No JAR is needed, and pip installs Java if the machine has none. Small writes do not need Spark."
    with tour.presenter.chapter("Spark is the engine", why) as results:
        with tour.presenter.waiting("starting Spark"):
            spark = tour.start_spark()
        tour.presenter.say(f"Spark {spark.version} runs on {spark.sparkContext.defaultParallelism} cores.")
        with tour.presenter.waiting(f"loading {shop.DAYS_BEFORE} days"):
            version = shop.load_with_spark(tour.lake, spark)
        tour.presenter.code(
            "with lake.transaction() as txn:",
            '    txn.table("shop.orders").append(spark_data_frame)',
            '    txn.table("shop.customers").append(list_of_rows)   # and two more',
        )
        _print_tables(tour)
        results |= {"version": version, "spark": spark.version, "orders": _count_rows(tour.lake, shop.ORDERS)}
    return spark


def close_days(tour: Tour, spark: Any) -> None:
    """Close days, each in one transaction."""
    why = "Each night one transaction updates orders, stock, points and the ledger: all of them or none."
    with tour.presenter.chapter("Four tables, one commit", why) as results:
        versions: list[int] = []
        for day in shop.NIGHTS:
            with tour.presenter.waiting(f"closing {shop.get_date(day)}"):
                versions.append(shop.close_day_with_spark(tour.lake, spark, day))
        tour.presenter.say("In every version the ledger equals the sum of the orders:")
        lines = reversed(list(tour.lake.history(limit=len(versions) + 1)))
        booked = [(line, *shop.sum_orders_and_ledger(tour.lake.at(line.version))) for line in lines]
        tour.presenter.rows(
            ("version", "author", "message", "sum of orders", "ledger"),
            [(line.version, line.author, line.message, ordered, ledger) for line, ordered, ledger in booked],
        )
        results |= {"versions": list(versions), "agrees": all(ordered == ledger for _, ordered, ledger in booked)}


def kill_job(tour: Tour) -> None:
    """Kill a job half-way, show that nothing changed, vacuum its files and run it again."""
    why = "A job in its own process writes two of four tables and is killed with SIGKILL."
    with tour.presenter.chapter("A crash changes nothing", why) as results:
        lake, say = tour.lake, tour.presenter.say
        before, orders = lake.version, _count_rows(lake, shop.ORDERS)
        with tour.presenter.waiting("running a job and killing it"):
            code = _run_and_kill_job(lake.uri, shop.CRASHED_DAY)
        after, left = lake.version, lake.maintenance.vacuum(dry_run=True, alone=True)
        say(f"The job reported “{shop.HALF_DONE}” and was killed (exit code {code}).")
        now = _count_rows(lake, shop.ORDERS)
        say(f"version: {before} before, {after} after; orders: {orders:,} before, {now:,} after")
        say(f"It left {len(left.paths)} unreferenced files. Vacuum deletes them, and the job runs again.")
        lake.maintenance.vacuum(alone=True)
        day = shop.CRASHED_DAY
        lake.run(lambda txn: shop.close_day(txn, day), "serializable", message=f"close {shop.get_date(day)}")
        agrees = len(set(shop.sum_orders_and_ledger(lake))) == 1
        verdict = "agrees" if agrees else "DISAGREES"
        say(
            f"version {lake.version}: {_count_rows(lake, shop.ORDERS):,} orders, and the ledger {verdict}",
            style="green",
        )
        results |= {"exit_code": code, "version_before": before, "version_after": after}
        results |= {"files_left": len(left.paths), "agrees": agrees}


def resolve_conflict(tour: Tour) -> None:
    """Let two sessions sell from the same stock, and retry the one that is refused."""
    why = "Two sessions sell lamps at the same time. Both read the stock, so only one of them can commit."
    with tour.presenter.chapter("Conflicts are detected and retried", why) as results:
        lake, presenter = tour.lake, tour.presenter
        before = _count_lamps(lake)
        web = lake.transaction("serializable", message="web shop sells 2 lamps", author="web shop")
        till = lake.transaction("serializable", message="till sells 1 lamp", author="till")
        _sell(web, 2)
        _sell(till, 1)
        web.commit()
        try:
            till.commit()
        except mangrove.ConflictError as error:
            presenter.say("The web shop commits. The till is refused:", style="red")
            presenter.say(str(error), style="dim")
            results["refused"] = str(error)
        presenter.say("`lake.run` retries on the newest version:")
        presenter.code('lake.run(sell_one_lamp, "serializable")')
        lake.run(lambda txn: _sell(txn, 1), "serializable", message="till sells 1 lamp", author="till")
        after = _count_lamps(lake)
        presenter.say(f"lamps: {before:,} before, {after:,} after: both sales are booked", style="green")
        results |= {"lamps_before": before, "lamps_after": after}


def travel_in_time(tour: Tour) -> int:
    """Upsert, delete too much, read the earlier version, and return the version before the mistake."""
    why = "An upsert moves customers to another city; then a delete removes too much. Earlier versions stay readable."
    with tour.presenter.chapter("Upsert, a mistake, and time travel", why) as results:
        lake, presenter = tour.lake, tour.presenter
        moved = lake.table(shop.CUSTOMERS).to_arrow(where="city = 'Lima'").to_pylist()[:5]
        lake.table(shop.CUSTOMERS).upsert([{**row, "city": "Quito"} for row in moved])
        before = lake.version
        lake.table(shop.ORDERS).delete("amount < 100")
        presenter.code(
            'lake.table("shop.orders").delete("amount < 100")   # meant: 10',
            f'lake.at({before}).table("shop.orders")                  # or a timestamp',
        )
        orders = {
            f"version {before}": _count_rows(lake.at(before), shop.ORDERS),
            f"version {lake.version}, now": _count_rows(lake, shop.ORDERS),
        }
        presenter.bars(orders, " orders")
        results |= {"moved": len(moved), "version": before, "orders": list(orders.values())}
    return before


def roll_back(tour: Tour, to: int) -> None:
    """Restore an earlier version."""
    why = "A new version restores the whole lakehouse. The history keeps everything, also the mistake."
    with tour.presenter.chapter("Rollback", why) as results:
        lake = tour.lake
        lake.rollback(to=to)
        now = _count_rows(lake, shop.ORDERS)
        tour.presenter.code(f"lake.rollback(to={to})")
        tour.presenter.say(f"version {lake.version} holds {now:,} orders again", style="green")
        results |= {"to": to, "version": lake.version, "is_as_before": now == _count_rows(lake.at(to), shop.ORDERS)}


_QUERY = """\
select city, count(*) as orders, sum(amount) as revenue
from shop.orders join shop.customers using (customer_id)
group by city order by revenue desc"""


def query_in_sql(tour: Tour, before: int) -> None:
    """Query in SQL, also as of an earlier version, and show file pruning."""
    why = "Any Spark SQL. Spark's own Parquet reader scans the files that are left after pruning."
    with tour.presenter.chapter("Query it in SQL", why) as results:
        lake, presenter = tour.lake, tour.presenter
        presenter.code(*_QUERY.splitlines())
        with presenter.waiting("running the query"):
            found = lake.sql(_QUERY).collect()
        cities = {row["city"]: float(row["revenue"]) for row in found}
        presenter.bars(cities)
        past = f"select count(*) as orders from shop.orders version as of {before}"  # noqa: S608
        presenter.code(past)
        with presenter.waiting("running the query"):
            then = lake.sql(past).collect()[0]["orders"]
        table = lake.table(shop.ORDERS)
        files, of_a_day = len(table.scan().plan.scans), len(table.scan(where=_filter_day(shop.CRASHED_DAY)).plan.scans)
        presenter.say(f"{then:,} orders. A query for one day reads {of_a_day} of {files} files.")
        results |= {"cities": dict(cities), "then": then, "files": files, "files_for_a_day": of_a_day}


def export_copy(tour: Tour) -> None:
    """Export a full copy, and open it in another process."""
    why = "A named, self-contained copy. Another process opens it here, without Spark."
    with tour.presenter.chapter("Export", why) as results:
        lake, presenter = tour.lake, tour.presenter
        presenter.code(f'lake.maintenance.export({str(tour.copy)!r}, name="year-end")')
        with presenter.waiting("copying"):
            lake.maintenance.export(tour.copy, name="year-end", mode="full")
        words = ["read", str(tour.copy), shop.LEDGER, "--limit", "3"]
        presenter.code(f"mangrove {shlex.join(words)}")
        presenter.say(*_run_cli(words).splitlines(), style="dim")
        here, there = _count_rows(lake, shop.ORDERS), _count_rows(mangrove.open(tour.copy), shop.ORDERS)
        results |= {"orders_here": here, "orders_there": there}


def compact_files(tour: Tour) -> None:
    """Write many small files, and compact them."""
    why = "A till commits every hour, so a day is stored in many small files. Compaction rewrites them into few."
    with tour.presenter.chapter("Compaction", why) as results:
        lake, presenter = tour.lake, tour.presenter
        with presenter.waiting("a day at the till"):
            for hour in shop.TILL_HOURS:
                shop.book_till_hour(lake, shop.TILL_DAY, hour)
        orders = lake.table(shop.ORDERS)
        before, rows = len(orders.scan(where=_filter_day(shop.TILL_DAY)).plan.scans), _count_rows(lake, shop.ORDERS)
        with presenter.waiting("compacting"):
            lake.maintenance.compact()
        after = len(orders.scan(where=_filter_day(shop.TILL_DAY)).plan.scans)
        presenter.code("lake.maintenance.compact()   # every table with small files")
        presenter.say("files to read for the orders of that day:")
        presenter.bars({"before": before, "after": after})
        results |= {"files_before": before, "files_after": after}
        results |= {"rows_before": rows, "rows_after": _count_rows(lake, shop.ORDERS)}


def check_lakehouse(tour: Tour) -> None:
    """Check the whole lakehouse."""
    why = "Like fsck: verifies every invariant, every file that a version references, and every row count."
    with tour.presenter.chapter("Check", why) as results:
        with tour.presenter.waiting("checking"):
            report = tour.lake.maintenance.check()
        tour.presenter.say(str(report), style="green" if report.is_sound else "red")
        results |= {"is_sound": report.is_sound, "report": str(report)}


def list_files(tour: Tour) -> None:
    """List the files in the folder by kind."""
    why = "Immutable files only: a new version adds files and changes none."
    with tour.presenter.chapter("What is on storage", why) as results:
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
        tour.presenter.rows(
            ("files", "kind", "size"),
            [(len(found), kind, format_bytes(sum(found))) for kind, found in sizes.items() if found],
        )
        results |= {kind: len(found) for kind, found in sizes.items()}


def _print_tables(tour: Tour) -> None:
    rows = []
    for name in shop.COLUMNS:
        files = [scan.file for scan in tour.lake.table(name).scan().plan.scans]
        size = format_bytes(sum(file.size_bytes for file in files))
        rows.append((name, sum(file.row_count for file in files), len(files), size))
    tour.presenter.rows(("table", "rows", "files", "size"), rows)


def _count_rows(catalog: Catalog, name: str) -> int:
    table = catalog.table(name)
    return int(table.to_arrow([table.keys[0]]).num_rows)


def _count_lamps(catalog: Catalog) -> int:
    return int(catalog.table(shop.INVENTORY).to_arrow(where="product = 'lamp'").to_pylist()[0]["pieces"])


def _sell(txn: Transaction, pieces: int) -> None:
    txn.table(shop.INVENTORY).upsert([{"product": "lamp", "pieces": _count_lamps(txn) - pieces}])


def _run_and_kill_job(uri: str, day: int) -> int:
    """Start a job, kill it when half of its work is written, and return its exit code."""
    command = [sys.executable, shop.__file__, uri, str(day)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as job:  # noqa: S603 - our own
        assert job.stdout is not None
        job.stdout.readline()
        job.send_signal(signal.SIGKILL)
    return job.returncode


def _filter_day(day: int) -> str:
    return f"days(ts) = '{shop.get_date(day)}'"


def _run_cli(words: list[str]) -> str:
    """Return the output of the `mangrove` command in another process."""
    code = "from mangrove.cli.main import main; main()"
    command = [sys.executable, "-c", code, *words]
    return subprocess.run(command, capture_output=True, check=True, encoding="utf-8").stdout  # noqa: S603 - our own
