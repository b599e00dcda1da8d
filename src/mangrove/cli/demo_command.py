"""The command that gives the guided tour, and leaves the lakehouse behind."""

import os
import shlex
import shutil
from pathlib import Path

import click

from mangrove.cli import demo_changing as changing
from mangrove.cli import demo_looking as looking
from mangrove.cli.command import check_installed, lake_command
from mangrove.cli.context import CommandContext
from mangrove.cli.demo_stage import Stage
from mangrove.cli.demo_tour import Tour
from mangrove.cli.sql import SPARK_MODULES, start_quiet_session
from mangrove.effects import Effects
from mangrove.errors import AlreadyExistsError, InvalidInputError, MangroveError
from mangrove.lakehouse.opening import create_on_store
from mangrove.model.json_codec import Json
from mangrove.model.settings import LakehouseSettings
from mangrove.storage.uri import expand_location
from mangrove.wiring import LakehouseEngines

__all__ = ["demo_command"]

_NAME = "mangrove demo"
"""By this name the demo knows a lakehouse again that it made."""


@lake_command("demo", "mangrove demo\nmangrove demo ./shop --replace", takes_lake=False)
@click.argument("folder", default="./mangrove-demo", metavar="[FOLDER]")
@click.option("--replace", is_flag=True, help="Delete what an earlier demo left in the folder.")
def demo_command(session: CommandContext, folder: str, replace: bool) -> None:
    """Take a guided tour: a small shop on local disk, with Spark, in about two minutes.

    It shows four tables changing in one commit, a crash, a conflict, time travel, a
    rollback, an export and upkeep, and leaves the lakehouse for you to explore.
    """
    check_installed("the demo", SPARK_MODULES, "spark")
    place = Path(expand_location(folder, os.getcwd()))
    if "://" in folder:
        raise InvalidInputError(f"the demo looks at files on disk, and {folder} is elsewhere: name a folder")
    copy = place.with_name(f"{place.name}-year-end")
    for old in (place, copy):
        _make_room(session, old, replace=replace)
    stage = Stage(is_silent=session.as_json)
    stage.say("", f"A tour of Mangrove, in {place}")
    lake = create_on_store(session.effects(str(place)), settings=LakehouseSettings(name=_NAME), engines=_engines)
    _walk(
        Tour(
            stage, lake, place, copy, lambda: start_quiet_session("the demo"), lambda: session.open(str(copy), _engines)
        )
    )
    if session.as_json:
        chapters: list[Json] = [*stage.chapters]
        session.answer({"uri": lake.uri, "copy": str(copy), "version": lake.version, "chapters": chapters}, str)
    else:
        _say_what_next(stage, place)


def _walk(tour: Tour) -> None:
    changing.a_folder(tour)
    spark = changing.spark_loads(tour)
    changing.four_tables_one_commit(tour, spark)
    changing.crash(tour)
    changing.conflict(tour)
    before_the_mistake = looking.time_travel(tour)
    looking.rollback(tour, before_the_mistake)
    looking.questions(tour, before_the_mistake)
    looking.export(tour)
    looking.compaction(tour)
    looking.check(tour)
    looking.storage(tour)


def _engines(effects: Effects) -> LakehouseEngines:

    return LakehouseEngines(effects)


def _make_room(session: CommandContext, place: Path, *, replace: bool) -> None:
    """See that nothing is there; what an earlier demo made goes if it may, and nothing else ever does."""
    try:
        if not place.exists() or (place.is_dir() and not any(place.iterdir())):
            return
    except OSError as error:
        raise InvalidInputError(f"{place} cannot be looked into ({error.strerror}): name another folder") from error
    if not place.is_dir():
        raise InvalidInputError(f"{place} is a file: name a folder, which need not be there yet")
    if not replace or not _is_ours(session, place):
        way = "name another folder" if replace else "name another folder, or give --replace if an earlier demo made it"
        raise AlreadyExistsError(f"there is something in {place} already: {way}")
    shutil.rmtree(place)


def _is_ours(session: CommandContext, place: Path) -> bool:
    try:
        return session.open(str(place)).settings.name == _NAME
    except MangroveError:
        return False


def _say_what_next(stage: Stage, place: Path) -> None:
    where = shlex.quote(os.path.relpath(place) if place.is_relative_to(os.getcwd()) else str(place))
    where = where if "/" in where else f"./{where}"
    stage.say("", "It is all yours. Go on with:")
    stage.code(
        f"mangrove log {where} --graph",
        f"mangrove show {where} shop.orders",
        f"mangrove sql {where} 'select * from finance.ledger'",  # noqa: S608 - a sentence, not a query of ours
        f"mangrove shell {where}",
        f"mangrove diff {where} 1",
        f"mangrove tree {where}",
        f"mangrove serve {where}",
        f"python -c 'import mangrove; print(mangrove.open(\"{where}\"))'",
    )
