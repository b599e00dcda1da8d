"""The public names are exactly these: adding one is a decision, removing one breaks somebody."""

import importlib
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest

import mangrove
import mangrove.errors

ERRORS = {
    "AccessDeniedError",
    "AlreadyExistsError",
    "ConflictError",
    "FormatError",
    "InvalidInputError",
    "MangroveError",
    "NotFoundError",
    "StorageError",
}
DOING = {
    *("Expr", "Isolation", "Lakehouse", "Schema", "Snapshot", "Table", "Transaction", "__version__"),
    *("check", "col", "create", "expr", "lit", "open"),
}
PUBLIC = {
    "mangrove": {*DOING, *ERRORS},
    "mangrove.errors": ERRORS,
    "mangrove.spark.session": {"LOCAL_SETTINGS", "local_session"},
}


def public_names(module: ModuleType) -> set[str]:
    """Return what `from module import *` brings."""
    exported = getattr(module, "__all__", None)
    if exported is not None:
        return set(exported)
    return {name for name, value in vars(module).items() if name[0] != "_" and not isinstance(value, ModuleType)}


@pytest.mark.parametrize("name", PUBLIC)
def test_the_public_names_are_exactly_these(name: str) -> None:
    assert public_names(importlib.import_module(name)) == PUBLIC[name]


@pytest.mark.parametrize("name", PUBLIC)
def test_every_public_name_exists_and_is_documented(name: str) -> None:
    module = importlib.import_module(name)
    for public in PUBLIC[name]:
        value = getattr(module, public)
        assert not callable(value) or value.__doc__, f"{name}.{public} has no docstring"


def test_every_error_is_a_mangrove_error() -> None:
    errors = [getattr(mangrove.errors, name) for name in mangrove.errors.__all__]
    assert all(issubclass(error, mangrove.errors.MangroveError) for error in errors)


def test_importing_the_package_imports_nothing_heavy() -> None:
    source = "import sys, mangrove; print(*({'obstore', 'pyarrow', 'pyspark'} & set(sys.modules)))"
    answer = subprocess.run([sys.executable, "-c", source], capture_output=True, check=True, text=True)
    assert answer.stdout.split() == []


def test_a_lakehouse_is_created_and_opened_by_its_uri(tmp_path: Path) -> None:
    made = mangrove.create(tmp_path / "lake", properties={"team": "sales"})
    made.create_namespace("sales")
    opened = mangrove.open(f"file://{tmp_path}/lake")
    assert (opened.uri, opened.layout, opened.version) == (f"file://{tmp_path}/lake/", "tree", 1)
    assert opened.settings.properties == {"team": "sales"}
    with pytest.raises(mangrove.AlreadyExistsError, match="open it"):
        mangrove.create(tmp_path / "lake", layout="deltacat")
    with pytest.raises(mangrove.NotFoundError, match="no lakehouse"):
        mangrove.open(tmp_path / "elsewhere")
    with pytest.raises(mangrove.InvalidInputError, match="unknown layout"):
        mangrove.create(tmp_path / "other", layout="odd")


@pytest.mark.parametrize("name", ["Lakehouse", "Snapshot", "Table", "Transaction"])
def test_no_public_method_returns_any(name: str) -> None:
    kind = getattr(mangrove, name)
    methods = {one: vars(base)[one] for base in kind.__mro__ for one in vars(base) if one[0] != "_"}
    untyped = {one for one, value in methods.items() if getattr(value, "__annotations__", {}).get("return") == "Any"}
    assert untyped == set()
