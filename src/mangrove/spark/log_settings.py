"""What Spark's Java says on the error stream: settings for a Spark whose owner has configured none."""

from collections.abc import Mapping
from pathlib import Path
from typing import Final

__all__ = ["log_settings"]

_OPTIONS: Final = "spark.driver.extraJavaOptions"


def log_settings(environment: Mapping[str, str], spark_home: Path) -> dict[str, str]:
    """Return settings with which Spark starts without a word; none where a folder of settings is there to say more."""
    folder = Path(environment.get("SPARK_CONF_DIR") or spark_home / "conf")
    if folder.is_dir():
        return {}
    return {_OPTIONS: f"-Dlog4j2.configurationFile={Path(__file__).with_name('log4j2.properties').as_uri()}"}
