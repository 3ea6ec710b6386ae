"""What each rule of completion gains and costs, what covering overlapping candidates does, and what repeats add.

    python research/span_completion.py MODEL NOTES ... [--sites S] [--per-site N] [--by-site]

The first line is the model without rules; the rows have the difference: missed tokens, spurious ones, strict F1, notes
fully redacted. --sites takes the sites whose names begin so, --per-site draws so many notes of each; with --by-site the
last rows have all rules by site. No text is printed.
"""

import argparse
import random
import sys
from collections.abc import Sequence
from dataclasses import replace
from itertools import chain

from ensemble_deid import Deidentifier, Document, read_corpus
from ensemble_deid.cli.terminal import as_script
from ensemble_deid.deidentify.repeats import PatientStrings
from ensemble_deid.evaluation.leaks import leaks_of_pairs
from ensemble_deid.evaluation.pairs import pair_documents
from ensemble_deid.evaluation.views import count_view
from ensemble_deid.model.ensemble import Ensemble
from ensemble_deid.model.portions import portions
from ensemble_deid.note.completion import RULES, Completion, complete
from ensemble_deid.note.overlaps import drop_overlaps, split_overlaps
from ensemble_deid.note.reading import as_read
from ensemble_deid.note.span import Span
from ensemble_deid.reproducible import one_thread

_BELIEVED = (0.0, 0.15, 0.3, 0.5)
_SEED = 5
Found = list[list[Span]]


def drawn(notes: Sequence[Document], *, sites: Sequence[str], per_site: int | None) -> list[Document]:
    """Return the notes of sites that begin so, as they are read; with `per_site`, so many of each, drawn by lot."""
    by_site: dict[str, list[Document]] = {}
    for note in notes:
        if (note.site or "").startswith(tuple(sites)):
            by_site.setdefault(note.site or "", []).append(as_read(note))
    lot = random.Random(_SEED)
    sizes = {site: len(mine) if per_site is None else min(per_site, len(mine)) for site, mine in by_site.items()}
    return [note for site in sorted(by_site) for note in lot.sample(by_site[site], sizes[site])]


def candidates_of(ensemble: Ensemble, notes: Sequence[Document]) -> Found:
    """Return every candidate of each note, scored."""
    found: Found = []
    for note in notes:
        mine: list[Span] = []
        for piece in chain.from_iterable(portions([note])):
            batch = ensemble.feature_extractor.extract([piece.document])
            proposals = ensemble.propose(batch)
            with one_thread():
                (spans,) = ensemble.stacker.predict_proba(proposals, batch)
            mine += map(piece.in_whole, spans)
        found.append(mine)
    return found


def covering(text: str, candidates: Sequence[Span], threshold: float, believed: float) -> list[Span]:
    """Return the spans over the threshold and what else overlapping candidates, scored as `believed`, cover."""
    kept = drop_overlaps(span for span in candidates if span.score >= threshold)
    others = [span for span in candidates if span.score >= max(threshold, believed) and span not in kept]
    parts = split_overlaps([*(replace(span, score=1.0) for span in kept), *others])
    return [part for part in parts if any(map(str.isalnum, text[part.start : part.end]))]


def figures(gold: Sequence[Document], spans: Sequence[Sequence[Span]]) -> tuple[int, int, float, int]:
    """Return missed tokens, spurious ones, strict F1 in per cent, and the number of notes fully redacted."""
    system = [note.with_spans(found) for note, found in zip(gold, spans, strict=True)]
    tokens, strict = count_view(gold, system, "token-binary").total, count_view(gold, system).total
    notes = leaks_of_pairs(pair_documents(gold, system)).total.notes
    return tokens.fn, tokens.fp, 100 * (strict.f1 or 0.0), notes.total - notes.count


def show(name: str, now: tuple[int, int, float, int], before: tuple[int, int, float, int]) -> None:
    """Print a row of differences."""
    missed, spurious, f1, whole = (new - old for new, old in zip(now, before, strict=True))
    sys.stdout.write(f"| {name} | {missed:+d} | {spurious:+d} | {f1:+.2f} | {whole:+d} |\n")
    sys.stdout.flush()


def repeats(notes: Sequence[Document], spans: Sequence[Sequence[Span]]) -> list[tuple[Span, ...]]:
    """Return the spans with the repeats that a patient's notes together give."""
    strings = PatientStrings()
    found = [note.with_spans(mine) for note, mine in zip(notes, spans, strict=True)]
    for note in found:
        strings.add(note)
    return [strings.of(note).search(note).spans for note in found]


def report(model: Deidentifier, name: str, notes: Sequence[Document], *, by_site: bool) -> None:
    """Print the table of some notes."""
    threshold, labels = model.ensemble.stacker.threshold, model.ensemble.scheme.labels
    candidates = candidates_of(model.ensemble, notes)
    plain = [drop_overlaps(span for span in spans if span.score >= threshold) for spans in candidates]

    def completed(rules: Sequence[Completion]) -> list[tuple[Span, ...]]:
        return [complete(note.text, spans, labels, rules) for note, spans in zip(notes, plain, strict=True)]

    before = figures(notes, plain)
    gold = count_view(notes, notes, "token-binary").total.tp
    sys.stdout.write(
        f"\n{name}: {len(notes)} notes, {gold} tokens of PHI; without rules {before[0]} missed, {before[1]} spurious, "
        f"strict F1 {before[2]:.2f}, {before[3]} notes fully redacted\n\n"
        "| | missed | spurious | strict F1 | fully redacted |\n| --- | --: | --: | --: | --: |\n"
    )
    for rule in RULES:
        alone = completed([rule])
        show(rule.name, before if alone == plain else figures(notes, alone), before)
    whole = completed(RULES)
    show("all rules", figures(notes, whole), before)
    show("repeats alone", figures(notes, repeats(notes, plain)), before)
    show("all rules, then repeats", figures(notes, repeats(notes, whole)), before)
    for believed in _BELIEVED:
        covered = [covering(n.text, mine, threshold, believed) for n, mine in zip(notes, candidates, strict=True)]
        show(f"covering candidates from {max(believed, threshold):.2f}", figures(notes, covered), before)
    for lower in (0.07, 0.06, 0.05):
        spans = [drop_overlaps(span for span in mine if span.score >= lower) for mine in candidates]
        show(f"threshold {lower}", figures(notes, spans), before)
    for site in sorted({note.site or "" for note in notes}) if by_site else ():
        rows = [k for k, note in enumerate(notes) if (note.site or "") == site]
        mine = [notes[k] for k in rows]
        show(f"{site}, all rules", figures(mine, [whole[k] for k in rows]), figures(mine, [plain[k] for k in rows]))


@as_script
def main(arguments: Sequence[str] | None = None) -> int:
    """Predict once for each corpus, and print."""
    parser = argparse.ArgumentParser(description="What each rule of completion gains and costs.")
    parser.add_argument("model", metavar="MODEL")
    parser.add_argument("notes", metavar="NOTES", nargs="+")
    parser.add_argument("--sites", metavar="S", default="")
    parser.add_argument("--per-site", metavar="N", type=int)
    parser.add_argument("--by-site", action="store_true")
    options = parser.parse_args(arguments)
    model = Deidentifier.load(options.model)
    for name in options.notes:
        notes = drawn(read_corpus(name).documents, sites=options.sites.split(","), per_site=options.per_site)
        report(model, name, notes, by_site=options.by_site)
    return 0


if __name__ == "__main__":
    sys.exit(main())
