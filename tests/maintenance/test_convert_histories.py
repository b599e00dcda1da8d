"""Whatever a lakehouse's history is, another layout tells it again object by object, and back."""

from collections.abc import Callable
from dataclasses import replace

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from mangrove.effects import Effects
from mangrove.lakehouse.converting import place_at
from mangrove.layouts.deltacat.metastore import create_catalog
from mangrove.layouts.deltacat.revision import DELTACAT_2
from mangrove.layouts.tree.metastore import create_tree
from mangrove.layouts.tree.revision import OLDER
from mangrove.maintenance.comparison import Matched, compared
from mangrove.maintenance.convert import convert
from mangrove.maintenance.convert_retelling import Kept
from mangrove.maintenance.maintained import Maintained
from mangrove.metastore import Changes
from mangrove.model.settings import LakehouseSettings
from mangrove.storage.memory import MemoryStore
from mangrove.testing.effects import repeatable_effects
from mangrove.testing.histories import told

SETTINGS = LakehouseSettings(order=4, properties={"tree.inline-definition-max-bytes": "40"})
MAKERS: dict[str, Callable[[Effects, LakehouseSettings, Changes], Kept]] = {
    "tree": create_tree,
    "tree-older": lambda effects, settings, changes: create_tree(effects, settings, changes, OLDER),
    "deltacat": create_catalog,
    "deltacat-2": lambda effects, settings, changes: create_catalog(effects, settings, changes, DELTACAT_2),
}


def _opened(store: MemoryStore, layout: str) -> Maintained:
    effects = repeatable_effects(store, first_id=10**6)
    found = place_at(store, layout).open(effects)
    assert found is not None
    return Maintained(effects, found, found)


@pytest.mark.parametrize(
    ("layout", "between"),
    [("tree", "deltacat"), ("tree", "deltacat-2"), ("deltacat", "tree"), ("deltacat-2", "tree-older")],
)
@settings(max_examples=12, deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large])
@given(data=st.data())
def test_a_history_that_is_converted_and_converted_back_is_the_same(
    layout: str, between: str, data: st.DataObject
) -> None:
    first, second, third = (MemoryStore(f"memory://{name}/") for name in ("first", "second", "third"))
    effects = repeatable_effects(first)
    made: Kept = MAKERS[layout](effects, SETTINGS, Changes("made", message="create lakehouse"))
    data.draw(told(first, made, effects.new_id))
    source = Maintained(effects, made, made)

    report = convert(source, place_at(second, between))
    assert report.is_sound, str(report)
    back = convert(_opened(second, between), place_at(third, layout))
    assert back.is_sound, str(back)

    again = _opened(third, layout)
    versions = range(made.latest().version + 1)
    found = compared(source, again, Matched(versions, lambda value: value, lambda value: value))
    assert found.differences == ()
    lines = [(made.at_version(one).commit, again.metastore.at_version(one).commit) for one in versions]
    assert [replace(before, properties=dict(before.properties)) for before, _ in lines] == [
        replace(after, properties=dict(after.properties)) for _, after in lines
    ]
