"""Where the rules and the demo corpus are: inside an installed package, or at the top of a checkout."""

from pathlib import Path

from ensemble_deid.errors import ConfigError

_PACKAGE = Path(__file__).resolve().parent


def rules_directory() -> Path:
    """Return the folder of patterns, templates and learned rules; ConfigError when the installation lacks it."""
    return _find("_rules", "rules")


def data_directory() -> Path:
    """Return the folder of the demo corpus; ConfigError when the installation lacks it."""
    return _find("_data", "data")


def _find(installed: str, in_checkout: str) -> Path:
    # An installed wheel carries its own copy, which must win over a stray folder beside the package.
    for candidate in (_PACKAGE / installed, _PACKAGE.parent / in_checkout):
        if candidate.is_dir():
            return candidate
    raise ConfigError(
        f"the folder '{in_checkout}' was not installed with ensemble_deid: looked for {_PACKAGE / installed} "
        f"and {_PACKAGE.parent / in_checkout}"
    )
