"""SQL in the cells of a notebook, in IPython itself."""

from pathlib import Path
from typing import Any

import pytest
from IPython.core.interactiveshell import InteractiveShell
from traitlets.config import Config

import mangrove


@pytest.fixture
def shell(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Start IPython in a folder of its own and without a history, whose file all shells of a person share."""
    monkeypatch.setenv("IPYTHONDIR", str(tmp_path / "ipython"))
    shell: Any = InteractiveShell(config=Config({"HistoryManager": {"enabled": False}}))  # type: ignore[no-untyped-call]
    shell.run_line_magic("load_ext", "mangrove")
    return shell


def test_cells_share_one_session_and_display_the_result_of_their_last_statement(shell: Any, tmp_path: Path) -> None:
    mangrove.create(tmp_path / "lake").create_namespace("s")
    shell.run_line_magic("mangrove", str(tmp_path / "lake"))
    shell.run_cell_magic("mangrove", "", "use s; begin; create table t (a int)")
    shown = shell.run_cell_magic("mangrove", "", "show tables")
    assert (shown.columns, shown.rows) == (("namespace", "tableName"), (("s", "t"),))
    assert shown._repr_html_().count("<td>") == 2
    done = shell.run_cell_magic("mangrove", "", "commit message 'made <in> a notebook'")
    assert repr(done) == "committed as version 2"
    assert "made &lt;in&gt; a notebook" in shell.run_cell_magic("mangrove", "", "show history limit 1")._repr_html_()


def test_a_lakehouse_is_used_by_the_name_of_its_variable(shell: Any, tmp_path: Path) -> None:
    shell.user_ns["lake"] = mangrove.create(tmp_path / "lake")
    shown = shell.run_cell_magic("mangrove", "lake", "show namespaces")
    assert shown.rows == ()


def test_without_a_lakehouse_the_error_names_a_remedy(shell: Any) -> None:
    with pytest.raises(mangrove.InvalidInputError, match="%mangrove with its URI"):
        shell.run_cell_magic("mangrove", "", "select 1")
