"""The whole evaluation, and its three forms: text, JSON and CSV."""

import csv
import io
import json
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from ensemble_deid.evaluation import bootstrap
from ensemble_deid.evaluation.bootstrap import Share, bootstrap_interval
from ensemble_deid.evaluation.compare import compare, holm, measure_agreement
from ensemble_deid.evaluation.curve import spread
from ensemble_deid.evaluation.evaluate import evaluate
from ensemble_deid.evaluation.official import score_official
from ensemble_deid.evaluation.operating_points import (
    choose_threshold,
    find_operating_points,
    threshold_from_record,
    threshold_to_record,
)
from ensemble_deid.evaluation.pairs import AnnotationStats, EvaluationError
from ensemble_deid.evaluation.render.blocks import agreement_results, comparison_results, evaluation_results
from ensemble_deid.evaluation.render.data import COLUMNS, agreement_data, comparison_data, evaluation_data
from ensemble_deid.evaluation.views import count_view, resampled_units
from ensemble_deid.note.counts import Counts
from ensemble_deid.note.document import Document
from ensemble_deid.note.span import Span, SpanKey

TEXT = "Ada Gil saw Dr Bo Li on 1/2/31 in Rome"
NAME, DOCTOR, DATE, CITY = (0, 7, "PATIENT"), (15, 20, "DOCTOR"), (24, 30, "DATE"), (34, 38, "CITY")
SECRETS = ("Ada", "Gil", "Bo Li", "1/2/31", "Rome")


def note(id: str, *keys: SpanKey, patient: str | None = None) -> Document:
    return Document(id, TEXT, tuple(Span(*key) for key in keys), patient, {"kind": "letter"})


GOLD = [
    note("a", NAME, DOCTOR, DATE, CITY, patient="p"),
    note("b", NAME, patient="p"),
    note("c", NAME, DATE, patient="q"),
]
SYSTEM = [
    replace(GOLD[0], spans=(Span(*NAME, 0.9), Span(*NAME, 0.8), Span(15, 17, "DOCTOR", 0.7), Span(*DATE, 0.6))),
    note("b", (0, 7, "DOCTOR"), (0, 3, "PATIENT"), CITY, patient="p"),
    note("c", NAME, DATE, patient="q"),
]


def test_every_part_is_scored_in_every_view() -> None:
    result = evaluate(GOLD, SYSTEM, resamples=200)
    assert (result.documents, result.patients, result.tokens) == (3, 2, 36)
    assert result.gold == AnnotationStats(7, 0, 0)
    assert result.system == AnnotationStats(9, 1, 1)
    assert result.score().counts == Counts(4, 4, 3)
    assert result.score("strict", "label", "PATIENT").counts == Counts(2, 1, 1)
    assert result.score("strict", "category", "NAME").counts == Counts(2, 3, 2)
    assert result.score("category", "category", "NAME").counts == Counts(3, 2, 1)
    assert result.score("strict", "subset", "HIPAA").counts == Counts(4, 2, 2)
    assert result.score("type-blind").counts == Counts(5, 3, 2)
    # without DOCTOR, the name of b is found by no annotation of the system's
    assert result.score("type-blind", "subset", "A").counts == Counts(4, 2, 2)
    assert result.score("token-binary").counts == Counts(13, 1, 2)
    rates = {rates.view: rates for rates in result.token_rates}
    assert rates["token-binary"].false_negatives.value == pytest.approx(1000 * 2 / 36)
    assert rates["token-binary"].false_positives.value == pytest.approx(1000 * 1 / 36)
    with pytest.raises(EvaluationError, match="no score for the label 'AGE'"):
        result.score("strict", "label", "AGE")


def test_intervals_are_those_of_the_plain_bootstrap() -> None:
    result = evaluate(GOLD, SYSTEM, resamples=500, seed=3)
    table = count_view(GOLD, SYSTEM)
    expected = bootstrap_interval(table.per_document, table.groups, resamples=500, seed=3)
    assert result.score().f1.interval == expected
    assert evaluate(GOLD, SYSTEM, resamples=0).score().f1.interval is None


def test_macro_figures_leave_out_notes_where_they_are_undefined() -> None:
    gold = [note("a", NAME, DATE), note("b"), note("c", NAME)]
    macro = {m.view: m for m in evaluate(gold, [note("a", NAME), note("b"), note("c")], resamples=0).macro}["strict"]
    assert (macro.precision.mean, macro.precision.documents) == (1.0, 1)
    assert (macro.recall.mean, macro.recall.sd, macro.recall.documents) == (0.25, 0.25, 2)
    assert macro.f1.mean == pytest.approx(np.mean([2 / 3, 0]))


def test_leaks_in_the_evaluation_and_their_intervals() -> None:
    result = evaluate(GOLD, SYSTEM, resamples=200)
    assert result.leaks.total.phi == Share(2, 7)
    assert result.leaks.by_kind[0].kind == "letter"
    assert result.leak_intervals.notes.value == pytest.approx(1 / 3)
    assert result.leak_intervals.notes.interval is not None


def test_labels_can_be_chosen_and_hidden_phi_stays_hidden() -> None:
    result = evaluate(GOLD, SYSTEM, labels=["PATIENT"], resamples=0)
    assert result.labels == ("PATIENT",)
    assert result.score().counts == Counts(2, 1, 1)
    # the system's DOCTOR over a patient's name hides it
    assert result.leaks.total.phi == Share(0, 3)
    assert evaluate(GOLD, SYSTEM, labels=["NAME", "DATE"], resamples=0).labels == ("DATE", "DOCTOR", "PATIENT")
    assert evaluate(GOLD, SYSTEM, labels=["A"], resamples=0).labels == ("CITY", "DATE", "PATIENT")
    assert evaluate(GOLD, SYSTEM, labels=["SSN"], resamples=0).score().f1.value is None
    for wrong in (["NAMES"], []):
        with pytest.raises(EvaluationError):
            evaluate(GOLD, SYSTEM, labels=wrong)


def test_notes_without_any_annotation_leave_all_undefined() -> None:
    result = evaluate([note("a")], [note("a")], resamples=50)
    assert result.score().f1.value is None
    assert result.leaks.total.phi.share is None
    text = evaluation_results(result, full=True).render(".txt")
    assert "undefined" in text
    assert json.loads(json.dumps(evaluation_data(result)))["scores"][0]["f1"] is None


def test_notes_that_name_no_patient_are_said() -> None:
    result = evaluate([note("a", NAME), note("b", patient="p")], [note("a"), note("b")], resamples=0)
    assert (result.patients, result.without_patient) == (2, 1)
    assert "2 notes of 2 patients (1 notes name no patient and count as one each)" in evaluation_results(
        result, full=True
    ).render(".txt")


def test_an_evaluation_in_its_three_forms(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bootstrap, "LEAST_CLUSTERS", 2)
    result = evaluate(GOLD, SYSTEM, resamples=100)
    operating = find_operating_points(GOLD, SYSTEM, oracle=True)
    official = score_official(GOLD, SYSTEM, scheme="i2b2")
    text = evaluation_results(result, operating=operating, full=True).render(".txt")
    assert "system: 9 annotations; 1 repeat another (counted once); 1 overlap the one before (each counted)" in text
    assert "ORACLE" in text
    assert "not reached" in text
    data = json.loads(json.dumps(evaluation_data(result, official=official, operating=operating), allow_nan=False))
    assert data["official"]["Strict"]["true_positives"] == 4
    assert data["scores"][0] == {
        "view": "strict",
        "part": "total",
        "name": "all",
        "tp": 4,
        "fp": 4,
        "fn": 3,
        **{key: data["scores"][0][key] for key in data["scores"][0] if key.split("_")[0] in ("precision", "recall")},
        "f1": pytest.approx(8 / 15),
        "f1_low": pytest.approx(4 / 11),
        "f1_high": 1.0,
    }
    assert data["operating_points"]["oracle"] is True
    rows = list(
        csv.DictReader(io.StringIO(evaluation_results(result, official=official, operating=operating).render(".csv")))
    )
    assert tuple(rows[0]) == COLUMNS
    keys = [tuple(row[column] for column in COLUMNS[:5]) for row in rows]
    assert len(set(keys)) == len(keys)
    strict = {row["figure"]: row for row in rows if row["view"] == "strict" and row["part"] == "total"}
    assert strict["tp"]["value"] == "4"
    assert float(strict["f1"]["low"]) <= float(strict["f1"]["value"]) <= float(strict["f1"]["high"])
    for form in (text, json.dumps(data), str(rows)):
        assert not any(secret in form for secret in SECRETS)


def test_direct_identifiers_that_are_left_are_the_same_in_every_form() -> None:
    """The doctor in part and the city of note a are left, too, and the date of note c; direct is its name alone."""
    results = evaluation_results(evaluate(GOLD, [*SYSTEM[:2], SYSTEM[2].with_spans(())], resamples=0))
    assert "patients without a direct identifier left: 1 of 2" in results.render(".txt")
    assert json.loads(results.render(".json"))["leaks"]["direct"]["patients"]["count"] == 1
    rows = csv.DictReader(io.StringIO(results.render(".csv")))
    direct = {row["figure"]: row["value"] for row in rows if row["part"] == "direct identifiers"}
    assert (direct["annotations_count"], direct["notes_count"], direct["patients_count"]) == ("1", "1", "1")


def test_comparisons_and_agreement_in_their_three_forms() -> None:
    comparison = compare(GOLD, SYSTEM, GOLD, resamples=100)
    text = comparison_results(comparison, name_a="old", name_b="new").render(".txt")
    assert "old - new" in text
    data = json.loads(json.dumps(comparison_data(comparison), allow_nan=False))
    assert data["differences"][0]["difference"] == pytest.approx(8 / 15 - 1)
    assert len(comparison_results(comparison).render(".csv").splitlines()) == 1 + 5 * 3 * 5 + 4 * 5
    # Every row of the first table is one of fifteen comparisons.
    p_values = {f"{d['view']} {d['measure']}": d["p"] for d in data["differences"]}
    assert {f"{d['view']} {d['measure']}": d["holm_p"] for d in data["differences"]} == holm(p_values)
    agreement = measure_agreement(GOLD, SYSTEM, resamples=100)
    assert "Cohen's kappa" in agreement_results(agreement).render(".txt")
    data = json.loads(json.dumps(agreement_data(agreement), allow_nan=False))
    assert data["kappas"][0]["pairs"][0] == {"a": None, "b": None, "tokens": 20}
    assert "kappa,token,total,PHI,kappa" in agreement_results(agreement).render(".csv")


def test_results_do_not_depend_on_the_order_of_anything() -> None:
    one = evaluation_data(evaluate(GOLD, SYSTEM, resamples=50))
    turned = [document.with_spans(document.spans[::-1]) for document in SYSTEM[::-1]]
    assert evaluation_data(evaluate(GOLD[::-1], turned, resamples=50)) == one


def test_a_chosen_threshold_can_be_stored() -> None:
    chosen = choose_threshold(GOLD, SYSTEM, wanted=0.5)
    record = json.loads(json.dumps(threshold_to_record(chosen)))
    assert threshold_from_record(record) == chosen
    unreached = choose_threshold(GOLD, SYSTEM, wanted=1.0)
    assert threshold_from_record(threshold_to_record(unreached)) == unreached
    broken: list[dict[str, object]] = [
        {},
        {**record, "threshold": None},
        {**record, "threshold": 2},
        {**record, "rule": "luck"},
        {**record, "notes": "x"},
        {**record, "notes": {**record["notes"], "salt": 1}},
        {**record, "notes": {"count": 1}},
        {**record, "chosen_at": {**record["chosen_at"], "tp": -1}},
        {**record, "chosen_at": 3},
    ]
    for wrong in broken:
        with pytest.raises(EvaluationError):
            threshold_from_record(wrong)


def test_unknown_schemes_and_wrong_levels_are_refused() -> None:
    with pytest.raises(EvaluationError, match="i2b2, meddocan"):
        score_official(GOLD, SYSTEM, scheme="conll")
    wrong: list[dict[str, Any]] = [{"level": 95}, {"resamples": -1}]
    for options in wrong:
        for work in (evaluate, measure_agreement):
            with pytest.raises(EvaluationError, match=r"between 0 and 1|0 or more"):
                work(GOLD, SYSTEM, **options)
        with pytest.raises(EvaluationError, match=r"between 0 and 1|0 or more"):
            compare(GOLD, SYSTEM, SYSTEM, **options)


def test_a_long_curve_is_thinned_with_both_ends() -> None:
    assert spread(5, 10) == [0, 1, 2, 3, 4]
    assert spread(1000, 3) == [0, 500, 999]


def keys_in(data: object, skip: frozenset[str]) -> set[str]:
    if isinstance(data, list):
        return {key for item in data for key in keys_in(item, skip)}
    if not isinstance(data, dict):
        return set()
    return {key for key in data if key not in skip} | {
        key for name, item in data.items() for key in keys_in(item, skip)
    }


def test_every_key_is_described() -> None:
    described = (Path(__file__).parents[1] / "docs" / "evaluation.md").read_text(encoding="utf-8")
    operating = find_operating_points(GOLD, SYSTEM, oracle=True)
    forms = [
        evaluation_data(evaluate(GOLD, SYSTEM, resamples=10), operating=operating),
        comparison_data(compare(GOLD, SYSTEM, GOLD, resamples=10)),
        agreement_data(measure_agreement(GOLD, SYSTEM, resamples=10)),
    ]
    labels = frozenset(span.label for document in (*GOLD, *SYSTEM) for span in document.spans)
    keys = {key for form in forms for key in keys_in(form, labels)}
    # the ends of an interval, and what is the same for precision, recall and F1, are described once
    keys = {re.sub(r"_(low|high)$", "", key) for key in keys}
    keys = {re.sub(r"^(recall|f1)_(mean|sd|documents)$", r"precision_\2", key) for key in keys}
    missing = [key for key in sorted(keys) if not re.search(rf"[`.]{key}[`.\[]", described)]
    assert not missing, " ".join(missing)


def test_intervals_resample_sites_where_there_are_ten() -> None:
    notes = [Document(f"{k:02}", "Anna", patient_id=f"p{k}", site=f"s{k // 2}") for k in range(20)]
    table = count_view(notes, notes)
    assert resampled_units(notes, table) == tuple(f"s{k // 2}" for k in range(20))
    few = [*notes[:18], *(Document(f"{k}", "Anna", patient_id=f"p{k}") for k in (18, 19))]
    assert resampled_units(few, count_view(few, few)) == tuple(f"p{k}" for k in range(20))
