"""Part `spark`: appends, queries, DELETE, UPDATE, MERGE and compaction on Spark."""

from benchmarks.peers.comparison import Comparison
from benchmarks.peers.results import PartResult
from benchmarks.peers.setting import Setting

SYSTEMS = ("spark-parquet", "spark-mangrove", "spark-delta", "spark-iceberg")
MERGED_SHARE = 50
"""A MERGE has one row for this many of the table."""
MERGES = 6
WARM_UP_ROWS = 10_000
AGGREGATE = "select status, count(*), sum(amount), avg(weight), max(ts) from {table} group by status"
MERGE = (
    "merge into {table} as t using source as s on t.id = s.id "
    "when matched then update set {matched} when not matched then insert *"
)


def run(setting: Setting) -> PartResult:
    """Measure one new table per round and system; the sessions stay."""
    rows = setting.sizes.rows
    result = setting.begin(
        "spark",
        "Rows on Spark",
        f"One table of {rows:,} rows and 8 columns, ordered by `id` and `day`, in one Spark session per system with "
        f"the same settings. DELETE and UPDATE change 1 % of the rows, spread over all files; a MERGE has "
        f"{rows // MERGED_SHARE:,} rows, a tenth of them new.",
        SYSTEMS,
    )
    unmeasured = setting.begin(result.name, "Warm-up", "", SYSTEMS)
    with setting.folder() as folder, setting.workers(result, folder) as workers:
        run_round(Comparison(unmeasured, workers, 0, setting.budget), "warm", WARM_UP_ROWS)
        for turn in setting.list_turns():
            run_round(Comparison(result, workers, turn, setting.budget), f"t{turn}", rows)
    return result


def run_round(comparison: Comparison, table: str, rows: int) -> None:
    """Measure every row of the part once."""
    merged = rows // MERGED_SHARE

    def merge(number: int, matched: str = "*") -> dict[str, str]:
        comparison.prepare("prepare_source", total=rows, number=number, count=merged)
        return {"operation": "execute", "sql": MERGE.format(table=table, matched=matched)}

    comparison.prepare("create_like", table=table, total=rows)
    comparison.measure("append", "append_generated", table=table, total=rows)
    aggregate = AGGREGATE.format(table=table)
    comparison.measure("aggregate", "query", sql=aggregate)
    comparison.measure("count(*)", "query", sql=f"select count(*) from {table}")
    comparison.measure("one day of 365", "query", sql=f"select count(*), sum(amount) from {table} where day = 200")
    comparison.measure("one row by id", "query", sql=f"select * from {table} where id = {rows // 3}")
    comparison.measure("DELETE of 1 %", "execute", sql=f"delete from {table} where customer % 100 = 7")
    comparison.measure(
        "UPDATE of 1 %", "execute", sql=f"update {table} set amount = amount + 1 where customer % 100 = 11"
    )
    first = "MERGE as an upsert"
    comparison.measure(first, **merge(0))
    matched = "amount = t.amount + s.amount, name = s.name"
    comparison.measure("MERGE with expressions", **merge(1, matched))
    for number in range(2, MERGES):
        comparison.prepare(**merge(number))
    comparison.measure(f"aggregate after {MERGES} merges", "query", first, sql=aggregate)
    comparison.measure("compaction", "compact", first, table=table)
    comparison.measure("aggregate after compaction", "query", "compaction", sql=aggregate)
