"""`disagreements`: where the members of a model disagree, and what the ensemble makes of it."""

import argparse
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ensemble_deid.cli.sources import read_gold, read_system
from ensemble_deid.cli.terminal import counted, say
from ensemble_deid.corpora.outputs import refuse_output_files
from ensemble_deid.errors import ConfigError

if TYPE_CHECKING:
    from ensemble_deid.evaluation.disagreements import Disagreement
    from ensemble_deid.evaluation.render.publication import Publication, Table
    from ensemble_deid.note.document import Document

_AROUND = 30


def add_commands(commands: Any) -> None:
    """Add this module's commands to the parser."""
    parser = commands.add_parser("disagreements", help="places where a model's submodels disagree, and who was right")
    parser.add_argument("gold", metavar="GOLD", help="annotated notes")
    parser.add_argument("model", metavar="MODEL", type=Path)
    parser.add_argument("--submodels", metavar="LIST", help="comma-separated; default: all of the model")
    parser.add_argument("--rescued-by", metavar="NAME", help="list only places where that submodel alone was right")
    parser.add_argument("--out", metavar="FILE", type=Path, help="the places, as .md, .csv, .tex, .json or .svg")
    parser.add_argument("--text", action="store_true", help="quote the notes around each place: the file contains PHI")
    parser.set_defaults(run=run_disagreements)


def run_disagreements(options: argparse.Namespace) -> int:
    """Print who was right how often, and write the places."""
    from ensemble_deid.evaluation.disagreements import find_disagreements, member_records, right_together
    from ensemble_deid.evaluation.render.publication import FILE_FORMS

    if options.out is not None and options.out.suffix not in FILE_FORMS:
        raise ConfigError(f"{options.out}: the name must end in one of {', '.join(FILE_FORMS)}")
    refuse_output_files([options.out], options.gold, options.model)
    gold = read_gold(options.gold)
    system = read_system(str(options.model), gold.documents, votes=True)
    votes = system.votes
    if options.submodels is not None:
        wanted = [name.strip() for name in options.submodels.split(",")]
        _refuse_unknown("--submodels", wanted, votes)
        votes = {name: notes for name, notes in votes.items() if name in wanted}
    if options.rescued_by is not None:
        _refuse_unknown("--rescued-by", [options.rescued_by], votes)
    for warning in system.warnings:
        say(f"WARNING: {warning}.\n")
    cases = find_disagreements(gold.documents, votes, system.answer)
    solved = sum(case.solved for case in cases)
    say(f"{counted(len(cases), 'place')} where submodels disagree; the ensemble is right at {solved}")
    say("\nsubmodel       right   alone right   of these rescued   alone wrong   of these misled")
    for r in member_records(cases, list(votes)):
        say(f"{r.name:<14} {r.right:>5} {r.alone_right:>13} {r.rescued:>18} {r.alone_wrong:>13} {r.misled:>17}")
    say("\nright together                       places   ensemble right")
    for right, (places, kept_right) in right_together(cases).items():
        say(f"{', '.join(right) or 'none':<36} {places:>6} {kept_right:>16}")
    if options.out is not None:
        kept = [c for c in cases if options.rescued_by is None or c.rescued_by(options.rescued_by)]
        texts = {note.id: note for note in gold.documents} if options.text else None
        _publication(kept, texts, list(votes)).write(options.out)
        contains = "it contains PHI" if options.text else "it contains no note text"
        say(f"\n{counted(len(kept), 'place')} written to {options.out}; {contains}")
    return 0


def _refuse_unknown(option: str, names: Sequence[str], known: dict[str, Any]) -> None:
    for name in names:
        if name not in known:
            raise ConfigError(f"{option}: the model has no submodel {name!r} here; it has {', '.join(known)}")


def _quoted(case: "Disagreement", note: "Document") -> str:
    before, after = note.text[max(0, case.start - _AROUND) : case.start], note.text[case.end : case.end + _AROUND]
    return " ".join(f"{before}[{note.text[case.start : case.end]}]{after}".split())


def _table(cases: Sequence["Disagreement"], texts: "dict[str, Document] | None") -> "Table":
    from ensemble_deid.evaluation.render.publication import Table

    names = tuple(cases[0].members) if cases else ()
    place = ("note", "start", "end", *(("text",) if texts else ()))
    rows = []
    for case in cases:
        here = (case.note, str(case.start), str(case.end), *((_quoted(case, texts[case.note]),) if texts else ()))
        labels = (*case.members.values(), case.ensemble, case.gold)
        rows.append((*here, *(label or "-" for label in labels)))
    caption = "Places where submodels disagree: the label that each gives, the ensemble's, and gold's (-: none)."
    return Table(caption, (*place, *names, "ensemble", "gold"), tuple(rows))


def _publication(
    cases: Sequence["Disagreement"], texts: "dict[str, Document] | None", names: Sequence[str]
) -> "Publication":
    from ensemble_deid.evaluation.disagreements import member_records
    from ensemble_deid.evaluation.render.publication import Point, Publication, draw_points
    from ensemble_deid.note.counts import ratio

    entries = [asdict(case) | ({"text": _quoted(case, texts[case.note])} if texts else {}) for case in cases]
    points = [Point(record.name, ratio(record.right, len(cases))) for record in member_records(cases, list(names))]
    points.append(Point("ensemble", ratio(sum(case.solved for case in cases), len(cases))))
    return Publication(
        _table(cases, texts), entries, draw_points(points, measure="share of these places decided right")
    )
