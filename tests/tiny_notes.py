"""Notes small enough to learn from in a second, and regular enough to be learned: input for the tests of learners."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from ensemble_deid.features.batch import Batch, plain_batch, with_lexicon
from ensemble_deid.features.lexicon import learn_lexicon
from ensemble_deid.features.patterns import parse_patterns
from ensemble_deid.note.document import Document
from ensemble_deid.note.span import Span
from ensemble_deid.note.tags import TagScheme

SCHEME = TagScheme.from_labels(["DATE", "ID", "NAME"])
PATTERNS = parse_patterns(
    """
    name = "tiny"
    [[pattern]]
    name = "date"
    label = "DATE"
    regex = '\\d{2}/\\d{2}'
    [[pattern]]
    name = "number"
    label = "ID"
    regex = '\\d{3,}'
    """
)
_FIRST = ("Ann", "Bob", "Carla", "Dora", "Eve", "Frank", "Gina", "Hugo")
_LAST = ("Lee", "Moss", "Nash", "Ortiz", "Park", "Quinn", "Reyes", "Stone")
_FILLER = ("slept well", "had pain", "took 100 mg", "was seen at home", "Park visits help")


def tiny_notes(n: int, *, seed: int = 0) -> list[Document]:
    """Return n annotated notes of n / 2 patients."""
    rng = np.random.default_rng(seed)
    return [_note(f"{seed}-{i}", f"patient {seed}-{i // 2}", rng) for i in range(n)]


def _note(identifier: str, patient: str, rng: np.random.Generator) -> Document:
    def one_of(words: Sequence[str]) -> str:
        return words[int(rng.integers(len(words)))]

    name, doctor = f"{one_of(_FIRST)} {one_of(_LAST)}", one_of(_LAST)
    date = f"{rng.integers(10, 29)}/{rng.integers(10, 13)}"
    parts = [("Name: ", ""), (name, "NAME"), ("\nRecord ", ""), (str(rng.integers(1000, 9999)), "ID")]
    parts += [(f"\n{one_of(_FIRST)} {one_of(_FILLER)} on ", ""), (date, "DATE"), (". Dr. ", ""), (doctor, "NAME")]
    parts += [(f" {one_of(_FILLER)}.", "")]
    text, spans = "", []
    for part, label in parts:
        if label:
            spans.append(Span(len(text), len(text) + len(part), label))
        text += part
    return Document(identifier, text, tuple(spans), patient)


def tiny_batch(documents: Sequence[Document], *, learned_from: Sequence[Document] | None = None) -> Batch:
    """Return the batch of notes with a lexicon of other notes, or of their own (each patient then left out)."""
    batch = plain(documents)
    source = batch if learned_from is None else plain(learned_from)
    lexicon = learn_lexicon(source.documents, source.tokens, source.table["lower"].strings())
    return with_lexicon(batch, lexicon, leave_own_patient_out=learned_from is None)


def plain(documents: Sequence[Document]) -> Batch:
    """Return the batch of notes without a lexicon."""
    return plain_batch(documents, patterns=PATTERNS, split_lines=True)


def write_patterns(folder: Path) -> str:
    """Write the patterns into a file and return its name, for a configuration."""
    path = folder / "tiny.toml"
    path.write_text(PATTERNS.source, encoding="utf-8")
    return str(path)


def no_progress(message: str) -> None:
    """Take a line of progress and do nothing with it."""
