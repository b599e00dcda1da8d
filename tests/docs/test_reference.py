"""The reference says everything that the code offers, and refuses what nobody explained."""

import importlib.util
import re
from pathlib import Path
from types import ModuleType

import pytest

import mangrove
from mangrove.cli.main import COMMANDS
from mangrove.model.settings import LakehouseSettings

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def reference() -> ModuleType:
    """The program that writes the reference."""
    spec = importlib.util.spec_from_file_location("reference", ROOT / "docs" / "reference.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_every_public_name_of_the_package_is_explained(reference: ModuleType) -> None:
    pages = reference.python_page() + reference.error_page()
    for name in mangrove.__all__:
        assert re.search(rf"`(?:mangrove\.)?{name}`", pages), f"the reference lacks {name}"


def test_every_public_method_of_a_lakehouse_and_a_table_is_explained(reference: ModuleType) -> None:
    page = reference.python_page()
    for cls in (mangrove.Lakehouse, type(mangrove.create("memory://reference").transaction())):
        offered = {name for name in dir(cls) if not name.startswith("_") and _is_offered(getattr(cls, name))}
        names = offered - reference.INNER
        assert names
        for name in names:
            assert re.search(rf"`(?:\w+\.)?{name}`", page), f"the reference lacks {cls.__name__}.{name}"


def _is_offered(member: object) -> bool:
    return callable(member) or isinstance(member, property)


def test_every_command_has_its_help(reference: ModuleType) -> None:
    page = reference.command_page()
    for name in COMMANDS:
        assert f"## `mangrove {name}`\n\n```text\nUsage: mangrove {name} " in page


def test_every_setting_has_its_default_and_meaning(reference: ModuleType) -> None:
    page = reference.property_page()
    assert f"| `order` | {LakehouseSettings().order} | The maximum number of children" in page
    assert "| `transaction.time-limit-millis` | How long" in page


def test_a_property_without_a_docstring_is_rejected(
    reference: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "module.py").write_text('LIMIT = "table.limit"\n', "utf-8")
    monkeypatch.setattr(reference, "SOURCE", tmp_path)
    monkeypatch.setattr(reference, "ROOT", tmp_path)
    with pytest.raises(SystemExit, match=r"module.py:1: 'table.limit' has no docstring"):
        reference.property_page()


def test_a_signature_is_as_in_the_code_without_self_and_quotes(reference: ModuleType) -> None:
    page = reference.python_page()
    assert "def at(where: int | str | datetime) -> Snapshot: ..." in page
    assert "    attempts: int = 10,\n" in page
    assert "    properties: Mapping[str, str] = {},\n" in page
