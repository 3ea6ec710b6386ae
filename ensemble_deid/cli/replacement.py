"""The options that say what stands where PHI stood, and the replacer that they make."""

import argparse
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from ensemble_deid.cli.terminal import say
from ensemble_deid.errors import ConfigError

if TYPE_CHECKING:
    from ensemble_deid.deidentify.replacement import Replacer

_KEYED = ("surrogate", "hash")


def add_replacement(parser: argparse.ArgumentParser) -> None:
    """Add the options to a command."""
    parser.add_argument(
        "--style", metavar="STYLE", help="tag (default), numbered, mask, remove, hash, surrogate or text:WORDS"
    )
    parser.add_argument(
        "--set",
        metavar="KEY=VALUE",
        action="append",
        default=[],
        dest="settings",
        help="styles.LABEL=STYLE, surrogates.whole_weeks=true and the like",
    )
    parser.add_argument("--policy", metavar="NAME|FILE.toml", help="safe-harbor, limited-data-set, everything, a file")
    add_key_file(parser, required=False)
    parser.add_argument("--project", metavar="NAME", default="", help="other projects get other surrogates")


def add_key_file(parser: argparse.ArgumentParser, *, required: bool) -> None:
    """Add the file of the secret key."""
    parser.add_argument(
        "--key-file", metavar="FILE", type=Path, required=required, help="the site's secret key, as keygen makes it"
    )


def policy_file(options: argparse.Namespace) -> Path | None:
    """Return the file of the policy, which no output may overwrite; a policy that is no file is one of ours."""
    return Path(options.policy) if options.policy is not None and Path(options.policy).is_file() else None


def make_replacer(options: argparse.Namespace, *, tell: Callable[[str], None] = say) -> "Replacer":
    """Return the replacer of the options; `tell` is given what the user should know.

    Raises ConfigError, also for labels that the model does not have.
    """
    from ensemble_deid.deidentify.replacement import Key, Replacer
    from ensemble_deid.model.installed import find_model
    from ensemble_deid.model.manifest import read_manifest

    styles, settings = _settings(options.settings)
    key = Key.find(options.key_file)
    replacer = Replacer.from_options(
        options.style,
        styles,
        options.policy,
        key,
        options.project,
        settings=settings,
        labels=read_manifest(find_model(options.model)).labels,
    )
    if key.throwaway and not replacer.styles.used.isdisjoint(_KEYED):
        tell("no --key-file: the key is made for this run alone, and no other run gives the same surrogates")
    return replacer


def _settings(given: list[str]) -> tuple[dict[str, str], dict[str, bool]]:
    styles: dict[str, str] = {}
    settings: dict[str, bool] = {}
    for setting in given:
        key, sign, value = setting.partition("=")
        section, dot, name = key.strip().partition(".")
        if not (sign and dot and name) or section not in ("styles", "surrogates"):
            raise ConfigError(f"--set {setting}: expected styles.LABEL=STYLE or surrogates.NAME=true")
        if section == "styles":
            styles[name] = value.strip()
        elif value.strip() in ("true", "false"):
            settings[name] = value.strip() == "true"
        else:
            raise ConfigError(f"--set {setting}: expected true or false")
    return styles, settings
