"""The folder of a long experiment: what was asked for, each part's result, and a log, so that it can be continued.

`run.json` has all that decides the results, and nothing else: no time, no number of processes. The file of a part is
written whole or not at all. Only `log.txt`, which says when each part was done, differs between two equal runs.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from ensemble_deid import __version__
from ensemble_deid.atomic import check_writable, remove_stale, write_text_atomically
from ensemble_deid.errors import ConfigError
from ensemble_deid.model.manifest import installed_packages
from ensemble_deid.parsing import strict_json

RUN, LOG = "run.json", "log.txt"


@dataclass(frozen=True, slots=True)
class RunFolder:
    """A folder with a `run.json`."""

    path: Path

    @classmethod
    def begin(cls, path: Path, settings: Mapping[str, Any], *, resume: bool) -> "RunFolder":
        """Begin a run, or with `resume` continue one of the same settings.

        The versions of the package and of its libraries are among the settings. Raises ConfigError where the folder
        holds a run and `resume` is False, another run, or something else.
        """
        wanted = json.loads(json.dumps({**settings, "ensemble_deid": __version__, "packages": installed_packages()}))
        check_writable(path)
        place = path / RUN
        if path.exists() and not path.is_dir():
            raise ConfigError(f"{path}: exists and is not a folder")
        if place.is_file():
            if not resume:
                raise ConfigError(f"{path}: holds a run already; --resume continues it; else remove it")
            _refuse_difference(_read(place), wanted, place)
            remove_stale(path)
        elif path.is_dir() and any(path.iterdir()):
            raise ConfigError(f"{path}: is not empty, and holds no run (there is no {RUN})")
        else:
            write_json(place, wanted)
        return cls(path)

    def log(self, message: str) -> None:
        """Add a line with the time to the log. The message must not quote a note."""
        with (self.path / LOG).open("a", encoding="utf-8") as stream:
            stream.write(f"{datetime.now(UTC).isoformat(timespec='seconds')} {message}\n")


def write_json(path: Path, content: object) -> None:
    """Write an object as indented JSON, whole or not at all."""
    write_text_atomically(path, json.dumps(content, indent=1, ensure_ascii=False) + "\n")


def read_part(path: Path) -> Any:
    """Read a part's file. Raises ConfigError for a damaged one."""
    try:
        return strict_json(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise damaged(path, type(error).__name__) from None


def damaged(path: Path, reason: str) -> ConfigError:
    """Return the error for a part's file that cannot be used."""
    return ConfigError(f"{path}: damaged ({reason}); remove it, and --resume makes it again")


def _read(path: Path) -> dict[str, Any]:
    content = read_part(path)
    if not isinstance(content, dict):
        raise ConfigError(f"{path}: damaged: not a JSON object")
    return content


def _refuse_difference(found: Mapping[str, Any], wanted: Mapping[str, Any], place: Path, prefix: str = "") -> None:
    """Raise ConfigError, which names the first setting that differs."""
    for key in sorted(set(found) | set(wanted)):
        a, b = found.get(key), wanted.get(key)
        if isinstance(a, dict) and isinstance(b, dict):
            _refuse_difference(a, b, place, f"{prefix}{key}.")
        elif a != b:
            raise ConfigError(f"{place}: the run was begun with another {prefix}{key}, and cannot be continued")
