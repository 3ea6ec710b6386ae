"""Parts of speech and named entities by stanza (Qi et al. 2020), where they are asked for: the extra `nlp`.

The models are files on this machine, which `ensemble-deid research download stanza` fetches; nothing else fetches any.
"""

import hashlib
import json
import os
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from ensemble_deid.atomic import write_text_atomically
from ensemble_deid.config import STANZA_NAME
from ensemble_deid.errors import ConfigError, ModelError, needs_extra
from ensemble_deid.features.table import Column
from ensemble_deid.note.document import Document
from ensemble_deid.note.tokens import TokenTable
from ensemble_deid.parsing import strict_json

# Stanza's tags kept on disk by the hash of the text and the version of the models: a text is tagged once.
#
# Tagging takes longer than everything else that features need, and cross-validation or a search of settings would do it
# again for every training. The folder is named by the environment variable `ENSEMBLE_DEID_STANZA_CACHE`; without it,
# nothing is kept. A file has offsets and tags, no text; its name is the SHA-256 of the text, by which whoever
# has a note
# can tell that it was tagged, so the folder is closed to other users.


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
        found = [(start, end, pos, ner) for start, end, pos, ner in strict_json(path.read_text(encoding="utf-8"))]
    except (OSError, ValueError, TypeError):
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


COLUMNS = ("pos", "ner")
NONE = "-"
PROCESSORS = "tokenize,pos,ner"
# Of a text, its stanza tokens.
Annotate = Callable[[str], Tags]


@dataclass(frozen=True, slots=True)
class StanzaModels:
    """Which models make the tags: `language` or `language/package`, the SHA-256 over their files, stanza's version."""

    name: str
    hash: str
    stanza: str

    def to_record(self) -> dict[str, str]:
        """Return what the manifest of a model keeps, by which it knows these models again."""
        return {"name": self.name, "models": self.hash, "stanza": self.stanza}

    def refuse_others(self, record: Mapping[str, str]) -> None:
        """Raise ModelError where a model was trained with the tags of other files than these.

        Stanza itself may be another version, as the other libraries may: the manifest says which one it was.
        """
        if record["models"] != self.hash:
            raise ModelError(
                f"stanza's models {self.name!r} on this machine are not the ones that the model was "
                f"trained with (by stanza {record['stanza']}; here is {self.stanza})"
            )


@dataclass(frozen=True, slots=True)
class Annotator:
    """A pipeline of stanza, which is run once for each text where there is a store of tags."""

    pipeline: Callable[[str], Any] = field(repr=False)
    models: StanzaModels
    store: TagStore | None = None

    def __call__(self, text: str) -> Tags:
        """Return the tags of a text. Raises ConfigError where its stored tags are damaged."""
        if self.store is None:
            return tags_of(self.pipeline(text))
        return self.store.get(text, lambda: tags_of(self.pipeline(text)))


def load_pipeline(name: str) -> Annotator:
    """Return stanza's pipeline `language` or `language/package`, of models that were downloaded before.

    The models are looked for where stanza keeps them, or in the folder that `STANZA_RESOURCES_DIR` names. Nothing is
    downloaded here. Raises ConfigError when stanza or the models are missing.
    """
    stanza = _stanza("text.stanza")
    language, package = _parts(name)
    try:
        pipeline = stanza.Pipeline(
            language,
            package=package,
            dir=_folder(stanza),
            processors=PROCESSORS,
            download_method=None,
            use_gpu=False,
            verbose=False,
        )
    except (OSError, ValueError, KeyError, stanza.pipeline.core.PipelineRequirementsException) as error:
        raise ConfigError(
            f"text.stanza: no usable models {name!r} on this machine ({type(error).__name__}); "
            f"fetch them with: ensemble-deid research download stanza {name}"
        ) from None
    models = StanzaModels(name, models_hash(pipeline.config), stanza.__version__)
    return Annotator(pipeline, models, tag_store(models_version(models.hash, models.stanza)))


def download_models(name: str) -> str:
    """Fetch the models `language` or `language/package` and return the folder that they are in.

    Raises ConfigError where stanza is missing, knows no such models, or cannot reach its server.
    """
    stanza = _stanza("download")
    language, package = _parts(name)
    folder = _folder(stanza)
    try:
        stanza.download(language, model_dir=folder, package=package, processors=PROCESSORS, verbose=False)
    except (OSError, ValueError, KeyError) as error:
        # Of a server that cannot be reached, requests has an OSError.
        reason = "the server cannot be reached" if isinstance(error, OSError) else "there are none of that name"
        raise ConfigError(f"stanza's models {name!r} cannot be fetched: {reason} ({type(error).__name__})") from None
    return folder


def tags_of(document: Any) -> Tags:
    """Return the tokens of stanza's document: start, end, universal part of speech, entity tag.

    The part of speech is that of all words where stanza parts a token (`ADP+DET`); a tag that is missing is `-`.
    """
    return tuple(
        (token.start_char, token.end_char, "+".join(word.upos or NONE for word in token.words), token.ner or NONE)
        for sentence in document.sentences
        for token in sentence.tokens
    )


def stanza_columns(documents: Sequence[Document], tokens: TokenTable, annotate: Annotate) -> dict[str, Column]:
    """Return the columns `pos` and `ner`: the tags of the stanza token that holds a token's first character.

    Both are `-` where stanza sees no token or gives no tag.
    """
    pos, ner = [NONE] * len(tokens), [NONE] * len(tokens)
    for d, document in enumerate(documents):
        low, high = int(tokens.document_starts[d]), int(tokens.document_starts[d + 1])
        found = () if low == high else annotate(document.text)
        begins = np.array([start for start, _, _, _ in found], dtype=np.int64)
        for row, start in enumerate(tokens.start[low:high].tolist(), low):
            k = int(np.searchsorted(begins, start, side="right")) - 1
            if k >= 0 and start < found[k][1]:
                pos[row], ner[row] = found[k][2:]
    return {"pos": Column.from_strings(pos), "ner": Column.from_strings(ner)}


def _stanza(what: str) -> Any:
    with needs_extra("nlp", what):
        # Imported here: it takes seconds, and only those who ask for it have it.
        import stanza
    return stanza


def _parts(name: str) -> tuple[str, str]:
    if not re.fullmatch(STANZA_NAME, name):
        raise ConfigError(f"stanza has no models for {name!r}: expected a language, or language/package")
    language, _, package = name.partition("/")
    return language, package or "default"


def _folder(stanza: Any) -> str:
    # stanza reads the variable when it is imported; read again, it also holds for whoever sets it later.
    return os.environ.get("STANZA_RESOURCES_DIR") or str(Path(stanza.resources.common.DEFAULT_MODEL_DIR))
