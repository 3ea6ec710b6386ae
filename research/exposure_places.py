"""What a reader of de-identified notes sees: surrogates, and among them the PHI that the model missed."""

from collections.abc import Sequence
from dataclasses import dataclass, field

from ensemble_deid.deidentify.one_pass import DeidentificationResult, finish_together
from ensemble_deid.deidentify.options import RunOptions
from ensemble_deid.deidentify.replacement import ReplacedSpan, Replacer
from ensemble_deid.evaluation.leaks import leaking_places
from ensemble_deid.evaluation.pairs import EvaluationError, pair_documents
from ensemble_deid.note.document import Document
from ensemble_deid.note.labels import category_of

OTHER = "OTHER"
_SAME_IN_SURROGATES = "AGE"


@dataclass(frozen=True, slots=True)
class Place:
    """Characters `[start, end)` of a de-identified note that look like PHI; `missed` where they are the original's.

    `category` is NAME, DATE and so on, which a reader sees from the words around.
    """

    start: int
    end: int
    category: str
    missed: bool


@dataclass(frozen=True, slots=True)
class HiddenNote:
    """A de-identified note, as whoever it is given to has it, and its places, which do not overlap, in text order."""

    document: Document = field(repr=False)
    places: tuple[Place, ...]


def hide(gold: Sequence[Document], system: Sequence[Document], replacer: Replacer) -> list[HiddenNote]:
    """Replace what a system found as `deidentify` does, and say where surrogates stand and where PHI was missed.

    Strings that were found in one note of a patient are searched in the others, too. Ages are left out, since those of
    up to 89 stay as they are, found or not; so is what became a tag. Of an annotation that was found in part, the rest
    is a missed place. Raises EvaluationError where the notes differ, or one of them cannot be replaced.
    """
    pairs = pair_documents(gold, system)
    predicted = [pair.gold.with_spans(pair.system.spans) for pair in pairs]
    outcomes = finish_together(predicted, RunOptions(replacer=replacer), None)
    notes: list[HiddenNote] = []
    for pair, outcome in zip(pairs, outcomes, strict=True):
        if outcome.text is None:
            raise EvaluationError(f"{pair.id}: the note cannot be de-identified")
        places = sorted((*_surrogates(pair.gold, outcome), *_missed(pair.gold, outcome)), key=lambda p: p.start)
        notes.append(HiddenNote(Document(pair.id, outcome.text, patient_id=pair.group), tuple(places)))
    return notes


def _surrogates(document: Document, result: DeidentificationResult) -> list[Place]:
    places, text = [], result.text or ""
    for span in result.replaced:
        value = text[span.new_start : span.new_end]
        category = category_of(span.label) or OTHER
        tag = value == f"[{span.label}]"
        if category != _SAME_IN_SURROGATES and not tag and value != document.text[span.start : span.end]:
            places.append(Place(span.new_start, span.new_end, category, missed=False))
    return places


def _missed(gold: Document, result: DeidentificationResult) -> list[Place]:
    """Return what is left of annotations: runs from the first to the last character that nothing replaced covers."""
    covered = bytearray(len(gold.text))
    for span in result.replaced:
        covered[span.start : span.end] = b"\x01" * (span.end - span.start)
    runs: dict[tuple[int, int], str] = {}
    for key in sorted({span.key for span in gold.spans}):
        category = category_of(key[2]) or OTHER
        if category != _SAME_IN_SURROGATES:
            _, leaks = leaking_places(gold, covered, key)
            runs.update(dict.fromkeys(_runs(leaks, covered), category))
    places: list[Place] = []
    for (start, end), category in sorted(runs.items()):
        moved = _offset(start, result.replaced)
        # Annotations may lie inside one another: what is left of them is one place.
        if not places or start + moved >= places[-1].end:
            places.append(Place(start + moved, end + moved, category, missed=True))
    return places


def _runs(leaks: Sequence[int], covered: bytearray) -> list[tuple[int, int]]:
    runs: list[tuple[int, int]] = []
    for place in leaks:
        if runs and not any(covered[runs[-1][1] : place]):
            runs[-1] = (runs[-1][0], place + 1)
        else:
            runs.append((place, place + 1))
    return runs


def _offset(start: int, spans: Sequence[ReplacedSpan]) -> int:
    """Return how far the text after the last replacement before `start` has moved."""
    before = [span for span in spans if span.end <= start]
    return before[-1].new_end - before[-1].end if before else 0
