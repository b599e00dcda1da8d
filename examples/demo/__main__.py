"""A guided tour of a lakehouse: a small shop on local disk, with Spark, in about two minutes.

    make demo        or        python examples/demo [FOLDER] [--replace] [--json]

The tour shows a commit to four tables, a crash, a conflict, time travel, a rollback,
SQL, an export and maintenance, and leaves the lakehouse for you to explore. The tables
and jobs of the shop are in `shop.py`, the chapters in `chapters.py`.
"""

import argparse
import json
import shlex
import shutil
from pathlib import Path

from chapters import Tour, present_chapters
from presenter import Presenter

import mangrove
from mangrove.cli.environment import check_installed
from mangrove.cli.quiet_engines import SPARK_MODULES, start_quiet_session
from mangrove.model.settings import LakehouseSettings

_NAME = "mangrove demo"
"""The name of the lakehouses that this demo creates, and may replace."""


def main() -> None:
    """Run the tour; exit with 1 if it fails, and with 2 if the arguments are invalid."""
    parser = argparse.ArgumentParser(prog="python examples/demo", description="A guided tour of a lakehouse.")
    parser.add_argument("folder", nargs="?", default=".build/demo", help="where (default: %(default)s)")
    parser.add_argument("--replace", action="store_true", help="delete the lakehouse of an earlier demo")
    parser.add_argument("--json", action="store_true", dest="as_json", help="print the results of the chapters as JSON")
    given = parser.parse_args()
    try:
        _run_tour(given.folder, replace=given.replace, as_json=given.as_json)
    except mangrove.InvalidInputError as error:
        parser.exit(2, f"demo: {error}\n")
    except mangrove.MangroveError as error:
        parser.exit(1, f"demo: {error}\n")


def _run_tour(location: str, *, replace: bool, as_json: bool) -> None:
    check_installed("the demo", SPARK_MODULES, "spark")
    if "://" in location:
        raise mangrove.InvalidInputError(f"{location} is not on local disk: name a folder")
    folder = Path(location).expanduser().absolute()
    copy = folder.with_name(f"{folder.name}-year-end")
    for old in (folder, copy):
        _clear_folder(old, replace=replace)
    presenter = Presenter(is_silent=as_json)
    presenter.say("", f"A tour of Mangrove, in {folder}")
    lake = mangrove.create(folder, settings=LakehouseSettings(name=_NAME))
    present_chapters(Tour(presenter, lake, folder, copy, lambda: start_quiet_session("the demo")))
    if as_json:
        results = {"uri": lake.uri, "copy": str(copy), "version": lake.version, "chapters": presenter.chapters}
        print(json.dumps(results, indent=2))
    else:
        _suggest_commands(presenter, folder)


def _clear_folder(folder: Path, *, replace: bool) -> None:
    """Ensure that a folder is empty or absent; delete only what an earlier demo created, and only if allowed."""
    try:
        if not folder.exists() or (folder.is_dir() and not any(folder.iterdir())):
            return
    except OSError as error:
        raise mangrove.InvalidInputError(f"cannot read {folder} ({error.strerror}): name another folder") from error
    if not folder.is_dir():
        raise mangrove.InvalidInputError(f"{folder} is a file: name a folder, which need not exist yet")
    if not replace or not _is_demo(folder):
        remedy = "" if replace else ", or pass --replace if an earlier demo created it"
        raise mangrove.AlreadyExistsError(f"{folder} is not empty: name another folder{remedy}")
    shutil.rmtree(folder)


def _is_demo(folder: Path) -> bool:
    try:
        return mangrove.open(folder).settings.name == _NAME
    except mangrove.MangroveError:
        return False


def _suggest_commands(presenter: Presenter, folder: Path) -> None:
    here = Path.cwd()
    where = shlex.quote(f"./{folder.relative_to(here)}" if folder.is_relative_to(here) else str(folder))
    presenter.say("", "The lakehouse stays there. Explore it with:")
    presenter.code(
        f"mangrove history {where} --graph",
        f"mangrove show {where} shop.orders",
        f"mangrove sql {where} 'select * from finance.ledger'",  # noqa: S608 - a hint, not a query of ours
        f"mangrove shell {where}",
        f"mangrove diff {where} 1",
        f"mangrove tree {where}",
        f"mangrove serve {where}",
        f"python -c 'import mangrove; print(mangrove.open(\"{where}\"))'",
    )


if __name__ == "__main__":
    main()
