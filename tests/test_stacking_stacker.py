"""The final estimator from training set to prediction: folds, search, overlaps, and files on disk."""

import itertools
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tiny_notes import SCHEME, plain, tiny_notes

from ensemble_deid.config import Config, make_config
from ensemble_deid.errors import ConfigError, ModelError
from ensemble_deid.note.document import Document
from ensemble_deid.note.overlaps import drop_overlaps
from ensemble_deid.note.span import Span
from ensemble_deid.seeds import generator, group_folds
from ensemble_deid.stacking.candidates import collect
from ensemble_deid.stacking.context import CandidateContext
from ensemble_deid.stacking.dataset import ARRAYS, KEYS, StackingDataset, build_stacking_dataset
from ensemble_deid.stacking.features import candidate_features, measure_statistics
from ensemble_deid.stacking.search import _best_of, choose, sample_rows, settings_grid, strict_f1
from ensemble_deid.stacking.stacker import SETTINGS, STATISTICS, SVM, Stacker
from ensemble_deid.stacking.svm import ZHAO2020, Sigmoid, Svm
from ensemble_deid.taggers.base import Proposals

ONE = {"c_grid": [1.0], "gamma_grid": [0.01], "weight_grid": [1.0]}
CONFIG = make_config({"jobs": 1, "stack": ONE})


def noisy_proposals(documents: list[Document], *, seed: int) -> dict[str, Proposals]:
    """Return a CRF that mostly finds gold spans surely and wrong ones unsurely, and a regex that finds some."""
    rng = np.random.default_rng(seed)
    best, candidates, plain_best = [], [], []
    for document in documents:
        sure = [Span(s.start, s.end, s.label, float(rng.uniform(0.5, 1))) for s in document.spans]
        wrong = [Span(s.start, s.end - 1, s.label, float(rng.uniform(0, 0.4))) for s in document.spans]
        other = [Span(s.start, s.end, "ID", float(rng.uniform(0, 0.6))) for s in document.spans if s.label != "ID"]
        kept = [span for span in sure if rng.random() < 0.9]
        best.append(tuple(sorted(kept)))
        candidates.append(tuple(sorted([*sure, *wrong, *other])))
        plain_best.append(
            tuple(sorted(span for span in (*sure, *wrong) if span.label == "DATE" and rng.random() < 0.5))
        )
    regex = tuple(drop_overlaps(spans) for spans in plain_best)
    return {"regex": Proposals(regex, regex), "crf": Proposals(tuple(best), tuple(candidates))}


NOTES, OTHERS = tiny_notes(20), tiny_notes(8, seed=1)


def dataset_of(proposals: dict[str, Proposals], *, limit: float = 0.01) -> StackingDataset:
    return build_stacking_dataset(proposals, plain(NOTES), labels=SCHEME.labels, min_confidence=limit)


@pytest.fixture(scope="module")
def dataset() -> StackingDataset:
    return dataset_of(noisy_proposals(NOTES, seed=0))


@pytest.fixture(scope="module")
def stacker(dataset: StackingDataset) -> Stacker:
    return Stacker.fit(dataset, config=CONFIG, progress=lambda message: None)


@given(st.lists(st.sampled_from("abcdefg"), max_size=30), st.integers(1, 5), st.integers(0, 99))
def test_folds_keep_groups_whole_and_even(groups: list[str], n_folds: int, seed: int) -> None:
    folds = group_folds(groups, n_folds, generator(seed, "x"))
    assert len(folds) == len(groups)
    assert set(folds.tolist()) <= set(range(n_folds))
    assert len(set(zip(groups, folds.tolist(), strict=True))) == len(set(groups))
    sizes = [int((folds == fold).sum()) for fold in range(n_folds)]
    assert max(sizes) - min(sizes) <= max(Counter(groups).values(), default=0)
    assert (group_folds(groups, n_folds, generator(seed, "x")) == folds).all()
    if len(set(groups)) >= n_folds:
        assert set(folds.tolist()) == set(range(n_folds))


def test_a_weight_is_the_cost_of_a_right_candidate_over_that_of_a_wrong_one() -> None:
    options = make_config({"stack": {"c_grid": [2.0], "gamma_grid": [0.1], "weight_grid": [0.25, 4.0, 1.0]}}).stack
    found = [(s.c_positive, s.c_negative) for s in settings_grid(options)]
    assert found == [(0.5, 2.0), (2.0, 0.5), (2.0, 2.0)]
    assert settings_grid(make_config({"stack": {"preset": "zhao2020"}}).stack) == [ZHAO2020]
    assert len(settings_grid(Config().stack)) == 4 * 3 * 2


@pytest.mark.parametrize("threshold", [0.0, 0.3, 0.6, 1.1])
def test_f1_is_that_of_the_predicted_spans(dataset: StackingDataset, threshold: float) -> None:
    rng = np.random.default_rng(0)
    scores = rng.random(len(dataset))
    found = right = 0
    for d, document in enumerate(NOTES):
        rows = [row for row in range(len(dataset)) if dataset.table.document[row] == d]
        spans = [Span(*dataset.table.keys()[row], float(scores[row])) for row in rows if scores[row] >= threshold]
        standing = drop_overlaps(spans)
        found += len(standing)
        right += len({span.key for span in standing} & {span.key for span in document.spans})
    expected = 2 * right / (found + sum(len(document.spans) for document in NOTES))
    assert strict_f1(dataset.table, scores, threshold, dataset.correct, dataset.n_gold) == pytest.approx(expected)


def test_where_f1_is_undefined_the_threshold_is_one_half_and_f1_stays_undefined(dataset: StackingDataset) -> None:
    nothing = dataset.table.select(np.zeros(len(dataset), bool))
    assert strict_f1(nothing, np.zeros(0), 0.5, np.zeros(0, bool), 0) is None
    # All candidates are wrong and none is believed: F1 is 0 where some stand, undefined where none does.
    wrong = np.zeros(len(dataset), bool)
    assert strict_f1(dataset.table, np.full(len(dataset), 0.4), 0.3, wrong, 0) == 0.0
    assert strict_f1(dataset.table, np.full(len(dataset), 0.4), 0.5, wrong, 0) is None
    threshold, f1 = _best_of(dataset.table, np.zeros(len(dataset)), wrong, 0)
    assert (threshold, f1) == (0.5, None)


@settings(max_examples=20)
@given(st.integers(0, 1000), st.sampled_from([0.01, 0.3, 0.8]), st.sampled_from(["regex", "crf"]))
def test_a_dataset_without_a_submodel_is_as_if_it_had_never_taken_part(seed: int, limit: float, name: str) -> None:
    proposals = noisy_proposals(NOTES, seed=seed)
    narrowed = dataset_of(proposals, limit=limit).without([name], min_confidence=limit)
    rest = {other: said for other, said in proposals.items() if other != name}
    expected = dataset_of(rest, limit=limit)
    assert_same(narrowed, expected)


def assert_same(one: StackingDataset, two: StackingDataset) -> None:
    assert (one.table.labels, one.table.submodels, one.n_gold) == (two.table.labels, two.table.submodels, two.n_gold)
    for name in ("document", "start", "end", "label", "confidence", "chosen"):
        mine, wanted = getattr(one.table, name), getattr(two.table, name)
        assert mine.dtype == wanted.dtype
        np.testing.assert_array_equal(mine, wanted)
    np.testing.assert_array_equal(one.correct, two.correct)
    assert_same_context(one.context, two.context)


def assert_same_context(one: CandidateContext, two: CandidateContext) -> None:
    np.testing.assert_array_equal(one.form, two.form)
    np.testing.assert_array_equal(one.elsewhere, two.elsewhere)
    np.testing.assert_array_equal(one.string, two.string)
    assert (one.keys, one.groups, one.patients) == (two.keys, two.groups, two.patients)


def test_the_dataset_survives_the_disk(dataset: StackingDataset, tmp_path: Path) -> None:
    dataset.save(tmp_path)
    assert_same(StackingDataset.load(tmp_path), dataset)
    for name in (ARRAYS, KEYS):
        data = (tmp_path / name).read_bytes()
        for damaged in (b"", data[: len(data) // 2], data[:-1], b"{}", b"[]"):
            (tmp_path / name).write_bytes(damaged)
            with pytest.raises(ModelError, match="damaged"):
                StackingDataset.load(tmp_path)
        (tmp_path / name).write_bytes(data)


def test_the_stack_beats_the_best_submodel_and_spans_never_overlap(stacker: Stacker) -> None:
    proposals, batch = noisy_proposals(OTHERS, seed=5), plain(OTHERS)
    predicted = stacker.predict(proposals, batch)
    gold = [{span.key for span in document.spans} for document in OTHERS]

    def f1(answers: list[tuple[Span, ...]]) -> float:
        right = sum(span.key in keys for spans, keys in zip(answers, gold, strict=True) for span in spans)
        return 2 * right / (sum(map(len, answers)) + sum(map(len, gold)))

    assert f1(predicted) > f1(list(proposals["crf"].best))
    for spans in predicted:
        assert not any(a.overlaps(b) for a, b in itertools.combinations(spans, 2))
        assert all(stacker.threshold <= span.score <= 1 for span in spans)
    assert sum(map(len, stacker.predict(proposals, batch, threshold=1.0))) == 0
    everything = collect(proposals, labels=SCHEME.labels, min_confidence=CONFIG.stack.min_confidence)
    with_scores = stacker.predict_proba(proposals, batch)
    assert [(d, span.key) for d, spans in enumerate(with_scores) for span in spans] == [
        (d, key) for d, key in zip(everything.document.tolist(), everything.keys(), strict=True)
    ]


def test_a_prediction_does_not_depend_on_the_rest_of_the_batch(stacker: Stacker) -> None:
    proposals = noisy_proposals(OTHERS, seed=5)
    together = stacker.predict(proposals, plain(OTHERS))
    for d, note in enumerate(OTHERS):
        alone = {name: Proposals((p.best[d],), (p.candidates[d],)) for name, p in proposals.items()}
        found = stacker.predict(alone, plain([note]))[0]
        assert [span.key for span in found] == [span.key for span in together[d]]
        assert [span.score for span in found] == pytest.approx([span.score for span in together[d]], abs=1e-12)


def test_a_factor_lowers_the_threshold_of_its_note_alone(stacker: Stacker) -> None:
    proposals, batch = noisy_proposals(OTHERS, seed=5), plain(OTHERS)
    factors = [0.5 if d % 2 else 1.0 for d in range(len(OTHERS))]
    low = stacker.predict(proposals, batch, threshold=0.5)
    found = stacker.predict(proposals, batch, threshold=1.0, factors=factors)
    assert found == [spans if d % 2 else () for d, spans in enumerate(map(tuple, low))]
    assert any(found)


def test_two_fits_are_the_same_and_survive_the_disk(stacker: Stacker, dataset: StackingDataset, tmp_path: Path) -> None:
    again = Stacker.fit(dataset, config=CONFIG, progress=lambda message: None)
    for folder, fitted in (("one", stacker), ("two", again)):
        (tmp_path / folder).mkdir()
        fitted.save(tmp_path / folder)
    for name in (SVM, STATISTICS, SETTINGS):
        assert (tmp_path / "one" / name).read_bytes() == (tmp_path / "two" / name).read_bytes()
    loaded = Stacker.load(tmp_path / "one")
    proposals, batch = noisy_proposals(OTHERS, seed=5), plain(OTHERS)
    assert loaded.predict(proposals, batch) == stacker.predict(proposals, batch)
    assert (loaded.threshold, loaded.cv_f1, loaded.submodels) == (stacker.threshold, stacker.cv_f1, stacker.submodels)
    for name in (SVM, STATISTICS, SETTINGS):
        data = (tmp_path / "one" / name).read_bytes()
        for damaged in (b"", data[: len(data) // 2], data[:-1], b"{}", b"[]"):
            (tmp_path / "one" / name).write_bytes(damaged)
            with pytest.raises(ModelError, match="damaged"):
                Stacker.load(tmp_path / "one")
        (tmp_path / "one" / name).write_bytes(data)


@pytest.mark.parametrize("threshold", [float("nan"), -0.5, 1.5])
def test_a_threshold_that_is_no_probability_is_refused(stacker: Stacker, tmp_path: Path, threshold: float) -> None:
    said = "a threshold must be a number from 0 to 1"
    with pytest.raises(ConfigError, match=said):
        stacker.predict({}, plain(NOTES), threshold=threshold)
    replace(stacker, threshold=threshold).save(tmp_path)
    # JSON has no NaN: such a file is refused before its values are checked.
    found = r"\(ValueError\)" if threshold != threshold else said
    with pytest.raises(ModelError, match=rf"stacker\.json: damaged:? {found}"):
        Stacker.load(tmp_path)


def test_the_search_takes_the_best_of_the_grid_and_a_threshold_given(dataset: StackingDataset) -> None:
    # With a gamma this large every candidate is alike to itself only, and nothing new is right.
    grid = {"c_grid": [1.0], "gamma_grid": [500.0, 0.01], "weight_grid": [1.0], "threshold": 0.35}
    stacker = Stacker.fit(dataset, config=make_config({"jobs": 1, "stack": grid}), progress=lambda message: None)
    assert stacker.svm.settings.gamma == 0.01
    assert stacker.threshold == 0.35
    assert stacker.cv_f1 is not None
    assert stacker.cv_f1 > 0.8


def test_a_candidate_is_judged_without_the_labels_of_its_fold(dataset: StackingDataset) -> None:
    table, context = dataset.table, dataset.context
    statistics = measure_statistics(table, context, dataset.correct)
    features = candidate_features(table, context, statistics, counted=dataset.correct)
    chosen = choose(dataset, features, config=CONFIG, progress=lambda message: None)
    folds = group_folds(context.groups, 3, generator(CONFIG.seed, "stacker search"))
    decisions = np.zeros(len(dataset))
    for fold in range(3):
        train, rest = (dataset.select(np.flatnonzero(part)) for part in (folds != fold, folds == fold))
        counted = measure_statistics(train.table, train.context, train.correct)
        seen = candidate_features(train.table, train.context, counted, counted=train.correct)
        svm = Svm.fit(seen, train.correct, chosen.settings)
        decisions[folds == fold] = svm.decision_function(candidate_features(rest.table, rest.context, counted))
    expected = Sigmoid.fit(decisions, dataset.correct).probability(decisions)
    np.testing.assert_allclose(chosen.probability, expected, rtol=1e-9)


def test_labels_that_no_note_had_are_left_to_the_submodels(dataset: StackingDataset, tmp_path: Path) -> None:
    # As after a warm start: the submodels propose IDs, which are right, and the notes annotate none.
    notes = [note.with_spans(span for span in note.spans if span.label != "ID") for note in NOTES]
    proposals, batch = noisy_proposals(NOTES, seed=0), plain(notes)
    options: dict[str, Any] = {"labels": SCHEME.labels, "min_confidence": 0.01}
    unseen = build_stacking_dataset(proposals, batch, **options, unseen=("ID",))
    assert (unseen.select(np.arange(len(unseen))).table.keys(), unseen.unseen) == (unseen.table.keys(), ("ID",))
    stacker, probability = Stacker.fit_and_score(unseen, config=CONFIG, progress=lambda message: None)
    rows = unseen.table.has_label(["ID"])
    assert np.array_equal(probability[rows], unseen.table.confidence[rows].max(axis=1))
    stacker.save(tmp_path)
    again, others = noisy_proposals(OTHERS, seed=1), plain(OTHERS)
    scored = Stacker.load(tmp_path).predict_proba(again, others)
    surest = {(d, span.key): span.score for d, spans in enumerate(again["crf"].candidates) for span in spans}
    found = {(d, span.key): span.score for d, spans in enumerate(scored) for span in spans}
    of_ids = {key for key in found if key[1][2] == "ID"}
    assert {key: found[key] for key in of_ids} == {key: surest[key] for key in of_ids}
    assert any(found[key] != surest.get(key) for key in set(found) - of_ids)
    # Learned from as they are, they would all be wrong.
    taught = Stacker.fit(build_stacking_dataset(proposals, batch, **options), config=CONFIG, progress=lambda m: None)
    kept = [sum(s.label == "ID" for spans in one.predict(again, others) for s in spans) for one in (stacker, taught)]
    assert kept[0] >= len(OTHERS) > kept[1]
    # What is refitted later, without a submodel, keeps to it.
    unseen.save(tmp_path)
    assert StackingDataset.load(tmp_path).without(["regex"], min_confidence=0.01).unseen == ("ID",)


@pytest.mark.parametrize("notes", [[Document("1", "x", (), "p"), Document("2", "y z", (), "q")]])
def test_where_nobody_proposes_anything_nothing_is_found(notes: list[Document]) -> None:
    silent = {"crf": Proposals(((), ()), ((), ()))}
    nothing = build_stacking_dataset(silent, plain(notes), labels=SCHEME.labels, min_confidence=0.01)
    stacker = Stacker.fit(nothing, config=make_config({"jobs": 1}), progress=lambda message: None)
    assert stacker.predict(silent, plain(notes)) == [(), ()]
    assert stacker.predict({"crf": Proposals(((Span(0, 1, "ID"),), ()), ((), ()))}, plain(notes)) == [(), ()]


def test_one_patient_is_enough_to_fit() -> None:
    notes = [Document("1", "Ann 4711 x 12", (Span(4, 8, "ID"),), "p")]
    said = {"crf": Proposals(((Span(4, 8, "ID", 0.9),),), ((Span(4, 8, "ID", 0.9), Span(11, 13, "ID", 0.2)),))}
    dataset = build_stacking_dataset(said, plain(notes), labels=SCHEME.labels, min_confidence=0.01)
    stacker = Stacker.fit(dataset, config=CONFIG, progress=lambda message: None)
    assert len(stacker.predict(said, plain(notes))) == 1


def test_no_more_candidates_than_configured_are_fitted() -> None:
    rows = np.arange(5, 25)
    drawn = sample_rows(rows, 7, np.random.default_rng(1))
    assert len(set(drawn.tolist())) == 7
    assert drawn.tolist() == sorted(drawn.tolist())
    assert set(drawn.tolist()) <= set(rows.tolist())
    assert sample_rows(rows, 20, np.random.default_rng(1)) is rows
