"""What surrogates on false alarms do to the medicine of notes: words and values changed, by form of change.

    python -m research.distortion MODEL NOTES ... [--sites S] [--per-site N] [--min-score N]

A run of letters or of digits outside all gold spans is falsified where an invented value stands in its place; a tag
falsifies nothing. Columns are values of `surrogates.min_score`: with 0 surrogates stand everywhere, with a value just
above 0 the guards alone are at work. The last lines say what it costs: PHI missed, and PHI that becomes a tag. No text
is printed.
"""

import argparse
import hashlib
import re
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from ensemble_deid import DeidentificationResult, Deidentifier, Document, RunOptions, read_corpus
from ensemble_deid.cli.terminal import as_script
from ensemble_deid.deidentify.one_pass import finish_together
from ensemble_deid.errors import DeidError
from ensemble_deid.keys import Key
from ensemble_deid.surrogates.medicine import is_drug
from ensemble_deid.word_tables import is_listed
from research.span_completion import drawn

SCORES = (0.0, 0.001, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9)
VALUE, NUMBER, SHORT, MEDICAL, ORDINARY = FORMS = (
    "number of a dose, a result or a score",
    "other number",
    "abbreviation or unit",
    "drug or other medical word",
    "ordinary word or name",
)
_RUN = re.compile(r"[^\W\d_]+|\d+")
_TAG = re.compile(r"\[[^\]]*\]")
_MEASURE_AFTER = re.compile(r"\s?(?:%|/\s?\d|[a-zµ]{1,4}/|(?:mc?g|kg|g|m?L|ml|cc|units?|mmol|mEq|mm|cm|lb)\b)")
_MEASURE_BEFORE = re.compile(r"(?:\d/|[=<>:]|\b[A-Z][A-Za-z]*\d?[A-Z0-9][a-z]?|\b(?:score|pain|at|of))\s?\Z")
_LONGEST_SHORT_FORM = 6
_KEY = Key(hashlib.sha256(b"distortion").digest())


@dataclass(slots=True)
class Distortion:
    """What became of notes with one `min_score`."""

    words: int = 0
    changed: Counter[str] = field(default_factory=Counter)
    missed: int = 0
    phi: int = 0
    phi_tagged: int = 0

    @property
    def total(self) -> int:
        """How many words and values outside PHI have an invented value."""
        return sum(self.changed.values())


def form_of(text: str, start: int, end: int) -> str:
    """Return the form of a run of letters or digits, which a change of it is counted as."""
    run = text[start:end]
    if run[0].isdigit():
        measured = _MEASURE_AFTER.match(text, end) or _MEASURE_BEFORE.search(text[max(0, start - 12) : start])
        return VALUE if measured else NUMBER
    if len(run) <= _LONGEST_SHORT_FORM and ((len(run) > 1 and run.isupper()) or not set("aeiouy") & set(run.lower())):
        return SHORT
    if is_drug(run):
        return MEDICAL
    word = run.casefold()
    named = is_listed(word, "given", "surname")
    return MEDICAL if is_listed(word, "medical") and not named else ORDINARY


def measure(gold: Sequence[Document], predicted: Sequence[Document], min_score: float) -> Distortion:
    """Return what surrogates do to notes of which gold and predicted spans are known."""
    settings = {"min_score": min_score}
    labels = {span.label for note in predicted for span in note.spans}
    options = RunOptions.choose(labels, style="surrogate", settings=settings, key=_KEY)
    found = Distortion()
    for note, result in zip(gold, finish_together(predicted, options, None), strict=True):
        if result.error is not None:
            raise DeidError(result.error)
        _count(note, result, found)
    return found


def _count(note: Document, result: DeidentificationResult, found: Distortion) -> None:
    new = result.text or ""
    gold, covered, invented = (bytearray(len(note.text)) for _ in range(3))
    for phi in note.spans:
        gold[phi.start : phi.end] = b"\1" * (phi.end - phi.start)
    for span in result.replaced:
        value = new[span.new_start : span.new_end]
        covered[span.start : span.end] = b"\1" * (span.end - span.start)
        for start, end in () if _TAG.fullmatch(value) else _changed(note.text, span.start, span.end, value):
            invented[start:end] = b"\1" * (end - start)
        if any(gold[span.start : span.end]):
            found.phi += 1
            found.phi_tagged += _TAG.fullmatch(value) is not None
    for run in _RUN.finditer(note.text):
        start, end = run.span()
        if any(gold[start:end]):
            found.missed += not all(covered[start:end])
            continue
        found.words += 1
        if any(invented[start:end]):
            found.changed[form_of(note.text, start, end)] += 1


def _changed(text: str, start: int, end: int, value: str) -> Iterator[tuple[int, int]]:
    """Yield the runs of a span that are not in the value that takes its place."""
    left = Counter(run.group().casefold() for run in _RUN.finditer(value))
    for run in _RUN.finditer(text, start, end):
        if left[run.group().casefold()]:
            left[run.group().casefold()] -= 1
        else:
            yield run.span()


def report(name: str, gold: Sequence[Document], predicted: Sequence[Document], scores: Sequence[float]) -> None:
    """Print the table of some notes."""
    found = [measure(gold, predicted, score) for score in scores]
    words = found[0].words
    rows = [(form, [each.changed[form] for each in found]) for form in FORMS]
    rows += [("all", [each.total for each in found])]
    lines = [f"{name}: {len(gold)} notes, {words} words and values outside PHI; falsified, by min_score", ""]
    lines += ["| | " + " | ".join(f"{score:g}" for score in scores) + " |", "| --- |" + " --: |" * len(scores)]
    lines += [f"| {form} | {' | '.join(map(str, counts))} |" for form, counts in rows]
    lines += ["| all, per 1000 | " + " | ".join(f"{1000 * each.total / words:.2f}" for each in found) + " |"]
    lines += ["| PHI runs missed | " + " | ".join(str(each.missed) for each in found) + " |"]
    tagged = (f"{100 * each.phi_tagged / max(1, each.phi):.1f}" for each in found)
    lines += [f"| found PHI as a tag, % | {' | '.join(tagged)} |", ""]
    sys.stdout.write("\n".join(lines) + "\n")


@as_script
def main(arguments: Sequence[str] | None = None) -> int:
    """Predict once for each corpus, and print."""
    parser = argparse.ArgumentParser(description="What surrogates on false alarms do to the medicine of notes.")
    parser.add_argument("model", metavar="MODEL")
    parser.add_argument("notes", metavar="NOTES", nargs="+")
    parser.add_argument("--sites", metavar="S", default="")
    parser.add_argument("--per-site", metavar="N", type=int)
    parser.add_argument("--min-score", metavar="N", type=float, action="append")
    options = parser.parse_args(arguments)
    model = Deidentifier.load(options.model)
    for name in options.notes:
        gold = drawn(read_corpus(name).documents, sites=options.sites.split(","), per_site=options.per_site)
        report(name, gold, model.predict(gold), options.min_score or SCORES)
    return 0


if __name__ == "__main__":
    sys.exit(main())
