"""Whatever a lakehouse's history is, another layout tells it again object by object, and back."""

from collections.abc import Callable
from dataclasses import replace

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from mangrove.effects import Effects
from mangrove.lakehouse.maintenance import build_conversion_target
from mangrove.layouts.deltacat.metastore import create_catalog
from mangrove.layouts.deltacat.revision import DELTACAT_2
from mangrove.layouts.tree.metastore import create_tree
from mangrove.layouts.tree.revision import OLDER
from mangrove.maintenance.context import MaintenanceContext
from mangrove.maintenance.convert.comparison import VersionMapping, compare_lakehouses
from mangrove.maintenance.convert.conversion import convert_lakehouse
from mangrove.maintenance.convert.replay import ConversionTarget, MaintainedMetastore
from mangrove.metastore import Changes
from mangrove.model.settings import STRICT_TREE, LakehouseSettings
from mangrove.storage.memory import MemoryStore
from mangrove.testing.effects import build_deterministic_effects
from mangrove.testing.histories import draw_history

SETTINGS = LakehouseSettings(order=4, properties={"tree.inline-definition-max-bytes": "40"})
MAKERS: dict[str, Callable[[Effects, LakehouseSettings, Changes], MaintainedMetastore]] = {
    "tree": create_tree,
    "tree-strict": lambda effects, settings, changes: create_tree(
        effects, replace(settings, properties={**settings.properties, STRICT_TREE: "true"}), changes
    ),
    "tree-older": lambda effects, settings, changes: create_tree(effects, settings, changes, OLDER),
    "deltacat": create_catalog,
    "deltacat-2": lambda effects, settings, changes: create_catalog(effects, settings, changes, DELTACAT_2),
}


def _target(store: MemoryStore, layout: str) -> ConversionTarget:
    return build_conversion_target(store, layout.removesuffix("-strict"), True if layout == "tree-strict" else None)


def _opened(store: MemoryStore, layout: str) -> MaintenanceContext:
    effects = build_deterministic_effects(store, first_id=10**6)
    found = _target(store, layout).open(effects)
    assert found is not None
    return MaintenanceContext(effects, found, found)


@pytest.mark.parametrize(
    ("layout", "between"),
    [
        ("tree", "deltacat"),
        ("tree", "deltacat-2"),
        ("tree", "tree-strict"),
        ("tree-strict", "tree"),
        ("tree-strict", "deltacat"),
        ("deltacat", "tree"),
        ("deltacat-2", "tree-older"),
        ("deltacat-2", "tree-strict"),
    ],
)
# Each history is converted twice and compared, so a tenth of what simpler properties get, in each direction.
@settings(
    max_examples=settings().max_examples // 10, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large]
)
@given(data=st.data())
def test_a_history_that_is_converted_and_converted_back_is_the_same(
    layout: str, between: str, data: st.DataObject
) -> None:
    first, second, third = (MemoryStore(f"memory://{name}/") for name in ("first", "second", "third"))
    effects = build_deterministic_effects(first)
    made: MaintainedMetastore = MAKERS[layout](effects, SETTINGS, Changes("made", message="create lakehouse"))
    data.draw(draw_history(first, made, effects.new_id))
    source = MaintenanceContext(effects, made, made)

    report = convert_lakehouse(source, _target(second, between))
    assert report.is_sound, str(report)
    back = convert_lakehouse(_opened(second, between), _target(third, layout))
    assert back.is_sound, str(back)

    again = _opened(third, layout)
    versions = range(made.latest().version + 1)
    found = compare_lakehouses(source, again, VersionMapping(versions, lambda value: value, lambda value: value))
    assert found.differences == ()
    lines = [(made.at_version(one).commit, again.metastore.at_version(one).commit) for one in versions]
    assert [replace(before, properties=dict(before.properties)) for before, _ in lines] == [
        replace(after, properties=dict(after.properties)) for _, after in lines
    ]
