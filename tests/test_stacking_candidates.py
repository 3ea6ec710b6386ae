"""Candidates, their competitors and their context, each against a slow and obvious count."""

import itertools
import math
from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from stacking_columns import feature_names
from tiny_notes import plain

from ensemble_deid.note.document import Document
from ensemble_deid.note.overlaps import RELATIONS, overlapping_rows, relation
from ensemble_deid.note.span import Span
from ensemble_deid.note.tokens import tokenize
from ensemble_deid.stacking.candidates import CandidateTable, collect, maxima
from ensemble_deid.stacking.context import FORM, KINDS, CandidateContext, extract_context
from ensemble_deid.stacking.features import candidate_features, measure_statistics, statistics_keys
from ensemble_deid.stacking.voting import METHODS, combine
from ensemble_deid.submodels import BY_NAME, NAMES
from ensemble_deid.taggers.base import Proposals

LABELS = ("A", "B")
NOTES = ["Ann Lee Ann Lee ann", "Lee 12 Lee", "x"]


def proposals_of(*documents: tuple[Sequence[Span], Sequence[Span]]) -> Proposals:
    """Return proposals of (best, further candidates) for each document."""
    best = tuple(tuple(chosen) for chosen, _ in documents)
    return Proposals(best, tuple((*chosen, *more) for chosen, more in documents))


@st.composite
def span_sets(draw: st.DrawFn, text: str) -> list[Span]:
    tokens = tokenize([Document("x", text)])
    spans = []
    for _ in range(draw(st.integers(0, 6))):
        first = draw(st.integers(0, len(tokens) - 1))
        last = draw(st.integers(first, min(first + 2, len(tokens) - 1)))
        score = draw(st.sampled_from([0.0, 0.2, 0.5, 0.7, 1.0]))
        spans.append(Span(int(tokens.start[first]), int(tokens.end[last]), draw(st.sampled_from(LABELS)), score))
    return spans


@st.composite
def proposed(draw: st.DrawFn) -> dict[str, Proposals]:
    names = draw(st.lists(st.sampled_from(NAMES), min_size=1, unique=True))
    return {name: proposals_of(*[(draw(span_sets(text)), draw(span_sets(text))) for text in NOTES]) for name in names}


BATCH = plain([Document(str(i), text, patient_id="p" if i < 2 else "q") for i, text in enumerate(NOTES)])


@settings(max_examples=25)
@given(proposed(), st.sampled_from([0.0, 0.3, 0.6]))
def test_candidates_are_the_union_with_who_said_what(proposals: dict[str, Proposals], limit: float) -> None:
    table = collect(proposals, labels=LABELS, min_confidence=limit)
    rows = [(d, *key) for d, key in zip(table.document.tolist(), table.keys(), strict=True)]
    expected = set()
    for d, name in itertools.product(range(3), proposals):
        expected |= {(d, *span.key) for span in proposals[name].best[d]}
        expected |= {(d, *span.key) for span in proposals[name].candidates[d] if span.score >= limit}
    assert rows == sorted(expected)
    assert table.submodels == tuple(proposals)
    for row, (d, *key) in enumerate(rows):
        for column, submodel in enumerate(proposals.values()):
            scores = [span.score for span in submodel.candidates[d] if span.key == tuple(key)]
            assert table.confidence[row, column] == max(scores, default=0.0)
            assert table.chosen[row, column] == (tuple(key) in {span.key for span in submodel.best[d]})


def test_a_candidate_is_right_when_it_is_annotated_exactly_so() -> None:
    table = collect(
        {"crf": proposals_of(([Span(0, 3, "A"), Span(4, 7, "B")], []), ([Span(0, 3, "A")], []))}, labels=LABELS
    )
    assert table.is_gold([(Span(0, 3, "A", 0.5), Span(4, 7, "A")), ()]).tolist() == [True, False, False]


def test_kept_rows_become_spans_named_for_those_who_chose_them() -> None:
    one, two = Span(0, 3, "A", 0.4), Span(4, 7, "B", 0.6)
    table = collect({"crf": proposals_of(([one], [two])), "neural": proposals_of(([one, two], []))}, labels=LABELS)
    scores, keep = np.array([0.25, 0.75]), np.array([True, True])
    assert table.spans(scores, keep, 2) == [[Span(0, 3, "A", 0.25, "crf+neural"), Span(4, 7, "B", 0.75, "neural")], []]
    assert table.spans(scores, ~keep, 2) == [[], []]


@settings(max_examples=25)
@given(proposed())
def test_overlaps_are_those_of_all_pairs(proposals: dict[str, Proposals]) -> None:
    table = collect(proposals, labels=LABELS)
    spans = list(itertools.starmap(Span, table.keys()))
    expected = {
        (i, j)
        for i, j in itertools.permutations(range(len(table)), 2)
        if table.document[i] == table.document[j] and spans[i].overlaps(spans[j])
    }
    i, j = overlapping_rows(table)
    found = list(zip(i.tolist(), j.tolist(), strict=True))
    assert len(found) == len(expected)
    assert set(found) == expected
    for (a, b), how in zip(found, relation(table, i, j).tolist(), strict=True):
        first, second = spans[a], spans[b]
        if (first.start, first.end) == (second.start, second.end):
            wanted = "same"
        elif first.start <= second.start and second.end <= first.end:
            wanted = "inside"
        elif second.start <= first.start and first.end <= second.end:
            wanted = "around"
        else:
            wanted = "crossing"
        assert RELATIONS[how] == wanted
    values = np.arange(len(i), dtype=np.float64)
    largest = [max((values[k] for k, owner in enumerate(i) if owner == row), default=0.0) for row in range(len(table))]
    assert maxima(values, i, len(table)).tolist() == largest


@settings(max_examples=25)
@given(proposed())
def test_context_is_extracted_from_the_notes(proposals: dict[str, Proposals]) -> None:
    table = collect(proposals, labels=LABELS)
    context = extract_context(table, BATCH)
    assert context.form.shape == (len(table), len(FORM))
    for row, (d, (start, end, _)) in enumerate(zip(table.document.tolist(), table.keys(), strict=True)):
        words = NOTES[d].lower().split()
        first = len(NOTES[d][:start].split())
        size = len(NOTES[d][start:end].split())
        phrase = words[first : first + size]
        assert context.keys["string"][row] == " ".join(phrase)
        assert context.keys["before"][row] == (words[first - 1] if first else "<>")
        assert context.keys["after"][row] == (words[first + size] if first + size < len(words) else "<>")
        others = [i for i in range(len(words)) if i != first and words[i : i + size] == phrase]
        assert context.elsewhere[row] == len(others)
        assert context.groups[row] == ("q" if d == 2 else "p")
        text = NOTES[d][start:end]
        form = dict(zip(FORM, context.form[row], strict=True))
        assert form["tokens"] == pytest.approx(np.log1p(size))
        assert form["digits"] == pytest.approx(sum(map(str.isdigit, text)) / len(text))
        assert form["capitals"] == pytest.approx(sum(map(str.isupper, text)) / len(text))
        assert form["spaces"] == pytest.approx(text.count(" ") / len(text))
        assert form["opens_line"] == (first == 0)
        assert form["closes_line"] == (first + size == len(words))
        assert form["place"] == pytest.approx(start / len(NOTES[d]))


def slow_elsewhere(table: CandidateTable, context: CandidateContext, strength: np.ndarray) -> list[list[int]]:
    """Count, place by place, how the string's other places are tagged by their highest-scoring candidates."""
    places: dict[tuple[int, int, int], list[int]] = {}
    for row, (start, end, _) in enumerate(table.keys()):
        places.setdefault((int(table.document[row]), start, end), []).append(row)
    highest = {place: min(rows, key=lambda row: (-strength[row], row)) for place, rows in places.items()}
    counts = []
    for row, (start, end, label) in enumerate(table.keys()):
        same = other = 0
        for place, best in highest.items():
            if place == (table.document[row], start, end) or place[0] != table.document[row]:
                continue
            if context.keys["string"][best] == context.keys["string"][row] and strength[best] >= 0.5:
                same += table.keys()[best][2] == label
                other += table.keys()[best][2] != label
        total = max(int(context.elsewhere[row]), same + other)
        counts.append([total, same, other, total - same - other])
    return counts


def learners(proposals: dict[str, Proposals]) -> list[int]:
    return [k for k, name in enumerate(proposals) if BY_NAME[name].has_marginals] or list(range(len(proposals)))


@settings(max_examples=25)
@given(proposed())
def test_features_tell_confidence_competition_and_other_places(proposals: dict[str, Proposals]) -> None:
    table = collect(proposals, labels=LABELS)
    context = extract_context(table, BATCH)
    right = np.array([row % 2 == 0 for row in range(len(table))], dtype=bool)
    features = candidate_features(table, context, measure_statistics(table, context, right), counted=right)
    names = feature_names(table.submodels, LABELS)
    assert features.shape == (len(table), len(names))
    assert np.isfinite(features).all()
    column = {name: features[:, k] for k, name in enumerate(names)}
    assert len(column) == len(names)
    strength = table.confidence[:, learners(proposals)].mean(axis=1)
    spans = list(itertools.starmap(Span, table.keys()))
    for row, span in enumerate(spans):
        rivals = [
            k
            for k in range(len(table))
            if k != row and table.document[k] == table.document[row] and spans[k].overlaps(span)
        ]
        assert column["rivals"][row] == pytest.approx(np.log1p(len(rivals)))
        assert column["margin"][row] == pytest.approx(strength[row] - max(strength[rivals], default=0.0))
        others = [k for k in rivals if spans[k].label != span.label]
        assert column["rival_other_label"][row] == pytest.approx(max(strength[others], default=0.0))
        crossing = [k for k in rivals if not (spans[k].start <= span.start and span.end <= spans[k].end)]
        crossing = [k for k in crossing if not (span.start <= spans[k].start and spans[k].end <= span.end)]
        assert column["rival_crossing"][row] == pytest.approx(max(strength[crossing], default=0.0))
        assert column[f"label:{span.label}"][row] == 1
    for k, name in enumerate(proposals):
        assert column[f"confidence:{name}"] == pytest.approx(table.confidence[:, k])
        assert column[f"chosen:{name}"] == pytest.approx(table.chosen[:, k].astype(float))
    assert column["votes"] == pytest.approx(table.chosen.sum(axis=1))
    four = ["elsewhere", "elsewhere_same_label", "elsewhere_other_label", "elsewhere_untagged"]
    expected = np.log1p(np.array(slow_elsewhere(table, context, strength), dtype=float).reshape(-1, 4))
    assert np.stack([column[name] for name in four], axis=1) == pytest.approx(expected)


@settings(max_examples=25)
@given(proposed(), st.data())
def test_statistics_leave_the_own_patient_out(proposals: dict[str, Proposals], data: st.DataObject) -> None:
    table = collect(proposals, labels=LABELS)
    context = extract_context(table, BATCH)
    n = len(table)
    right = np.array([data.draw(st.booleans()) for _ in range(n)], dtype=bool)
    groups = [data.draw(st.sampled_from("pqr")) for _ in range(n)]
    keys = statistics_keys(table, context)
    statistics = measure_statistics(table, context, right)
    assert statistics.prior == pytest.approx(right.mean() if n else 0.5)
    found = statistics.columns(keys, own_correct=right, own_group=groups)
    plain_columns = statistics.columns(keys)
    for k, kind in enumerate(KINDS):
        for row in range(n):
            alike = [i for i in range(n) if keys[kind][i] == keys[kind][row]]
            for rows, column in (([i for i in alike if groups[i] != groups[row]], found), (alike, plain_columns)):
                rate = (sum(right[rows]) + 2 * statistics.prior) / (len(rows) + 2)
                rate = min(max(rate, 1e-3), 1 - 1e-3)
                assert column[row, 2 * k] == pytest.approx(np.log(rate / (1 - rate)))
                assert column[row, 2 * k + 1] == pytest.approx(np.log1p(len(rows)))


@settings(max_examples=25)
@given(proposed())
def test_votes(proposals: dict[str, Proposals]) -> None:
    used = [name for name in proposals if BY_NAME[name].has_marginals] or list(proposals)
    for method in METHODS:
        for d, spans in enumerate(combine(proposals, labels=LABELS, method=method)):
            assert all(not a.overlaps(b) for a, b in itertools.combinations(spans, 2))
            for span in spans:
                votes = sum(span.key in {other.key for other in p.best[d]} for p in proposals.values())
                scores = [
                    max((other.score for other in proposals[name].candidates[d] if other.key == span.key), default=0.0)
                    for name in used
                ]
                mean = sum(scores) / len(used)
                odds = sum(math.log(p / (1 - p)) for s in scores for p in [min(max(s, 1e-6), 1 - 1e-6)])
                kept = {"union": votes > 0, "majority": 2 * votes > len(proposals), "mean": mean >= 0.5 - 1e-12}
                assert {**kept, "log-odds": odds >= -1e-9}[method]


def test_votes_by_hand() -> None:
    long, short = Span(0, 7, "A", 0.6), Span(0, 3, "A", 0.3)
    proposals = {
        "regex": proposals_of(([short], [])),
        "crf": proposals_of(([long], [])),
        "neural": proposals_of(([long], [short])),
    }

    def keys(method: str) -> list[tuple[int, int, str]]:
        return [span.key for span in combine(proposals, labels=LABELS, method=method)[0]]

    assert keys("union") == keys("majority") == keys("mean") == keys("log-odds") == [long.key]
    del proposals["neural"]
    assert keys("majority") == []
    assert keys("mean") == [long.key]
    assert combine({"crf": proposals_of(([], []), ([], []))}, labels=LABELS, method="union") == [(), ()]
    with pytest.raises(ValueError, match="unknown method 'best'; known: union, majority, mean"):
        combine(proposals, labels=LABELS, method="best")
