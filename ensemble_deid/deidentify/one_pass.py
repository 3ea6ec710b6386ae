"""The pass over notes: all that happens to a note after the model has read it, the same at every door.

In a pass over one note, it knows only what was found in itself; in a pass over many, each note of a patient knows what
was found in any of them.
"""

import logging
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import TypedDict, cast

from ensemble_deid.corpora.edits import Edit
from ensemble_deid.deidentify.gate import ACCEPTED, CHANGED, Gate
from ensemble_deid.deidentify.known.site_lists import DENY, KNOWN, LEFT
from ensemble_deid.deidentify.options import RunOptions
from ensemble_deid.deidentify.prediction import Note
from ensemble_deid.deidentify.repeats import SOURCE as REPEAT
from ensemble_deid.deidentify.repeats import Known, PatientStrings
from ensemble_deid.deidentify.replacement import ReplacedSpan
from ensemble_deid.errors import ConfigError, CorpusError, DeidError, ModelError, RuleError
from ensemble_deid.model.additions import InclusionList
from ensemble_deid.model.options import threshold_factor
from ensemble_deid.note.digits import rounded
from ensemble_deid.note.document import Document, patient_of
from ensemble_deid.note.reading import read
from ensemble_deid.note.span import ENFORCED, VOTE, Span
from ensemble_deid.stacking.sequence_scores import SOURCE as SINGLE_TOKEN

_LOG = logging.getLogger("ensemble_deid")
REPEATS = "repeats of strings found elsewhere"
IN_LISTED_SENTENCES = "spans dropped in sentences of the inclusion list"
HARD_FORM = "notes in a form in which the threshold is lowered"
"""Names of counts."""


_OTHERS = {
    SINGLE_TOKEN: "the score of a single word that no candidate covers",
    REPEAT: "a repeat of what was found elsewhere",
    KNOWN: "the site's list of known identifiers",
    DENY: "the site's deny list",
}


def predicted_by(source: str) -> str:
    """Return who predicted a span of this `source`: submodels, or a pattern, list or recognizer beside them."""
    named = source.replace("+", ", ") or "the final estimator alone, in no submodel's own answer"
    return _OTHERS.get(source, named)


class SpanDict(TypedDict):
    """A replaced span, with its offsets in both texts."""

    start: int
    end: int
    new_start: int
    new_end: int
    label: str
    score: float


class ResultDict(TypedDict):
    """A result, as JSON has it."""

    text: str | None
    error: str | None
    spans: list[SpanDict]
    known_left: int
    counts: dict[str, int]


@dataclass(frozen=True, slots=True)
class DeidentificationResult:
    """A de-identified text and the spans that were taken out, or the reason why the text is withheld.

    `spans` are in characters of the text that came in, `replaced` says where in the new text they are. Where `error` is
    not None the text could not be processed whole, or the gate holds it back: `text` is then None and `spans` is empty.
    `counts` says how many repeats were found, and what the gate and the lists did, by the names in docs/known.md;
    `known_left` is how many known identifiers are left in `text`. Labels are those of the output; `found` are the spans
    with the labels under which they were found.

    >>> from ensemble_deid import DeidentificationResult, Span
    >>> DeidentificationResult("Seen by Dr. [DOCTOR].", (Span(12, 18, "DOCTOR"),)).text
    'Seen by Dr. [DOCTOR].'
    """

    text: str | None = field(repr=False)
    spans: tuple[Span, ...] = ()
    error: str | None = None
    replaced: tuple[ReplacedSpan, ...] = field(default=(), compare=False)
    known_left: int = 0
    counts: Mapping[str, int] = field(default_factory=dict, hash=False)
    found: tuple[Span, ...] = field(default=(), compare=False, repr=False)

    @property
    def edits(self) -> tuple[Edit, ...]:
        """The changes made to the input text."""
        text = self.text or ""
        return tuple(Edit(span.start, span.end, text[span.new_start : span.new_end]) for span in self.replaced)

    def to_dict(self) -> ResultDict:
        """Return what JSON can hold of the result, without the text that came in.

        >>> from ensemble_deid import DeidentificationResult
        >>> DeidentificationResult("Well.").to_dict()
        {'text': 'Well.', 'error': None, 'spans': [], 'known_left': 0, 'counts': {}}
        """
        spans = [cast("SpanDict", asdict(replace(span, score=rounded(span.score)))) for span in self.replaced]
        counts = dict(self.counts)
        return ResultDict(text=self.text, error=self.error, spans=spans, known_left=self.known_left, counts=counts)

    def map_offset(self, offset: int, *, back: bool = False) -> int:
        """Return where an offset into the text that came in is in the new one, with `back` the other way round.

        Inside of what was replaced it is the start of what takes its place. Raises ValueError outside of the text, and
        for a text that is withheld.
        """
        if self.text is None:
            raise ValueError("the text is withheld: it has no offsets")
        places = [(s.start, s.end, s.new_start, s.new_end) for s in self.replaced]
        if back:
            places = [(new_start, new_end, start, end) for start, end, new_start, new_end in places]
        longer = sum(s.end - s.start - (s.new_end - s.new_start) for s in self.replaced)
        length = len(self.text) + (0 if back else longer)
        if not 0 <= offset <= length:
            raise ValueError(f"the offset {offset} is outside of a text of {length} characters")
        moved = 0
        for start, end, new_start, new_end in places:
            if offset < start:
                break
            if offset < end:
                return new_start
            moved = new_end - end
        return offset + moved

    @property
    def remark(self) -> str | None:
        """A remark on the text: known identifiers left in it, and what the gate would have withheld."""
        left = [f"{self.known_left} {LEFT}"] if self.known_left else []
        return "; ".join([*left, *(name for name in self.counts if name.startswith(ACCEPTED))]) or None


def log_remark(result: DeidentificationResult) -> None:
    """Log the remark of a result, at a door whose answers have no place for it."""
    if result.remark is not None:
        _LOG.warning("a note: %s", result.remark)


def failure_of(error: Exception, step: str = "processing") -> str:
    """Return why an error withholds a note; raise the error when the model or the options are at fault.

    For an unforeseen error it is the type alone, since the message may quote the note.
    """
    if isinstance(error, ConfigError | ModelError | RuleError):
        raise error
    return str(error) if isinstance(error, DeidError) else f"{step} failed ({type(error).__name__})"


@dataclass(slots=True)
class NotePass:
    """One pass over the notes of one scope: `learn` from each of them first, then `finish` each.

    Notes come as `Deidentifier.read_notes` returns them. One that cannot be processed whole, or that the gate holds
    back, has a result with an error; what was found in it is still searched in the patient's other notes. Without a
    gate (in measurements) all notes pass.
    """

    options: RunOptions
    gate: Gate | None
    inclusion: InclusionList | None = None
    strings: PatientStrings = field(init=False)
    failed: dict[tuple[str, str], str] = field(default_factory=dict, init=False, repr=False)

    def __post_init__(self) -> None:
        self.strings = self.options.no_strings()

    def learn(self, note: Note) -> None:
        """Remember what was found in a note, and what the site's lists say of it, for the notes of its patient."""
        if not isinstance(note, Document) or note.patient_id is None:
            return
        try:
            self.strings.add(self.believed(note))
        except Exception as error:  # noqa: BLE001 (whatever happens to a note, it is withheld and reported)
            self.failed[note.patient_id, note.id] = failure_of(error)

    def known(self, note: Document, taken: frozenset[str] = frozenset()) -> Known:
        """Return what is known of a note's patient, or from a note of nobody; `taken` are more strings of PHI."""
        known = self.strings.of(note if note.patient_id is not None else self.believed(note))
        return known.and_taken(self.options.lists.taken(note.patient_id) | taken)

    def finish(self, note: Note, taken: frozenset[str] = frozenset()) -> DeidentificationResult:
        """Search what is known, apply the lists, resolve overlaps, replace; `taken` is other PHI of the patient."""
        if isinstance(note, DeidError):
            return DeidentificationResult(None, (), str(note))
        counts: Counter[str] = Counter()
        try:
            problem = self.failed.get((note.patient_id or "", note.id)) or self._held_back(note, counts)
            if problem is None:
                return self._processed(note, taken, counts)
        except Exception as error:  # noqa: BLE001 (whatever happens to a note, it is withheld and reported)
            problem = failure_of(error)
        problem = problem.removeprefix(f"{note.id}: ")
        return DeidentificationResult(None, (), f"{note.id}: {problem}", counts=_acted(counts))

    def _held_back(self, note: Document, counts: Counter[str]) -> str | None:
        """Return why the gate holds a note back; None where it passes."""
        if self.gate is None:
            return None
        unfit = self.gate.check(note.text)
        if unfit is None:
            counts[CHANGED] = int(self.gate.changed)
            return None
        counts[unfit.counted(accepted=self.options.accept_unfit)] = 1
        return None if self.options.accept_unfit else unfit.reason

    def _processed(self, note: Document, taken: frozenset[str], counts: Counter[str]) -> DeidentificationResult:
        (kept, others), counts[IN_LISTED_SENTENCES] = self._outside_listed(note)
        counts[HARD_FORM] = int(threshold_factor(read(note.text)) < 1)
        known = self.known(note, taken)
        searched = known.search(kept)
        counts[REPEATS] = len(set(searched.spans) - set(kept.spans))
        lists, hides = self.options.lists, self.options.replacer.styles.hides
        listed = lists.apply(searched, counts, hides=hides, by_model=kept.spans, others=others)
        return self._replaced(listed, known, counts)

    def believed(self, note: Document) -> Document:
        """Return a note with what the model and the lists find in it, before repeats are searched."""
        (kept, others), _ = self._outside_listed(note)
        return self.options.lists.apply(kept, hides=self.options.replacer.styles.hides, others=others)

    def _outside_listed(self, note: Document) -> tuple[tuple[Document, Sequence[Span]], int]:
        """Return the note without spans inside sentences of the inclusion list, and the number of spans dropped.

        Spans of enforced patterns and recognizers are returned apart, since they may overlap the model's.
        """
        number = 0
        if self.inclusion is not None:
            # Looking for what is known takes longer.
            note, number = self.inclusion.apply(note, must_stay=self.options.lists.places(note))
        others = [span for span in note.spans if span.source.startswith((ENFORCED, VOTE))]
        if others:
            note = note.with_spans(span for span in note.spans if not span.source.startswith((ENFORCED, VOTE)))
        return (note, others), number

    def _replaced(self, note: Document, known: Known, counts: Counter[str]) -> DeidentificationResult:
        replacer, lists = self.options.replacer, self.options.lists
        owned = replace(note, patient_id=patient_of(note.patient_id, note.text))
        try:
            doubted = replacer.doubted(owned, known.sure)
            made = replacer.replace(owned, taken=known.taken, numbered_by_note=note.patient_id is None, doubted=doubted)
        except DeidError as error:
            raise CorpusError(f"replacement failed: {error}") from None
        except Exception as error:  # noqa: BLE001 (whatever happens to a note, it is withheld and reported)
            raise CorpusError(failure_of(error, "replacement")) from None
        counts.update(lists.left(note, made, replacer))
        if lists.strict and counts[LEFT]:
            raise CorpusError(f"known identifiers are left in the output: {counts[LEFT]}")
        name, renamed = replacer.styles.name, bool(replacer.styles.names)
        return DeidentificationResult(
            made.text,
            tuple(replace(span, label=name(span.label)) for span in note.spans) if renamed else note.spans,
            replaced=tuple(replace(span, label=name(span.label)) for span in made.spans) if renamed else made.spans,
            known_left=counts[LEFT],
            counts=_acted(counts),
            found=note.spans,
        )


def _acted(counts: Counter[str]) -> dict[str, int]:
    return {name: number for name, number in sorted(counts.items()) if number}


def finish_alone(
    note: Note, options: RunOptions, gate: Gate | None, inclusion: InclusionList | None = None
) -> DeidentificationResult:
    """Return what becomes of a note that the model has read, by what is found in itself."""
    alone = NotePass(options, gate, inclusion)
    alone.learn(note)
    return alone.finish(note)


def finish_together(
    notes: Sequence[Note], options: RunOptions, gate: Gate | None, inclusion: InclusionList | None = None
) -> Iterator[DeidentificationResult]:
    """Yield what becomes of notes that the model has read, by what is found in all notes of the same patient."""
    together = NotePass(options, gate, inclusion)
    for note in notes:
        together.learn(note)
    return map(together.finish, notes)
