"""`customize` and `cross-corpus`: what a system trained elsewhere finds, and what local annotation adds."""

import argparse
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ensemble_deid.cli.options import (
    CommandParser,
    add_command,
    add_config,
    add_shared,
    submodels_of,
)
from ensemble_deid.cli.sources import read_gold
from ensemble_deid.cli.terminal import progress_bar, say, warn
from ensemble_deid.config import Config, load_config
from ensemble_deid.deidentify.outputs import refuse_output
from ensemble_deid.errors import ConfigError, CorpusError
from ensemble_deid.note.document import Document
from research.commands_parts import check_resamples

if TYPE_CHECKING:
    from research.cross_corpus import DividedCorpus

_WAYS = {"only-b": "only B", "a-then-b": "A then B", "a-mix-b": "A mix B"}


def add_commands(commands: Any) -> None:
    """Add this module's commands to the parser."""
    customize = add_command(
        commands,
        "customize",
        run_customize_command,
        example="other/notes ours/notes --budget 0,50,100 --out customized",
    )
    customize.add_argument("a", metavar="A", help="annotated notes that a system exists for")
    customize.add_argument("b", metavar="B", help="annotated notes of the new site")
    customize.add_argument("--test", metavar="NOTES", help="notes of B's site to score; default: some of B's patients")
    customize.add_argument("--budget", metavar="LIST", default="0,20,40,80,160,500,1000", help="in PHI instances of B")
    customize.add_argument("--ways", metavar="LIST", default=",".join(_WAYS), help=f"default: {','.join(_WAYS)}")
    customize.add_argument("--precision", metavar="P", type=float, default=0.85, help="for recall; default: 0.85")
    add_shared(customize, "allow-overlap")
    customize.rare().add_argument(
        "--view", metavar="NAME", default="token-binary", help="what is counted; default: token-binary"
    )
    _add_shared(customize)

    cross = add_command(
        commands,
        "cross-corpus",
        run_cross_corpus_command,
        example="one/notes other/notes --label-map binary --out crossed",
    )
    cross.add_argument("corpora", metavar="CORPUS", nargs="+", help="annotated notes; or TRAIN=TEST, two corpora")
    _add_shared(cross)


def _add_shared(parser: CommandParser) -> None:
    parser.add_argument("--out", metavar="DIR", type=Path, required=True, help="for the runs and the tables")
    parser.add_argument(
        "--label-map", metavar="MAP", help="labels: category, binary, hipaa, i2b2, NAME alone, a .toml file"
    )
    parser.add_argument("--test-share", metavar="SHARE", type=float, default=0.4, help="of the patients; default: 0.4")
    add_config(parser)
    add_shared(parser, "submodels", "jobs", "device", "seed", "quiet")
    rare = parser.rare()
    rare.add_argument("--resamples", metavar="N", type=int, default=10_000, help="0 for no intervals")
    rare.add_argument("--folds", metavar="N", type=int, help="folds of the stack")


def run_customize_command(options: argparse.Namespace) -> int:
    """How many annotations of a new site does a system need?"""
    from ensemble_deid.evaluation.curve import CURVE_VIEWS
    from ensemble_deid.evaluation.operating_points import check_target
    from ensemble_deid.model.seen_notes import SeenNotes
    from research.customize import CustomizePlan, run_customize
    from research.customize_report import customize_results, measure_customized

    config = _config(options)
    check_target("precision", options.precision)
    if options.view not in CURVE_VIEWS:
        raise ConfigError(f"--view {options.view}: expected one of {', '.join(CURVE_VIEWS)}")
    plan = CustomizePlan(options.out, config, _budgets(options.budget), _ways(options.ways), options.allow_overlap)
    refuse_output(options.out, options.a, options.b, options.test)
    a = _mapped(options.a, options.label_map)
    pool, test = _divided(options.b, options.test, options, seed=config.seed)
    if not options.allow_overlap:
        SeenNotes.of(a, seed=config.seed).refuse(test, used_for="to score")
    with progress_bar(quiet=options.quiet) as show:
        systems = run_customize(a, pool, test, plan, report=show, notify=warn)
    found = measure_customized(
        test, systems, view=options.view, precision=options.precision, resamples=options.resamples
    )
    published = customize_results(found)
    published.write_all(options.out, "customize")
    say(published.render(".txt"))
    return 0


def run_cross_corpus_command(options: argparse.Namespace) -> int:
    """Train on each of several corpora, score on all."""
    from research.cross_corpus import run_cross_corpus
    from research.cross_corpus_report import cross_corpus_results, measure_cells

    config = _config(options)
    places = [place for name in options.corpora for place in name.split("=", 1)]
    refuse_output(options.out, *places)
    corpora = [_corpus(name, options, seed=config.seed) for name in options.corpora]
    with progress_bar(quiet=options.quiet) as show:
        cells = run_cross_corpus(corpora, options.out, config=config, report=show, notify=warn)
    measured = measure_cells(corpora, cells, resamples=options.resamples)
    published = cross_corpus_results(corpora, measured)
    published.write_all(options.out, "cross-corpus")
    say(published.render(".txt"))
    return 0


def _config(options: argparse.Namespace) -> Config:
    """Return the configuration; the labels of the patterns are mapped like those of the corpora."""
    check_resamples(options)
    overrides = [*options.overrides]
    if options.label_map is not None and not any(entry.startswith("regex.map=") for entry in overrides):
        overrides.append(f"regex.map='{options.label_map}'")
    return load_config(
        options.config,
        overrides=overrides,
        submodels=submodels_of(options),
        folds=options.folds,
        jobs=options.jobs,
        device=options.device,
        seed=options.seed,
    )


def _mapped(name: str, label_map: str | None) -> list[Document]:
    """Read annotated notes under the labels of the map. Raises ConfigError, which names them, for an unknown label."""
    from ensemble_deid.note.label_map import load_label_map

    documents = list(read_gold(name).documents)
    if label_map is None:
        return documents
    try:
        return load_label_map(label_map).apply_all(documents)
    except ConfigError as error:
        raise ConfigError(f"{name}: {error}") from None


def _divided(
    name: str, test: str | None, options: argparse.Namespace, *, seed: int
) -> tuple[list[Document], list[Document]]:
    """Return the notes to learn from and those to score. Raises CorpusError where they share notes or patients."""
    from ensemble_deid.model.seen_notes import SeenNotes
    from research.patient_split import split_by_patient

    documents = _mapped(name, options.label_map)
    if test is None:
        return split_by_patient(documents, test_share=options.test_share, seed=seed, name=name)
    scored = _mapped(test, options.label_map)
    overlap = SeenNotes.of(documents, seed=seed).overlap(scored)
    if overlap:
        raise CorpusError(f"{test}: {overlap} are also in {name}: what is scored must not be learned from")
    return documents, scored


def _corpus(name: str, options: argparse.Namespace, *, seed: int) -> "DividedCorpus":
    from research.cross_corpus import DividedCorpus

    source, _, test = name.partition("=")
    learned, scored = _divided(source, test or None, options, seed=seed)
    return DividedCorpus(source, tuple(learned), tuple(scored))


def _budgets(text: str) -> tuple[int, ...]:
    try:
        return tuple(int(part) for part in text.split(","))
    except ValueError:
        raise ConfigError(f"--budget {text}: expected whole numbers, separated by commas") from None


def _ways(text: str) -> tuple[str, ...]:
    for name in (names := [part.strip() for part in text.split(",")]):
        if name not in _WAYS:
            raise ConfigError(f"--ways {name}: expected some of {', '.join(_WAYS)}")
    return tuple(_WAYS[name] for name in _WAYS if name in names)
