"""`exposure`: how well the PHI that a model misses hides among surrogates."""

import argparse
from collections.abc import Iterator
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from ensemble_deid.cli.options import SYSTEM, add_command, add_files, add_resampling, add_shared
from ensemble_deid.cli.sources import check_out_files, read_gold, read_system
from ensemble_deid.cli.terminal import say
from ensemble_deid.evaluation.render.results import FILE_FORMS, Point, Results, Table, draw_points
from ensemble_deid.model.installed import model_of
from ensemble_deid.model.manifest import read_manifest
from ensemble_deid.note.digits import percent

if TYPE_CHECKING:
    from research.exposure import Exposure, Figure

_COLUMNS = ("PHI", "missed, of places", "attack", "misses picked out", "in the most suspect tenth", "AUC")


def add_commands(commands: Any) -> None:
    """Add this module's command to the parser."""
    parser = add_command(commands, "exposure", run_exposure, example="demo:dev en --known-notes demo:train en")
    parser.add_argument("gold", metavar="GOLD", help="annotated notes (a corpus, or demo:test)")
    parser.add_argument("system", metavar="SYSTEM", help=SYSTEM)
    parser.add_argument(
        "--known-notes",
        nargs=2,
        metavar=("NOTES", "SYSTEM"),
        required=True,
        help="other notes, of which the attacker knows what the system missed",
    )
    add_shared(parser, "allow-overlap")
    add_resampling(parser, default=2000)
    add_files(parser, FILE_FORMS)


def run_exposure(options: argparse.Namespace) -> int:
    """How many of a system's misses an attacker picks out among surrogates."""
    from research.exposure import measure_exposure, refused_overlap

    check_out_files(options.out, FILE_FORMS, options.gold, options.system, *options.known_notes)
    sides = []
    notes = [read_gold(name).documents for name in (options.gold, options.known_notes[0])]
    overlap = refused_overlap(*notes, allowed=options.allow_overlap)
    for gold, system_name in zip(notes, (options.system, options.known_notes[1]), strict=True):
        system = read_system(system_name, gold)
        for warning in system.warnings:
            say(f"WARNING: {warning}.\n")
        sides.append((gold, system.answer))
    (gold, answer), known = sides
    found = measure_exposure(
        gold, answer, known, resamples=options.resamples, seed=options.seed, allow_overlap=options.allow_overlap
    )
    if overlap:
        say(f"WARNING: {overlap} are among the known notes: the attacks that learn from these are told too much.\n")
    model = model_of(options.system)
    content = {
        # The record of a release takes the figures of its own model only.
        "model": None if model is None else read_manifest(model).checksum,
        "exposure": {name: {**asdict(exposure), "chance": exposure.chance} for name, exposure in found.items()},
    }
    rows = tuple(row for name, exposure in found.items() for row in _rows(name, exposure))
    points = [
        Point(f"{name}, {attack}", made.picked.value, made.picked.interval.low, made.picked.interval.high)
        for name, exposure in found.items()
        for attack, made in exposure.attacks.items()
    ]
    results = Results([[Table("", _COLUMNS, rows)]], content, draw_points(points, measure="misses picked out"))
    for file in options.out:
        results.write(file)
    say(results.render(".md"))
    return 0


def _rows(name: str, exposure: "Exposure") -> Iterator[tuple[str, ...]]:
    head = (name, f"{exposure.missed} of {exposure.missed + exposure.surrogates}")
    yield (*head, "tags instead of surrogates", percent(1.0 if exposure.missed else None, sign=""), "", "")
    for attack, made in exposure.attacks.items():
        yield (*head, attack, _figure(made.picked), _figure(made.tenth), _figure(made.auc))
    yield (*head, "guessing", percent(exposure.chance, sign=""), percent(0.1, sign=""), percent(0.5, sign=""))


def _figure(figure: "Figure") -> str:
    low, high = figure.interval.low, figure.interval.high
    between = "" if low is None else f" ({percent(low, sign='')} to {percent(high, sign='')})"
    return percent(figure.value, sign="") + between
