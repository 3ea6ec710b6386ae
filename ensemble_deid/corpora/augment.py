"""Enlarge a corpus, for training only, with copies of its notes in another form: layout, case, typing errors."""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

import numpy as np

from ensemble_deid.corpora.augment_words import bare_names, dictated, refilled_names
from ensemble_deid.corpora.edits import Edit, apply_edits
from ensemble_deid.errors import ConfigError
from ensemble_deid.note.document import Document
from ensemble_deid.note.overlaps import apart
from ensemble_deid.note.tokens import tokenize
from ensemble_deid.seeds import generator

# Changes of a note's form that keep its gold spans: header, formats of numbers, field names, lines, typing, case.

LONGEST_HEADER = 800
"""Characters within which the blank line must come that ends a header."""
NUMBER_LABELS = frozenset(
    "DATE PHONE FAX MEDICALRECORD IDNUM ACCOUNT HEALTHPLAN LICENSE SSN DEVICE VEHICLE ZIP".split()
)
_NUMBER = re.compile(r"[+(]?\d+(?:[ ./()+-]{1,2}\d+)*")
_FIELD_NAME = re.compile(r"(?m)^[ \t]*[A-Z][A-Za-z /.#]{0,24}[:#=] ?(?=\S)")
_WORD = re.compile(r"[^\W\d_]{4,}")
_MISREAD = {"O": "0", "o": "0", "l": "1", "I": "l", "S": "5", "B": "8", "m": "rn", "e": "c", "h": "b"}
NOISY_WORDS = 0.04
DROPPED_FIELD_NAMES = 0.5
DROPPED_SENTENCES = 0.2


def header_end(note: Document) -> int:
    """Return where the note's header ends: after the first blank line; 0 if there is none near, or it cuts a span."""
    match = re.search(r"\n[ \t]*\n", note.text[:LONGEST_HEADER])
    end = match.end() if match else 0
    return 0 if any(span.start < end < span.end for span in note.spans) else end


def exchange_header(note: Document, donor: Document | None) -> Document:
    """Return the note under the donor's header with the donor's marks; unchanged where either has none."""
    own, other = header_end(note), 0 if donor is None else header_end(donor)
    if donor is None or not own or not other:
        return note
    moved = [
        replace(span, start=span.start - own + other, end=span.end - own + other)
        for span in note.spans
        if span.start >= own
    ]
    header = [span for span in donor.spans if span.end <= other]
    return replace(note, text=donor.text[:other] + note.text[own:], spans=tuple(header + moved))


def number_formats(notes: Sequence[Document], *, other_than: Document) -> Mapping[tuple[str, int], list[str]]:
    """Return (label, number of digits) -> the strings of digits and punctuation that other sites write so."""
    found: dict[tuple[str, int], list[str]] = {}
    for note in notes:
        if note.site == other_than.site:
            continue
        for span in note.spans:
            surface = note.text[span.start : span.end]
            if span.label in NUMBER_LABELS and _NUMBER.fullmatch(surface):
                found.setdefault((span.label, _digits(surface)), []).append(surface)
    return found


def _digits(surface: str) -> int:
    return sum(character.isdigit() for character in surface)


def reformatted(note: Document, formats: Mapping[tuple[str, int], list[str]], rng: np.random.Generator) -> list[Edit]:
    """Return the edits that punctuate numbers as another site does; one format for each label in a note."""
    edits: list[Edit] = []
    chosen: dict[tuple[str, int], str] = {}
    for span in apart(note.spans):
        surface = note.text[span.start : span.end]
        key = (span.label, _digits(surface))
        if key not in formats or not _NUMBER.fullmatch(surface):
            continue
        if key not in chosen:
            chosen[key] = formats[key][int(rng.integers(len(formats[key])))]
        digits = iter(character for character in surface if character.isdigit())
        text = "".join(next(digits) if character.isdigit() else character for character in chosen[key])
        edits.append(Edit(span.start, span.end, text))
    return edits


def dropped_labels(note: Document, rng: np.random.Generator) -> list[Edit]:
    """Return the edits that take some of the field names ("Name:") off that stand before PHI."""
    starts = {span.start for span in note.spans}
    found = [m for m in _FIELD_NAME.finditer(note.text) if m.end() in starts and not _touches(note, m.start(), m.end())]
    return [Edit(m.start(), m.end(), "") for m in found if rng.random() < DROPPED_FIELD_NAMES]


def dropped_sentences(note: Document, rng: np.random.Generator) -> list[Edit]:
    """Return the edits that leave out some sentences, with what is marked in them."""
    tokens = tokenize([note])
    if not len(tokens):
        return []
    first = tokens.sentence_starts.tolist()
    edits = []
    for begin, stop in zip(first, [*first[1:], len(tokens)], strict=True):
        start, end = int(tokens.start[begin]), int(tokens.end[stop - 1])
        crossed = any(span.start < edge < span.end for span in note.spans for edge in (start, end))
        if rng.random() < DROPPED_SENTENCES and not crossed:
            edits.append(Edit(start, end, ""))
    return edits


def rewrapped(note: Document, rng: np.random.Generator) -> list[Edit]:
    """Return the edits that break lines at another width, or join lines that were broken."""
    width = int(rng.integers(50, 110))
    if rng.random() < 0.5:
        return [Edit(m.start(), m.end(), " ") for m in re.finditer(r"(?<=[a-z,])\n(?=[a-z])", note.text)]
    edits = []
    for line in re.finditer(r"[^\n]+", note.text):
        begin = line.start()
        while line.end() - begin > width:
            space = note.text.rfind(" ", begin + 1, begin + width)
            if space <= begin:
                break
            edits.append(Edit(space, space + 1, "\n"))
            begin = space + 1
    return edits


def typing_errors(note: Document, rng: np.random.Generator) -> list[Edit]:
    """Return the edits that put a typing or scanning error into some words of four letters and more."""
    edits = []
    for match in _WORD.finditer(note.text):
        if rng.random() >= NOISY_WORDS:
            continue
        place = match.start() + int(rng.integers(1, len(match.group()) - 1))
        pair = note.text[place : place + 2]
        kind = int(rng.integers(4))
        edit = (
            Edit(place, place + 1, _MISREAD.get(pair[0], pair[0])),
            Edit(place, place + 1, ""),
            Edit(place, place + 2, pair[::-1]),
            Edit(place, place + 1, pair[0] * 2),
        )[kind]
        if not _touches(note, edit.start, edit.end):
            edits.append(edit)
    return edits


def _touches(note: Document, start: int, end: int) -> bool:
    """Return whether an edit would cross an edge of a span, or take all of one."""
    return any(
        span.start < end
        and start < span.end
        and (start < span.start or span.end < end or end - start >= span.end - span.start)
        for span in note.spans
    )


def scanned(note: Document, rng: np.random.Generator) -> list[Edit]:
    """Return the edits that misread characters as a scanner does, at a rate of 2, 5 or 8% of those that look alike."""
    rate = (0.02, 0.05, 0.08)[int(rng.integers(3))]
    places = [k for k, character in enumerate(note.text) if character in _MISREAD]
    chosen = rng.random(len(places)) < rate
    edits = [Edit(k, k + 1, _MISREAD[note.text[k]]) for k, hit in zip(places, chosen.tolist(), strict=True) if hit]
    return [edit for edit in edits if not _touches(note, edit.start, edit.end)]


def barred(note: Document, rng: np.random.Generator) -> list[Edit]:
    """Return the edits that put bars in the place of blanks outside PHI, as an export of a table does."""
    covered = {place for span in note.spans for place in range(span.start, span.end)}
    return [
        Edit(match.start(), match.end(), " | ")
        for match in re.finditer(" +", note.text)
        if covered.isdisjoint(range(match.start(), match.end()))
    ]


def folded_case(note: Document, rng: np.random.Generator) -> Document:
    """Return the note in lower case, in capitals, or with its marked words alone in lower case; the length stays."""
    kind = int(rng.integers(3))
    if kind < 2:
        return replace(note, text="".join(_cased(character, upper=kind == 0) for character in note.text))
    text = list(note.text)
    for span in note.spans:
        text[span.start : span.end] = [_cased(character, upper=False) for character in text[span.start : span.end]]
    return replace(note, text="".join(text))


def _cased(character: str, *, upper: bool) -> str:
    """Return the character in the other case, itself where that would be several characters."""
    changed = character.upper() if upper else character.lower()
    return changed if len(changed) == 1 else character


def _donor(note: Document, notes: Sequence[Document], rng: np.random.Generator) -> Document | None:
    """Return a random note of another site, None if there is none; without a site, each patient counts as one."""
    others = [other for other in notes if (other.site or other.patient) != (note.site or note.patient)]
    return others[int(rng.integers(len(others)))] if others else None


CHANGES: Mapping[str, Callable[[Document, Sequence[Document], np.random.Generator], Document]] = {
    "headers": lambda note, notes, rng: exchange_header(note, _donor(note, notes, rng)),
    "formats": lambda note, notes, rng: apply_edits(
        note, reformatted(note, number_formats(notes, other_than=note), rng)
    ),
    "labels": lambda note, notes, rng: apply_edits(note, dropped_labels(note, rng)),
    "sentences": lambda note, notes, rng: apply_edits(note, dropped_sentences(note, rng)),
    "wrap": lambda note, notes, rng: apply_edits(note, rewrapped(note, rng)),
    "bare-names": lambda note, notes, rng: apply_edits(note, bare_names(note, rng)),
    "other-names": lambda note, notes, rng: apply_edits(note, refilled_names(note, rng)),
    "dictation": lambda note, notes, rng: apply_edits(note, dictated(note, rng)),
    "bars": lambda note, notes, rng: apply_edits(note, barred(note, rng)),
    "scan": lambda note, notes, rng: apply_edits(note, scanned(note, rng)),
    "noise": lambda note, notes, rng: apply_edits(note, typing_errors(note, rng)),
    "case": lambda note, notes, rng: folded_case(note, rng),
    "form": lambda note, notes, rng: _other_form(note, notes, rng),
}
"""The changes by name, in the order in which several of them are made; `form` draws one of `FORMS` for each note."""
FORMS = ("case", "case", "scan", "scan", "dictation", "dictation", "dictation", "wrap", "bars", "")


def _other_form(note: Document, notes: Sequence[Document], rng: np.random.Generator) -> Document:
    name = FORMS[int(rng.integers(len(FORMS)))]
    return CHANGES[name](note, notes, rng) if name else note


def copies_for_training(
    notes: Sequence[Document], *, share: float, changes: Sequence[str], seed: int
) -> list[Document]:
    """Return changed copies of a share of the notes, drawn note by note. Raises ConfigError for an unknown change."""
    drawn = [note for note in notes if generator(seed, f"copied {note.id}").random() < share]
    return augment_corpus(drawn, changes=changes, copies=1, seed=seed) if share else []


def augment_corpus(documents: Sequence[Document], *, changes: Sequence[str], copies: int, seed: int) -> list[Document]:
    """Return `copies` copies of the notes with all named changes made, copy by copy, without the originals.

    Copy c of `101-01` is `101-01-a<c>`, of the same patient and site. Raises ConfigError for a bad change or number.
    """
    unknown = sorted(set(changes) - set(CHANGES))
    if unknown or not changes:
        raise ConfigError(
            f"changes of the form must be some of {', '.join(CHANGES)}, not {', '.join(unknown) or 'none'}"
        )
    if copies < 1:
        raise ConfigError(f"copies must be at least 1, not {copies}")
    return [_copy(note, documents, changes, copy, seed=seed) for copy in range(1, copies + 1) for note in documents]


def _copy(note: Document, notes: Sequence[Document], changes: Sequence[str], copy: int, *, seed: int) -> Document:
    changed = note
    for name, change in CHANGES.items():
        if name in changes:
            changed = change(changed, notes, generator(seed, f"augment {name} {copy} {note.id}"))
    return replace(
        changed,
        id=f"{note.id}-a{copy}",
        patient_id=note.patient,
        metadata={**note.metadata, "copy": str(copy), "changes": ", ".join(n for n in CHANGES if n in changes)},
    )
