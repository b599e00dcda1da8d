"""Part `tpch`: the 22 queries of TPC-H on Spark."""

from benchmarks.peers.comparison import Comparison
from benchmarks.peers.parts.spark_dml import SYSTEMS
from benchmarks.peers.results import PartResult
from benchmarks.peers.setting import Setting
from benchmarks.tpch import QUERIES, TABLES, generate

TOTAL = "all queries"


def run(setting: Setting) -> PartResult:
    """Measure each query on all systems before the next one."""
    scale = setting.sizes.scale
    result = setting.begin(
        "tpch",
        "TPC-H on Spark",
        f"Scale factor {scale:g}; each query runs once to warm up. The first row adds the shortest times of all.",
        SYSTEMS,
    )
    with setting.folder() as folder, setting.workers(result, folder) as workers:
        generate(folder / "files", scale)
        loading = Comparison(result, workers, 0, setting.budget)
        for table in TABLES:
            loading.prepare("load_files", table=table, path=str(folder / "files" / f"{table}.parquet"))
        for query in QUERIES:
            loading.prepare("query", sql=query)
        for turn in setting.list_turns():
            comparison = Comparison(result, workers, turn, setting.budget)
            for number, query in enumerate(QUERIES, start=1):
                comparison.measure(f"query {number}", "query", sql=query)
    add_totals(result)
    return result


def add_totals(result: PartResult) -> None:
    """Add a first row with the sum of the shortest times of all queries."""
    queries = [*result.rows]
    total = result.row(TOTAL)
    for name, cell in total.cells.items():
        cells = [row.cells[name] for row in queries]
        if all(one.wall for one in cells):
            cell.wall.append(sum(min(one.wall) for one in cells))
            cell.cpu.append(sum(min(one.cpu) for one in cells))
        elif name not in result.unavailable:
            cell.reason = "not all queries have an answer"
    result.rows = [total, *queries]
