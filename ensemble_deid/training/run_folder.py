"""Folders of resumable work: an experiment, and an unfinished training.

The folder of an experiment has a file for each part's result. `run.json` has everything that decides the results, and
nothing else: no time, no number of processes. Only `log.txt` differs between two equal runs.

The folder of a training has a folder for each task (`fold_training.py`), with its tagger's own files or its out-of-fold
proposals, and the hashes by which they are checked when they are read. It contains what a model does, and offsets of
PHI. It is removed when the model is complete.
"""

import hashlib
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import accumulate, pairwise
from pathlib import Path
from typing import Any

import numpy as np
from safetensors.numpy import load, save

from ensemble_deid import __version__
from ensemble_deid.atomic import check_writable, folder_atomically, remove_stale, write_text_atomically
from ensemble_deid.config import Config
from ensemble_deid.corpora.records import digest_of
from ensemble_deid.errors import ConfigError
from ensemble_deid.model.manifest import file_hashes, fingerprint, installed_packages
from ensemble_deid.note.document import Document
from ensemble_deid.note.span import Span
from ensemble_deid.parsing import strict_json
from ensemble_deid.taggers.base import Proposals, TokenScores

RUN, LOG = "run.json", "log.txt"


@dataclass(frozen=True, slots=True)
class RunFolder:
    path: Path

    @classmethod
    def begin(cls, path: Path, settings: Mapping[str, Any], *, resume: bool) -> "RunFolder":
        """Begin a run, or with `resume` continue one of the same settings and versions.

        Raises ConfigError where the folder holds a run and `resume` is False, another run, or something else.
        """
        wanted = json.loads(json.dumps({**settings, "ensemble_deid": __version__, "packages": installed_packages()}))
        check_writable(path)
        place = path / RUN
        if path.exists() and not path.is_dir():
            raise ConfigError(f"{path}: exists and is not a folder")
        if place.is_file():
            if not resume:
                raise ConfigError(f"{path}: holds a run already; --resume continues it; else remove it")
            found = read_part(place)
            if not isinstance(found, dict):
                raise ConfigError(f"{place}: damaged: not a JSON object")
            _refuse_difference(found, wanted, place)
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


def _refuse_difference(found: Mapping[str, Any], wanted: Mapping[str, Any], place: Path, prefix: str = "") -> None:
    """Raise ConfigError, which names the first setting that differs."""
    for key in sorted(set(found) | set(wanted)):
        a, b = found.get(key), wanted.get(key)
        if isinstance(a, dict) and isinstance(b, dict):
            _refuse_difference(a, b, place, f"{prefix}{key}.")
        elif a != b:
            raise ConfigError(f"{place}: the run was begun with another {prefix}{key}, and cannot be continued")


_HASHES = "files.json"
_SPANS, _TOKENS = "proposals.json", "proposals.safetensors"


@dataclass(frozen=True, slots=True)
class PartFolder:
    """The folder of an unfinished training; `path` is beside the model's place."""

    path: Path

    @classmethod
    def begin(cls, path: Path, settings: Mapping[str, Any], *, resume: bool) -> "PartFolder":
        """Begin, or with `resume` continue, a training. Raises ConfigError as `RunFolder.begin`."""
        remove_stale(path)
        if path.is_dir() and [entry.name for entry in path.iterdir()] == [RUN]:
            (path / RUN).unlink()
        RunFolder.begin(path, {"experiment": "train", **settings}, resume=resume)
        return cls(path)

    def keep(self, name: str, write: Callable[[Path], None]) -> None:
        """Let `write` fill the folder of a result, which appears when it is complete."""
        with folder_atomically(self.path / name) as scratch:
            write(scratch)
            write_json(scratch / _HASHES, file_hashes(scratch))
            scratch.rename(self.path / name)

    def kept(self, name: str) -> Path | None:
        """Return the folder of a result, if there is one. Raises ConfigError for a damaged one."""
        folder = self.path / name
        if not folder.exists():
            return None
        hashes = read_part(folder / _HASHES)
        found = {key: value for key, value in file_hashes(folder).items() if key != _HASHES}
        if found != hashes:
            raise damaged(folder, "its files are not those that were written")
        return folder


def settings_of_training(
    documents: Sequence[Document], dev: Sequence[Document], config: Config, others: Mapping[str, Any]
) -> dict[str, Any]:
    """Return all that decides a training's results: the configuration, the files that it names, the notes, `others`."""
    return {
        "config": config.model_dump(mode="json", exclude={"jobs"}),
        "files": {key: _digest_of_tree(path) for key, path in _named_files(config).items()},
        "corpus": {"train": _digest_of_notes(documents), "dev": _digest_of_notes(dev)},
        **others,
    }


def _named_files(config: Config) -> dict[str, Path]:
    named = {
        "text.knowledge": config.text.knowledge,
        "regex.patterns": config.regex.patterns,
        "regex.map": config.regex.map,
        "tbed.templates": config.tbed.templates,
        "neural.word_vectors": config.neural.word_vectors,
        "neural.names": config.neural.names,
        "transformer.encoder": config.transformer.encoder,
        **{f"text.word_lists.{k}": entry.partition("=")[2] for k, entry in enumerate(config.text.word_lists)},
    }
    return {key: Path(value) for key, value in named.items() if value and Path(value).exists()}


def _digest_of_tree(path: Path) -> str:
    files = sorted(file for file in path.rglob("*") if file.is_file()) if path.is_dir() else [path]
    return hashlib.sha256("".join(map(digest_of, files)).encode()).hexdigest()


def _digest_of_notes(documents: Sequence[Document]) -> str:
    """Return a digest of notes in their order, on which folds depend."""
    content = json.dumps([[fingerprint([document]), document.group] for document in documents])
    return hashlib.sha256(content.encode()).hexdigest()


def write_proposals(proposals: Proposals, folder: Path) -> None:
    spans = {
        name: [[(s.start, s.end, s.label, s.score, s.source) for s in found] for found in getattr(proposals, name)]
        for name in _LISTS
    }
    lengths = [len(scores.phi) for scores in proposals.tokens]
    (folder / _SPANS).write_text(json.dumps({**spans, "lengths": lengths}, ensure_ascii=False), encoding="utf-8")
    if proposals.tokens:
        arrays = {name: np.concatenate([getattr(scores, name) for scores in proposals.tokens]) for name in _ARRAYS}
        (folder / _TOKENS).write_bytes(save(arrays))


_LISTS, _ARRAYS = ("best", "candidates"), ("phi", "label")


def read_proposals(folder: Path) -> Proposals:
    """Raises ConfigError for what `write_proposals` did not write."""
    try:
        content = strict_json((folder / _SPANS).read_text(encoding="utf-8"))
        best, candidates = (tuple(tuple(Span(*values) for values in found) for found in content[k]) for k in _LISTS)
        if not content["lengths"]:
            return Proposals(best, candidates)
        arrays = load((folder / _TOKENS).read_bytes())
        bounds = list(pairwise(accumulate(content["lengths"], initial=0)))
        return Proposals(best, candidates, tuple(TokenScores(*(arrays[k][a:b] for k in _ARRAYS)) for a, b in bounds))
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise damaged(folder, type(error).__name__) from None
