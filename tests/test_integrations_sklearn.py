"""The stack under scikit-learn's own cross-validation and search."""

import doctest
import math
from dataclasses import replace
from pathlib import Path

import pytest
import tiny_stack
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.model_selection import GridSearchCV, GroupKFold, LeaveOneGroupOut, cross_val_score, cross_validate

from ensemble_deid import Config, CorpusError, Document, evaluate
from ensemble_deid.integrations.sklearn import EnsembleEstimator
from ensemble_deid.training import train as training

NOTES = tiny_stack.notes(patients=6)


@pytest.fixture
def config(tmp_path: Path) -> Config:
    patterns = tmp_path / "tiny.toml"
    patterns.write_text(tiny_stack.PATTERNS, encoding="utf-8")
    stack = {"c_grid": [1.0], "gamma_grid": [0.01], "weight_grid": [1.0]}
    regex = {"patterns": str(patterns)}
    return Config(
        submodels=["regex", "crf"], folds=2, jobs=1, regex=regex, crf={"max_iterations": 8, "c2": 0.01}, stack=stack
    )


def test_cross_val_score_keeps_patients_together(config: Config, monkeypatch: pytest.MonkeyPatch) -> None:
    trained_on: list[set[str]] = []
    train = training._train

    def watched(documents: list[Document], *others: object, **options: object) -> training.Trained:
        trained_on.append({note.group for note in documents})
        return train(documents, *others, **options)

    monkeypatch.setattr(training, "_train", watched)
    estimator = EnsembleEstimator(config)
    groups = [note.group for note in NOTES]
    scores = cross_val_score(estimator, NOTES, groups=groups, cv=GroupKFold(3), error_score="raise")
    assert [len(patients) for patients in trained_on] == [4, 4, 4]
    assert set.intersection(*trained_on) == set()
    # What it would be by hand.
    expected = []
    for patients in list(trained_on):
        held_out = [note for note in NOTES if note.group not in patients]
        rest = [note for note in NOTES if note.group in patients]
        found = training.train(rest, config=config).deidentifier.predict(held_out)
        expected.append(evaluate(held_out, found, resamples=0).score("strict").f1.value)
    assert list(scores) == expected
    assert min(scores) > 0.3
    assert not hasattr(estimator, "model_"), "scikit-learn trains clones"


def test_sites_as_groups_and_other_scores(config: Config) -> None:
    notes = [replace(note, site=f"S{k // 6}") for k, note in enumerate(NOTES)]

    def recall(estimator: EnsembleEstimator, X: list[Document]) -> float:
        value = evaluate(X, estimator.predict(X), resamples=0).score("strict").recall.value
        assert value is not None
        return value

    sites = [note.site for note in notes]
    done = cross_validate(
        EnsembleEstimator(config), notes, groups=sites, cv=LeaveOneGroupOut(), scoring={"recall": recall},
        return_train_score=True, error_score="raise",
    )  # fmt: skip
    assert len(done["test_recall"]) == 2
    assert all(0 < value <= 1 for value in done["test_recall"])
    assert min(done["train_recall"]) >= max(done["test_recall"])


def test_a_search_over_configurations(config: Config) -> None:
    weak = config.model_copy(update={"submodels": ("regex",)})
    search = GridSearchCV(EnsembleEstimator(), {"config": [weak, config]}, cv=GroupKFold(2), error_score="raise")
    search.fit(NOTES, groups=[note.group for note in NOTES])
    assert search.best_params_ == {"config": config}
    assert search.best_estimator_.labels_ == ("CITY", "DATE", "DOCTOR", "PATIENT")
    assert search.predict(NOTES[:2])[0].spans


def test_parameters_and_clones(config: Config) -> None:
    estimator = EnsembleEstimator(config)
    assert estimator.get_params() == {"config": config}
    copied = clone(estimator)
    assert copied.get_params() == estimator.get_params()
    assert copied.set_params(config=None).config is None
    with pytest.raises(ValueError, match="Invalid parameter 'folds'"):
        copied.set_params(folds=3)
    assert "Anna" not in repr(EnsembleEstimator(config).fit(NOTES))


def test_the_example_in_the_docstring_runs() -> None:
    (example,) = (test for test in doctest.DocTestFinder(recurse=False).find(EnsembleEstimator) if test.examples)
    said: list[str] = []
    doctest.DocTestRunner().run(example, out=said.append)
    assert said == []


def test_what_is_undefined_stays_so(config: Config) -> None:
    estimator = EnsembleEstimator(config)
    with pytest.raises(NotFittedError):
        estimator.predict(NOTES)
    estimator.fit(NOTES)
    assert math.isnan(estimator.score([Document("empty", "No complaints.")]))
    assert estimator.score([Document("missed", "on 03/04/2019")]) == 0
    with pytest.raises(CorpusError):
        EnsembleEstimator(config).fit(NOTES[:1])
