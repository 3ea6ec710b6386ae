"""Searching a model's files for the PHI of a corpus: what somebody finds who opens them.

Each file is read as text whatever its kind, after JSON escapes are resolved, and cut into runs of letters and digits in
lower case: the strings of CRFsuite's file, names in the rules and chance hits in binary weights are all found this way.
A PHI string is searched for as a whole (its runs, one after the other) and in parts (its words of three and more
letters).

Some words are found in any model: `hospital` is a word of many notes. So the same search is made with a control, other
values of the same labels that the model cannot know, and only what the corpus and its control do not share is counted.

Whether more is found than by chance is told by the strings that a single patient has. Of all strings, the larger corpus
has more of the common ones (a small control hardly has a common string that the corpus lacks), and common strings are
more often words of a model. A string that one patient of both corpora has could as well be that of any other patient,
however common it is: which of the two corpora it comes from is by lot (a permutation argument; Fisher's exact test).
"""

import json
import re
from collections import defaultdict, deque
from collections.abc import Iterable, Mapping, Sequence, Set
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from ensemble_deid.corpora.resample import resample_corpus
from ensemble_deid.errors import ModelError
from ensemble_deid.evaluation.bootstrap import fisher_greater
from ensemble_deid.model.manifest import FILE
from ensemble_deid.note.document import Document
from ensemble_deid.parsing import strict_json
from ensemble_deid.taggers.crf.tagger import FILE as CRF_WEIGHTS
from ensemble_deid.taggers.crf.weights import CrfWeights

ALL_FILES, ALL_LABELS = "any file", "any label"
UNITS = WHOLE, WORD = "whole", "word"
_RUN = re.compile(r"[^\W_]+")
_ESCAPE = re.compile(r"\\[A-Za-z]")
_SHORTEST = 3
_CONTROL_SEED = 20

Runs = tuple[str, ...]
_Strings = dict[tuple[str, str], dict[Runs, set[str]]]
"""(unit, label) -> the strings to search for, each as its runs, and the patients who have it."""


@dataclass(frozen=True, slots=True)
class ScanRow:
    """How many of a corpus's strings of one label are in one file, and how many of the control's are.

    `single` has the same four numbers for the strings that one patient alone has, whatever their label. `p` is the
    probability that as many or more of the corpus's are found among these by chance (Fisher's exact test).
    """

    file: str
    unit: str
    label: str
    strings: int
    found: int
    control_strings: int
    control_found: int
    single: tuple[int, int, int, int]
    p: float

    def to_json(self) -> dict[str, Any]:
        return asdict(self)


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
    strings, others = _strings(documents), _strings(control)
    own, other = _without(strings, others), _without(others, strings)
    singles = {unit: _of_one_patient(own, unit) | _of_one_patient(other, unit) for unit in UNITS}
    by_last: dict[str, set[Runs]] = defaultdict(set)
    for runs in (runs for side in (own, other) for strings in side.values() for runs in strings):
        by_last[runs[-1]].add(runs)
    files = (path for path in sorted(model.rglob("*")) if path.is_file())
    by_file = {path.relative_to(model).as_posix(): _found(by_last, file_text(path)) for path in files}
    by_file[ALL_FILES] = set().union(*by_file.values())
    keys = sorted({*own, *other}, key=lambda key: (UNITS.index(key[0]), key[1] != ALL_LABELS, key[1]))
    return tuple(
        _row(file, key, own=set(own.get(key, ())), other=set(other.get(key, ())), found=found, singles=singles[key[0]])
        for file, found in by_file.items()
        for key in keys
    )


def _found(by_last: Mapping[str, Set[Runs]], text: str) -> set[Runs]:
    """Return those of the strings, which are given by their last run, that are in a text."""
    found: set[Runs] = set()
    recent: deque[str] = deque(maxlen=max((len(runs) for strings in by_last.values() for runs in strings), default=1))
    for match in _RUN.finditer(text):
        recent.append(match[0])
        for runs in by_last.get(match[0], ()):
            if len(runs) == 1 or tuple(recent)[-len(runs) :] == runs:
                found.add(runs)
    return found


def file_text(path: Path) -> str:
    """Return a file as lower-case text; bytes that are no text become other characters, which end a run."""
    if path.name.endswith(CRF_WEIGHTS):
        # A file that is not what its name says is searched as it is.
        with suppress(ModelError):
            return "\n".join(CrfWeights.of_file(path).attributes()).lower()
    data = path.read_bytes()
    text = data.decode("utf-8", errors="replace")
    if path.suffix == ".json":
        with suppress(ValueError):
            text = json.dumps(strict_json(data), ensure_ascii=False)
    if path.suffix == ".toml":
        # The letter of `\bSmith\b` in a pattern is no part of the word.
        text = _ESCAPE.sub(" ", text)
    return text.lower()


def _strings(documents: Iterable[Document]) -> _Strings:
    """Return the strings of annotated notes, whole and in words, by label and for all labels."""
    strings: _Strings = defaultdict(lambda: defaultdict(set))
    for document in documents:
        for span in document.spans:
            runs = tuple(_RUN.findall(document.text[span.start : span.end].lower()))
            for label in (span.label, ALL_LABELS):
                if len("".join(runs)) >= _SHORTEST:
                    strings[(WHOLE, label)][runs].add(document.patient)
                for run in runs:
                    if len(run) >= _SHORTEST and run.isalpha():
                        strings[(WORD, label)][(run,)].add(document.patient)
    return strings


def _without(strings: _Strings, others: _Strings) -> _Strings:
    """Return the strings that do not occur among the others, under whatever label."""
    every = {unit: others.get((unit, ALL_LABELS), {}) for unit in UNITS}
    return {
        key: {runs: owners for runs, owners in found.items() if runs not in every[key[0]]}
        for key, found in strings.items()
    }


def _of_one_patient(strings: _Strings, unit: str) -> set[Runs]:
    """Return the strings that one patient alone has, under any label."""
    return {runs for runs, owners in strings.get((unit, ALL_LABELS), {}).items() if len(owners) == 1}


def _row(
    file: str, key: tuple[str, str], own: set[Runs], other: set[Runs], found: set[Runs], singles: set[Runs]
) -> ScanRow:
    mine, theirs = own & singles, other & singles
    hits, chance = len(mine & found), len(theirs & found)
    p = fisher_greater(((hits, len(mine) - hits), (chance, len(theirs) - chance)))
    return ScanRow(
        file,
        *key,
        strings=len(own),
        found=len(own & found),
        control_strings=len(other),
        control_found=len(other & found),
        single=(len(mine), hits, len(theirs), chance),
        p=p,
    )
