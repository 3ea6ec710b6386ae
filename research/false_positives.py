"""Precision by class of word: how often a drug, a device or a number that a model takes for PHI is PHI.

    python -m research.false_positives MODEL NOTES ...

Counts the runs of letters and digits in the spans that a model finds at its own threshold, and those of them outside
every annotated span. A run has the first class that fits. No text is printed.
"""

import argparse
import re
import sys
from collections import Counter
from collections.abc import Iterator, Sequence

from ensemble_deid import Deidentifier, Document, read_corpus
from ensemble_deid.cli.terminal import as_script
from ensemble_deid.note.digits import percent
from ensemble_deid.note.folding import unaccented
from ensemble_deid.note.overlaps import Covered
from ensemble_deid.word_tables import is_listed

_RUN = re.compile(r"[^\W\d_]+|\d+")
DRUG = "drug"
_LISTED = (DRUG, "device", "eponym", "abbreviation", "institution_short", "medical")
_WARD = re.compile(r"(?:ward|unit|floor|bay|bed|room|icu|nicu|picu|er|ed|or|theat(?:re|er)|clinic|wing|pod)\Z", re.I)
_ORDINAL = re.compile(r"\d+(?:st|nd|rd|th)\b", re.I)
NUMBER, ORDINAL, WARD, NAME, OTHER = "number", "ordinal", "ward", "given name or surname", "other"
CLASSES = (ORDINAL, NUMBER, *_LISTED, WARD, NAME, OTHER)


def class_of(text: str, start: int, end: int) -> str:
    """Return the first class that fits a run of letters or digits of a text."""
    run = text[start:end]
    if run[0].isdigit():
        return ORDINAL if _ORDINAL.match(text, start) else NUMBER
    word = unaccented(run.lower())
    for name in _LISTED:
        if is_listed(word, name):
            return name
    if _WARD.match(run):
        return WARD
    return NAME if is_listed(word, "given", "surname") else OTHER


def counted(gold: Sequence[Document], found: Sequence[Document]) -> Iterator[tuple[str, bool]]:
    """Yield the class of each run that was found, and whether it is PHI."""
    for note, answer in zip(gold, found, strict=True):
        phi = Covered.by(note.spans)
        for span in answer.spans:
            for match in _RUN.finditer(note.text, span.start, span.end):
                yield class_of(note.text, *match.span()), phi.overlaps(*match.span())


@as_script
def main(arguments: Sequence[str] | None = None) -> int:
    """Print a row for each class."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model")
    parser.add_argument("notes", nargs="+")
    options = parser.parse_args(arguments)
    gold = [note for source in options.notes for note in read_corpus(source, gold=True).documents]
    found = Deidentifier.load(options.model).predict(gold)
    counts = Counter(counted(gold, found))
    sys.stdout.write("| class | found | not PHI | precision |\n| --- | ---: | ---: | ---: |\n")
    for name in CLASSES:
        right, wrong = counts[name, True], counts[name, False]
        share = percent(right / (right + wrong) if right + wrong else None, sign="")
        sys.stdout.write(f"| {name} | {right + wrong} | {wrong} | {share} |\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
