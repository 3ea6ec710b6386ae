"""`benchmark`, `run-system`: score what any systems found in the same notes, as PHI or not.

A system's answer is JSONL with a line for each note: `id`, and `spans` with `start`, `end` and, where the system has
them, `label` and `score`. Labels may be a system's own: all tables ask only whether a run of letters or digits is PHI.
"""

import argparse
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from ensemble_deid.atomic import write_text_atomically
from ensemble_deid.cli.options import add_command, add_files
from ensemble_deid.cli.sources import check_out_files, publish, read_gold
from ensemble_deid.cli.terminal import counted, say
from ensemble_deid.corpora.checks import read_utf8
from ensemble_deid.corpora.json_fields import list_field, object_of, parse_json, string_field
from ensemble_deid.corpora.jsonl import span_of_json
from ensemble_deid.corpora.read import read_corpus
from ensemble_deid.deidentify.outputs import refuse_output_files
from ensemble_deid.errors import ConfigError, CorpusError
from ensemble_deid.evaluation.curve import has_scores, trace_curve
from ensemble_deid.evaluation.operating_points import find_point
from ensemble_deid.evaluation.render.results import FILE_FORMS, Results, Table
from ensemble_deid.evaluation.views import label_tokens, tokens_of
from ensemble_deid.note.digits import UNDEFINED, figure
from ensemble_deid.note.document import Document
from ensemble_deid.note.folding import fold
from ensemble_deid.note.labels import category_of
from ensemble_deid.surrogates.lists import SURNAMES, name_lists
from research.distortion import MEDICAL, form_of
from research.other_systems import ELSEWHERE, SYSTEMS, run_system
from research.unseen_sites import cell, interval_by_site

_BOUNDS = (2, 5, 10)
_FORMS = tuple(form for form in FILE_FORMS if form != ".svg")
_SPAN = ("start", "end", "label", "score")
_Groups = Callable[[Document, str | None, int, int], str | None]


def add_commands(commands: Any) -> None:
    """Add this module's commands to the parser."""
    score = add_command(
        commands,
        "benchmark",
        run_benchmark,
        example="demo:test presidio.jsonl other.jsonl --out benchmark.md",
    )
    score.add_argument("gold", metavar="GOLD", help="annotated notes")
    score.add_argument("systems", metavar="SYSTEM", type=Path, nargs="+", help="JSONL: a line for each note")
    add_files(score, _FORMS)

    found = add_command(commands, "run-system", run_other, example="presidio demo:test --out presidio.jsonl")
    names = f"{', '.join(SYSTEMS)}; where there is a network: {', '.join(ELSEWHERE)}, hf:NAME, llm:MODEL@URL"
    found.add_argument("system", metavar="NAME", help=names)
    found.add_argument("notes", metavar="NOTES", help="notes; annotations are ignored")
    found.add_argument("--out", metavar="FILE", type=Path, required=True, help="output; it holds no text of notes")


def run_benchmark(options: argparse.Namespace) -> int:
    """Score what any systems found in the same notes."""
    check_out_files(options.out, _FORMS, options.gold, *options.systems)
    names = Counter(path.stem for path in options.systems)
    if same := [name for name, times in names.items() if times > 1]:
        raise ConfigError(f"two systems are called {same[0]}: a row has the name of its file, without the suffix")
    gold = read_gold(options.gold).documents
    publish(benchmark_results(gold, {path.stem: read_answer(path, gold) for path in options.systems}), options.out)
    return 0


def run_other(options: argparse.Namespace) -> int:
    """Write what another system finds."""
    refuse_output_files([options.out], options.notes)
    notes = read_corpus(options.notes, gold=False).documents
    write_text_atomically(options.out, run_system(options.system, notes))
    say(f"what {options.system} finds in {counted(len(notes), 'note')} written to {options.out}")
    return 0


def read_answer(path: Path, gold: Sequence[Document]) -> list[Document]:
    """Return gold's notes with a system's spans. Raises CorpusError naming the line, or a note without an answer."""
    texts = {note.id: note for note in gold}
    answers: dict[str, Document] = {}
    for number, line in enumerate(read_utf8(path).split("\n"), 1):
        if not line.strip():
            continue
        place = f"{path}: line {number}"
        entry = object_of(parse_json(line, place), place)
        name = string_field(entry, "id", place)
        if name in answers:
            raise CorpusError(f"{place}: a second answer for one note")
        if name in texts:
            answers[name] = _answer(entry, texts[name], place)
    if missing := len(texts) - len(answers):
        raise CorpusError(f"{path}: has no line for {counted(missing, 'note')}; a note without finds has empty spans")
    return [answers[note.id] for note in gold]


def _answer(entry: dict[str, Any], note: Document, place: str) -> Document:
    if entry.get("text", note.text) != note.text:
        raise CorpusError(f"{place}: the text is not that of gold's note, so that offsets may be wrong")
    if "spans" not in entry:
        raise CorpusError(f"{place}: has no 'spans'")
    items = (
        {"label": "PHI", **{key: value for key, value in object_of(item, place).items() if key in _SPAN}}
        for item in list_field(entry, "spans", place)
    )
    spans = (span_of_json(item, note.text, f"{place}: span {number}") for number, item in enumerate(items, 1))
    return replace(note, spans=tuple(sorted(spans)))


def benchmark_results(gold: Sequence[Document], systems: dict[str, list[Document]]) -> Results:
    """Return the tables: all systems, then their recall by category, by origin of names and by site."""
    sites = len({note.site for note in gold})
    caption = f"{len(gold):,} notes of {sites:,} sites: token recall at false positives in 1,000 (fully redacted notes)"
    heads = ("system", "as it comes", *(f"at most {bound}" for bound in _BOUNDS), "medical words lost in 1,000")
    tables = [Table(caption, heads, tuple((name, *_row(gold, found)) for name, found in systems.items()))]
    by = (("category", _category), ("origin of the name", _origin), ("site", _site))
    tables += [_recall_by(naming, group, gold, systems) for naming, group in by]
    data = {"tables": [{"caption": each.caption, "columns": each.columns, "rows": each.rows} for each in tables]}
    return Results([[table] for table in tables if table.rows], data, "")


def _row(gold: Sequence[Document], found: Sequence[Document]) -> Iterator[str]:
    curve = trace_curve(gold, found)
    yield cell(gold, found, curve.at(0.0)) + interval_by_site(gold, found, 0.0)
    for bound in _BOUNDS:
        # Without scores there is one point, and nothing to choose.
        point = find_point(curve, rule="false-positives", wanted=bound) if has_scores(found) else None
        yield cell(gold, found, point)
    yield _medical_words_lost(gold, found)


def _medical_words_lost(gold: Sequence[Document], found: Sequence[Document]) -> str:
    """Return how many of 1,000 medical words outside PHI are taken."""
    medical = lost = 0
    for note, answer in zip(gold, found, strict=True):
        tokens = tokens_of(note.text)
        for place, phi, taken in zip(tokens, label_tokens(note, tokens), label_tokens(answer, tokens), strict=True):
            if phi is None and form_of(note.text, *place) == MEDICAL:
                medical += 1
                lost += taken is not None
    return figure(1000 * lost / medical, 2) if medical else UNDEFINED


def _recall_by(naming: str, group: _Groups, gold: Sequence[Document], systems: dict[str, list[Document]]) -> Table:
    """Return the recall of PHI tokens in each group that gold's tokens fall into."""
    counts: dict[str, int] = defaultdict(int)
    hits: dict[tuple[str, str], int] = defaultdict(int)
    for row, note in enumerate(gold):
        tokens = tokens_of(note.text)
        labels = label_tokens(note, tokens)
        groups = [label and group(note, label, *place) for label, place in zip(labels, tokens, strict=True)]
        for name in filter(None, groups):
            counts[name] += 1
        for system, found in systems.items():
            for group_of, taken in zip(groups, label_tokens(found[row], tokens), strict=True):
                if group_of and taken:
                    hits[system, group_of] += 1
    rows = (
        (name, f"{counts[name]:,}", *(figure(100 * hits[system, name] / counts[name], 1) for system in systems))
        for name in sorted(counts)
    )
    return Table(f"Recall of PHI tokens by {naming}, as it comes", (naming, "tokens", *systems), tuple(rows))


def _category(note: Document, label: str | None, start: int, end: int) -> str | None:
    return category_of(label or "") or label


def _origin(note: Document, label: str | None, start: int, end: int) -> str | None:
    """Return the origin of a word of a name; that of surnames where given names have another."""
    if category_of(label or "") != "NAME":
        return None
    word, origins = fold(note.text[start:end]), name_lists().origins
    return origins.get((SURNAMES, word)) or origins.get(("given", word)) or "on no list"


def _site(note: Document, label: str | None, start: int, end: int) -> str | None:
    return note.site
