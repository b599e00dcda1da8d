"""The comparison with other systems: its report, its protocol and its command line."""

import json
import sys
from decimal import Decimal
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest
from benchmarks.peers import markdown, publish, svg
from benchmarks.peers.__main__ import main
from benchmarks.peers.client import Failed, Worker
from benchmarks.peers.comparison import Comparison, find_differences
from benchmarks.peers.environments import NotAvailable, prepare_python
from benchmarks.peers.parts.growth_curves import grow_commits, grow_tables
from benchmarks.peers.parts.s3_cost import compute_dollars
from benchmarks.peers.registry import System
from benchmarks.peers.results import Cell, Curve, PartResult, Report, Row, decode_report, encode_report
from benchmarks.peers.rows import digest_rows, make_rows, make_updates, write_rows
from benchmarks.peers.s3_proxy import S3Proxy
from benchmarks.peers.setting import Budget, OutOfTime, Setting, Sizes
from benchmarks.peers.systems.port import Place
from benchmarks.peers.systems.spark_tables import digest_answer
from tests.spark.conftest import SHORT_LIVED
from tests.support.s3_server import S3Server

from mangrove.storage.opening import open_store

SVG = "{http://www.w3.org/2000/svg}"


def build_part() -> PartResult:
    titles = {"mangrove": "Mangrove", "a": "System <A>", "b": "System B", "c": "System C"}
    cells = {
        "mangrove": Cell([30.0, 10.0, 20.0], [3.0, 1.0, 2.0]),
        "a": Cell([5.0, 6.0, 7.0], [1.5, 1.5, 1.5]),
        "b": Cell(reason="no scans"),
        "c": Cell(),
    }
    curve = Curve("append", "commits", points={"mangrove": [(1, 2.0), (100, 2.5)], "a": [(1, 2.0), (100, 2.6)]})
    part = PartResult("local", "Local", "Some rows.", titles, [Row("scan", cells=cells)], [curve])
    part.unavailable["c"] = "not installed: offline"
    return part


def build_report() -> Report:
    versions = {"a": {"a-package": "1.2"}}
    return Report("2026-01-02 03:04 UTC", {"cores": "2"}, versions, {"rows": 1_000}, [build_part()])


def test_a_report_round_trips_through_json() -> None:
    assert decode_report(encode_report(build_report())) == build_report()


def test_the_table_lists_medians_with_spread_and_marks_the_best_system() -> None:
    lines = markdown.render_part(build_part())
    assert "| scan, ms | 20.0 (10.0–30.0) | **6.00** (5.00–7.00) | – |" in lines
    assert "| scan, ms | 2.00 (1.00–3.00) | **1.50** (1.50–1.50) | – |" in lines


def test_missing_figures_and_systems_are_listed_with_their_reasons() -> None:
    lines = markdown.render_part(build_part())
    assert "* System B: no scans (scan)" in lines
    assert "* System C: not available: not installed: offline" in lines


def test_more_is_better_where_the_row_counts_commits() -> None:
    part = build_part()
    part.rows[0].higher_is_better = True
    assert any("**20.0** (10.0–30.0)" in line for line in markdown.render_part(part))


def test_the_report_names_date_machine_versions_and_sizes() -> None:
    text = markdown.render_report(build_report())
    for fact in ("2026-01-02 03:04 UTC", "cores 2", "a-package 1.2", "rows 1,000"):
        assert fact in text


def test_bars_are_in_proportion_and_one_per_figure() -> None:
    root = ElementTree.fromstring(svg.render_bars(build_part()))
    widths = [float(bar.attrib["width"]) for bar in root.iter(f"{SVG}rect")]
    assert len(widths) == 2
    assert widths[0] / widths[1] == pytest.approx(20 / 6, rel=0.01)
    assert "System <A>" in {text.text for text in root.iter(f"{SVG}text")}


def test_labels_of_curves_do_not_overlap() -> None:
    part = build_part()
    root = ElementTree.fromstring(svg.render_curve(part.curves[0], part.systems))
    places = [float(text.attrib["y"]) for text in root.iter(f"{SVG}text") if text.text in part.systems.values()]
    assert len(places) == 2
    assert abs(places[0] - places[1]) >= svg.LABEL_HEIGHT


def test_an_answer_that_differs_from_the_others_is_reported() -> None:
    assert find_differences("scan", {"a": 1, "b": 2, "c": 1}) == ["scan: b answered 2, not 1"]
    assert find_differences("scan", {}) == []


def test_updates_replace_existing_rows_spread_over_the_table() -> None:
    rows = make_rows(1_000)
    updates = make_updates(rows, 3, 20)
    ids: list[Any] = updates["id"].to_pylist()
    assert len({*ids}) == 20
    assert max(ids) - min(ids) == 950
    assert digest_rows(updates)["v"] > digest_rows(rows.take(updates["id"]))["v"]


def test_a_call_that_takes_too_long_ends_the_worker_and_the_next_call_starts_it_again(tmp_path: Path) -> None:
    worker = Worker("parquet", Path(sys.executable), Place(str(tmp_path), str(tmp_path / "data")))
    rows = write_rows(make_rows(10), tmp_path / "rows.arrow")
    try:
        worker.call("create", 60, table="t")
        with pytest.raises(Failed, match="stopped after 0 s"):
            worker.call("append", 0, table="t", rows=rows, times=1_000)
        with pytest.raises(Failed, match="no upserts"):
            worker.call("upsert", 60, table="t", rows=rows)
        with pytest.raises(Failed, match="FileNotFoundError"):
            worker.call("scan", 60, table="missing")
    finally:
        worker.stop()


def test_the_proxy_counts_requests_by_kind() -> None:
    with S3Server() as server, S3Proxy(server.endpoint, latency_millis=1) as proxy:
        store = open_store("s3://bucket/", {**server.options, "endpoint": proxy.endpoint})
        store.put("a/b", b"content")
        assert store.read("a/b") == b"content"
        assert [entry.path for entry in store.list("a/")] == ["a/b"]
    assert proxy.requests == {"PUT": 1, "GET": 1, "LIST": 1}


def test_request_costs_follow_the_price_list() -> None:
    assert compute_dollars({"PUT": 3, "LIST": 1, "GET": 10, "HEAD": 5, "DELETE": 7}) == pytest.approx(26e-6)


def test_a_growth_curve_has_each_power_of_ten_and_marks_where_a_system_stops(tmp_path: Path) -> None:
    worker = Worker("parquet", Path(sys.executable), Place(str(tmp_path), str(tmp_path / "data")))
    files = [write_rows(make_rows(3, first=3 * number), tmp_path / f"{number}.arrow") for number in range(2)]
    try:
        appends, lookups = grow_commits({"parquet": worker}, files, 10, Budget.of(60, 600))
        (creations, _) = grow_tables({"parquet": worker}, 10, Budget.of(0, 600))
    finally:
        worker.stop()
    assert [size for size, _ in appends.points["parquet"]] == [1, 10]
    assert [size for size, _ in lookups.points["parquet"]] == [1, 10]
    assert creations.ended["parquet"].startswith("ends before 10: ")


def test_growth_curves_end_with_the_time_of_the_part_and_systems_share_it(tmp_path: Path) -> None:
    worker = Worker("parquet", Path(sys.executable), Place(str(tmp_path), str(tmp_path / "data")))
    appends, lookups = grow_commits({"parquet": worker}, ["first", "later"], 1_000, Budget.of(60, 0))
    assert not appends.points
    assert appends.ended == lookups.ended == {"parquet": "ends before 1: the time limit of the part"}
    assert Budget.of(60, 1_000).limit_next() == 60
    assert 40 < Budget.of(600, 200).share(4).limit_next() <= 50


def test_an_operation_without_time_has_a_reason_unless_an_earlier_round_has_a_figure(tmp_path: Path) -> None:
    worker = Worker("parquet", Path(sys.executable), Place(str(tmp_path), str(tmp_path / "data")))
    result = PartResult("local", "Local", "", {"parquet": "bare Parquet"})
    try:
        Comparison(result, {"parquet": worker}, 0, Budget.of(60, 600)).measure("creation", "create", table="t")
        later = Comparison(result, {"parquet": worker}, 1, Budget.of(60, 0))
        later.prepare("create", table="u")
        later.measure("creation", "create", table="v")
        later.measure("scan", "scan", table="t")
    finally:
        worker.stop()
    creation, scan = (row.cells["parquet"] for row in result.rows)
    assert (len(creation.wall), creation.reason) == (1, "")
    assert (scan.wall, scan.reason) == ([], "the time limit of the part")


def test_an_unmeasured_operation_may_take_longer_but_not_longer_than_the_part() -> None:
    assert Budget.of(60, 1_000).limit_next(10) == 600
    assert Budget.of(60, 100).limit_next(10) <= 100
    with pytest.raises(OutOfTime):
        Budget.of(60, 0).limit_next()


def test_equal_answers_have_equal_digests_in_any_order() -> None:
    rows = [(1, 0.1 + 0.2, "a"), (2, Decimal("1.50"), None)]
    assert digest_answer(rows) == digest_answer([(2, 1.5, None), (1, 0.3, "a")])
    assert digest_answer(rows) != digest_answer([(1, 0.31, "a"), (2, 1.5, None)])
    assert digest_answer([("x" * 200,)]).startswith("1 rows, ")


def test_a_published_report_replaces_its_parts_between_the_markers_and_no_others() -> None:
    part = build_part()
    page = f"before\n{publish.BEGIN}\n\n### {part.title}\n\nold\n\n### Other part\n\nkept\n\n{publish.END}\nafter\n"
    newer = Report("2026-02-03", {}, {}, {}, [part])
    chosen = publish.select_parts([build_report(), newer])
    parts = {part.title: publish.render_published(report, part) for report, part in chosen}
    text = publish.replace_parts(page, parts)
    assert text.startswith(f"before\n{publish.BEGIN}\n\n### {part.title}\n\nMeasured on 2026-02-03")
    assert text.endswith(f"### Other part\n\nkept\n\n{publish.END}\nafter\n")
    assert "old" not in text
    assert "Measured on 2026-01-02" not in text
    assert "](pictures/peers-local.svg)" in text
    assert publish.replace_parts(text, parts) == text
    assert publish.replace_parts(text, {"New part": "### New part\n"}).endswith(
        f"kept\n\n### New part\n\n{publish.END}\nafter\n"
    )
    with pytest.raises(SystemExit, match="no section"):
        publish.replace_parts("a page", parts)


def test_a_system_that_cannot_be_installed_is_not_available(tmp_path: Path) -> None:
    system = System("Missing", "none:None", (str(tmp_path / "missing-1.0-py3-none-any.whl"),), (), "missing")
    with pytest.raises(NotAvailable, match="not installed: "):
        prepare_python(system, tmp_path)


def test_a_part_begins_no_round_that_would_exceed_its_time() -> None:
    assert [*Setting(Sizes(rounds=3), []).list_turns()] == [0, 1, 2]
    assert [*Setting(Sizes(rounds=3, total_seconds_max=0), []).list_turns()] == [0]


def test_a_curve_that_ends_early_is_extrapolated_and_says_so() -> None:
    curve = Curve("append", "commits", points={"a": [(1, 2.0), (100, 20.0)], "b": [(1, 5.0)]}, size_goal=10_000)
    lines = markdown.render_curve(curve, {"a": "A", "b": "B"})
    assert lines[-1] == "| 10,000, extrapolated | ≈ 200 | – |"
    curve.size_goal = 100
    assert lines[:-1] == markdown.render_curve(curve, {"a": "A", "b": "B"})


@pytest.mark.slow
@pytest.mark.xdist_group("spark-processes")
def test_the_spark_part_measures_every_row_with_equal_answers(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in SHORT_LIVED.items():
        monkeypatch.setenv(name, value)
    arguments = ["spark", "--systems", "spark-parquet,spark-mangrove", "--installed", "--rows", "2000", "--rounds", "1"]
    assert main([*arguments, "--folder", str(tmp_path), "--out", str(tmp_path / "out")]) == 0
    part = json.loads((tmp_path / "out" / "report.json").read_text("utf-8"))["parts"][0]
    assert part["unavailable"] == {}
    assert [row["what"] for row in part["rows"] if row["cells"]["spark-mangrove"]["reason"]] == []
    assert "── spark; remaining parts: none" in capsys.readouterr().out


@pytest.mark.slow
def test_the_local_part_measures_systems_with_equal_answers_and_writes_a_report(tmp_path: Path) -> None:
    arguments = ["local", "--systems", "parquet,mangrove", "--installed", "--rows", "1000", "--rounds", "2"]
    assert main([*arguments, "--folder", str(tmp_path), "--out", str(tmp_path / "out")]) == 0
    part = json.loads((tmp_path / "out" / "report.json").read_text("utf-8"))["parts"][0]
    rows = {row["what"]: row["cells"] for row in part["rows"]}
    assert len(rows["full scan"]["parquet"]["wall"]) == len(rows["compaction"]["mangrove"]["cpu"]) == 2
    assert rows["compaction"]["parquet"]["reason"] == "no upserts"
    assert part["differences"] == []
    assert {path.name for path in (tmp_path / "out").iterdir()} == {"report.json", "report.md", "local.svg"}
    assert [path.name for path in tmp_path.iterdir()] == ["out"]


def test_help_names_every_part_and_unknown_ones_are_refused(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["--help"])
    assert ended.value.code == 0
    assert "local, small, concurrency," in " ".join(capsys.readouterr().out.split())
    with pytest.raises(SystemExit) as ended:
        main(["locale"])
    assert ended.value.code == 2
    assert "unknown part 'locale'; expected some of local," in capsys.readouterr().err
