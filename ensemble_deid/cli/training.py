"""`train` and `ablate`."""

import argparse
import json
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, get_args

from ensemble_deid.atomic import write_text_atomically
from ensemble_deid.cli.pinned import add_reproducible
from ensemble_deid.cli.sources import overlap_warning, read_gold, training_overlap
from ensemble_deid.cli.terminal import counted, percent, progress_bar, say, warn
from ensemble_deid.config import Config, make_config
from ensemble_deid.config_files import load_config, named_configurations
from ensemble_deid.corpora.outputs import refuse_output_files, refuse_output_model
from ensemble_deid.errors import ConfigError
from ensemble_deid.note.digits import four_digits
from ensemble_deid.reproducible import is_pinned
from ensemble_deid.submodels import NAMES

if TYPE_CHECKING:
    from ensemble_deid.training.ablate import ThresholdTarget
    from ensemble_deid.training.training_points import TrainingPoints

_HELP_CORPUS = "a folder or file (i2b2 or MEDDOCAN XML, brat, JSONL), or demo, demo:train, demo:dev, demo:test"


def add_commands(commands: Any) -> None:
    """Add this module's commands to the parser."""
    _add_train(commands)
    _add_ablate(commands)


def _add_train(commands: Any) -> None:
    train = commands.add_parser("train", help="train the full stack")
    train.add_argument("train", metavar="TRAIN", help=_HELP_CORPUS)
    train.add_argument("--dev", metavar="DEV", help="notes to choose the network's epoch by, and to score")
    train.add_argument(
        "--allow-overlap", action="store_true", help="accept dev notes or patients of the training notes"
    )
    train.add_argument("--sites", metavar="N", type=int, help="train on the notes of N sites alone, drawn by the seed")
    train.add_argument("--out", metavar="MODEL", type=Path, required=True, help="folder to write the model to")
    train.add_argument(
        "--start-from", metavar="MODEL", type=Path, help="train the network, transformer and rules of a model further"
    )
    train.add_argument(
        "--config",
        metavar="NAME_OR_FILE",
        help=f"{', '.join(named_configurations())}, or a .toml file",
    )
    train.add_argument("--set", metavar="section.key=value", action="append", default=[], dest="overrides")
    train.add_argument(
        "--language", choices=("auto", "en", "es", "none"), help="whose patterns to use; auto: told from the notes"
    )
    train.add_argument(
        "--map",
        metavar="MAP",
        help="the patterns' labels -> the corpus's: a .toml file as for `corpus convert`, category, binary or i2b2",
    )
    train.add_argument(
        "--recall-first",
        action="store_true",
        help="freeze the threshold with the highest recall within stack.max_false_positives, not that of the best F1",
    )
    train.add_argument("--submodels", metavar="LIST", help=f"comma-separated: {','.join(NAMES)}")
    train.add_argument(
        "--shareable", action="store_true", default=None, help="close the vocabulary: no word that few patients have"
    )
    train.add_argument("--folds", type=int)
    train.add_argument("--group-by", choices=("auto", "patient", "site"), help="what folds keep together")
    train.add_argument("--jobs", type=int)
    train.add_argument("--device", choices=("auto", "cpu", "cuda"))
    train.add_argument("--seed", type=int)
    add_reproducible(
        train, "tie libraries to one instruction set (AVX2) and torch to deterministic algorithms on the CPU; slower"
    )
    train.add_argument("--quiet", action="store_true", help="no progress bar")
    train.set_defaults(run=run_train)


def _add_ablate(commands: Any) -> None:
    ablate = commands.add_parser("ablate", help="leave each submodel out in turn")
    ablate.add_argument("model", metavar="MODEL", type=Path)
    ablate.add_argument("dev", metavar="DEV", help=_HELP_CORPUS)
    ablate.add_argument(
        "--retrain",
        metavar="TRAIN",
        help="also train the other submodels again without the patterns as features; TRAIN: the model's training notes",
    )
    ablate.add_argument(
        "--retrain-dev", metavar="DEV", help="the dev notes that the model was trained with, if not those scored"
    )
    ablate.add_argument(
        "--threshold-rule",
        metavar="RULE",
        help="choose every threshold on DEV: sensitivity=S, precision=P or false-positives=N "
        "(default: by cross-validation in training)",
    )
    ablate.add_argument("--out", metavar="REPORT", type=Path, required=True, help=".md, .json, .csv, .tex or .svg")
    ablate.add_argument(
        "--rows", choices=("all", "zhao2020"), default="all", help="zhao2020: the systems of that paper's tables 4 to 6"
    )
    ablate.add_argument("--jobs", type=int, default=2)
    ablate.add_argument("--quiet", action="store_true", help="no progress bar")
    ablate.set_defaults(run=run_ablate)


def run_train(options: argparse.Namespace) -> int:
    """Train, save, and print the dev figures."""
    from ensemble_deid.model.directory import refuse_foreign_folder
    from ensemble_deid.note.tags import TagLoss
    from ensemble_deid.training.train import train
    from ensemble_deid.training.training_notes import sample_sites

    config = load_config(
        options.config,
        overrides=[*options.overrides, *_overrides(options)],
        submodels=None if options.submodels is None else [name.strip() for name in options.submodels.split(",")],
        folds=options.folds,
        group_by=options.group_by,
        jobs=options.jobs,
        device=options.device,
        seed=options.seed,
        shareable=options.shareable,
    )
    if is_pinned():
        config = _on_cpu(config)
    refuse_foreign_folder(options.out)
    named = [config.regex.patterns, config.text.knowledge, config.tbed.templates, config.transformer.encoder]
    named += [config.neural.word_vectors] if config.neural.word_vectors else []
    refuse_output_model(options.out, options.train, options.dev, options.config, options.start_from, *map(Path, named))
    corpus = read_gold(options.train)
    if options.sites is not None:
        corpus = replace(corpus, documents=sample_sites(corpus.documents, options.sites, seed=config.seed))
    dev = read_gold(options.dev) if options.dev else None
    if dev:
        unseen = sorted(set(dev.labels) - set(corpus.labels))
        if unseen:
            warn(f"{options.dev}: labels that training never shows, and so cannot be found: {', '.join(unseen)}")
    with progress_bar(quiet=options.quiet) as show:
        trained = train(
            corpus,
            dev or (),
            config=config,
            report=show,
            notify=warn,
            allow_overlap=options.allow_overlap,
            start_from=options.start_from,
        )
        trained.save(options.out)
    if trained.dev_counts:
        say("strict entity figures on dev   precision  recall      F1")
        for name, counts in trained.dev_counts.items():
            say(f"  {name:<28} {percent(counts.precision):>9} {percent(counts.recall):>7} {percent(counts.f1):>7}")
    _say_points(trained.points)
    figures = trained.manifest.training
    say(f"tokenization: {TagLoss(figures['spans'], figures['spans_cut'], figures['spans_lost'])}")
    say(f"trained on {counted(figures['notes'], 'note')}; the model is in {options.out}")
    return 0


def _on_cpu(config: Config) -> Config:
    """Return the configuration for the CPU: what a GPU computes depends on its kind. Raises ConfigError for `cuda`."""
    if config.device == "cuda":
        raise ConfigError("--reproducible trains on the CPU; leave out the device cuda")
    return make_config({**config.model_dump(mode="json"), "device": "cpu"})


def _say_points(points: "TrainingPoints") -> None:
    """Print the operating points side by side, out of fold on the training notes and on dev."""
    names = {
        "f1": "best F1",
        "recall": f"recall first (up to {points.max_false_positives:g} false positives in 1000 tokens)",
        "given": "as configured",
    }
    say(
        "operating points           threshold  strict F1  token recall  token precision  false positives in 1000 tokens"
    )
    for point in points.points:
        say(f"  {names[point.name]}{', frozen into the model' if point.name == points.frozen else ''}")
        rows = {"training, out of fold": (point.strict, point.tokens), "dev": point.dev}
        for name, row in rows.items():
            if row is None:
                continue
            strict, tokens = row
            figures = f"{percent(strict.f1):>9}  {percent(tokens.counts.recall):>12}"
            rate = "undefined" if tokens.fp_per_1000 is None else f"{tokens.fp_per_1000:.2f}"
            head = f"    {name:<22} {four_digits(point.threshold):>9}"
            say(f"{head}  {figures}  {percent(tokens.counts.precision):>15}  {rate:>30}")


def _overrides(options: argparse.Namespace) -> list[str]:
    """Return the options that stand for a key of a section, as overrides of the configuration."""
    found = {
        "regex.language": options.language,
        "regex.map": options.map,
        "stack.operating_point": "recall" if options.recall_first else None,
    }
    # A JSON string is a TOML string, whatever a path holds.
    return [f"{key}={json.dumps(value)}" for key, value in found.items() if value is not None]


def run_ablate(options: argparse.Namespace) -> int:
    """Run the ablations, write the report, print it."""
    from ensemble_deid.cli.ablation_report import ablation_table, render_ablation
    from ensemble_deid.training.ablate import ablate
    from ensemble_deid.training.retrain import TrainingNotes

    if options.retrain_dev and not options.retrain:
        raise ConfigError("--retrain-dev goes with --retrain")
    rule = _threshold_rule(options.threshold_rule)
    refuse_output_files([options.out], options.model, options.dev, options.retrain, options.retrain_dev)
    corpus = read_gold(options.dev)
    overlap = training_overlap(options.model, corpus.documents)
    if overlap:
        warn(overlap_warning(overlap))
    notes = None
    if options.retrain:
        stop_by = read_gold(options.retrain_dev) if options.retrain_dev else corpus
        notes = TrainingNotes(read_gold(options.retrain).documents, stop_by.documents)
    with progress_bar(quiet=options.quiet) as show:
        rows = ablate(
            options.model,
            corpus.documents,
            jobs=options.jobs,
            report=show,
            threshold_rule=rule,
            retrain=notes,
            as_zhao2020=options.rows == "zhao2020",
        )
    write_text_atomically(options.out, render_ablation(rows, rule, form=options.out.suffix))
    say(ablation_table(rows, rule))
    return 0


def _threshold_rule(text: str | None) -> "ThresholdTarget | None":
    """Read `sensitivity=0.99`, `precision=0.9` or `false-positives=5`. Raises ConfigError or EvaluationError."""
    from ensemble_deid.evaluation.operating_points import ThresholdRule, check_target
    from ensemble_deid.training.ablate import ThresholdTarget

    if text is None:
        return None
    name, _, value = text.partition("=")
    for rule in get_args(ThresholdRule):
        if name == rule:
            try:
                wanted = float(value)
            except ValueError:
                break
            check_target(rule, wanted)
            return ThresholdTarget(rule, wanted)
    raise ConfigError(f"--threshold-rule {text}: expected sensitivity=S, precision=P or false-positives=N")
