"""The record of a note: enough to tell whether a later note changes its output, without its text.

The output depends on the note's cells and on the strings found in any of its patient's notes. To tell whether it would
change, what was replaced is replaced again, and HMACs of the words left say whether a string found later is among them.
So the result is the same, however notes are divided into nights.
"""

import hashlib
from base64 import b64decode, b64encode
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date
from functools import lru_cache
from os import SEEK_END
from tempfile import TemporaryFile
from typing import Any
from weakref import finalize

from ensemble_deid.corpora.record_map import Field, FieldKind, FieldRule
from ensemble_deid.corpora.records import Record, Value
from ensemble_deid.corpora.tables.columns import Columns
from ensemble_deid.deidentify.cells import Cells
from ensemble_deid.deidentify.known.identifiers import Identifier
from ensemble_deid.deidentify.known.of_records import identifiers_of_json, identifiers_of_record, identifiers_to_json
from ensemble_deid.deidentify.one_pass import DeidentificationResult
from ensemble_deid.deidentify.options import RunOptions
from ensemble_deid.deidentify.project.store import KeptNote, Store
from ensemble_deid.deidentify.project.traces import held_by, traces_of
from ensemble_deid.deidentify.repeats import SOURCE, WORD, Known, PatientStrings, places
from ensemble_deid.deidentify.replacement import Replacer
from ensemble_deid.deidentify.rows import year_taken
from ensemble_deid.errors import DeidError
from ensemble_deid.keys import Key
from ensemble_deid.note.document import Document
from ensemble_deid.note.folding import same_string, visible
from ensemble_deid.note.reading import as_read, read
from ensemble_deid.note.span import Span
from ensemble_deid.surrogates.names import titles_of
from ensemble_deid.surrogates.patient import kind_of
from ensemble_deid.surrogates.places import state_beside

Memory = Mapping[str, Any]
OTHER_VALUES = "later notes change a replacement"
FOUND_LATER = "it may hold a string that was found later"
_ALWAYS_ALIKE = (FieldKind.KEEP, FieldKind.CODES, FieldKind.AGE, FieldKind.PSEUDONYM)
"""Kinds of fields whose replacements depend on no other note."""
_HASH = 6
_AROUND = 24
_BETWEEN = "\nand beside it stands nothing\n"


@dataclass(slots=True)
class Context:
    """The facts about one patient, and the options under which notes are written."""

    options: RunOptions
    cells: Cells
    key: Key
    patient: str = field(repr=False)
    year: int | None = None
    strings: PatientStrings = field(init=False, repr=False)

    def __post_init__(self) -> None:
        self.strings = self.options.no_strings()

    @classmethod
    def of(cls, memories: Sequence[Memory], *, options: RunOptions, cells: Cells, key: Key) -> "Context":
        years = [memory["year"] for memory in memories if memory.get("year") is not None]
        patient = memories[0]["patient"]
        context = cls(options, cells, key, patient, max(years, default=None))
        for memory in memories:
            context.strings.add_found(patient, found_in(memory))
            options.add_known(patient, said_in(memory))
        return context

    @property
    def known(self) -> Known:
        """All facts about the patient, with those of the site's lists."""
        known = self.strings.of(Document("", "", patient_id=self.patient))
        return known.and_taken(self.options.lists.taken(self.patient) | year_taken(self.year))

    def why_due(self, memory: Memory) -> str | None:
        """Return why a note that was handed out is to be handed out again; None where it would be the same."""
        known, said = self.known, self.options.known_of(self.patient)
        # A note of nobody depends on itself alone.
        if self.patient.startswith("sha256 ") or memory["known"] == _digest(known, said):
            return None
        if values_of(memory, known, cells=self.cells, patient=self.patient) != memory["values"]:
            return OTHER_VALUES
        if "traces" in memory and memory["held"] != _held(memory["traces"], said, self.key):
            return FOUND_LATER
        later = set(possible_repeats(memory["mentions"], memory["left"], known, self.key)) - set(memory["repeats"])
        return FOUND_LATER if later else None


def found_in(memory: Memory) -> Iterable[tuple[str, str, float]]:
    """Yield the strings that were found in a note, each with its label and score."""
    return ((surface, label, score) for _, _, surface, label, score in memory.get("found", ()))


def said_in(memory: Memory) -> Iterable[Identifier]:
    """Yield what a record says of its patient outside the text."""
    return identifiers_of_json(memory.get("said", ()))


def taught_beside(record: Record) -> dict[str, Any]:
    return {"said": identifiers_to_json(identifiers_of_record(record))}


def taught(believed: Document) -> dict[str, Any]:
    """Return what a note, with what was found in it alone (`NotePass.believed`), tells of its patient."""
    spoken = as_read(believed)
    found = [
        [span.start, span.end, spoken.text[span.start : span.end], span.label, span.score] for span in spoken.spans
    ]
    return {"found": found}


def remember(record: Record, result: DeidentificationResult, context: Context, known: Known) -> dict[str, Any]:
    """Return what tells whether the output of a note, written with what is known, would be another one later."""
    cells, key, patient = context.cells, context.key, context.patient
    text = record.text or ""
    mentions, left = _mentions(text, result.found, known), _left(text, result.found, known, key)
    columns = zip(cells.columns.dates, record.dates, strict=False)
    dates = {name: _written(value) for name, value in columns if value is not None and not cells.columns.keeps(name)}
    said = context.options.known_of(patient)
    memory: dict[str, Any] = {
        "known": _digest(known, said),
        "mentions": mentions,
        "dates": dates,
        "fields": [
            [field.name, field.rule.kind, field.rule.of, _written(field.value)]
            for field in record.fields
            if field.rule.kind not in _ALWAYS_ALIKE and field.value is not None
        ],
        "left": left,
        "repeats": possible_repeats(mentions, left, known, key),
    }
    memory["values"] = values_of(memory, known, cells=cells, patient=patient)
    if cells.mapped:
        memory["traces"] = traces_of(text, key)
        memory["held"] = _held(memory["traces"], said, key)
    return memory


def _held(traces: str, said: Sequence[Identifier], key: Key) -> str:
    """Return a hash of the patient's identifiers that a note may hold."""
    return _hash_of(sorted(identifiers_to_json(held_by(traces, said, key))))


def _written(value: Value) -> str:
    return value.isoformat() if isinstance(value, date) else str(value)


def _digest(known: Known, said: Sequence[Identifier]) -> str:
    """Return a hash of all that a note's output depends on besides the note."""
    beside = sorted(identifiers_to_json(said))
    return _hash_of((sorted(known.taken), sorted(known.wanted.items()), sorted(known.sure), beside))


def _hash_of(told: object) -> str:
    return hashlib.sha256(repr(told).encode("utf-8", "surrogatepass")).hexdigest()[:24]


def values_of(memory: Memory, known: Known, *, cells: Cells, patient: str) -> str:
    """Return a hash of the current replacements of a note's strings, dates and fields."""
    text, spans, doubted = "", [], set()
    mentions, dates = memory["mentions"], memory["dates"]
    replacer = cells.replacer
    least = replacer.styles.settings.min_score
    sure = known.sure | {same_string(mention[0]) for mention in mentions if mention[5] >= least}
    for surface, label, before, after, repeats, _, medicine in mentions:
        if repeats and surface not in known.wanted:
            return ""
        named = known.wanted[surface][0] if repeats else label
        text += _BETWEEN + before
        spans.append(Span(len(text), len(text) + len(surface), named))
        if least and (medicine or same_string(surface) not in sure):
            doubted.add(spans[-1])
        text += surface + after
    document = Document("", text + _BETWEEN, tuple(spans), patient_id=patient)
    try:
        made = replacer.replace(document, taken=known.taken, numbered_by_note=False, doubted=doubted).text
        # The columns of this night may be others.
        columns = Cells(replacer, Columns(dates=tuple(dates)), cells.bits, cells.labels, mapped=cells.mapped)
        columns.orders = cells.orders
        fields = [
            Field(name, FieldRule(FieldKind(kind), of), value) for name, kind, of, value in memory.get("fields", ())
        ]
        beside = Record("", patient=patient, dates=tuple(dates.values()), fields=tuple(fields))
        made += repr((columns.dates(beside, known), columns.fields(beside, known)))
    except (DeidError, ValueError):
        return ""
    return _hash_of(made)


def possible_repeats(mentions: Sequence[Sequence[Any]], left: str, known: Known, key: Key) -> list[str]:
    """Return hashes of the patient's strings that may be in a note outside of what was replaced in it."""
    kept = b64decode(left)
    outside = {kept[start : start + _HASH] for start in range(0, len(kept), _HASH)}
    surfaces = [mention[0] for mention in mentions]
    inside = {word for surface in surfaces for word in _telling_words(surface)}
    found = []
    for string in known.wanted:
        words = _telling_words(string)
        without = [word for word in words if _word_hash(word, key) not in outside]
        joined = any(True for surface in surfaces for _ in places(surface, string))
        if not without or (inside.issuperset(without) and not joined):
            found.append(b64encode(_word_hash(string, key)).decode())
    return sorted(found)


def _mentions(text: str, spans: Sequence[Span], known: Known) -> list[list[Any]]:
    """Return each span as its surrogate sees it: string, label, titles before it, state after it, if it is a repeat.

    Then follow its score, 0 for a repeat, and whether it reads as medicine.
    """
    reading, usual, found = read(text, usual_case=False), read(text), list[list[Any]]()
    for span, here, there in zip(spans, reading.spans(spans), usual.spans(spans), strict=True):
        if here is None:
            continue
        before = visible(reading.text[max(0, here.start - _AROUND) : here.start])
        after = visible(reading.text[here.end : here.end + _AROUND])
        surface = reading.text[here.start : here.end]
        state = state_beside(after) if kind_of(span.label, "") == "CITY" else None
        searched = usual.text[there.start : there.end] if there is not None and span.source == SOURCE else None
        repeats = searched == surface and surface in known.wanted
        doubts = 0 if repeats else span.score, Replacer.is_medicine(reading.text, here)
        found.append([surface, span.label, titles_of(before), f", {state}" if state else "", repeats, *doubts])
    return found


def _left(text: str, spans: Sequence[Span], known: Known, key: Key) -> str:
    """Return hashes of the words outside the spans that hide what they hold, in no order."""
    reading = read(text)
    covered = bytearray(len(reading.text))
    for span in reading.spans([span for span in spans if known.hides(span.label)]):
        if span is not None:
            covered[span.start : span.end] = b"\1" * (span.end - span.start)
    words = {word.group() for word in WORD.finditer(reading.text) if not all(covered[word.start() : word.end()])}
    hashes = sorted({_word_hash(word, key) for word in words if _is_telling(word)})
    return b64encode(b"".join(hashes)).decode()


def _telling_words(string: str) -> list[str]:
    return [word for word in WORD.findall(string) if _is_telling(word)]


def _is_telling(word: str) -> bool:
    """Whether a word can be what makes a string telling (`repeats.py`): others are in too many notes."""
    return not word.isascii() or any(character.isupper() or character.isdigit() for character in word)


@lru_cache(maxsize=1 << 16)
def _word_hash(word: str, key: Key) -> bytes:
    return bytes.fromhex(key.fingerprint("project word", word.encode("utf-8", "surrogatepass")))[:_HASH]


class WaitingRows:
    """Rows of finished notes, sealed in a file until the night ends, since they may not fit into memory."""

    def __init__(self, store: Store) -> None:
        self._store, self._file = store, TemporaryFile()  # noqa: SIM115 (closed with this object)
        self._places: dict[str, tuple[int, int]] = {}
        finalize(self, self._file.close)

    def add(self, row: KeptNote) -> None:
        """Store a row, replacing the one with its tag."""
        data = self._store.sealed(row)
        self._places[row.tag] = self._file.seek(0, SEEK_END), len(data)
        self._file.write(data)

    @property
    def tags(self) -> Collection[str]:
        return self._places.keys()

    def row(self, tag: str) -> KeptNote:
        place, size = self._places[tag]
        self._file.seek(place)
        return self._store.unsealed(self._file.read(size), tag)
