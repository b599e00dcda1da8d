"""Lakehouses that the Java programs and DeltaCAT wrote are converted with all their versions, and back."""

from pathlib import Path

import pytest

from mangrove.effects import build_effects
from mangrove.errors import InvalidInputError
from mangrove.lakehouse.maintenance import build_conversion_target
from mangrove.lakehouse.opening import open_on_store
from mangrove.maintenance.context import MaintenanceContext
from mangrove.maintenance.convert.conversion import ConvertReport, convert_lakehouse
from mangrove.maintenance.export import ExportMode, export_version
from mangrove.storage.memory import MemoryStore
from mangrove.storage.opening import open_store
from mangrove.storage.port import Store
from mangrove.testing.effects import build_deterministic_effects

FIXTURES = Path(__file__).with_name("fixtures")


def _source(name: str) -> MaintenanceContext:
    return open_on_store(build_effects(open_store((FIXTURES / name).as_uri()))).maintenance.context()


def _again(store: Store, layout: str) -> MaintenanceContext:
    effects = build_deterministic_effects(store)
    found = build_conversion_target(store, layout).open(effects)
    assert found is not None
    return MaintenanceContext(effects, found, found)


def _sound(report: ConvertReport) -> ConvertReport:
    assert report.is_sound, str(report)
    return report


@pytest.mark.parametrize("layout", ["tree", "tree-older", "deltacat", "deltacat-2"])
@pytest.mark.parametrize(
    ("name", "versions", "held"),
    [
        ("deltacat-2", 15, {"namespace": 2, "table": 2, "table version": 2, "stream": 2, "partition": 3, "delta": 3}),
        ("olympia-java", 3, {"namespace": 1, "table": 1}),
        ("trinitylake-java", 3, {"namespace": 1, "table": 2}),
    ],
)
def test_lakehouses_of_other_programs_are_converted_version_by_version(
    name: str, versions: int, held: dict[str, int], layout: str
) -> None:
    store = MemoryStore("memory://converted/")
    report = _sound(convert_lakehouse(_source(name), build_conversion_target(store, layout)))
    assert report.versions == versions
    lost = {"the field compactionRoundCompletionInfo", "the type of properties that are not strings"}
    kinds = {note.partition(" is not supported")[0] for note in report.notes}
    assert kinds == (lost if name == "deltacat-2" else set())
    assert {kind: count for kind, count in report.comparison.objects.items() if count} == held
    back = _sound(
        convert_lakehouse(_again(store, layout), build_conversion_target(MemoryStore("memory://back/"), "tree"))
    )
    assert (back.versions, back.comparison.rows) == (versions, report.comparison.rows)


@pytest.mark.parametrize("name", ["olympia-java", "trinitylake-java"])
def test_exporting_a_read_only_lakehouse_writes_nothing_to_it(name: str) -> None:
    source = _source(name)
    before = sorted(path for path in (FIXTURES / name).rglob("*") if path.is_file())
    store = MemoryStore("memory://copy/")
    report = export_version(source, store, "copy")
    assert not report.is_kept
    assert sorted(path for path in (FIXTURES / name).rglob("*") if path.is_file()) == before
    copy = open_on_store(build_deterministic_effects(store))
    assert copy.version == source.metastore.latest().version
    assert [space.name for space in copy.namespaces()] == [
        space.name for space in open_on_store(source.effects).namespaces()
    ]
    with pytest.raises(InvalidInputError, match="use a full export"):
        export_version(source, MemoryStore("memory://other/"), "copy", mode=ExportMode.MINIMAL)
