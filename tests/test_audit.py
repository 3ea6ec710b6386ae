"""An audit from plan to certificate, and each of its parts against what must hold."""

import json
import shutil
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import tiny_stack
from audit_readers import adjudicate, read
from scipy.stats import binom
from test_cli_terminal import Gone

from ensemble_deid import Deidentifier, deidentify_files
from ensemble_deid.audit.bounds import (
    Units,
    betting_upper,
    notes_to_read,
    notes_until_stop,
    upper_bound,
)
from ensemble_deid.audit.certify import certify, hoeffding_bentkus
from ensemble_deid.audit.figures import Cell, _leaks, audit_figures, estimate_hidden, form_of
from ensemble_deid.audit.plan import DrawnNote, allocate, read_plan
from ensemble_deid.audit.readings import PLAN, STORE, AuditedNote, opened_audit, read_readings
from ensemble_deid.audit.release import replaced_spans
from ensemble_deid.cli.main import main
from ensemble_deid.corpora.write import write_corpus
from ensemble_deid.deidentify.replacement.styles import Styles
from ensemble_deid.errors import ConfigError
from ensemble_deid.evaluation.bootstrap import clopper_pearson_upper
from ensemble_deid.evaluation.operating_points import NoScoresError, chosen_threshold
from ensemble_deid.evaluation.pairs import EvaluationError
from ensemble_deid.evaluation.views import count_view
from ensemble_deid.model.manifest import read_manifest
from ensemble_deid.note.document import Document
from ensemble_deid.note.labels import DIRECT, I2B2_TYPES, QUASI, identifier_of, is_direct
from ensemble_deid.note.span import Span
from ensemble_deid.service.review.edits import finish
from ensemble_deid.service.review.layers import begin_layer
from ensemble_deid.service.review.overview import note_page
from ensemble_deid.service.review.records import ADJUDICATION, read_spans
from research.audit_coverage import Site, cluster_robust, coverage, sequential

# Patients whom the tiny model has not seen: it was trained on 300 to 303 and tuned on 400 to 403.
GOLD = {note.id: note for note in tiny_stack.notes(600, patients=8)}


@pytest.fixture(scope="module")
def run(tiny_model: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the notes, their release and its run."""
    folder = tmp_path_factory.mktemp("audit")
    write_corpus(list(GOLD.values()), folder / "notes", "plain")
    words = ["deidentify", str(tiny_model), str(folder / "notes"), "--out", str(folder / "clean"), "--quiet"]
    assert main([*words, "--accept-unfit"]) == 0
    return folder


@pytest.fixture
def audit(run: Path, tiny_model: Path, tmp_path: Path) -> Path:
    """An audit of all eight patients, of which nothing is read yet."""
    folder = tmp_path / "audit"
    plan = ["audit", "plan", str(run / "clean.run"), str(run / "notes"), str(tiny_model), "--size", "8"]
    assert main([*plan, "--strata", "length", "--seed", "3", "--out", str(folder)]) == 0
    return folder


def test_from_plan_to_signed_release(
    run: Path, audit: Path, tiny_model: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    read(audit, GOLD)
    report = ["audit", "report", str(run / "clean.run"), str(audit)]
    assert main(report) == 2
    assert "nothing counts yet" in capsys.readouterr().err
    adjudicate(audit, GOLD)
    assert main([*report, "--adjudicator", "lee"]) == 2
    assert "is one of the readers" in capsys.readouterr().err
    out = tmp_path / "report.json"
    assert main([*report, "--adjudicator", "Ada Gil", "--out", str(out)]) == 0
    said = capsys.readouterr().out
    figures = json.loads(out.read_text(encoding="utf-8"))
    assert (figures["units"], figures["notes"], figures["complete"]) == (8, 16, True)
    assert (figures["readers"], figures["adjudicator"]) == (["kim", "lee"], "Ada Gil")
    # Counted by hand from what the run replaced.
    replaced = replaced_spans(run / "clean.run", "original")
    left = {
        note.patient
        for note in GOLD.values()
        for span in note.spans
        if span.label == "PATIENT" and not any(r.start <= span.start and span.end <= r.end for r in replaced[note.id])
    }
    (names,) = [row for row in figures["direct"] if row["name"] == "names"]
    assert (names["leaking"], names["total"]) == (len(left), 8)
    assert names["upper"] == pytest.approx(clopper_pearson_upper(len(left), 8))
    assert figures["subgroups"] == []
    assert sum(figures["subgroups_left_out"].values()) == 8
    for text in (said, out.read_text(encoding="utf-8")):
        assert not any(note.text[s.start : s.end] in text for note in GOLD.values() for s in note.spans)

    certify = ["audit", "certify", str(tiny_model), str(audit), "--missed", "0.02"]
    assert main(certify) == 0
    said = capsys.readouterr().out
    assert "cannot be promised" in said
    assert main([*certify, "--freeze", "expected"]) == 2
    assert "there is no such threshold" in capsys.readouterr().err

    key, record = tmp_path / "officer.pem", tmp_path / "record.json"
    assert main(["keygen", str(key), "--signing"]) == 0
    signed = ["--sign", str(key), "--by", "Mia Ode", "--role", "officer", "--adjudicator", "Ada Gil"]
    release = ["audit", "release", str(run / "clean.run"), str(tiny_model), "--audit", str(audit), *signed]
    assert main([*release, "--decision", "refuse", "--date", "2031-02-03", "--out", str(record)]) == 0
    verify = ["audit", "verify", "--trust", f"{key}.pub"]
    assert main([*verify, str(record)]) == 0
    forged = record.with_name("forged.json")
    forged.write_text(record.read_text(encoding="ascii").replace('"refuse"', '"approve"'), encoding="ascii")
    assert main([*verify, str(forged)]) == 2
    assert "the signature is not valid" in capsys.readouterr().err


def test_a_certified_threshold_is_stored_and_its_notes_measure_nothing_any_more(
    run: Path, audit: Path, tiny_model: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    model = tmp_path / "model"
    shutil.copytree(tiny_model, model)
    read(audit, GOLD)
    adjudicate(audit, GOLD)
    certify = ["audit", "certify", str(model), str(audit), "--missed", "0.9", "--freeze", "expected"]
    assert main(certify) == 0
    record = read_manifest(model).figures["threshold"]
    assert (record["rule"], record["wanted"], record["notes"]["count"]) == ("certified", 0.9, 16)
    capsys.readouterr()
    assert main(certify) == 2
    assert "the model has seen 16 of the notes" in capsys.readouterr().err
    plan = ["audit", "plan", str(run / "clean.run"), str(run / "notes"), str(model), "--out", str(tmp_path / "again")]
    assert main(plan) == 2
    assert "the run was made by another model" in capsys.readouterr().err


def test_a_certified_threshold_works_on_capitals_as_it_was_certified(
    tiny_model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In them the model lowers its threshold. What is frozen does not depend on who reads the output."""
    notes = {name: replace(note, text=note.text.upper()) for name, note in GOLD.items()}
    model, place = Path(shutil.copytree(tiny_model, tmp_path / "model")), tmp_path / "audit"
    write_corpus(list(notes.values()), tmp_path / "notes", "plain")
    run = deidentify_files(tmp_path / "notes", tmp_path / "clean", model, accept_unfit=True).folder
    assert main(["audit", "plan", str(run), str(tmp_path / "notes"), str(model), "--out", str(place)]) == 0
    read(place, notes)
    adjudicate(place, notes)
    monkeypatch.setattr(sys, "stdout", Gone())
    assert main(["audit", "certify", str(model), str(place), "--missed", "0.9", "--freeze", "expected"]) == 141
    chosen = chosen_threshold(read_manifest(model).figures)
    assert chosen is not None
    assert chosen.chosen_at is not None
    gold = [note.gold for note in read_readings(place).notes]
    found = count_view(gold, Deidentifier.load(model).predict(gold), "token-binary").total
    assert found == chosen.chosen_at.counts


def test_readers_see_nothing_of_the_model_and_adjudication_sees_what_it_alone_found(audit: Path) -> None:
    with opened_audit(audit) as (plan, file), file.transaction() as database:
        (found,) = database.execute("SELECT count(*) FROM predictions WHERE note = 1").fetchone()
        assert found
        begin_layer(database, "kim", 1)
        assert read_spans(database, "kim", 1) == []
        page = note_page(database, "lee")
        assert [line.name for line in page.lines] == [note.note for note in plan.notes]
        assert {line.open for line in page.lines} == {0}
        for reader in ("kim", "lee"):
            finish(database, reader, 1, finished=True, settle=True)
        (line,) = note_page(database, ADJUDICATION).lines
        begin_layer(database, ADJUDICATION, 1)
        spans = read_spans(database, ADJUDICATION, 1)
        assert {(span.kind, span.status, span.origin) for span in spans} == {("disputed", "undecided", "model")}
        assert len(spans) == found == line.open


def test_an_audit_takes_no_further_notes(
    audit: Path, run: Path, tiny_model: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["review", "start", str(tiny_model), str(run / "notes"), "--store", str(audit / STORE), "--quiet"]
    assert main(words) == 2
    assert "to which no note is added" in capsys.readouterr().err or "another model" in capsys.readouterr().err


def test_only_the_beginning_of_the_order_counts(audit: Path, run: Path) -> None:
    read(audit, GOLD, first=6)
    adjudicate(audit, GOLD, first=6)
    with opened_audit(audit) as (_, file), file.transaction() as database:
        finish(database, ADJUDICATION, 3, finished=False)
    readings = read_readings(audit)
    # Each patient has two notes; the third note is the second patient's.
    assert (readings.units, len(readings.notes), readings.complete) == (1, 2, False)
    figures = audit_figures(readings, replaced_spans(run / "clean.run", "original"))
    assert {row.method for row in figures.rates} == {"sequential", "none"}
    assert figures.sequential[-1][0] == 1


def test_what_the_policy_leaves_is_no_leak() -> None:
    """Under Safe Harbor's styles: a year and an age of at most 89 stay; a day, an age over 89 and a name do not."""
    text = "Ann Lee, 44, mother 93, seen 2019, on 3/4/2019, zip 02139."
    kinds = {"Ann Lee": "PATIENT", "44": "AGE", "93": "AGE", "2019": "DATE", "3/4/2019": "DATE", "02139": "ZIP"}
    spans = [Span(text.index(words), text.index(words) + len(words), label) for words, label in kinds.items()]
    note = AuditedNote(
        DrawnNote("a", 1, "", 1.0), Document("a", text, tuple(spans)), ("kim", "lee"), (frozenset(),) * 3
    )
    styles = Styles("tag", {"AGE": "cap-age", "DATE": "year", "ZIP": "zip3"})
    assert len(_leaks(note, [], Styles())) == len(spans)
    assert [(leak.label, leak.length) for leak in _leaks(note, [], styles)] == [
        ("PATIENT", 7), ("AGE", 2), ("DATE", 8), ("ZIP", 5)
    ]  # fmt: skip


def test_a_plan_is_the_same_for_the_same_seed_and_belongs_to_its_notes(
    audit: Path, run: Path, tiny_model: Path, tmp_path: Path
) -> None:
    again = tmp_path / "again"
    words = ["audit", "plan", str(run / "clean.run"), str(run / "notes"), str(tiny_model), "--size", "8"]
    assert main([*words, "--strata", "length", "--seed", "3", "--out", str(again)]) == 0
    assert (again / PLAN).read_bytes() == (audit / PLAN).read_bytes()
    assert read_plan(again / PLAN).digest == read_plan(audit / PLAN).digest
    other = (again / PLAN).read_text(encoding="utf-8").replace('"bound": 0.01', '"bound": 0.02')
    (again / PLAN).write_text(other, encoding="utf-8")
    with pytest.raises(ConfigError, match="is not the plan by which"), opened_audit(again):
        pass
    (again / PLAN).write_text("{}", encoding="utf-8")
    with pytest.raises(ConfigError, match="not an audit plan"):
        read_plan(again / PLAN)


def test_notes_that_the_model_has_seen_are_left_out(
    tiny_model: Path, tiny_train: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    notes = [*tiny_stack.notes(300, patients=4), *tiny_stack.notes(701, patients=2)]
    write_corpus(notes, tmp_path / "notes", "plain")
    words = ["deidentify", str(tiny_model), str(tmp_path / "notes"), "--out", str(tmp_path / "clean"), "--quiet"]
    assert main([*words, "--accept-unfit"]) == 0
    place = tmp_path / "audit"
    plan = ["audit", "plan", str(tmp_path / "clean.run"), str(tmp_path / "notes"), str(tiny_model)]
    assert main([*plan, "--unit", "note", "--released", "--out", str(place)]) == 2
    assert "needs what the run wrote" in capsys.readouterr().err
    assert main([*plan[:3], str(tmp_path / "clean"), str(tiny_model), "--out", str(place)]) == 2
    assert "and not what it wrote" in capsys.readouterr().err
    released = [*plan[:3], str(tmp_path / "clean"), str(tiny_model), "--unit", "note", "--released"]
    assert main([*released, "--out", str(tmp_path / "released")]) == 0
    assert main([*plan, "--out", str(place)]) == 0
    drawn = read_plan(place / PLAN)
    assert {note.note[:3] for note in drawn.notes} == {"701", "702"}
    assert (drawn.left_out, drawn.frame_notes, drawn.frame_units) == (8, 4, 2)
    assert main([*plan[:3], str(tiny_train), str(tiny_model), "--out", str(tmp_path / "wrong")]) == 2


def test_a_plan_says_what_it_cannot_lead_to(
    run: Path, tiny_model: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["deidentify", str(tiny_model), str(run / "notes"), "--out", str(tmp_path / "clean"), "--quiet"]
    assert main([*words, "--accept-unfit", "--policy", "safe-harbor"]) == 0
    plan = ["audit", "plan", str(tmp_path / "clean.run"), str(run / "notes"), str(tiny_model)]
    assert main([*plan, "--out", str(tmp_path / "audit")]) == 0
    said = capsys.readouterr().out
    kept = ", ".join(read_plan(tmp_path / "audit" / PLAN).kept_labels)
    assert f"the run keeps {kept}: `audit certify` needs one that keeps no label" in said
    # With 299 patients drawn, nobody gets as far as the 356th.
    assert "stop early" not in said
    assert main(plan) == main([*plan, "--leaks", "1"]) == 0
    assert capsys.readouterr().out.count("reading may stop early without a leak: after 356 patients") == 1


def test_how_many_to_read() -> None:
    for bound, leaks in ((0.01, 0), (0.01, 2), (0.05, 1)):
        n = notes_to_read(bound, leaks=leaks)
        # The definition: with one note less, as few leaks are not rare enough if the rate is the bound.
        assert binom.cdf(leaks, n, bound) <= 0.05 < binom.cdf(leaks, n - 1, bound)
    assert notes_to_read(0.01) == 299 < notes_until_stop(0.01) < 400
    with pytest.raises(EvaluationError):
        notes_to_read(0)


@pytest.mark.parametrize("site", [Site(0.005, 0.4, 5), Site(0.02, 0.1, 5), Site(0.05, 0.4, 5), Site(0.2, 0.4, 8)])
def test_the_cluster_robust_bound_covers(site: Site) -> None:
    """On sparse, clustered and dense made-up sites; `python -m research audit-coverage` draws many more."""
    # 94%, less two standard errors.
    assert coverage(cluster_robust, site, patients=120, samples=250, seed=1) >= 0.94 - 2 * 0.015


@pytest.mark.parametrize("rate", [0.01, 0.1, 0.4])
def test_the_sequential_bound_covers_at_every_look(rate: float) -> None:
    assert coverage(sequential, Site(rate, 0.1, 1), patients=200, samples=150, seed=1) >= 0.95


def test_the_capital_of_the_bets_never_grows_on_average() -> None:
    """The reference: every outcome of six units, each as likely as under the null hypothesis."""
    rate, reached = 0.4, 0.0
    for outcome in np.ndindex(*[2] * 6):
        units = Units.equal(np.array(outcome, dtype=np.float64))
        bounds = [betting_upper(units.at(slice(n)), largest=1.0, confidence=0.7) for n in range(1, 7)]
        reached += (min(bounds) < rate) * rate ** sum(outcome) * (1 - rate) ** (6 - sum(outcome))
    assert 0 < reached <= 0.3


def test_equal_units_have_the_exact_bound() -> None:
    units = Units.equal(np.array([1.0, 0, 0, 0, 0, 0, 0, 0]))
    assert upper_bound(units) == clopper_pearson_upper(1, 8)
    assert upper_bound(units.at(slice(0))) is None
    # Notes of one patient that leak together count once.
    patients = Units(np.zeros(20), np.full(20, 5.0), np.ones(20), np.zeros(20))
    assert upper_bound(patients) == pytest.approx(clopper_pearson_upper(0, 20))


def test_a_sample_is_divided_in_proportion() -> None:
    assert allocate({"a": 1000}, 50) == {"a": 50}
    assert allocate({"a": 1000, "b": 10, "c": 1}, 50) == {"a": 50, "b": 2, "c": 1}


def test_what_nobody_marked_is_estimated() -> None:
    independent: dict[Cell, int] = {}
    dependent: dict[Cell, int] = {}
    for k in range(1, 8):
        a, b, c = bool(k & 4), bool(k & 2), bool(k & 1)
        model = 0.8 if c else 0.2
        independent[a, b, c] = round(1000 * (0.9 if a else 0.1) * (0.7 if b else 0.3) * model)
        # The readers find the same two thirds: where one misses, so does the other.
        both = {(True, True): 0.6, (True, False): 0.05, (False, True): 0.05, (False, False): 0.3}[a, b]
        dependent[a, b, c] = round(1000 * both * model)
    hidden = estimate_hidden(independent)
    assert hidden.log_linear == pytest.approx(1000 * 0.1 * 0.3 * 0.2, abs=2)
    assert hidden.chapman == pytest.approx(1000 * 0.1 * 0.3, abs=7)
    hidden = estimate_hidden(dependent)
    assert (hidden.dependence, hidden.log_linear) == ("reader 1 and reader 2", pytest.approx(60, rel=0.1))
    assert estimate_hidden({}).marked == 0


def test_every_label_is_one_identifier() -> None:
    named = [label for labels in (*DIRECT.values(), *QUASI.values()) for label in labels]
    assert sorted(named) == sorted(I2B2_TYPES)
    assert [is_direct(label) for label in ("PATIENT", "BADGE", "city")] == [True, True, False]
    assert identifier_of("FECHAS") == "dates"
    assert form_of("de la Cruz-GIL\n 7a") == "a a Aa-A 9a"


def scored(units: int, weak: float) -> tuple[list[Document], list[Document]]:
    """Return notes of ten names each, of which the share `weak` has the score 0.2 and the rest 0.8."""
    text = " ".join(["Ann"] * 10)
    spans = [Span(4 * k, 4 * k + 3, "PATIENT") for k in range(10)]
    gold = [Document(str(n), text, tuple(spans)) for n in range(units)]
    low = round(10 * weak)
    parts = [Span(s.start, s.end, s.label, 0.2 if k < low else 0.8) for k, s in enumerate(spans)]
    return gold, [note.with_spans(parts) for note in gold]


def test_98_percent_need_49_units() -> None:
    for units, more in ((48, 1), (49, 0)):
        found = certify(*scored(units, 0.0), missed=0.02)
        assert (found.expected.threshold, found.expected.more) == ((None, more) if more else (0.8, 0))
    assert (found.confident.threshold, found.confident.more) == (None, 149 - 49)


def test_a_certificate_takes_the_highest_threshold_that_holds() -> None:
    gold, system = scored(100, 0.3)
    found = certify(gold, system, missed=0.1)
    assert (found.expected.threshold, found.expected.loss) == (0.2, 0.0)
    assert certify(gold, system, missed=0.5).confident.threshold == 0.8
    # What the model never proposes is missed at every threshold, and no number of notes helps.
    blind = [note.with_spans(note.spans[:5]) for note in system]
    hopeless = certify(gold, blind, missed=0.1)
    assert (hopeless.lowest, hopeless.expected.more, hopeless.confident.more) == (0.5, None, None)
    with pytest.raises(NoScoresError):
        certify(gold, [note.with_spans(()) for note in gold])


def test_the_expected_promise_is_kept() -> None:
    """Over draws of 60 units whose shares of weak words differ, the next unit's loss is 10% at most on average."""
    rng = np.random.default_rng(7)
    losses = []
    for _ in range(60):
        gold, system = scored(61, 0.0)
        weak = rng.binomial(10, rng.beta(0.5, 4, 61))
        drawn = []
        for note, few in zip(system, weak.tolist(), strict=True):
            scores = [rng.random() if k < few else 1.0 for k in range(10)]
            drawn.append(note.with_spans(replace(s, score=x) for s, x in zip(note.spans, scores, strict=True)))
        threshold = certify(gold[:60], drawn[:60], missed=0.1).expected.threshold
        assert threshold is not None
        losses.append(np.mean([span.score < threshold for span in drawn[60].spans]))
    assert np.mean(losses) <= 0.1 + 2 * np.std(losses) / np.sqrt(60)


def test_p_values_of_a_mean_loss() -> None:
    assert hoeffding_bentkus(0.1, 100, 0.1) == 1
    assert hoeffding_bentkus(0.0, 149, 0.02) <= 0.05 < hoeffding_bentkus(0.0, 148, 0.02)
    rng = np.random.default_rng(8)
    rejected = [hoeffding_bentkus(float(rng.binomial(50, 0.1)) / 50, 50, 0.1) <= 0.05 for _ in range(500)]
    assert np.mean(rejected) <= 0.05
