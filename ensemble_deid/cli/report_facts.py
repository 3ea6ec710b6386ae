"""What a report records of a model and its notes, and what recall was measured at a model's threshold."""

import argparse
import os
import platform
import sys
from collections.abc import Iterator, Sequence
from datetime import UTC, date, datetime
from pathlib import Path
from typing import Any

from ensemble_deid import __version__
from ensemble_deid.cli.sources import training_overlap
from ensemble_deid.corpora.read import Corpus
from ensemble_deid.errors import ConfigError, ModelError
from ensemble_deid.evaluation.operating_points import CHOSEN, KnownNotes, threshold_from_record
from ensemble_deid.model.additions import listed
from ensemble_deid.model.installed import model_of, name_of_model
from ensemble_deid.model.manifest import Manifest, fingerprint, installed_packages, read_manifest
from ensemble_deid.model.measured import measured_at, threshold_text
from ensemble_deid.model.seen_notes import SeenNotes
from ensemble_deid.note.digits import four_digits
from ensemble_deid.parsing import read_text
from ensemble_deid.taggers.tbed.tagger import RULES

_NOT_STATED = "not stated"


def report_facts(options: argparse.Namespace, gold: Corpus) -> tuple[tuple[str, str], ...]:
    """Return the rows of the first page. Raises ConfigError for a day that is none."""
    model = model_of(options.system)
    here = {"ensemble_deid": __version__, "Python": platform.python_version(), **installed_packages()}
    system = model_facts(model) if model is not None else [("System", f"{options.system} (annotations)")]
    return (
        ("Date", report_day(options.date)),
        *system,
        ("Scored notes", f"{options.gold}: {len(gold)} notes, {sum(len(note.spans) for note in gold)} annotations"),
        ("Fingerprint of the scored notes", fingerprint(gold.documents)),
        *(() if model is None else (("Used before", used_before(model, gold)),)),
        ("Annotated by", options.annotators or _NOT_STATED),
        ("Agreement of the annotators", options.agreement or _NOT_STATED),
        ("Software", f"{_versions(here)}; {sys.platform}, {platform.machine()}"),
    )


def used_before(model: Path, gold: Corpus) -> str:
    """Say whether the model has used the scored notes: in training, for its threshold, or as dev notes."""
    manifest, notes = read_manifest(model), gold.documents
    overlap, dev = training_overlap(model, notes), SeenNotes.from_record(manifest.seen_notes).dev_notes(notes)
    record = manifest.figures.get(CHOSEN)
    known = KnownNotes(0) if record is None else threshold_from_record(record).notes
    shared = known.shared(notes)
    found = [f"{overlap} were training notes"] if overlap else []
    found += [f"the threshold was chosen on {shared} of them"] if shared else []
    if fingerprint(notes) == manifest.dev_fingerprint:
        found.append("they are the dev notes of training")
    elif dev:
        found.append(f"{dev} of them were dev notes of training")
    unknown = [] if manifest.seen_notes else ["training"]
    unknown += ["the choice of the threshold"] if known.count and not known.digests else []
    silent = f"not on record for {' and '.join(unknown)}: an exported model keeps no digests" if unknown else ""
    said = "; ".join(found) or ("" if unknown == ["training", "the choice of the threshold"] else "no use on record")
    return "; ".join(part for part in (said, silent) if part)


def report_day(day: str | None) -> str:
    """Return a day as YYYY-MM-DD: the given one, that of SOURCE_DATE_EPOCH, or today. Raises ConfigError."""
    if day is not None:
        try:
            return date.fromisoformat(day).isoformat()
        except ValueError:
            raise ConfigError(f"--date {day}: expected YYYY-MM-DD") from None
    epoch = os.environ.get("SOURCE_DATE_EPOCH")
    if epoch is None:
        return date.today().isoformat()
    try:
        return datetime.fromtimestamp(int(epoch), UTC).date().isoformat()
    except (ValueError, OverflowError, OSError):
        raise ConfigError(f"SOURCE_DATE_EPOCH is {epoch[:40]!r}; expected seconds since 1970") from None


def model_facts(model: Path) -> list[tuple[str, str]]:
    """Return a model's facts, from its manifest. Raises ModelError."""
    manifest = read_manifest(model)
    return [
        ("Model", name_of_model(model)),
        ("Checksum of the model", manifest.checksum),
        *_rules(model, manifest),
        ("Threshold", threshold_text(model, manifest)),
        ("Trained on", _training(manifest)),
        ("Fingerprint of the training notes", manifest.fingerprint),
        ("Patterns", _patterns(manifest.choices.get("patterns"))),
        ("Made with", _versions({"ensemble_deid": manifest.ensemble_deid, **manifest.packages})),
    ]


def _rules(model: Path, manifest: Manifest) -> Iterator[tuple[str, str]]:
    if RULES not in manifest.files:
        yield "Rule list", "none: trained without tbed"
        return
    from ensemble_deid.training.rule_approvals import rule_approvals
    from ensemble_deid.training.rule_replacement import rules_in_force

    approvals = rule_approvals(model)
    yield "SHA-256 of the rule list", approvals.sha256
    yield "Approved rules", approvals.summary()
    if in_force := rules_in_force(manifest):
        yield "Rules in force", f"only those approved: {in_force}"
    if manifest.rules_replaced:
        yield "Changes of the rule list", f"{len(manifest.rules_replaced)} on record"


def _training(manifest: Manifest) -> str:
    try:
        return f"{manifest.training['notes']} notes of {manifest.training['patients']} patients"
    except KeyError:
        raise ModelError("damaged: the manifest does not say what the model was trained on") from None


def _patterns(choice: Any) -> str:
    if not isinstance(choice, dict):
        return _NOT_STATED
    return f"{choice.get('set')} ({choice.get('patterns')} patterns): {choice.get('reason')}"


def _versions(packages: dict[str, str]) -> str:
    return ", ".join(f"{name} {version}" for name, version in packages.items())


def read_name_lists(entries: Sequence[str]) -> dict[str, frozenset[str]]:
    """Read `ORIGIN=FILE` options: a name a line, `#` begins a comment. Raises ConfigError."""
    found: dict[str, frozenset[str]] = {}
    for entry in entries:
        origin, sign, file = entry.partition("=")
        if not (origin and sign and file) or origin in found:
            raise ConfigError(f"--name-list {entry}: expected ORIGIN=FILE, each origin once")
        lines = read_text(Path(file), ConfigError).splitlines()
        names = frozenset(name for line in lines if (name := line.partition("#")[0].strip().lower()))
        if not names:
            raise ConfigError(f"{file}: has no name")
        found[origin] = names
    return found


def measured_recall(manifest: Manifest, threshold: float, *, submodels: Sequence[str]) -> str:
    """Return one sentence about recall at the threshold in use, with the submodels in use.

    It says so if the model was changed since. Raises ModelError where the curve is damaged.
    """
    measured = measured_at(manifest, threshold, submodels=submodels)
    if measured is None:
        whole = set(submodels) == set(manifest.config.get("submodels", ()))
        return (
            f"no recall was measured at the threshold {four_digits(threshold)}"
            f"{'' if whole else ' with these submodels'}: measure it on annotated notes of your own "
            "(ensemble-deid evaluate)"
        )
    recall, changes = measured.recall, measured.changes
    shares = "an undefined share" if recall is None else f"{100 * recall:.1f}%"
    found = f"at its threshold ({four_digits(threshold)}) the model found {shares} of the PHI tokens in "
    wrong = measured.false_positives
    found += measured.notes + ("" if wrong is None else f", with {wrong:.1f} false positives in 1000 tokens")
    again = "measure it again on annotated notes (ensemble-deid evaluate)"
    if changes:
        return f"{found}; this was measured before the model's {listed(changes)} changed: {again}"
    return f"{found}; in your notes it may miss more"
