"""`train`, and the experiments of `research` that train: cross-validation, search, ablation; models of others."""

import argparse
import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ensemble_deid.atomic import exclusive
from ensemble_deid.cli.options import (
    CORPUS,
    CommandParser,
    add_command,
    add_config,
    add_files,
    add_group,
    add_member,
    add_model,
    add_on_model,
    add_shared,
    add_target,
    members_of,
    submodels_of,
    target_of,
)
from ensemble_deid.cli.sources import check_out_files, publish, read_gold
from ensemble_deid.cli.terminal import counted, progress_bar, say, warn
from ensemble_deid.config import Config, load_config, make_config
from ensemble_deid.corpora.read import locate_corpus
from ensemble_deid.deidentify.outputs import refuse_output, refuse_output_model
from ensemble_deid.errors import ConfigError
from ensemble_deid.evaluation.render.results import FILE_FORMS
from ensemble_deid.note.digits import four_digits, percent
from ensemble_deid.reproducible import is_pinned

if TYPE_CHECKING:
    from ensemble_deid.note.counts import Counts
    from ensemble_deid.training.training_points import TrainingPoints


def add_commands(commands: Any) -> None:
    train = add_command(commands, "train", run_train, example="demo:train --dev demo:dev --config small --out model")
    train.add_argument("train", metavar="TRAIN", help=CORPUS)
    train.add_argument("--out", metavar="MODEL", type=Path, required=True, help="folder to write the model to")
    train.add_argument("--dev", metavar="DEV", help="notes to choose the network's epoch by, and to score")
    add_model(train, "--start-from", help="train this model's submodels further")
    add_config(train)
    add_shared(train, "submodels")
    train.add_argument("--shareable", action="store_true", default=None, help="close the vocabulary to rare words")
    train.add_argument("--recall-first", action="store_true", help="choose the threshold for recall, not for F1")
    add_shared(train, "jobs", "device", "seed", "quiet")
    rare = train.rare()
    rare.add_argument("--sites", metavar="N", type=int, help="train on N sites, drawn by the seed")
    rare.add_argument(
        "--language", choices=("auto", "en", "es", "none"), help="language of the patterns; auto: that of the notes"
    )
    rare.add_argument("--label-map", metavar="MAP", help="the patterns' labels -> the corpus's: a .toml, category ...")
    rare.add_argument("--encoder", metavar="FOLDER_OR_NAME", help="pretrained encoder: a folder, or a name on the hub")
    rare.add_argument("--folds", metavar="N", type=int, help="folds of the stack")
    add_shared(rare, "group-by", "allow-overlap", "reproducible", "resume")
    add_member(rare)


def run_train(options: argparse.Namespace) -> None:
    """Train the whole stack."""
    from ensemble_deid.deidentify.members import files_of_members, member_sources
    from ensemble_deid.deidentify.sources import place_beside
    from ensemble_deid.note.tags import TagLoss
    from ensemble_deid.training.train import train
    from ensemble_deid.training.training_notes import sample_sites

    named_members = members_of(options)
    members = member_sources(named_members)
    config = _configure(
        options,
        _overrides(options),
        folds=options.folds,
        shareable=options.shareable,
        members=list(named_members) or None,
    )
    if is_pinned():
        # What a GPU computes depends on its kind.
        if config.device == "cuda":
            raise ConfigError("--reproducible trains on the CPU; leave out the device cuda")
        config = make_config({**config.model_dump(mode="json"), "device": "cpu"})
    _refuse_inputs(options, config, files_of_members(named_members))
    if options.encoder and "transformer" not in config.submodels:
        raise ConfigError("--encoder: this configuration trains no encoder; --config best does")
    corpus = read_gold(options.train)
    if options.sites is not None:
        corpus = replace(corpus, documents=sample_sites(corpus.documents, options.sites, seed=config.seed))
    dev = read_gold(options.dev) if options.dev else None
    if dev:
        unseen = sorted(set(dev.labels) - set(corpus.labels))
        if unseen:
            warn(f"{options.dev}: labels absent from training, which the model cannot find: {', '.join(unseen)}")
    part = place_beside(options.out, ".part")
    with exclusive(part), progress_bar(quiet=options.quiet) as show:
        trained = train(
            corpus,
            dev or (),
            config=config,
            report=show,
            notify=warn,
            allow_overlap=options.allow_overlap,
            start_from=options.start_from,
            part=part,
            resume=options.resume,
            members=members,
        )
        trained.save(options.out)
    _say_counts(trained.dev_counts)
    _say_points(trained.points)
    figures = trained.manifest.training
    say(f"tokenization: {TagLoss(figures['spans'], figures['spans_cut'], figures['spans_lost'])}")
    say(f"trained on {counted(figures['notes'], 'note')}; the model is in {options.out}")


def _refuse_inputs(options: argparse.Namespace, config: Config, files: Sequence[Path]) -> None:
    """Raise an error where the model would replace a file that training reads, or a folder without a model."""
    from ensemble_deid.model.directory import refuse_foreign_folder

    refuse_foreign_folder(options.out)
    named = [config.regex.patterns, config.text.knowledge, config.tbed.templates, config.transformer.encoder]
    named += [config.neural.word_vectors] if config.neural.word_vectors else []
    read = (options.train, options.dev, options.config, options.start_from, *map(Path, named), *files)
    refuse_output_model(options.out, *read)


def _say_counts(dev_counts: "Mapping[str, Counts]") -> None:
    from ensemble_deid.evaluation.render.figures import counts_cells

    if dev_counts:
        say("strict entity figures on dev   precision  recall      F1")
    for name, counts in dev_counts.items():
        precision, recall, f1 = counts_cells(counts)
        say(f"  {name:<28} {precision:>9} {recall:>7} {f1:>7}")


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
            figures = f"{percent(strict.f1, sign=''):>9}  {percent(tokens.counts.recall, sign=''):>12}"
            rate = "undefined" if tokens.fp_per_1000 is None else f"{tokens.fp_per_1000:.2f}"
            head = f"    {name:<22} {four_digits(point.threshold):>9}"
            say(f"{head}  {figures}  {percent(tokens.counts.precision, sign=''):>15}  {rate:>30}")


def _overrides(options: argparse.Namespace) -> list[str]:
    """Return the options that set a configuration key, as overrides."""
    found = {
        "regex.language": options.language,
        "regex.map": options.label_map,
        "transformer.encoder": options.encoder,
        "stack.operating_point": "recall" if options.recall_first else None,
    }
    # A JSON string is a TOML string, whatever a path holds.
    return [f"{key}={json.dumps(value)}" for key, value in found.items() if value is not None]


# `research`: experiments.


def add_experiments(commands: Any) -> None:
    _add_crossval(commands)
    _add_tune(commands)
    _add_ablate(commands)
    download = add_group(commands, "download", "fetch models of other projects, for features")
    stanza = add_command(download, "stanza", run_download_stanza, example="en")
    stanza.add_argument("name", metavar="LANGUAGE", help="en, es ..., or language/package")


def _add_crossval(commands: Any) -> None:
    crossval = add_command(commands, "crossval", run_crossval, example="demo:train --folds 5 --config small --out run")
    crossval.add_argument("corpus", metavar="CORPUS", help=CORPUS)
    crossval.add_argument("--folds", metavar="N", type=int, default=10, help="default: 10; of the stack: --set folds=N")
    crossval.add_argument("--max-memory", metavar="GIB", type=float, help="run as many folds together as fit")
    _add_run(crossval)


def _add_tune(commands: Any) -> None:
    tune = add_command(
        commands, "tune", run_tune, example="my/train --dev my/dev --set-range crf.c2=0.1..1 --minutes 60 --out run"
    )
    tune.add_argument("corpus", metavar="CORPUS", help=CORPUS)
    tune.add_argument("--dev", metavar="DEV", required=True, help="notes to choose the settings by")
    tune.add_argument(
        "--set-range",
        metavar="RANGE",
        action="append",
        required=True,
        dest="ranges",
        help="KEY=low..high, KEY=low..high:log or KEY=a|b|c; repeatable",
    )
    tune.add_argument("--minutes", metavar="M", type=float, required=True, help="start no trial that would end later")
    tune.add_argument("--trials", metavar="N", type=int, help="no more than N trials")
    add_shared(tune, "allow-overlap")
    _add_run(tune)


def _add_run(parser: CommandParser) -> None:
    parser.add_argument("--out", metavar="DIR", type=Path, required=True, help="the run folder")
    add_shared(parser, "resume")
    add_config(parser)
    add_shared(parser, "submodels", "group-by", "jobs", "device", "seed", "quiet")


def _add_ablate(commands: Any) -> None:
    ablate = add_on_model(commands, "ablate", run_ablate, example="model my/dev --out ablation.md")
    ablate.add_argument("dev", metavar="DEV", help=CORPUS)
    add_files(ablate, FILE_FORMS)
    ablate.add_argument("--retrain", metavar="TRAIN", help="also train the others again without the patterns' features")
    ablate.add_argument("--retrain-dev", metavar="DEV", help="the dev notes of training, if not those scored")
    add_target(ablate.add_mutually_exclusive_group())
    ablate.add_argument(
        "--rows",
        choices=("all", "zhao2020", "as-trained"),
        default="all",
        help="zhao2020: that paper's tables 4 to 6; as-trained: fit nothing, for an exported model",
    )
    add_member(ablate)
    add_shared(ablate, "jobs", "quiet", jobs=2)


def _configure(options: argparse.Namespace, more: Sequence[str] = (), **settings: Any) -> Config:
    """Return the configuration that the options and these settings describe; `more` are overrides that come last."""
    return load_config(
        options.config,
        overrides=[*options.overrides, *more],
        submodels=submodels_of(options),
        group_by=options.group_by,
        jobs=options.jobs,
        device=options.device,
        seed=options.seed,
        **settings,
    )


def run_crossval(options: argparse.Namespace) -> None:
    """Cross-validate the whole stack, by patient or site."""
    from ensemble_deid.training.crossval import crossval
    from ensemble_deid.training.reports import crossval_results

    if options.max_memory is not None and not options.max_memory > 0:
        raise ConfigError("--max-memory: must be above 0")
    config = _configure(options)
    refuse_output(options.out, locate_corpus(options.corpus))
    corpus = read_gold(options.corpus)
    with progress_bar(quiet=options.quiet) as show:
        result = crossval(
            corpus.documents,
            options.out,
            config=config,
            folds=options.folds,
            max_memory=options.max_memory,
            resume=options.resume,
            report=show,
        )
    published = crossval_results(result)
    published.write_all(options.out, "figures")
    say(published.render(".txt"))
    say(f"the out-of-fold predictions (with the notes' text) and all figures are in {options.out}")


def run_tune(options: argparse.Namespace) -> None:
    """Search settings on dev notes within a budget of time."""
    from ensemble_deid.training.reports import tune_results
    from ensemble_deid.training.tune import parse_range, tune

    if not options.minutes > 0:
        raise ConfigError("--minutes: must be above 0")
    if options.trials is not None and options.trials < 1:
        raise ConfigError("--trials: at least 1")
    ranges = [parse_range(text) for text in options.ranges]
    refuse_output(options.out, locate_corpus(options.corpus), locate_corpus(options.dev))
    corpus, dev = read_gold(options.corpus), read_gold(options.dev)
    with progress_bar(quiet=options.quiet) as show:
        tuned = tune(
            corpus.documents,
            dev.documents,
            options.out,
            ranges=ranges,
            configure=lambda more: _configure(options, more),
            minutes=options.minutes,
            max_trials=options.trials,
            resume=options.resume,
            allow_overlap=options.allow_overlap,
            report=show,
        )
    published = tune_results(tuned)
    published.write_all(options.out, "trials")
    say(published.render(".txt"))
    say(f"the best configuration is {options.out / 'best.toml'}; its F1 was chosen on dev, and is optimistic")


def run_ablate(options: argparse.Namespace) -> None:
    """Leave each submodel out in turn."""
    from ensemble_deid.deidentify.members import files_of_members, member_sources
    from ensemble_deid.training.ablate import ThresholdTarget, TrainingNotes, ablate
    from ensemble_deid.training.reports import ablation_results

    if options.retrain_dev and not options.retrain:
        raise ConfigError("--retrain-dev goes with --retrain")
    target = target_of(options)
    rule = None if target is None else ThresholdTarget(*target)
    members = members_of(options)
    inputs = (options.model, options.dev, options.retrain, options.retrain_dev, *files_of_members(members))
    check_out_files(options.out, FILE_FORMS, *inputs)
    corpus = read_gold(options.dev, model=options.model)
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
            rows=options.rows,
            members=member_sources(members),
        )
    publish(ablation_results(rows, rule), options.out)


def run_download_stanza(options: argparse.Namespace) -> None:
    """Parts of speech and entities (text.stanza)."""
    from ensemble_deid.features.stanza_tags import download_models

    folder = download_models(options.name)
    say(f"stanza's models {options.name} are in {folder}; use them with --set text.stanza={options.name}")
