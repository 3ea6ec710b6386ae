"""Recall of names by origin and by form: the same notes with other people's names in them.

    python -m research names en demo:dev --out names.md

In every note the parts of patients' and clinicians' names are replaced, one for each, by names of one origin
(`rules/surrogates`), by made-up ones, or by English words that are surnames; given names by given names, surnames by
surnames. In the rows of forms each note has an origin of its own. A part of a name is found if the spans that a model
finds at its own threshold cover it, whatever their label; single letters are not counted. Intervals resample sites.
"""

import argparse
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from ensemble_deid.cli.options import add_command, add_files, add_model
from ensemble_deid.cli.sources import check_out_files, publish, read_gold
from ensemble_deid.corpora.augment_words import TITLE, made_up_name, names_of, surnames_that_are_words
from ensemble_deid.corpora.edits import Edit, apply_edits
from ensemble_deid.deidentify.deidentifier import Deidentifier
from ensemble_deid.evaluation.bootstrap import Interval, bootstrap_interval
from ensemble_deid.evaluation.render.results import FILE_FORMS, Point, Results, Table, draw_points
from ensemble_deid.note.digits import percent
from ensemble_deid.note.document import Document
from ensemble_deid.note.folding import match_case
from ensemble_deid.note.span import Span
from ensemble_deid.seeds import generator
from ensemble_deid.surrogates.known import FAMILY, GIVEN, KnownNames, NamePart
from ensemble_deid.surrogates.lists import MEN, SURNAMES, WOMEN, name_lists

MADE_UP, WORDS = "made up", "English words"
Part = tuple[Span, NamePart]


@dataclass(frozen=True, slots=True)
class NamesFigure:
    """How many parts of the names of one row a model found, with the interval of the share."""

    row: str
    found: int
    names: int
    interval: Interval

    @property
    def recall(self) -> float | None:
        """The share of the parts of names that were found, None where there are none."""
        return self.found / self.names if self.names else None


def origins() -> tuple[str, ...]:
    """Return the origins of the lists, and the two that are no list's."""
    return (*sorted({origin for origin, _ in name_lists().given_out}), MADE_UP, WORDS)


def renamed(note: Document, origin: str, *, seed: int = 0) -> Document:
    """Return the note with other people's names: each part of a name has one, whoever has it, of the origin."""
    rng = generator(seed, f"research/names/{note.id}/{origin}")
    new: dict[tuple[str, str], str] = {}
    edits = []
    for span, part in parts_of(note):
        if (part.role, part.word) not in new:
            new[part.role, part.word] = _drawn(rng, origin, part.role)
        value = new[part.role, part.word]
        start, end = span.start + part.start, span.start + part.end
        edits.append(Edit(start, end, match_case(note.text[start:end], value if len(part.word) > 1 else value[0])))
    return apply_edits(note, edits)


def parts_of(note: Document) -> list[Part]:
    """Return the given names and surnames in the note's names with their spans, without titles and particles."""
    spans = names_of(note)
    known = KnownNames([note.text[span.start : span.end] for span in spans])
    return [
        (span, part)
        for span in spans
        for part in known.parts(note.text[span.start : span.end], usual=FAMILY if span.label == "DOCTOR" else GIVEN)
        if part.role
    ]


def without_titles(note: Document) -> Document:
    """Return the note with no title before a name."""
    titles = [TITLE.search(note.text, 0, span.start) for span in names_of(note)]
    places = {(match.start(), match.end()) for match in titles if match}
    inside = [p for p in places if not any(span.start < p[1] and p[0] < span.end for span in note.spans)]
    return apply_edits(note, [Edit(start, end, "") for start, end in sorted(inside)])


def with_titles(note: Document) -> Document:
    """Return the note with a title before each name that has none: Dr. for clinicians, Ms. for others."""
    bare = [span for span in names_of(note) if not TITLE.search(note.text, 0, span.start)]
    titles = {True: "Dr. ", False: "Ms. "}
    return apply_edits(note, [Edit(span.start, span.start, titles[span.label == "DOCTOR"]) for span in bare])


def surnames_alone(note: Document) -> Document:
    """Return the note with the last surname of each name alone, without a title before it."""
    edits = []
    for span in names_of(note):
        last = [part for other, part in parts_of(note) if other == span and part.role == FAMILY and len(part.word) > 1]
        if last:
            start, end = span.start + last[-1].start, span.start + last[-1].end
            edits += [Edit(span.start, start, ""), Edit(end, span.end, "")]
    return without_titles(apply_edits(note, [edit for edit in edits if edit.start < edit.end]))


def with_initials(note: Document) -> Document:
    """Return the note with initials for the given names that stand beside a surname."""
    pairs = parts_of(note)
    full = {span for span, part in pairs if part.role == FAMILY and len(part.word) > 1}
    edits = []
    for span, part in pairs:
        if part.role == GIVEN and len(part.word) > 1 and span in full:
            start, end = span.start + part.start, span.start + part.end
            edits.append(Edit(start + 1, end, "" if note.text[end : end + 1] == "." else "."))
    return apply_edits(note, edits)


def in_case(change: Callable[[str], str], note: Document) -> Document:
    """Return the note with its names in capitals or in small letters, as `change` has it."""
    return apply_edits(note, [Edit(s.start, s.end, change(note.text[s.start : s.end])) for s in names_of(note)])


FORMS: Mapping[str, Callable[[Document], Document]] = {
    "as they are": lambda note: note,
    "titles": with_titles,
    "no titles": without_titles,
    "surname alone, no title": surnames_alone,
    "initials": with_initials,
    "capitals": partial(in_case, str.upper),
    "lower case": partial(in_case, str.lower),
}


def rows_of(notes: Sequence[Document]) -> Iterator[tuple[str, list[Document]]]:
    """Yield the notes of each row: all of one origin, then all of one form."""
    names = origins()
    for origin in names:
        yield origin, [renamed(note, origin) for note in notes]
    mixed = [renamed(note, names[place % len(names)]) for place, note in enumerate(notes)]
    for form, change in FORMS.items():
        yield form, [change(note) for note in mixed]


def figure_of(row: str, notes: Sequence[Document], found: Sequence[Document]) -> NamesFigure:
    """Count the parts of names that the spans of the same notes in `found` cover."""
    counts = np.zeros((len(notes), 3), dtype=np.int64)
    for k, (note, scored) in enumerate(zip(notes, found, strict=True)):
        covered = np.zeros(len(note.text), dtype=bool)
        for span in scored.spans:
            covered[span.start : span.end] = True
        hits = [bool(covered[s.start + p.start : s.start + p.end].all()) for s, p in parts_of(note) if len(p.word) > 1]
        counts[k] = sum(hits), 0, len(hits) - sum(hits)
    interval = bootstrap_interval(counts, [note.site or note.group for note in notes], measure="recall")
    return NamesFigure(row, int(counts[:, 0].sum()), int(counts.sum()), interval)


def names_results(figures: Sequence[NamesFigure], *, notes: int) -> Results:
    """Return the table, with how far each origin is under the best."""
    of_origin = [f.recall or 0.0 for f in figures if f.row in origins()]
    best = max(of_origin, default=0.0)
    rows = tuple(
        (
            f.row,
            str(f.names),
            percent(f.recall, sign=""),
            f"{percent(f.interval.low, sign='')} to {percent(f.interval.high, sign='')}",
            percent(best - (f.recall or 0.0), sign="") if f.row in origins() else "",
        )
        for f in figures
    )
    columns = ("names", "parts", "recall", "95% interval", "under the best origin")
    caption = f"Recall of names in {notes} notes; intervals resample sites."
    data = [
        {"row": f.row, "found": f.found, "names": f.names, "low": f.interval.low, "high": f.interval.high}
        for f in figures
    ]
    points = [Point(f.row, f.recall, f.interval.low, f.interval.high) for f in figures]
    return Results([[Table(caption, columns, rows)]], data, draw_points(points, measure="recall"))


def add_commands(commands: Any) -> None:
    """Add the command to the parser."""
    parser = add_command(commands, "names", run_names, example="en demo:dev --out names.md")
    add_model(parser)
    parser.add_argument("corpus", metavar="CORPUS", help="annotated notes that the model was not trained on")
    parser.add_argument("--sample", metavar="N", type=int, help="only N of the notes, drawn by a fixed seed")
    add_files(parser, FILE_FORMS)


def run_names(options: argparse.Namespace) -> int:
    """Recall of names by origin and form."""
    check_out_files(options.out, FILE_FORMS, options.model, options.corpus)
    notes: Sequence[Document] = read_gold(options.corpus).documents
    if options.sample is not None and options.sample < len(notes):
        chosen = generator(0, "research/names/notes").permutation(len(notes))[: options.sample]
        notes = [notes[k] for k in sorted(chosen.tolist())]
    model = Deidentifier.load(options.model)
    figures = [figure_of(row, changed, model.predict(changed)) for row, changed in rows_of(notes)]
    publish(names_results(figures, notes=len(notes)), options.out)
    return 0


def _drawn(rng: np.random.Generator, origin: str, role: str) -> str:
    if origin == MADE_UP:
        return made_up_name(rng)
    if origin == WORDS:
        words = surnames_that_are_words()
        return words[int(rng.integers(len(words)))].capitalize()
    pool = name_lists().pool(origin, (SURNAMES,) if role == FAMILY else (WOMEN, MEN))
    return pool[int(rng.integers(len(pool)))]
