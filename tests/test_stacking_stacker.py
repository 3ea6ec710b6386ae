"""The judge from evidence to verdict: folds, search, resolution, and what is kept on disk."""

import itertools
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tiny_notes import SCHEME, plain, tiny_notes

from ensemble_deid.config import Config, make_config
from ensemble_deid.errors import ModelError
from ensemble_deid.seeding import generator
from ensemble_deid.stacking.candidates import collect
from ensemble_deid.stacking.evidence import ARRAYS, KEYS, Evidence, gather
from ensemble_deid.stacking.search import _best_threshold, group_folds, settings_grid, strict_f1
from ensemble_deid.stacking.stacker import SETTINGS, STATISTICS, SVM, Stacker
from ensemble_deid.stacking.surroundings import Surroundings
from ensemble_deid.stacking.svm import ZHAO2020
from ensemble_deid.taggers.base import Proposals
from ensemble_deid.text.document import Document
from ensemble_deid.text.span import Span, drop_overlaps

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


def evidence_of(proposals: dict[str, Proposals], *, limit: float = 0.01) -> Evidence:
    return gather(proposals, plain(NOTES), labels=SCHEME.labels, min_confidence=limit)


@pytest.fixture(scope="module")
def evidence() -> Evidence:
    return evidence_of(noisy_proposals(NOTES, seed=0))


@pytest.fixture(scope="module")
def stacker(evidence: Evidence) -> Stacker:
    return Stacker.fit(evidence, config=CONFIG, progress=lambda message: None)


@settings(deadline=None)
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
def test_f1_is_that_of_the_spans_that_stand(evidence: Evidence, threshold: float) -> None:
    rng = np.random.default_rng(0)
    scores = rng.random(len(evidence))
    found = right = 0
    for d, document in enumerate(NOTES):
        rows = [row for row in range(len(evidence)) if evidence.table.document[row] == d]
        spans = [Span(*evidence.table.keys()[row], float(scores[row])) for row in rows if scores[row] >= threshold]
        standing = drop_overlaps(spans)
        found += len(standing)
        right += len({span.key for span in standing} & {span.key for span in document.spans})
    expected = 2 * right / (found + sum(len(document.spans) for document in NOTES))
    assert strict_f1(evidence.table, scores, threshold, evidence.right, evidence.n_gold) == pytest.approx(expected)


def test_where_f1_is_undefined_the_threshold_is_one_half_and_f1_stays_undefined(evidence: Evidence) -> None:
    nothing = evidence.table.select(np.zeros(len(evidence), bool))
    assert strict_f1(nothing, np.zeros(0), 0.5, np.zeros(0, bool), 0) is None
    # All candidates are wrong and none is believed: F1 is 0 where some stand, undefined where none does.
    wrong = np.zeros(len(evidence), bool)
    assert strict_f1(evidence.table, np.full(len(evidence), 0.4), 0.3, wrong, 0) == 0.0
    assert strict_f1(evidence.table, np.full(len(evidence), 0.4), 0.5, wrong, 0) is None
    _, threshold, f1 = _best_threshold(evidence.table, np.full(len(evidence), -9.0), wrong, 0)
    assert (threshold, f1) == (0.5, None)


@settings(deadline=None, max_examples=20)
@given(st.integers(0, 1000), st.sampled_from([0.01, 0.3, 0.8]), st.sampled_from(["regex", "crf"]))
def test_evidence_without_a_submodel_is_as_if_it_had_never_spoken(seed: int, limit: float, name: str) -> None:
    proposals = noisy_proposals(NOTES, seed=seed)
    narrowed = evidence_of(proposals, limit=limit).without([name], min_confidence=limit)
    rest = {other: said for other, said in proposals.items() if other != name}
    expected = evidence_of(rest, limit=limit)
    assert_same(narrowed, expected)


def assert_same(one: Evidence, two: Evidence) -> None:
    assert (one.table.labels, one.table.submodels, one.n_gold) == (two.table.labels, two.table.submodels, two.n_gold)
    for name in ("document", "start", "end", "label", "confidence", "chosen"):
        mine, wanted = getattr(one.table, name), getattr(two.table, name)
        assert mine.dtype == wanted.dtype
        np.testing.assert_array_equal(mine, wanted)
    np.testing.assert_array_equal(one.right, two.right)
    same_surroundings(one.around, two.around)


def same_surroundings(one: Surroundings, two: Surroundings) -> None:
    np.testing.assert_array_equal(one.form, two.form)
    np.testing.assert_array_equal(one.elsewhere, two.elsewhere)
    assert (one.keys, one.groups) == (two.keys, two.groups)


def test_evidence_survives_the_disk(evidence: Evidence, tmp_path: Path) -> None:
    evidence.save(tmp_path)
    assert_same(Evidence.load(tmp_path), evidence)
    for name in (ARRAYS, KEYS):
        data = (tmp_path / name).read_bytes()
        for damaged in (b"", data[: len(data) // 2], data[:-1], b"{}", b"[]"):
            (tmp_path / name).write_bytes(damaged)
            with pytest.raises(ModelError, match="damaged"):
                Evidence.load(tmp_path)
        (tmp_path / name).write_bytes(data)


def test_the_judge_is_better_than_the_best_submodel_and_never_overlaps(stacker: Stacker) -> None:
    proposals, batch = noisy_proposals(OTHERS, seed=5), plain(OTHERS)
    verdict = stacker.judge(proposals, batch)
    gold = [{span.key for span in document.spans} for document in OTHERS]

    def f1(answers: list[tuple[Span, ...]]) -> float:
        right = sum(span.key in keys for spans, keys in zip(answers, gold, strict=True) for span in spans)
        return 2 * right / (sum(map(len, answers)) + sum(map(len, gold)))

    assert f1(verdict) > f1(list(proposals["crf"].best))
    for spans in verdict:
        assert not any(a.overlaps(b) for a, b in itertools.combinations(spans, 2))
        assert all(stacker.threshold <= span.score <= 1 for span in spans)
    assert sum(map(len, stacker.judge(proposals, batch, threshold=1.1))) == 0
    everything = collect(proposals, labels=SCHEME.labels, min_confidence=CONFIG.stack.min_confidence)
    scored = stacker.scored(proposals, batch)
    assert [(d, span.key) for d, spans in enumerate(scored) for span in spans] == [
        (d, key) for d, key in zip(everything.document.tolist(), everything.keys(), strict=True)
    ]


def test_a_note_is_judged_alike_in_any_company(stacker: Stacker) -> None:
    proposals = noisy_proposals(OTHERS, seed=5)
    together = stacker.judge(proposals, plain(OTHERS))
    for d, note in enumerate(OTHERS):
        alone = {name: Proposals((p.best[d],), (p.candidates[d],)) for name, p in proposals.items()}
        found = stacker.judge(alone, plain([note]))[0]
        assert [span.key for span in found] == [span.key for span in together[d]]
        assert [span.score for span in found] == pytest.approx([span.score for span in together[d]], abs=1e-12)


def test_two_fits_are_the_same_and_the_judge_survives_the_disk(
    stacker: Stacker, evidence: Evidence, tmp_path: Path
) -> None:
    again = Stacker.fit(evidence, config=CONFIG, progress=lambda message: None)
    for folder, judge in (("one", stacker), ("two", again)):
        (tmp_path / folder).mkdir()
        judge.save(tmp_path / folder)
    for name in (SVM, STATISTICS, SETTINGS):
        assert (tmp_path / "one" / name).read_bytes() == (tmp_path / "two" / name).read_bytes()
    loaded = Stacker.load(tmp_path / "one")
    proposals, batch = noisy_proposals(OTHERS, seed=5), plain(OTHERS)
    assert loaded.judge(proposals, batch) == stacker.judge(proposals, batch)
    assert (loaded.threshold, loaded.cv_f1, loaded.submodels) == (stacker.threshold, stacker.cv_f1, stacker.submodels)
    for name in (SVM, STATISTICS, SETTINGS):
        data = (tmp_path / "one" / name).read_bytes()
        for damaged in (b"", data[: len(data) // 2], data[:-1], b"{}", b"[]"):
            (tmp_path / "one" / name).write_bytes(damaged)
            with pytest.raises(ModelError, match="damaged"):
                Stacker.load(tmp_path / "one")
        (tmp_path / "one" / name).write_bytes(data)


def test_the_search_takes_the_best_of_the_grid_and_a_threshold_given(evidence: Evidence) -> None:
    # With a gamma this large every candidate is alike to itself only, and nothing new is right.
    grid = {"c_grid": [1.0], "gamma_grid": [500.0, 0.01], "weight_grid": [1.0], "threshold": 0.35}
    judge = Stacker.fit(evidence, config=make_config({"jobs": 1, "stack": grid}), progress=lambda message: None)
    assert judge.svm.settings.gamma == 0.01
    assert judge.threshold == 0.35
    assert judge.cv_f1 is not None
    assert judge.cv_f1 > 0.8


@pytest.mark.parametrize("notes", [[Document("1", "x", (), "p"), Document("2", "y z", (), "q")]])
def test_where_nobody_proposes_anything_nothing_is_found(notes: list[Document]) -> None:
    silent = {"crf": Proposals(((), ()), ((), ()))}
    nothing = gather(silent, plain(notes), labels=SCHEME.labels, min_confidence=0.01)
    judge = Stacker.fit(nothing, config=make_config({"jobs": 1}), progress=lambda message: None)
    assert judge.judge(silent, plain(notes)) == [(), ()]
    assert judge.judge({"crf": Proposals(((Span(0, 1, "ID"),), ()), ((), ()))}, plain(notes)) == [(), ()]


def test_one_patient_alone_can_be_judged() -> None:
    notes = [Document("1", "Ann 4711 x 12", (Span(4, 8, "ID"),), "p")]
    said = {"crf": Proposals(((Span(4, 8, "ID", 0.9),),), ((Span(4, 8, "ID", 0.9), Span(11, 13, "ID", 0.2)),))}
    evidence = gather(said, plain(notes), labels=SCHEME.labels, min_confidence=0.01)
    judge = Stacker.fit(evidence, config=CONFIG, progress=lambda message: None)
    assert len(judge.judge(said, plain(notes))) == 1
