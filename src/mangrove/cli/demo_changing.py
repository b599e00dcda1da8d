"""The chapters of the demo in which something changes: one commit, a crash, a conflict."""

import signal
import subprocess
import sys
from typing import Any

from mangrove.cli import demo_shop as shop
from mangrove.cli.demo_crash import HALF_DONE
from mangrove.cli.demo_tour import Tour, count
from mangrove.errors import ConflictError
from mangrove.lakehouse.catalog import Catalog
from mangrove.lakehouse.transaction import LakeTransaction
from mangrove.maintenance.progress import format_bytes

__all__ = ["a_folder", "conflict", "crash", "four_tables_one_commit", "spark_loads"]


def a_folder(tour: Tour) -> None:
    """Make the namespaces and tables."""
    why = "No server, no database, no lock service. Two namespaces and four tables are made in one commit."
    with tour.stage.chapter("A lakehouse is a folder", why) as facts:
        version = shop.build(tour.lake)
        tour.stage.code(f"lake = mangrove.create({str(tour.folder)!r})")
        tour.stage.rows(("table", "columns"), list(shop.COLUMNS.items()))
        facts |= {"version": version, "tables": list(shop.COLUMNS)}


def spark_loads(tour: Tour) -> Any:
    """Start Spark, load the first days, and return the session."""
    why = "No JAR, and Java comes with pip where the machine has none. Small rows can be written without Spark."
    with tour.stage.chapter("Spark is the engine", why) as facts:
        with tour.stage.waiting("starting Spark"):
            spark = tour.start_spark()
        tour.stage.say(f"Spark {spark.version} runs on {spark.sparkContext.defaultParallelism} cores.")
        with tour.stage.waiting(f"loading {shop.DAYS_BEFORE} days"):
            version = shop.load_in_spark(tour.lake, spark)
        tour.stage.code(
            "with lake.transaction() as txn:",
            '    txn.table("shop.orders").append(spark_data_frame)',
            '    txn.table("shop.customers").append(list_of_rows)   # and two more',
        )
        _show_tables(tour)
        facts |= {"version": version, "spark": spark.version, "orders": count(tour.lake, shop.ORDERS)}
    return spark


def four_tables_one_commit(tour: Tour, spark: Any) -> None:
    """Close days, each in one transaction."""
    why = "Each night books orders, stock, points and the ledger. They change together, or not at all."
    with tour.stage.chapter("Four tables, one commit", why) as facts:
        versions: list[int] = []
        for day in shop.NIGHTS:
            with tour.stage.waiting(f"closing {shop.date_of(day)}"):
                versions.append(shop.close_day_in_spark(tour.lake, spark, day))
        tour.stage.say("In every version the ledger says what the orders come to:")
        lines = reversed(list(tour.lake.history(limit=len(versions) + 1)))
        booked = [(line, *shop.booked(tour.lake.at(line.version))) for line in lines]
        tour.stage.rows(
            ("version", "by", "what", "orders come to", "ledger says"),
            [(line.version, line.author, line.message, ordered, says) for line, ordered, says in booked],
        )
        facts |= {"versions": list(versions), "agrees": all(ordered == says for _, ordered, says in booked)}


def crash(tour: Tour) -> None:
    """Kill a job half-way, look, sweep, and run it again."""
    why = "A job in a process of its own writes two of four tables, and is then killed with SIGKILL."
    with tour.stage.chapter("A crash changes nothing", why) as facts:
        lake, say = tour.lake, tour.stage.say
        before, orders = lake.version, count(lake, shop.ORDERS)
        with tour.stage.waiting("letting a job die"):
            code = _killed_job(lake.uri, shop.CRASHED_DAY)
        after, left = lake.version, lake.maintenance.vacuum(dry_run=True, alone=True)
        say(f"The job said “{HALF_DONE}”, and was killed (exit code {code}).")
        say(f"version: {before} before, {after} after; orders: {orders:,} before, {count(lake, shop.ORDERS):,} after")
        say(f"It left {len(left.paths)} files that no version names. Vacuum sweeps them, and the job runs again.")
        lake.maintenance.vacuum(alone=True)
        day = shop.CRASHED_DAY
        lake.run(lambda txn: shop.close_day(txn, day), "serializable", message=f"close {shop.date_of(day)}")
        agrees = len(set(shop.booked(lake))) == 1
        said = "agrees" if agrees else "DISAGREES"
        say(f"version {lake.version}: {count(lake, shop.ORDERS):,} orders, and the ledger {said}", style="green")
        facts |= {
            "exit_code": code, "version_before": before, "version_after": after, "files_left": len(left.paths),
            "agrees": agrees,
        }  # fmt: skip


def conflict(tour: Tour) -> None:
    """Let two sessions sell from the same stock."""
    why = "Two sessions sell lamps at the same time. Both read the stock; only one may write what it makes of that."
    with tour.stage.chapter("Rivals are told, and try again", why) as facts:
        lake, stage = tour.lake, tour.stage
        before = _lamps(lake)
        web = lake.transaction("serializable", message="web shop sells 2 lamps", author="web shop")
        till = lake.transaction("serializable", message="till sells 1 lamp", author="till")
        _sell(web, 2)
        _sell(till, 1)
        web.commit()
        try:
            till.commit()
        except ConflictError as error:
            stage.say("The web shop commits. The till is refused:", style="red")
            stage.say(str(error), style="dim")
            facts["refused"] = str(error)
        stage.say("`lake.run` repeats the work on the newest version:")
        stage.code('lake.run(sell_one_lamp, "serializable")')
        lake.run(lambda txn: _sell(txn, 1), "serializable", message="till sells 1 lamp", author="till")
        after = _lamps(lake)
        stage.say(f"lamps: {before:,} before, {after:,} after: both sales count", style="green")
        facts |= {"lamps_before": before, "lamps_after": after}


def _show_tables(tour: Tour) -> None:
    rows = []
    for name in shop.COLUMNS:
        files = [scan.file for scan in tour.lake.table(name).scan().plan.scans]
        size = format_bytes(sum(file.size_bytes for file in files))
        rows.append((name, sum(file.row_count for file in files), len(files), size))
    tour.stage.rows(("table", "rows", "files", "size"), rows)


def _lamps(catalog: Catalog) -> int:
    return int(catalog.table(shop.INVENTORY).to_arrow(where="product = 'lamp'").to_pylist()[0]["pieces"])


def _sell(txn: LakeTransaction, pieces: int) -> None:
    txn.table(shop.INVENTORY).upsert([{"product": "lamp", "pieces": _lamps(txn) - pieces}])


def _killed_job(uri: str, day: int) -> int:
    """Let a job write half of its work, kill it as a power cut would, and return how it ended."""
    command = [sys.executable, "-m", "mangrove.cli.demo_crash", uri, str(day)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as job:  # noqa: S603 - our own
        assert job.stdout is not None
        job.stdout.readline()
        job.send_signal(signal.SIGKILL)
    return job.returncode
