"""Lakehouses that the Java programs and DeltaCAT wrote are converted with all their versions, and back."""

from pathlib import Path

import pytest

from mangrove.effects import real_effects
from mangrove.errors import InvalidInputError
from mangrove.lakehouse.converting import place_at
from mangrove.lakehouse.opening import open_on
from mangrove.maintenance.convert import ConvertReport, convert
from mangrove.maintenance.export import ExportMode, export
from mangrove.maintenance.maintained import Maintained
from mangrove.storage.memory import MemoryStore
from mangrove.storage.opening import open_store
from mangrove.storage.port import Store
from mangrove.testing.effects import repeatable_effects

FIXTURES = Path(__file__).with_name("fixtures")


def _source(name: str) -> Maintained:
    return open_on(real_effects(open_store((FIXTURES / name).as_uri()))).maintained()


def _again(store: Store, layout: str) -> Maintained:
    effects = repeatable_effects(store)
    found = place_at(store, layout).open(effects)
    assert found is not None
    return Maintained(effects, found, found)


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
def test_what_another_program_wrote_becomes_ours_version_by_version(
    name: str, versions: int, held: dict[str, int], layout: str
) -> None:
    store = MemoryStore("memory://converted/")
    report = _sound(convert(_source(name), place_at(store, layout)))
    assert report.versions == versions
    lost = {"the field compactionRoundCompletionInfo", "the type of properties that are no text"}
    assert {note.partition(" has no place")[0] for note in report.notes} == (lost if name == "deltacat-2" else set())
    assert {kind: count for kind, count in report.comparison.objects.items() if count} == held
    back = _sound(convert(_again(store, layout), place_at(MemoryStore("memory://back/"), "tree")))
    assert (back.versions, back.comparison.rows) == (versions, report.comparison.rows)


@pytest.mark.parametrize("name", ["olympia-java", "trinitylake-java"])
def test_a_lakehouse_that_can_only_be_read_is_exported_without_a_trace_in_it(name: str) -> None:
    source = _source(name)
    before = sorted(path for path in (FIXTURES / name).rglob("*") if path.is_file())
    store = MemoryStore("memory://copy/")
    report = export(source, store, "copy")
    assert not report.is_kept
    assert sorted(path for path in (FIXTURES / name).rglob("*") if path.is_file()) == before
    copy = open_on(repeatable_effects(store))
    assert copy.version == source.metastore.latest().version
    assert [space.name for space in copy.namespaces()] == [space.name for space in open_on(source.effects).namespaces()]
    with pytest.raises(InvalidInputError, match="export in full"):
        export(source, MemoryStore("memory://other/"), "copy", mode=ExportMode.MINIMAL)
