"""Searching a model's files for the PHI of a corpus: what somebody finds who opens them.

Each file is read as text whatever its kind, after JSON escapes are resolved, and cut into runs of letters and digits in
lower case: the strings of CRFsuite's file, names in the rules and chance hits in binary weights are all found this way.
A PHI string is searched for as a whole (its runs, one after the other) and in parts (its words of three and more
letters).

Some words are found in any model: `hospital` is a word of many notes. So the same search is made with a control, other
values of the same labels that the model cannot know, and only what the corpus and its control do not share is counted.
"""

import gzip
import json
import re
import zlib
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from scipy.stats import fisher_exact

from ensemble_deid.corpora.resample import resample_corpus
from ensemble_deid.errors import ModelError
from ensemble_deid.pipeline.manifest import FILE
from ensemble_deid.text.document import Document

ALL_FILES, ALL_LABELS = "any file", "any label"
UNITS = WHOLE, WORD = "whole", "word"
_RUN = re.compile(r"[^\W_]+")
_SHORTEST = 3
_CONTROL_SEED = 20

Runs = tuple[str, ...]
Strings = dict[tuple[str, str], set[Runs]]
"""(unit, label) -> the strings to search for, each as its runs."""


@dataclass(frozen=True, slots=True)
class ScanRow:
    """How many of a corpus's strings of one label are in one file, and how many of the control's are.

    `p` is the probability that as many or more of the corpus's are found by chance (Fisher's exact test).
    """

    file: str
    unit: str
    label: str
    strings: int
    found: int
    control_strings: int
    control_found: int
    p: float

    def to_json(self) -> dict[str, Any]:
        """Return the row as JSON-ready data."""
        return asdict(self)


@dataclass(frozen=True, slots=True)
class _Index:
    """All strings to search for by their last run."""

    by_last: Mapping[str, tuple[Runs, ...]] = field(repr=False)
    longest: int

    @classmethod
    def of(cls, strings: Iterable[Runs]) -> "_Index":
        by_last: dict[str, list[Runs]] = defaultdict(list)
        longest = 1
        for runs in sorted(set(strings)):
            by_last[runs[-1]].append(runs)
            longest = max(longest, len(runs))
        return cls({last: tuple(found) for last, found in by_last.items()}, longest)

    def found_in(self, text: str) -> set[Runs]:
        """Return the strings that stand in a text."""
        found: set[Runs] = set()
        recent: list[str] = []
        for match in _RUN.finditer(text):
            recent.append(match[0])
            if len(recent) > 4096:
                del recent[: -self.longest]
            for runs in self.by_last.get(match[0], ()):
                if len(runs) == 1 or tuple(recent[-len(runs) :]) == runs:
                    found.add(runs)
        return found


def scan_model(
    model: Path, documents: Sequence[Document], control: Sequence[Document] | None = None
) -> tuple[ScanRow, ...]:
    """Search every file of a model for the PHI of annotated notes, and say how much chance alone would find.

    Without `control` its values are surrogates of the corpus's own (`corpus resample`). Rows come in order of file,
    unit and label; the file `ALL_FILES` and the label `ALL_LABELS` sum up. Nothing of the notes is in them. Raises
    ModelError where there is no model.
    """
    if not (model / FILE).is_file():
        raise ModelError(f"{model}: not a model directory (there is no {FILE})")
    if control is None:
        control = resample_corpus(documents, copies=1, seed=_CONTROL_SEED)
    own, other = _only_in_first(_strings(documents), _strings(control))
    index = _Index.of(runs for side in (own, other) for strings in side.values() for runs in strings)
    by_file: dict[str, set[Runs]] = {
        path.relative_to(model).as_posix(): index.found_in(file_text(path)) for path in _files(model)
    }
    by_file[ALL_FILES] = set().union(*by_file.values())
    keys = sorted({*own, *other}, key=lambda key: (UNITS.index(key[0]), key[1] != ALL_LABELS, key[1]))
    return tuple(
        _row(file, key, own.get(key, set()), other.get(key, set()), found)
        for file, found in by_file.items()
        for key in keys
    )


def file_text(path: Path) -> str:
    """Return a file as lower-case text; bytes that are no text become other characters, which end a run."""
    data = path.read_bytes()
    if path.suffix == ".gz":
        # What is compressed can be read by whoever has the model.
        with suppress(gzip.BadGzipFile, EOFError, zlib.error):
            data = gzip.decompress(data)
    text = data.decode("utf-8", errors="replace")
    if path.suffix == ".json":
        # A file that is not what its name says is searched as it is.
        with suppress(ValueError, RecursionError):
            text = json.dumps(json.loads(data), ensure_ascii=False)
    return text.lower()


def _files(model: Path) -> Iterator[Path]:
    return (path for path in sorted(model.rglob("*")) if path.is_file())


def _strings(documents: Iterable[Document]) -> Strings:
    """Return the strings of annotated notes, whole and in words, by label and for all labels."""
    strings: Strings = defaultdict(set)
    for document in documents:
        for span in document.spans:
            runs = tuple(_RUN.findall(document.text[span.start : span.end].lower()))
            for label in (span.label, ALL_LABELS):
                if len("".join(runs)) >= _SHORTEST:
                    strings[(WHOLE, label)].add(runs)
                strings[(WORD, label)].update((run,) for run in runs if len(run) >= _SHORTEST and run.isalpha())
    return strings


def _only_in_first(first: Strings, second: Strings) -> tuple[Strings, Strings]:
    """Return both sides without the strings that occur on the other, under whatever label."""
    every = {unit: (first.get((unit, ALL_LABELS), set()), second.get((unit, ALL_LABELS), set())) for unit in UNITS}
    mine = {key: strings - every[key[0]][1] for key, strings in first.items()}
    theirs = {key: strings - every[key[0]][0] for key, strings in second.items()}
    return mine, theirs


def _row(file: str, key: tuple[str, str], own: set[Runs], other: set[Runs], found: set[Runs]) -> ScanRow:
    hits, chance = len(own & found), len(other & found)
    table = [[hits, len(own) - hits], [chance, len(other) - chance]]
    p = float(fisher_exact(table, alternative="greater").pvalue)
    return ScanRow(file, *key, len(own), hits, len(other), chance, p)
