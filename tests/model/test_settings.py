"""What a lakehouse can be set to."""

import pickle
from typing import Any

import pytest

from mangrove.errors import InvalidInputError
from mangrove.model.locators import Kind
from mangrove.model.settings import LakehouseSettings


def test_the_defaults_are_those_of_the_format() -> None:
    settings = LakehouseSettings()
    assert (settings.major_version, settings.order, settings.minimum_versions_to_keep) == (0, 128, 3)
    assert (settings.namespace_name_max_size_bytes, settings.table_name_max_size_bytes) == (100, 100)
    assert (settings.file_path_max_size_bytes, settings.node_file_max_size_bytes) == (200, 1_048_576)
    assert settings.maximum_version_age_millis == 604_800_000


def test_the_key_table_of_a_full_node_is_order_times_the_size_of_a_row() -> None:
    assert LakehouseSettings().key_table_size_bytes() == 128 * (100 + 100 + 200 + 4)


def test_a_key_table_that_fills_the_node_file_is_refused() -> None:
    LakehouseSettings(order=10, node_file_max_size_bytes=4041)
    with pytest.raises(InvalidInputError, match="no room for a write buffer"):
        LakehouseSettings(order=10, node_file_max_size_bytes=4040)


@pytest.mark.parametrize(
    "wrong",
    [
        {"order": 2},
        {"major_version": 1},
        {"namespace_name_max_size_bytes": 0},
        {"minimum_versions_to_keep": 0},
        {"maximum_version_age_millis": -1},
        {"maximum_version_age_millis_overrides": {1: -1}},
        {"properties": {"": "x"}},
        {"properties": {"a": "\ud800"}},
        {"order": True},
    ],
)
def test_a_setting_out_of_bounds_is_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(InvalidInputError):
        LakehouseSettings(**wrong)


def test_name_sizes_are_checked_in_bytes() -> None:
    settings = LakehouseSettings(namespace_name_max_size_bytes=4, table_name_max_size_bytes=6)
    settings.check_object_name(Kind.NAMESPACE, "éé")
    settings.check_object_name(Kind.TABLE, "ééé")
    with pytest.raises(InvalidInputError, match="allows 4"):
        settings.check_object_name(Kind.NAMESPACE, "ééa")
    with pytest.raises(InvalidInputError, match="allows 6"):
        settings.check_object_name(Kind.VIEW, "éééa")


def test_a_path_that_is_too_long_is_refused() -> None:
    settings = LakehouseSettings(file_path_max_size_bytes=5)
    settings.check_file_path("a/b/c")
    with pytest.raises(InvalidInputError, match="6 bytes"):
        settings.check_file_path("a/b/cd")


def test_settings_are_immutable_values() -> None:
    given_properties = {"b": "2", "a": "1"}
    settings = LakehouseSettings(properties=given_properties, maximum_version_age_millis_overrides={7: 1})
    given_properties["c"] = "3"
    assert list(settings.properties.items()) == [("a", "1"), ("b", "2")]
    assert hash(settings) == hash(pickle.loads(pickle.dumps(settings)))
    assert settings == pickle.loads(pickle.dumps(settings))
