"""Two systems, two annotators, and what kinds of errors there are."""

import pytest

from ensemble_deid.evaluation.bootstrap import Share
from ensemble_deid.evaluation.compare import COMPARED_VIEWS, FoundBy, compare, holm, measure_agreement
from ensemble_deid.evaluation.error_list import list_errors
from ensemble_deid.evaluation.pairs import EvaluationError
from ensemble_deid.note.counts import Counts
from ensemble_deid.note.document import Document
from ensemble_deid.note.span import Span, SpanKey

TEXT = "Ada Gil saw Dr Bo Li on 1/2/31 at 9"


def note(*keys: SpanKey, id: str = "a", text: str = TEXT, kind: str | None = None) -> Document:
    return Document(id, text, tuple(Span(*key) for key in keys), None, {} if kind is None else {"kind": kind})


NAME, DOCTOR, DATE = (0, 7, "PATIENT"), (15, 20, "DOCTOR"), (24, 30, "DATE")


def test_differences_are_a_less_b_in_every_view() -> None:
    gold = [note(NAME, DATE, id=str(i)) for i in range(8)]
    a = [note(NAME, DATE, id=str(i)) for i in range(8)]
    b = [note(NAME, (24, 30, "AGE"), id=str(i)) for i in range(8)]
    comparison = compare(gold, a, b, resamples=300)
    assert set(comparison.differences) == set(COMPARED_VIEWS)
    f1, precision, recall = comparison.differences["strict"]
    assert (f1.measure, f1.a, f1.b, f1.difference) == ("f1", 1.0, 0.5, 0.5)
    assert (precision.difference, recall.difference) == (0.5, 0.5)
    assert f1.p_value is not None
    assert f1.p_value < 0.05
    assert comparison.differences["type-blind"][0].difference == 0.0
    assert comparison.found == FoundBy(8, 8, 0, 0, 0, 0, 8)
    assert [(d.label, d.difference.difference) for d in comparison.by_label] == [
        ("AGE", None),
        ("DATE", 1.0),
        ("PATIENT", 0.0),
    ]
    assert compare(gold, b, a, resamples=300).differences["strict"][0].difference == -0.5


def test_a_comparison_can_be_of_some_labels() -> None:
    gold, a, b = [note(NAME, DATE)], [note(NAME)], [note(DATE)]
    comparison = compare(gold, a, b, labels=["NAME"], resamples=10)
    assert comparison.labels == ("PATIENT",)
    assert comparison.found == FoundBy(0, 1, 0, 0, 0, 0, 0)
    with pytest.raises(EvaluationError, match="no label, group or category 'NAMES'"):
        compare(gold, a, b, labels=["NAMES"], resamples=10)


def test_holm_adjusts_as_published() -> None:
    assert holm({"a": 0.01, "b": 0.04, "c": 0.03, "d": 0.005}) == pytest.approx(
        {"d": 0.02, "a": 0.03, "c": 0.06, "b": 0.06}
    )
    assert holm({"a": 0.9, "b": 0.8}) == {"b": 1.0, "a": 1.0}


def test_kappa_is_that_of_the_paper() -> None:
    # Murugadoss et al. 2021, supplement, table 5, its counts scaled down and rounded: kappa 0.9694.
    a, b, c, d = 1855, 49, 54, 14832
    text = "x " * (a + b + c + d)
    one = note((0, 2 * (a + b), "PATIENT"), text=text)
    other = note((0, 2 * a, "DATE"), (2 * (a + b), 2 * (a + b + c), "DATE"), text=text)
    agreement = measure_agreement([one], [other], resamples=0)
    kappa = agreement.kappas[0]
    assert kappa.naming == "PHI"
    assert kappa.pairs == (("", "", d), ("", "PHI", c), ("PHI", "", b), ("PHI", "PHI", a))
    assert kappa.observed == pytest.approx(0.9938, abs=1e-4)
    assert kappa.expected == pytest.approx(0.7987, abs=1e-4)
    assert kappa.kappa.value == pytest.approx(0.9694, abs=1e-3)


def test_agreement_by_entity_and_its_undefined_cases() -> None:
    a, b = [note(NAME, DATE), note(id="b")], [note(NAME, DOCTOR), note(id="b")]
    agreement = measure_agreement(a, b, resamples=50)
    strict = agreement.scores[0]
    assert (strict.view, strict.counts) == ("strict", Counts(1, 1, 1))
    swapped = measure_agreement(b, a, resamples=50)
    assert swapped.scores[0].f1.value == strict.f1.value
    assert swapped.kappas[2].kappa.value == pytest.approx(agreement.kappas[2].kappa.value)
    nothing = measure_agreement([note()], [note()], resamples=0)
    assert (nothing.kappas[0].kappa.value, nothing.scores[0].f1.value) == (None, None)
    empty = measure_agreement([note(text="")], [note(text="")], resamples=0)
    assert (empty.tokens, empty.kappas[0].observed) == (0, None)


def test_errors_are_paired_and_named() -> None:
    gold = [note(NAME, DOCTOR, DATE, (34, 35, "AGE"), id="a", kind="letter"), note(NAME, id="b")]
    system = [
        note((0, 7, "DOCTOR"), (12, 20, "DOCTOR"), (26, 30, "AGE"), (8, 11, "CITY"), id="a"),
        note(NAME, id="b"),
    ]
    found = list_errors(gold, system)
    assert [(e.kind, e.gold and e.gold.label, e.system and e.system.label) for e in found.errors] == [
        ("wrong label", "PATIENT", "DOCTOR"),
        ("spurious", None, "CITY"),
        ("wrong boundary", "DOCTOR", "DOCTOR"),
        ("wrong label and boundary", "DATE", "AGE"),
        ("missed", "AGE", None),
    ]
    assert {error.note_kind for error in found.errors} == {"letter"}
    assert found.confusion == {
        ("PATIENT", "DOCTOR"): 1,
        (None, "CITY"): 1,
        ("DOCTOR", "DOCTOR"): 1,
        ("DATE", "AGE"): 1,
        ("AGE", None): 1,
        ("PATIENT", "PATIENT"): 1,
    }
    assert len(found.of_kind("missed")) == 1


def test_the_closest_annotation_is_taken_for_the_pair() -> None:
    gold = [note((0, 20, "PATIENT"), (24, 30, "DATE"))]
    system = [note((0, 7, "DOCTOR"), (12, 20, "PATIENT"), (24, 30, "AGE"), (24, 28, "DATE"))]
    pairs = [(e.kind, e.gold and e.gold.key, e.system and e.system.key) for e in list_errors(gold, system).errors]
    assert pairs == [
        ("spurious", None, (0, 7, "DOCTOR")),
        ("wrong boundary", (0, 20, "PATIENT"), (12, 20, "PATIENT")),
        ("spurious", None, (24, 28, "DATE")),
        ("wrong label", (24, 30, "DATE"), (24, 30, "AGE")),
    ]


def test_missed_tokens_beside_a_right_one() -> None:
    # Ada is found, Gil is not; Bo Li is missed whole
    found = list_errors([note(NAME, DOCTOR)], [note((0, 3, "PATIENT"))])
    assert found.tokens_near == Share(1, 3)
    assert [(e.kind, e.near) for e in found.errors] == [("wrong boundary", None), ("missed", False)]
    beside = list_errors([note((0, 3, "PATIENT"), (4, 7, "PATIENT"))], [note((0, 3, "PATIENT"))])
    assert [(e.kind, e.near) for e in beside.errors] == [("missed", True)]
