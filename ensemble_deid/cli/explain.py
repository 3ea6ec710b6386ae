"""`explain`: why a model found what it found on a note, and why not what it did not."""

import argparse
import json
from collections.abc import Iterable, Iterator
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ensemble_deid.atomic import write_text_atomically
from ensemble_deid.cli.terminal import say
from ensemble_deid.corpora.outputs import refuse_output_files
from ensemble_deid.corpora.read import read_corpus
from ensemble_deid.errors import ConfigError, CorpusError
from ensemble_deid.note.digits import four_digits

if TYPE_CHECKING:
    from ensemble_deid.note.document import Document
    from ensemble_deid.training.explain import Explanation, PlaceExplanation


def add_commands(commands: Any) -> None:
    """Add this module's command to the parser."""
    parser = commands.add_parser(
        "explain", help="which submodels proposed each span of a note, and why it was kept or not"
    )
    parser.add_argument("model", metavar="MODEL", type=Path)
    parser.add_argument("note", metavar="NOTE", help="a file with one note")
    parser.add_argument(
        "--at",
        metavar="START[-END]",
        action="append",
        help="a place of the note, found or not, by offsets as in `predict`; several times for several places",
    )
    form = parser.add_mutually_exclusive_group()
    form.add_argument("--json", metavar="FILE", type=Path)
    form.add_argument("--html", metavar="FILE", type=Path)
    parser.add_argument("--text", action="store_true", help="show the spans' text, which is PHI")
    parser.set_defaults(run=run_explain)


def run_explain(options: argparse.Namespace) -> int:
    """Explain the spans of a note, or the places that `--at` names, as text, JSON or HTML."""
    from ensemble_deid.model.loading import load_model
    from ensemble_deid.training.explain import explain, explanation_page

    refuse_output_files([options.json, options.html], options.model, options.note)
    documents = read_corpus(options.note, gold=False).documents
    if len(documents) != 1:
        raise CorpusError(f"{options.note}: expected one note, not {len(documents)}")
    document = documents[0]
    places = None if options.at is None else [_place(text, len(document.text)) for text in options.at]
    explanation = explain(load_model(options.model)[0], document, places=places)
    quoted = document if options.text else None
    if options.json:
        write_text_atomically(options.json, _as_json(explanation, quoted))
        say(f"the explanation is {options.json}")
    elif options.html:
        write_text_atomically(options.html, explanation_page(explanation, text=document.text if options.text else None))
        contains = "it contains PHI: keep it where the notes are kept" if options.text else "it quotes no note"
        say(f"the explanation is {options.html}; {contains}")
    else:
        for line in _lines(explanation, quoted):
            say(line)
    return 0


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
    yield from _listed(
        "pattern",
        (
            f"{match.pattern}: {match.start}-{match.end} {match.label}"
            f"{'' if match.used else ' (an earlier pattern took its place)'}"
            for match in place.patterns
        ),
    )
    yield from _listed("rule", (f"{rule.number} at {rule.start}-{rule.end}: {rule.words}" for rule in place.rules))


def _listed(kind: str, parts: Iterable[str]) -> Iterator[str]:
    yield from (f"    {kind} {part}" for part in parts)


def _quote(quoted: "Document | None", start: int, end: int) -> str:
    return "" if quoted is None else f" {quoted.text[start:end]!r}"
