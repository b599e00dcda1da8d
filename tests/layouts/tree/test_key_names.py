"""The names under which tables are filed, through any history of renames."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mangrove.errors import FormatError
from mangrove.layouts.tree.keys import KeyNames

names = st.sampled_from(["a", "b", "c", "d"])


@given(st.lists(st.tuples(st.sampled_from(["create", "drop", "rename"]), names, names), max_size=40))
def test_key_names_of_namespaces_are_unique_and_survive_renames(steps: list[tuple[str, str, str]]) -> None:
    ids: dict[str, str] = {}
    filed: dict[str, str] = {}
    key_names = KeyNames()
    for number, (step, name, other) in enumerate(steps):
        before, now = dict[str, str](), dict[str, str]()
        if step == "create" and name not in ids:
            now[name] = ids[name] = f"id-{number}"
        elif step == "drop" and name in ids:
            before[name] = ids.pop(name)
        elif step == "rename" and name in ids and other not in ids:
            before[name] = now[other] = ids[other] = ids.pop(name)
        else:
            continue
        key_names = key_names.after(before, now, bytes_max=100)
        in_use = {namespace: key_names.key_name_of(namespace) for namespace in ids}
        assert None not in in_use.values()
        assert len(set(in_use.values())) == len(in_use)
        for namespace, namespace_id in ids.items():
            key_name = in_use[namespace]
            assert filed.setdefault(namespace_id, str(key_name)) == key_name
        for gone in {"a", "b", "c", "d"} - ids.keys():
            assert key_names.key_name_of(gone) not in set(in_use.values())
    assert KeyNames.decode(key_names.encode(), "root") == key_names


def test_the_key_name_of_a_namespace_without_renames_is_its_name_and_is_not_stored() -> None:
    key_names = KeyNames().after({}, {"sales": "id"}, bytes_max=100)
    assert key_names.key_name_of("sales") == "sales"
    assert key_names.encode() == ""


def test_a_key_name_respects_a_small_name_limit() -> None:
    renamed = KeyNames().after({"a": "first"}, {"b": "first"}, bytes_max=1)
    again = renamed.after({}, {"a": "a-long-id"}, bytes_max=1)
    assert {again.key_name_of("b"), again.key_name_of("a")} == {"a", "0"}


@pytest.mark.parametrize("text", ["[]", "{", '{"a": 1}', "null"])
def test_a_damaged_list_of_renames_is_refused(text: str) -> None:
    with pytest.raises(FormatError, match="renamed namespaces"):
        KeyNames.decode(text, "_0.ipc")
