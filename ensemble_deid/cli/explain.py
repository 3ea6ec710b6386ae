"""`model explain`: why a model found what it found on a note; `model errors`: the notes with most errors."""

import argparse
import json
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ensemble_deid.atomic import write_text_atomically
from ensemble_deid.cli.options import SYSTEM, add_command, add_files, add_member, add_on_model, add_shared, members_of
from ensemble_deid.cli.sources import check_out_files, read_gold, read_system, say_warnings
from ensemble_deid.cli.terminal import counted, say
from ensemble_deid.corpora.read import locate_corpus, read_corpus
from ensemble_deid.deidentify.outputs import refuse_output, refuse_shared
from ensemble_deid.errors import ConfigError, CorpusError
from ensemble_deid.note.digits import four_digits
from ensemble_deid.resources import data_directory

if TYPE_CHECKING:
    from ensemble_deid.note.document import Document
    from ensemble_deid.training.explain import Explanation, PlaceExplanation

_EXPLAIN_FORMS = (".json", ".html")
_ERRORS_FORMS = (".json",)


def add_model_commands(commands: Any) -> None:
    explain = add_on_model(commands, "explain", run_explain, example="en note.txt --at 120-126")
    explain.add_argument("note", metavar="NOTE", help="a file with one note")
    explain.add_argument(
        "--at", metavar="START[-END]", action="append", help="a place, found or not, by offsets; repeatable"
    )
    add_files(explain, _EXPLAIN_FORMS)
    add_member(explain)
    add_shared(explain, "text")

    errors = add_command(commands, "errors", run_errors, example="my/train model --top 20 --notes worst.jsonl")
    errors.add_argument("gold", metavar="GOLD", help="annotated notes to correct and learn from, never a test set")
    errors.add_argument("system", metavar="SYSTEM", help=SYSTEM)
    errors.add_argument("--top", metavar="N", type=int, default=20, help="how many notes; default: 20")
    errors.add_argument("--notes", metavar="OUT", type=Path, help="write these notes as annotated; they contain PHI")
    add_files(errors, _ERRORS_FORMS)
    errors.add_argument(
        "--test-split", action="store_true", help="allow demo:test; learning from it spoils it as a test"
    )


def run_explain(options: argparse.Namespace) -> None:
    """Show which submodels proposed each span of a note, and why it was kept or not."""
    from ensemble_deid.deidentify.members import files_of_members, member_sources
    from ensemble_deid.model.loading import load_model, model_source
    from ensemble_deid.training.explain import explain, explanation_page

    named = members_of(options)
    check_out_files(options.out, _EXPLAIN_FORMS, options.model, options.note, *files_of_members(named))
    members = member_sources(named)
    model_source(options.model, members=members)
    documents = read_corpus(options.note, gold=False).documents
    if len(documents) != 1:
        raise CorpusError(f"{options.note}: expected one note, not {len(documents)}")
    document = documents[0]
    places = None if options.at is None else [_place(text, len(document.text)) for text in options.at]
    explanation = explain(load_model(options.model, members=members)[0], document, places=places)
    quoted = document if options.text else None
    for file in options.out:
        page = file.suffix == ".html"
        text = document.text if options.text else None
        content = explanation_page(explanation, text=text) if page else _as_json(explanation, quoted)
        write_text_atomically(file, content)
        contains = "it contains PHI: keep it where the notes are kept" if options.text else "it quotes no note"
        say(f"the explanation is {file}; {contains}")
    if not options.out:
        for line in _lines(explanation, quoted):
            say(line)


def _place(text: str, length: int) -> tuple[int, int]:
    """Read START or START-END. Raises ConfigError."""
    first, dash, last = text.partition("-")
    if all(part.isascii() and part.isdigit() and len(part) < 12 for part in ((first, last) if dash else (first,))):
        start = int(first)
        end = int(last) if dash else start + 1
        if start < end <= length:
            return start, end
    raise ConfigError(f"--at {text}: expected START or START-END, offsets of the note's {length} characters")


def _as_json(explanation: "Explanation", quoted: "Document | None") -> str:
    content = asdict(explanation)
    if quoted is not None:
        for place in content["places"]:
            for part in (place, *place["candidates"], *place["patterns"]):
                part["text"] = quoted.text[part["start"] : part["end"]]
    return json.dumps(content, indent=1) + "\n"


def _lines(explanation: "Explanation", quoted: "Document | None") -> Iterator[str]:
    threshold, submodels = four_digits(explanation.threshold), ", ".join(explanation.submodels)
    yield f"{explanation.note}: threshold {threshold}; submodels {submodels}"
    for place in explanation.places:
        yield ""
        found = "found" if place.found else "nothing is found here"
        yield f"{place.start}-{place.end}{_quote(quoted, place.start, place.end)}: {found}"
        yield from _of_place(place, explanation, quoted)
    yield ""
    yield f"{len(explanation.places)} places explained"


def _of_place(place: "PlaceExplanation", explanation: "Explanation", quoted: "Document | None") -> Iterator[str]:
    from ensemble_deid.training.explain import outcome_text

    if not place.candidates:
        yield "    no submodel proposed anything here"
    for candidate in place.candidates:
        text = _quote(quoted, candidate.start, candidate.end)
        yield f"    {candidate.start}-{candidate.end} {candidate.label}{text}: {outcome_text(candidate, explanation)}"
        proposals = (
            f"{p.submodel} {four_digits(p.confidence)}{' (its answer)' if p.answer else ''}"
            for p in candidate.proposals
        )
        yield f"        proposed by {', '.join(proposals)}"
    for match in place.patterns:
        unused = "" if match.used else " (an earlier pattern took its place)"
        yield f"    pattern {match.pattern}: {match.start}-{match.end} {match.label}{unused}"
    for rule in place.rules:
        yield f"    rule {rule.number} at {rule.start}-{rule.end}: {rule.words}"


def _quote(quoted: "Document | None", start: int, end: int) -> str:
    return "" if quoted is None else f" {quoted.text[start:end]!r}"


def run_errors(options: argparse.Namespace) -> None:
    """List the notes in which a model errs most."""
    from ensemble_deid.corpora.write import write_corpus
    from ensemble_deid.evaluation.error_list import worst_notes

    if options.top < 1:
        raise ConfigError(f"--top: at least 1, not {options.top}")
    location = locate_corpus(options.gold)
    if not options.test_split and location.source.resolve() == (data_directory() / "demo" / "test").resolve():
        raise ConfigError(
            f"{options.gold}: learning from the errors of test notes makes them useless as a test; "
            "--test-split allows it"
        )
    if options.notes is not None:
        refuse_output(options.notes, location, options.system, format="jsonl")
    check_out_files(options.out, _ERRORS_FORMS, location, options.system)
    refuse_shared(options.notes, *options.out)
    gold = read_gold(options.gold)
    system = read_system(options.system, gold.documents)
    found = worst_notes(gold.documents, system.answer)
    shown = found[: options.top]
    for file in options.out:
        content = [{**asdict(n), "kinds": dict(sorted(n.kinds.items())), "errors": n.errors} for n in shown]
        write_text_atomically(file, json.dumps(content, indent=1) + "\n")
    if options.notes is not None and shown:
        by_id = {note.id: note for note in gold.documents}
        write_corpus([by_id[note.id] for note in shown], options.notes, "jsonl")
    say_warnings(system.warnings)
    say("errors  missed  annotations  site  note")
    for note in shown:
        say(f"{note.errors:>6}  {note.missed:>6}  {note.annotations:>11}  {note.site or '-':<4}  {note.id}")
    everything, part = sum(note.errors for note in found), sum(note.errors for note in shown)
    say(
        f"\n{counted(len(found), 'note')} of {len(gold.documents)} have {counted(everything, 'error')}; "
        f"those listed have {part}"
    )
    if options.notes is not None and not shown:
        say("nothing is written: there is nothing to correct")
    elif options.notes is not None:
        say(
            f"these notes are in {options.notes}, with all their PHI: correct them, "
            "then train --start-from MODEL on them"
        )
