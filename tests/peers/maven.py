"""Artifacts of Maven repositories, which Maven installs under `.build/peers`."""

import subprocess
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Final

from benchmarks.peers.environments import FOLDER, INSTALL_SECONDS_MAX, NotAvailable

__all__ = ["build_classpath", "download_artifact", "run_program"]

_REPOSITORY: Final = FOLDER / "maven"
_MAVEN: Final = ("mvn", "--batch-mode", "--quiet", f"-Dmaven.repo.local={_REPOSITORY}")
_FIELDS: Final = ("groupId", "artifactId", "version", "classifier")


def download_artifact(coordinates: str, packaging: str) -> Path:
    """Return the file of an artifact, which Maven downloads if it is not there."""
    group, name, version = coordinates.split(":")
    file = _REPOSITORY.joinpath(*group.split("."), name, version, f"{name}-{version}.{packaging}")
    if not file.exists():
        run_program([*_MAVEN, "dependency:get", "-Dtransitive=false", f"-Dartifact={coordinates}:{packaging}"])
    return file


def build_classpath(folder: Path, artifacts: Iterable[str]) -> str:
    """Return the classpath of artifacts and of all that they depend on."""
    elements = (
        "".join(f"<{field}>{value}</{field}>" for field, value in zip(_FIELDS, one.split(":"), strict=False))
        for one in artifacts
    )
    dependencies = "".join(f"<dependency>{one}</dependency>" for one in elements)
    project = (
        '<project xmlns="http://maven.apache.org/POM/4.0.0"><modelVersion>4.0.0</modelVersion><groupId>peers</groupId>'
        f"<artifactId>{folder.name}</artifactId><version>1</version><dependencies>{dependencies}</dependencies></project>"
    )
    pom, classpath = folder / "pom.xml", folder / "classpath"
    if not classpath.exists() or pom.read_text("utf-8") != project:
        folder.mkdir(parents=True, exist_ok=True)
        pom.write_text(project, "utf-8")
        run_program([*_MAVEN, "-f", str(pom), "dependency:build-classpath", f"-Dmdep.outputFile={classpath}"])
    return classpath.read_text("utf-8").strip()


def run_program(command: Sequence[str], folder: Path = FOLDER, seconds_max: float = INSTALL_SECONDS_MAX) -> str:
    """Return what a command prints; raise NotAvailable if it cannot run, fails or takes too long."""
    folder.mkdir(parents=True, exist_ok=True)
    try:
        ended = subprocess.run(command, cwd=folder, capture_output=True, timeout=seconds_max, check=False, text=True)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise NotAvailable(str(error)) from error
    if ended.returncode:
        raise NotAvailable(f"{command[0]} failed: {' '.join((ended.stderr or ended.stdout).split())[:200]}")
    return ended.stdout
