"""`audit`: verify a run, bound the PHI left in it, certify a threshold."""

import argparse
import os
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ensemble_deid.atomic import write_text_atomically
from ensemble_deid.cli import release
from ensemble_deid.cli.options import add_command, add_group, add_model, add_on_model, add_port, add_shared
from ensemble_deid.cli.sources import check_out_files
from ensemble_deid.cli.terminal import counted, say
from ensemble_deid.errors import ConfigError, needs_extra
from ensemble_deid.note.digits import four_digits, percent

if TYPE_CHECKING:
    from ensemble_deid.audit.certify import Certificate, Promise
    from ensemble_deid.audit.figures import AuditFigures, Leak, LeakRate
    from ensemble_deid.audit.plan import AuditPlan, AuditUnit

_EXPECTED_LEAKS = (0, 1, 2, 5, 10)
_MOST_FORMS = 20
_FORMS = (".json",)


def add_commands(commands: Any) -> None:
    actions = add_group(commands, "audit", "check a run, bound what it leaked, certify a threshold")
    verify = add_command(actions, "verify", run_verify, example="record.json --trust keys")
    add_model(verify, metavar="MODEL|RUN|RECORD")
    verify.add_argument("--trust", metavar="FILE", type=Path, help="public keys that may have signed")
    release.add_verify_options(verify)
    verify.add_argument("--head", metavar="HASH", help="run: the last hash of its manifest")
    _add_plan(actions)
    read = add_command(actions, "read", run_read, example="spring-audit")
    read.add_argument("audit", metavar="AUDIT", type=Path, help="the folder of `audit plan --out`")
    add_port(read, default=8001)
    report = add_command(
        actions, "report", run_audit_report, example="clean.run spring-audit --adjudicator 'A. Gil' --out report.json"
    )
    report.add_argument("run_folder", metavar="RUN", type=Path, help="the folder of the run")
    report.add_argument("audit", metavar="AUDIT", type=Path, help="the folder of `audit plan --out`")
    report.add_argument("--adjudicator", metavar="NAME", default="", help="who settled the readers' differences")
    _add_out(report)
    _add_certify(actions)
    release.add_commands(actions)


def _add_plan(actions: Any) -> None:
    plan = add_command(actions, "plan", run_plan, example="clean.run notes en --strata ward --out spring-audit")
    plan.add_argument("run_folder", metavar="RUN", type=Path, help="the folder of a run of deidentify")
    plan.add_argument("notes", metavar="NOTES", help="what the run read; with --released, what it wrote")
    add_model(plan, help="the model of the run; notes that it has seen are left out")
    plan.add_argument("--bound", metavar="R", type=float, default=0.01, help="leak rate to rule out; default: 0.01")
    _add_confidence(plan)
    plan.add_argument("--leaks", metavar="N", type=int, default=0, help="leaks to expect in the sample; default: 0")
    plan.add_argument("--size", metavar="N", type=int, help="units to draw; default: what the bound needs")
    plan.add_argument("--unit", choices=("patient", "note"), help="draw patients, the default, or single notes")
    plan.add_argument("--strata", metavar="LIST", default="", help="columns, site or length, comma-separated")
    plan.add_argument("--released", action="store_true", help="have the released text read, not the original")
    add_shared(plan, "seed", seed=0)
    plan.add_argument("--out", metavar="AUDIT", type=Path, help="new folder for the sample; default: the table only")


def _add_certify(actions: Any) -> None:
    certify = add_on_model(actions, "certify", run_certify, example="en spring-audit --missed 0.05")
    certify.add_argument("audit", metavar="AUDIT", type=Path, help="an audit whose originals were read")
    certify.add_argument("--missed", metavar="R", type=float, default=0.05, help="share of PHI words; default: 0.05")
    _add_confidence(certify)
    certify.add_argument("--by-site", action="store_true", help="promise it for new sites, not for new patients")
    certify.add_argument("--freeze", choices=("expected", "confident"), help="store this threshold in the model")
    add_shared(certify, "device")
    _add_out(certify)


def _add_confidence(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--confidence", metavar="C", type=float, default=0.95, help="default: 0.95")


def _add_out(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--out", metavar="FILE.json", type=Path, help="also write the figures")


def run_verify(options: argparse.Namespace) -> None:
    """Check a run, or a signed model or record of a release."""
    from ensemble_deid.deidentify.manifest import is_run
    from ensemble_deid.model.manifest import VARIABLE, read_manifest, signer_of

    if is_run(options.model):
        _verify_run(options.model, options.head)
        return
    trust = os.environ.get(VARIABLE) if options.trust is None else options.trust
    if trust is None:
        raise ConfigError(f"{options.model}: not a run; name the public keys with --trust")
    if options.model.is_file():
        release.verify_release(options, Path(trust))
        return
    manifest = read_manifest(options.model, trust=trust)
    signer = signer_of(options.model, manifest, trust)
    say(f"{options.model} is whole and signed by {signer}; checksum {manifest.checksum}")


def _verify_run(folder: Path, head: str | None) -> None:
    from ensemble_deid.deidentify.manifest import verify_run

    run = verify_run(folder, head=head)
    counts = ", ".join(f"{number} {name}" for name, number in run.counts.items())
    say(f"{folder} is whole; {counted(run.files, 'file')} as written ({counts}); model {run.settings['model']}")
    for digest in run.printed:
        say(f"its output went to standard output, and had the SHA-256 {digest}")
    for name, digest in run.tables.items():
        say(f"the table {name} had rows with the digest {digest}: the run's command with --resume compares them")
    say(f"the manifest ends in {run.head}")


def run_plan(options: argparse.Namespace) -> None:
    """Say how many notes to read, and draw them at random."""
    from ensemble_deid.audit.bounds import notes_to_read, notes_until_stop

    unit: AuditUnit = options.unit or "patient"
    bound, confidence = options.bound, options.confidence
    needed = {leaks: notes_to_read(bound, leaks=leaks, confidence=confidence) for leaks in _EXPECTED_LEAKS}
    size = notes_to_read(bound, leaks=options.leaks, confidence=confidence) if options.size is None else options.size
    plan = None if options.out is None else _drawn_plan(options, unit)
    say(f"to show with {percent(confidence)} confidence that at most {percent(bound)} of the {unit}s hold a leak:")
    say(f"{'leaks found':>12} {unit + 's to read':>18}")
    for leaks, number in needed.items():
        say(f"{leaks:>12} {number:>18}")
    early = notes_until_stop(bound, confidence=confidence)
    if early < (size if plan is None else plan.units):
        say(f"reading may stop early without a leak: after {early} {unit}s")
    if plan is not None:
        _say_plan(plan, options.out)


def _drawn_plan(options: argparse.Namespace, unit: "AuditUnit") -> "AuditPlan":
    from ensemble_deid.audit.plan import draw_plan
    from ensemble_deid.audit.readings import make_audit
    from ensemble_deid.audit.release import read_release
    from ensemble_deid.model.manifest import read_manifest
    from ensemble_deid.stacking.stacker import Stacker

    by = [name.strip() for name in options.strata.split(",") if name.strip()]
    notes = read_release(options.run_folder, options.notes, side="released" if options.released else "original", by=by)
    manifest = read_manifest(options.model)
    wanted = {name: getattr(options, name) for name in ("bound", "confidence", "leaks", "size", "seed")}
    plan = draw_plan(notes, manifest, unit=unit, by=by, **wanted)
    given = notes.run.settings["threshold"]
    threshold = Stacker.load(options.model).threshold if given is None else given
    make_audit(options.out, plan, notes, manifest, threshold=threshold)
    return plan


def _say_plan(plan: "AuditPlan", folder: Path) -> None:
    from ensemble_deid.evaluation.bootstrap import clopper_pearson_upper

    units = f"{counted(plan.units, plan.unit)} of {plan.frame_units}"
    say(f"drawn: {units}, {counted(len(plan.notes), 'note')}, in {folder}")
    best = clopper_pearson_upper(0, plan.units, level=plan.confidence)
    if best > plan.bound:
        say(f"too few to show {percent(plan.bound)}: without a leak they show a rate of at most {percent(best)}")
    for name, (size, drawn) in plan.strata.items() if plan.by else ():
        say(f"  {name}: {drawn} of {size}")
    if plan.left_out:
        say(f"left out: {counted(plan.left_out, 'note')} that the model has seen; the audit does not cover them")
    if plan.kept_labels:
        say(f"the run keeps {', '.join(plan.kept_labels)}: `audit certify` needs one that keeps no label")
    if not plan.fingerprints:
        say("the model has no record of its training notes: make sure that it has not seen these")


def run_read(options: argparse.Namespace) -> None:
    """Open the page on which two people read the sample."""
    with needs_extra("service", "the page"):
        from ensemble_deid.service.review.app import make_review_app
        from ensemble_deid.service.review.routes import Review
        from ensemble_deid.service.server import serve
    from ensemble_deid.audit.readings import opened_audit
    from ensemble_deid.service.review.file import read_facts
    from ensemble_deid.service.settings import ServiceSettings, tokens_from_environment

    with opened_audit(options.audit) as (plan, file):
        # No model is loaded: readers do not see what it finds.
        settings = ServiceSettings(
            model=options.audit, port=options.port, tokens=tokens_from_environment(), time_limit=120.0
        )
        drawn = counted(len(plan.notes), "note")
        then = ("Report what was read:", f"ensemble-deid audit report RUN {options.audit}")
        review = Review(file, read_facts(file), explains=False)
        serve(
            settings,
            started=lambda address: say(f"reading {drawn} at {address}; stop with Ctrl-C"),
            create=lambda s: make_review_app(review, None, s, then=then),
        )


def run_audit_report(options: argparse.Namespace) -> None:
    """Bound the leak rate of a run by what the readers found."""
    from ensemble_deid.audit.figures import audit_figures
    from ensemble_deid.audit.readings import read_readings
    from ensemble_deid.audit.release import replaced_spans, styles_of
    from ensemble_deid.deidentify.manifest import verify_run

    _check_out(options)
    readings = read_readings(options.audit)
    plan = readings.plan
    run = verify_run(options.run_folder, head=plan.run)
    if options.adjudicator in readings.readers:
        raise ConfigError(f"--adjudicator {options.adjudicator}: is one of the readers")
    released = replaced_spans(options.run_folder, plan.side)
    styles = styles_of(run.settings)
    figures = audit_figures(readings, released, adjudicator=options.adjudicator, styles=styles)
    if options.out is not None:
        write_text_atomically(options.out, figures.to_json())
    _say_figures(figures, plan)


def _say_figures(figures: "AuditFigures", plan: "AuditPlan") -> None:
    from ensemble_deid.audit.figures import kept_by_policy

    read = f"{figures.units} of {counted(plan.units, plan.unit)}"
    say(f"read by {' and '.join(figures.readers)}: {read}, {counted(figures.notes, 'note')}")
    if figures.later:
        say(f"not counted yet: {counted(figures.later, 'finished note')} behind one that is not finished or settled")
    level = f"{100 * figures.confidence:g}%"
    say(f"\n{'left in the release':<42} {'found':>12} {'rate':>8} {level + ' bound':>10}  {'PHI missed':>14}")
    for title, rows in (
        ("", figures.rates),
        ("direct identifiers", figures.direct),
        ("quasi-identifiers", figures.quasi),
        ("any direct identifier, by subgroup", figures.subgroups),
    ):
        if title and rows:
            say(f"{title}:")
        for row in rows:
            say(_rate_line(row))
    methods = sorted({row.method for row in (*figures.rates, *figures.subgroups)})
    named = ", ".join("not given before all is read" if name == "none" else name for name in methods)
    say(f"each bound holds with {level}, not all of them together; bounds: {named}")
    for name, units in figures.subgroups_left_out.items():
        say(f"no figures for {name}: {units} read, {figures.least} needed")
    say(f"not counted: {kept_by_policy(plan.kept_labels)}")
    say(f"\nany direct identifier, bound after every 20 {plan.unit}s, at which reading may stop:")
    say("  " + ", ".join(f"{count}: {percent(bound)}" for count, bound in figures.sequential))
    _say_leaks(figures.leaks)
    _say_readers(figures)


def _say_leaks(leaks: "Sequence[Leak]") -> None:
    notes: dict[tuple[str, str], list[str]] = {}
    for leak in leaks:
        notes.setdefault((leak.label, leak.form), []).append(leak.note)
    ordered = sorted(notes.items(), key=lambda item: (-len(item[1]), item[0]))
    say("\nleaks by form (A, a: words, 9: numbers), each in --out:" if leaks else "\nno leak was found")
    for (label, form), places in ordered[:_MOST_FORMS]:
        say(f"  {label} {form}: {len(places)}, first in {places[0]}")
    if rest := sum(len(places) for _, places in ordered[_MOST_FORMS:]):
        say(f"  {rest} more of other forms")


def _say_readers(figures: "AuditFigures") -> None:
    from ensemble_deid.audit.figures import ASSUMPTIONS

    say(f"\nagreement of the readers (strict F1): {percent(figures.agreement)}")
    if figures.hidden is None:
        return
    hidden = figures.hidden
    say(f"PHI that both readers missed: about {hidden.chapman:.1f} beside {hidden.marked} (Chapman)")
    if hidden.log_linear is not None and hidden.highest is not None:
        say(
            f"PHI that readers and model missed: about {hidden.log_linear:.1f}, up to {hidden.highest:.1f} "
            f"(log-linear; dependent: {hidden.dependence})"
        )
    say("\n".join(["This assumes:", *(f"- {line}" for line in ASSUMPTIONS)]))


def _rate_line(row: "LeakRate") -> str:
    found, missed = f"{row.leaking} of {row.total}", f"{row.missed} of {row.annotations}"
    return f"  {row.name + ', ' + row.of:<40} {found:>12} {percent(row.rate):>8} {percent(row.upper):>10}  {missed:>14}"


def run_certify(options: argparse.Namespace) -> None:
    """Find thresholds that bound the share of PHI missed in other notes."""
    from ensemble_deid.audit.certify import certify
    from ensemble_deid.audit.plan import seen_by
    from ensemble_deid.audit.readings import read_readings, require_certifiable
    from ensemble_deid.deidentify.deidentifier import Deidentifier
    from ensemble_deid.model.manifest import read_manifest
    from ensemble_deid.model.options import as_compared
    from ensemble_deid.training.thresholds import freeze_certified_threshold

    _check_out(options)
    readings = read_readings(options.audit)
    gold = [note.gold for note in readings.notes]
    require_certifiable(readings, seen_by(read_manifest(options.model), gold))
    if options.by_site and any(note.site is None for note in gold):
        raise ConfigError("--by-site: not every note tells its site")
    model = Deidentifier.load(options.model, device=options.device)
    scored = [as_compared(note) for note in model.predict(gold, threshold=0.0)]
    certificate = certify(
        gold,
        scored,
        missed=options.missed,
        confidence=options.confidence,
        unit_of=lambda note: str(note.site) if options.by_site else note.group,
    )
    if options.out is not None:
        write_text_atomically(options.out, certificate.to_json())
    point = None if options.freeze is None else getattr(certificate, options.freeze).point
    if point is not None:
        chosen = freeze_certified_threshold(options.model, point, missed=options.missed, notes=gold)
    _say_certificate(certificate, "site" if options.by_site else readings.plan.unit)
    if point is not None:
        say(f"threshold {four_digits(chosen.threshold or 0.0)} is now in {options.model}; measure it on other notes")
    elif options.freeze is not None:
        raise ConfigError(f"--freeze {options.freeze}: there is no such threshold; the model is as it was")


def _say_certificate(certificate: "Certificate", unit: str) -> None:
    read = f"{counted(certificate.units, unit)}, {counted(certificate.notes, 'note')}"
    say(f"{read}; missed at any threshold: {percent(certificate.lowest)} of PHI words, by {unit}")
    least = f"{percent(certificate.missed)} missed at most"
    _say_promise(f"on average over new {unit}s, {least}", certificate.expected, certificate, unit)
    sure = f"{100 * certificate.confidence:g}% confidence"
    _say_promise(f"with {sure}, {least}", certificate.confident, certificate, unit)
    say(f"both hold for {unit}s that come as these did, drawn at random, and for no others")


def _say_promise(title: str, promise: "Promise", certificate: "Certificate", unit: str) -> None:
    point = promise.point
    if point is not None:
        rate = point.fp_per_1000
        cost = "undefined" if rate is None else f"{rate:.2f}"
        here = f"{percent(promise.loss)} missed in these notes, {cost} false positives in 1000 tokens"
        say(f"{title}: threshold {four_digits(point.threshold)} ({here})")
    elif promise.more is None:
        say(f"{title}: cannot be promised with any number of {unit}s; the model finds too little")
    else:
        say(f"{title}: cannot be promised; {counted(promise.more, f'more {unit}')} like these would do")


def _check_out(options: argparse.Namespace) -> None:
    if options.out is not None:
        inputs = [getattr(options, name, None) for name in ("run_folder", "model")]
        check_out_files([options.out], _FORMS, options.audit, *inputs)
