"""Configurations from TOML files, from the named ones of the package, and from `--set` options."""

import json
import tomllib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from ensemble_deid.config import Config, make_config
from ensemble_deid.errors import ConfigError
from ensemble_deid.parsing import read_toml, strict_toml

_MOST_DOTS, _SHOWN = 3, 200


def named_configurations() -> dict[str, Path]:
    """Return the files of the configurations that have a name, such as `best` and `small`."""
    folder = Path(__file__).parent / "configurations"
    return {path.stem: path for path in sorted(folder.glob("*.toml"))}


def load_config(path: Path | str | None = None, *, overrides: Sequence[str] = (), **options: Any) -> Config:
    """Read a TOML file, then apply `section.key=value` overrides, then keyword options (None is ignored).

    `path` may be the name of a configuration of the package: see `named_configurations`. Raises ConfigError for what
    cannot be read, for wrong settings, and for `by_type` or `uncased` without a submodel that they concern.

    >>> from ensemble_deid import load_config
    >>> load_config(overrides=["crf.max_iterations=20"], seed=7).crf.max_iterations
    20
    """
    content: dict[str, Any] = {}
    if path is not None:
        named = named_configurations()
        missing = f"no such file, and none of the names {', '.join(named)}"
        content = read_toml(Path(named.get(str(path), path)), ConfigError, missing=missing)
    for override in overrides:
        _apply_override(content, override)
    content.update({key: value for key, value in options.items() if value is not None})
    place = str(path) if path else "configuration"
    config = make_config(content, place=place)
    try:
        config.refuse_without_effect()
    except ConfigError as error:
        raise ConfigError(f"{place}: {error}") from None
    return config


def config_to_toml(config: Config) -> str:
    """Return the whole configuration as a TOML file, without `jobs`, which decides nothing, and what is None."""
    content = config.model_dump(mode="json", exclude={"jobs"}, exclude_none=True)
    values = {key: value for key, value in content.items() if not isinstance(value, dict)}
    sections = {"": values, **{key: value for key, value in content.items() if isinstance(value, dict)}}
    # Strings, numbers, booleans and lists are written alike in JSON and TOML.
    blocks = [
        "\n".join([*([f"[{name}]"] if name else []), *(f"{key} = {json.dumps(value)}" for key, value in block.items())])
        for name, block in sections.items()
    ]
    return "\n\n".join(blocks) + "\n"


def _apply_override(content: dict[str, Any], override: str) -> None:
    key, sign, value = override.partition("=")
    if not sign or not key or key.count(".") > _MOST_DOTS:
        raise ConfigError(f"--set {override[:_SHOWN]}: expected section.key=value")
    *sections, last = key.strip().split(".")
    target = content
    for section in sections:
        target = target.setdefault(section, {})
        if not isinstance(target, dict):
            raise ConfigError(f"--set {override}: {section} is a value, not a section")
    try:
        target[last] = strict_toml(f"value = {value}")["value"]
    except tomllib.TOMLDecodeError:
        target[last] = value.strip()
