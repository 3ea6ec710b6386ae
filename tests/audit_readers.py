"""Two readers of an audit, and who settles their differences."""

from collections.abc import Mapping
from pathlib import Path

from ensemble_deid.audit.readings import opened_audit
from ensemble_deid.note.document import Document
from ensemble_deid.service.review.edits import add_span, decide, finish
from ensemble_deid.service.review.layers import begin_layer
from ensemble_deid.service.review.records import ADJUDICATION, read_spans


def read(folder: Path, gold: Mapping[str, Document], *, first: int = 100) -> None:
    """Let two people read the first notes: kim marks everything, lee not the last span, nobody a label."""
    with opened_audit(folder) as (plan, file):
        for number, drawn in enumerate(plan.notes[:first], start=1):
            spans = gold[drawn.note].spans
            for reader, marks in (("kim", spans), ("lee", spans[:-1])):
                with file.transaction() as database:
                    for span in marks:
                        add_span(database, reader, number, span.start, span.end, label=span.label)
                    finish(database, reader, number, finished=True, settle=True)


def adjudicate(folder: Path, gold: Mapping[str, Document], *, first: int = 100) -> None:
    """Accept what is in the gold annotations, reject the rest."""
    with opened_audit(folder) as (plan, file):
        for number, drawn in enumerate(plan.notes[:first], start=1):
            with file.transaction() as database:
                begin_layer(database, ADJUDICATION, number)
                for span in read_spans(database, ADJUDICATION, number):
                    if span.status == "undecided":
                        right = any(g.start < span.end and span.start < g.end for g in gold[drawn.note].spans)
                        decide(database, ADJUDICATION, number, span.id, "accepted" if right else "rejected")
                finish(database, ADJUDICATION, number, finished=True, settle=True)
