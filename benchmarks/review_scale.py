"""How long the review page's requests take with ten thousand notes in the store, and with many finished by two.

Works on the store itself, without a browser; times are seconds of the processor. Run:

    python benchmarks/review_scale.py [NOTES]
"""

import random
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from ensemble_deid.cli.terminal import as_script
from ensemble_deid.note.document import Document
from ensemble_deid.note.span import Span
from ensemble_deid.service.review.edits import Search, decide, find_hits, finish
from ensemble_deid.service.review.file import Facts, ReviewFile, settle_facts
from ensemble_deid.service.review.fill import add_note
from ensemble_deid.service.review.layers import begin_layer
from ensemble_deid.service.review.overview import agreement, note_page
from ensemble_deid.service.review.records import ADJUDICATION, read_spans

_WORDS = "patient was seen in the clinic for pain of the chest and no fever was found after two days at home".split()
_SPANS = 10
_SUBMODELS = ("regex", "tbed", "crf", "neural")


def note(number: int, rng: random.Random) -> Document:
    """Return a note of some 3,000 characters with ten spans."""
    text = " ".join(rng.choice(_WORDS) for _ in range(600))
    spans = (
        Span(300 * k, 300 * k + 4, "DATE", rng.random(), "+".join(_SUBMODELS[: rng.randint(1, 4)]))
        for k in range(_SPANS)
    )
    return Document(f"note-{number}", text, tuple(spans))


def timed(what: str, function: Callable[[], object]) -> None:
    """Print how long it takes, the best of three."""
    times = []
    for _ in range(3):
        begun = time.process_time()
        function()
        times.append(time.process_time() - begun)
    print(f"| {what} | {1000 * min(times):.0f} |", flush=True)


@as_script
def main() -> None:
    """Fill a store and print the table."""
    size = int(sys.argv[1]) if len(sys.argv) > 1 else 10_000
    rng = random.Random(1)
    with tempfile.TemporaryDirectory() as folder:
        file = ReviewFile(Path(folder) / "review.sqlite", create=True)
        settle_facts(file, Facts("0f", 0.5, ("DATE",)))
        with file.transaction() as database:
            for number in range(size):
                add_note(database, note(number, rng), 0.5, submodels=len(_SUBMODELS))
            print(f"{size:,} notes\n\n| request | ms |\n|---|---|")
            timed("first page of the list", lambda: note_page(database, "kim"))
            timed("page in the other order", lambda: note_page(database, "kim", order="disagreement", offset=size // 2))
            timed("page around a note", lambda: note_page(database, "kim", around=size // 2))
            begin_layer(database, "kim", 1)
            span = read_spans(database, "kim", 1)[0].id
            timed("a decision", lambda: [decide(database, "kim", 1, span, s) for s in ("accepted", "rejected")])
            timed("search of a word that all notes have", lambda: find_hits(database, "kim", Search("chest")))
            timed("search of a phrase that no note has", lambda: find_hits(database, "kim", Search("Anna Bell")))
            for number in range(1, size // 10 + 1):
                for reviewer in ("kim", "lee"):
                    finish(database, reviewer, number, finished=True, settle=True)
            timed("first page, a tenth finished", lambda: note_page(database, "kim"))
            timed("list of adjudication, a tenth finished by two", lambda: note_page(database, ADJUDICATION))
            timed("agreement of two, a tenth finished by two", lambda: agreement(database))
        file.close()


if __name__ == "__main__":
    sys.exit(main())
