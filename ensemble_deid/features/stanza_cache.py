"""Stanza's tags kept on disk by the hash of the text and the version of the models: a text is tagged once.

Tagging takes longer than everything else that features need, and cross-validation or a search of settings would do it
again for every training. The folder is named by the environment variable `ENSEMBLE_DEID_STANZA_CACHE`; without it,
nothing is kept. A file has offsets and tags, no text; its name is the SHA-256 of the text, by which whoever has a note
can tell that it was tagged, so the folder is closed to other users.
"""

import hashlib
import json
import os
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ensemble_deid.atomic import write_text_atomically
from ensemble_deid.errors import ConfigError

VARIABLE = "ENSEMBLE_DEID_STANZA_CACHE"
# Start, end, part of speech and entity tag of each stanza token of a text, in their order.
Tags = tuple[tuple[int, int, str, str], ...]


@dataclass(frozen=True, slots=True)
class TagStore:
    """The tags of one version of the models, a file for each text."""

    folder: Path

    def get(self, text: str, make: Callable[[], Tags]) -> Tags:
        """Return the text's tags, made and stored now where there are none. Raises ConfigError for a damaged file."""
        digest = hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()
        path = self.folder / digest[:2] / f"{digest}.json"
        if path.is_file():
            return _read(path, len(text))
        tags = make()
        write_text_atomically(path, json.dumps(tags) + "\n")
        return tags


def tag_store(version: str) -> TagStore | None:
    """Return the store of a version in the folder that the environment names; None where it names none."""
    place = os.environ.get(VARIABLE)
    if not place:
        return None
    Path(place).mkdir(mode=0o700, parents=True, exist_ok=True)
    return TagStore(Path(place) / version)


def models_hash(config: Mapping[str, Any]) -> str:
    """Return the SHA-256 over the bytes of every model file of a pipeline."""
    digest = hashlib.sha256()
    for path in sorted(set(_files(config))):
        with path.open("rb") as stream:
            digest.update(hashlib.file_digest(stream, "sha256").digest())
    return digest.hexdigest()


def models_version(models: str, library: str) -> str:
    """Return a name for what decides the tags: the hash of the model files, and stanza's version."""
    return hashlib.sha256(f"{library} {models}".encode()).hexdigest()[:32]


def _files(value: Any) -> Iterator[Path]:
    """Yield the files that a pipeline's configuration names; processors of several models have lists, or tables."""
    if isinstance(value, Mapping):
        value = list(value.values())
    if isinstance(value, list | tuple):
        for part in value:
            yield from _files(part)
    elif isinstance(value, str) and value and (path := Path(value)).is_file():
        yield path


def _read(path: Path, length: int) -> Tags:
    """Read stored tags, which must be tokens of a text of so many characters, one after the other."""
    try:
        found = [(start, end, pos, ner) for start, end, pos, ner in json.loads(path.read_text(encoding="utf-8"))]
    except (OSError, ValueError, TypeError, RecursionError):
        raise _damaged(path) from None
    after = 0
    for start, end, pos, ner in found:
        numbers = type(start) is int and type(end) is int
        if not numbers or not after <= start < end <= length or not isinstance(pos, str) or not isinstance(ner, str):
            raise _damaged(path)
        after = end
    return tuple(found)


def _damaged(path: Path) -> ConfigError:
    return ConfigError(f"{path}: damaged; delete it, and the text is tagged again")
