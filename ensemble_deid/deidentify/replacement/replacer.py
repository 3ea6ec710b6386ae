"""Putting replacements in the place of PHI: each span in the style of its label, with a map from old to new offsets."""

import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from functools import lru_cache, partial
from itertools import count
from pathlib import Path

from ensemble_deid.deidentify.replacement.styles import INVENTING, StyleFunction, Styles, check_labels, make_styles
from ensemble_deid.deidentify.replacement.values import Values
from ensemble_deid.keys import Key
from ensemble_deid.note.document import Document
from ensemble_deid.note.folding import same_string, visible, without_marks
from ensemble_deid.note.reading import read
from ensemble_deid.note.rtf import DATA
from ensemble_deid.note.span import Span
from ensemble_deid.surrogates.choices import Keyed
from ensemble_deid.surrogates.patient import PatientSurrogates, is_spanish, kind_of

# Integers below 2**53 stay exact in every program that reads them, also as floating-point numbers.
_INTEGER_DIGITS = 15
_INTEGER = re.compile(r"[+-]?\d+")


@dataclass(frozen=True, slots=True)
class ReplacedSpan:
    """Characters `[start, end)` of the input text, which `[new_start, new_end)` of the output text stand for."""

    start: int
    end: int
    new_start: int
    new_end: int
    label: str
    score: float


@dataclass(frozen=True, slots=True)
class Replacement:
    """A text whose PHI is replaced, and where, in the order of the text."""

    text: str = field(repr=False)
    spans: tuple[ReplacedSpan, ...] = ()


@dataclass(frozen=True, slots=True)
class Replacer:
    """Replaces PHI; every result is a function of key, scope, styles and input, so that processes can share the work.

    >>> from ensemble_deid import Document, Span
    >>> from ensemble_deid.deidentify.replacement import Replacer
    >>> replacer = Replacer.from_options("tag")
    >>> replacer.replace(Document("note-1", "Seen by Dr. Strong.", (Span(12, 18, "DOCTOR"),))).text
    'Seen by Dr. [DOCTOR].'
    """

    styles: Styles
    key: Key
    scope: str = ""

    @classmethod
    def from_options(
        cls,
        style: str | StyleFunction | None = None,
        styles: Mapping[str, str | StyleFunction] | None = None,
        policy: str | Path | None = None,
        key: Key | None = None,
        scope: str = "",
        *,
        settings: Mapping[str, bool | float] | None = None,
        rename: Mapping[str, str] | None = None,
        labels: Collection[str] | None = None,
    ) -> "Replacer":
        """Return the replacer for a policy, a default style and those of labels, of which the later ones win.

        A style may be an operator: a callable from string and label to what takes its place. `settings` are the fields
        of `SurrogateSettings`. `rename` has new names of labels and categories for the output. `labels` are those of
        the model: with them, a style or name for an unknown label is refused. Without a key a fresh one is made. Raises
        ConfigError.
        """
        chosen = make_styles(style, styles, policy, settings, rename)
        if labels is not None:
            check_labels(styles or {}, frozenset(labels))
            check_labels(rename or {}, frozenset(labels), "rename ")
        return cls(chosen, Key.fresh() if key is None else key, scope)

    def replace(
        self,
        document: Document,
        *,
        taken: Collection[str] = (),
        numbered_by_note: bool | None = None,
        doubted: Collection[Span] | None = None,
    ) -> Replacement:
        """Return the document's text with its spans replaced.

        `taken` has the normalised PHI (`normalise`) of all notes of the patient: no surrogate equals any of it, and a
        part of a name is recognised by the full name in another note. Without it, and for a note without a patient, the
        note's own PHI tells what it is a part of. `numbered_by_note` numbers people (style `numbered`) in the order in
        which the note names them; None: where nothing is `taken`. Spans that are `doubted` have a tag instead of an
        invented value; None: what `doubted` says of the document. Raises ValueError for spans that overlap.
        """
        doubts = self.doubted(document) if doubted is None else doubted
        spans = sorted(document.spans)
        reading = read(document.text, usual_case=False)
        as_read = reading.spans(spans)
        shown = [span for span in as_read if span is not None]
        own = {same_string(reading.text[span.start : span.end]) for span in shown}
        # What is in this note alone, such as spans joined to one, must not make it another person here than elsewhere.
        known = frozenset(taken) | (own if not taken or document.patient_id is None else set())
        spanish = any(is_spanish(span.label) for span in spans)
        make = partial(self._surrogates, document.patient, known, spanish=spanish, avoided=frozenset(own - known))
        by_note = not taken if numbered_by_note is None else numbered_by_note
        doubtful = [read_span for span, read_span in zip(spans, as_read, strict=True) if span in doubts and read_span]
        values = Values(self.styles, make, reading.text, shown, numbered_by_note=by_note, doubted=doubtful)
        parts: list[str] = []
        replaced: list[ReplacedSpan] = []
        position = length = 0
        for span, read_span in zip(spans, as_read, strict=True):
            if span.start < position or span.end > len(document.text):
                raise ValueError(f"the span {span.start}-{span.end} overlaps another or reaches outside the text")
            between, surface = document.text[position : span.start], document.text[span.start : span.end]
            unread = "" if span.label == DATA else f"[{self.styles.name(span.label)}]"
            value = unread if read_span is None else values.of(read_span, surface)
            start = length + len(between)
            length = start + len(value)
            parts += (between, value)
            replaced.append(
                ReplacedSpan(span.start, span.end, new_start=start, new_end=length, label=span.label, score=span.score)
            )
            position = span.end
        parts.append(document.text[position:])
        return Replacement("".join(parts), tuple(replaced))

    def doubted(self, document: Document, sure: Collection[str] = ()) -> frozenset[Span]:
        """Return the spans that become tags where their style would invent a value.

        No mention of their string, here or in `sure` (strings that are sure elsewhere), scores `min_score`; or they
        read as medicine. With a `min_score` of 0 nothing is doubted.
        """
        least = self.styles.settings.min_score
        asked = [span for span in sorted(document.spans) if self.styles.of(span.label) in INVENTING]
        if least == 0 or not asked:
            return frozenset()
        reading = read(document.text, usual_case=False)
        pairs = [(span, there) for span, there in zip(asked, reading.spans(asked), strict=True) if there is not None]
        strings = {span: same_string(reading.text[there.start : there.end]) for span, there in pairs}
        believed = {string for span, string in strings.items() if span.score >= least}.union(sure)
        return frozenset(
            span for span, there in pairs if strings[span] not in believed or self.is_medicine(reading.text, there)
        )

    @staticmethod
    def is_medicine(text: str, span: Span) -> bool:
        """Whether a span of a text as it is read reads as a dose, a drug, an abbreviation and the like."""
        from ensemble_deid.surrogates.medicine import AROUND, reads_as_medicine

        surface, before = text[span.start : span.end], visible(text[max(0, span.start - AROUND) : span.start])
        after = visible(text[span.end : span.end + AROUND])
        kind, spanish = kind_of(span.label, surface), is_spanish(span.label)
        return reads_as_medicine(without_marks(surface), kind, before=before, after=after, spanish=spanish)

    def pseudonym(self, value: str, *, kind: str, patient: str | None = None) -> str:
        """Return a keyed pseudonym of an id: 15 digits for an integer, else `kind-` and 20 letters and digits.

        It is never the id itself. Two of a million integers collide with a probability of 0.0006, of a million other
        ids with one of 10**-12.
        """
        of_patient = () if patient is None else (patient,)
        keyed = Keyed(self.key.secret, (self.scope, "pseudonym", kind, *of_patient))
        least = 10 ** (_INTEGER_DIGITS - 1)

        def made(digest: bytes) -> str:
            if _INTEGER.fullmatch(value):
                return str(least + int.from_bytes(digest, "big") % (9 * least))
            return f"{kind}-{digest.hex()[:20]}"

        candidates = (made(keyed.digest(value, str(attempt))) for attempt in count())
        return next(new for new in candidates if new not in value)

    def shift_date(self, value: str, *, patient: str, taken: Collection[str] = (), spanish: bool = False) -> str | None:
        """Return a date moved by the patient's shift, in the same form; None if it is not a date.

        The patient's PHI (`taken`) and `spanish` tell how 3/4/2014 is read; else 3 is the month, unless `day_first`.
        """
        surrogates = self._surrogates(patient, frozenset(taken), spanish=spanish)
        return surrogates.dates.shift(value, year=surrogates.year)

    def shown_years(
        self, value: str, *, patient: str, taken: Collection[str] = (), spanish: bool = False
    ) -> list[int] | None:
        """Return the years of a date, read as by `shift_date`; None if it is not a date or shows an age over 89."""
        surrogates = self._surrogates(patient, frozenset(taken), spanish=spanish)
        if surrogates.shows_great_age(value):
            return None
        return surrogates.dates.years(value, year=surrogates.year)

    @staticmethod
    def normalise(surface: str) -> str:
        """Return a string of PHI without case, accents and repeated white space, as `taken` holds it."""
        return same_string(surface)

    def _surrogates(
        self, patient: str, known: frozenset[str], *, spanish: bool = False, avoided: frozenset[str] = frozenset()
    ) -> PatientSurrogates:
        scope, settings = (self.scope, patient), self.styles.settings
        return _patient_surrogates(self.key.secret, scope, settings, known, spanish=spanish, avoided=avoided)


# The notes of a patient come one after another and have the same PHI, whose tables are then made once.
_patient_surrogates = lru_cache(maxsize=8)(PatientSurrogates)
