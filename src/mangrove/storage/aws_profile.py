"""The keys and the region that the AWS command line keeps in a user's home.

obstore knows the environment, web identities and machine roles, but not these
two files, which are where most people's credentials are.
"""

import configparser
import os
from collections.abc import Mapping

__all__ = ["profile_options"]

_NAMES = {
    "aws_access_key_id": "access_key_id",
    "aws_secret_access_key": "secret_access_key",
    "aws_session_token": "session_token",
    "region": "region",
    "endpoint_url": "endpoint",
}


def profile_options(environment: Mapping[str, str]) -> dict[str, str]:
    """Return the options that the user's profile gives, empty where there is none."""
    home = environment.get("HOME", "")
    profile = environment.get("AWS_PROFILE") or "default"
    config_file = environment.get("AWS_CONFIG_FILE") or os.path.join(home, ".aws", "config")
    credentials_file = environment.get("AWS_SHARED_CREDENTIALS_FILE") or os.path.join(home, ".aws", "credentials")
    found: dict[str, str] = {}
    # The credentials file has the last word, as it does for the command line.
    for file, section in (
        (config_file, profile if profile == "default" else f"profile {profile}"),
        (credentials_file, profile),
    ):
        parser = configparser.ConfigParser(interpolation=None)
        # Missing files are skipped; an unreadable one means no profile, and obstore says what is missing.
        try:
            parser.read(file, encoding="utf-8")
        except (configparser.Error, OSError, UnicodeDecodeError):
            continue
        if parser.has_section(section):
            found |= {_NAMES[name]: value for name, value in parser.items(section) if name in _NAMES}
    if "access_key_id" not in found:
        # Roles and single sign-on need the AWS client itself; half of a profile would hide that.
        return {name: value for name, value in found.items() if name in {"region", "endpoint"}}
    return found
