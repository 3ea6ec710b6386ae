"""A model whose slow submodel may be left out: a final estimator of its own for the others."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import tiny_stack

from ensemble_deid import Config, ConfigError, Deidentifier, train
from ensemble_deid.cli.main import main
from ensemble_deid.config import make_config
from ensemble_deid.corpora.read import read_corpus
from ensemble_deid.model import submodels as pipeline_submodels
from ensemble_deid.model.loading import load_model
from ensemble_deid.model.options import PredictionOptions
from ensemble_deid.model.package import export_model
from ensemble_deid.note.overlaps import suppressed_scores
from ensemble_deid.stacking.context import extract_candidates
from ensemble_deid.stacking.dataset import StackingDataset
from ensemble_deid.stacking.search import strict_f1
from ensemble_deid.stacking.sequence_scores import pooled
from ensemble_deid.stacking.stacker import Stacker
from ensemble_deid.training.ablate import ablate

NOTES, OTHERS = tiny_stack.notes(), tiny_stack.notes(400, patients=2)
FEWER = ("regex", "tbed")


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    grid = {"c_grid": [1.0], "gamma_grid": [0.01], "weight_grid": [1.0]}
    stack = {**grid, "also_without": ["crf"], "net": True, "pool_weight": 0.3}
    content = {
        "submodels": ["regex", "tbed", "crf"],
        "folds": 2,
        "jobs": 1,
        "crf": {"max_iterations": 8},
        "stack": stack,
    }
    trained = train(NOTES, dev=OTHERS, config=make_config(content))
    assert list(trained.dev_counts) == ["regex", "tbed", "crf", "ensemble", "without crf"]
    folder = tmp_path_factory.mktemp("subsets") / "model"
    trained.save(folder)
    return folder


def test_a_subset_is_loaded_without_the_others_and_has_a_final_estimator_of_its_own(
    model: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    loaded: list[str] = []
    real = pipeline_submodels.submodel_class

    def noted(name: str):  # type: ignore[no-untyped-def]
        loaded.append(name)
        return real(name)

    monkeypatch.setattr(pipeline_submodels, "submodel_class", noted)
    fewer = Deidentifier.load(model, submodels=["tbed", "regex"])
    assert (loaded, tuple(fewer.ensemble.taggers), fewer.ensemble.stacker.submodels) == (list(FEWER), FEWER, FEWER)
    whole = Deidentifier.load(model, submodels=["regex", "tbed", "crf"])
    assert whole.predict(OTHERS) == Deidentifier.load(model).predict(OTHERS)
    sources = {
        name for note in fewer.predict(OTHERS, threshold=0.0) for s in note.spans for name in s.source.split("+")
    }
    assert sources <= {*FEWER, ""}
    assert any(note.spans for note in fewer.predict(OTHERS))


def test_candidates_are_scored_by_the_pool_of_the_svm_and_the_sequence_models(model: Path) -> None:
    ensemble = Deidentifier.load(model).ensemble
    stacker = replace(ensemble.stacker, tokens=False)
    assert stacker.pool_weight == 0.3
    batch = ensemble.feature_extractor.extract(OTHERS)
    proposals = ensemble.propose(batch)
    scored = [span for spans in stacker.predict_proba(proposals, batch) for span in spans]
    svm = [span for spans in replace(stacker, pool_weight=0.0).predict_proba(proposals, batch) for span in spans]
    table, context = extract_candidates(
        proposals, batch, labels=stacker.labels, min_confidence=stacker.min_confidence, net=True
    )
    assert [span.key for span in scored] == [span.key for span in svm] == table.keys()
    odds = context.more.values[:, context.more.names.index("phi:crf")]
    alone = np.array([span.score for span in svm])
    expected = suppressed_scores(alone, pooled(alone, odds, 0.3), table)
    np.testing.assert_allclose([span.score for span in scored], expected)
    assert max(abs(a.score - b.score) for a, b in zip(scored, svm, strict=True)) > 0.01


def test_the_threshold_of_training_is_one_of_pooled_scores(model: Path) -> None:
    """The best F1 of the pooled scores out of fold, among the thresholds that are tried."""
    stacker = Stacker.load(model)
    dataset = StackingDataset.load(model / "private")
    fitted, probability = Stacker.fit_and_score(dataset, config=load_model(model)[0].config, progress=lambda _: None)
    assert (fitted.cv_threshold, fitted.cv_f1) == (stacker.cv_threshold, stacker.cv_f1)
    tried = [k / 100 for k in range(5, 96, 5)]
    f1s = {t: strict_f1(dataset.table, probability, t, dataset.correct, dataset.n_gold) or 0.0 for t in tried}
    assert f1s[stacker.cv_threshold] == max(f1s.values()) == stacker.cv_f1


def test_a_subset_is_as_if_trained_alone(model: Path) -> None:
    fewer = Deidentifier.load(model, submodels=FEWER)
    stack = {"c_grid": [1.0], "gamma_grid": [0.01], "weight_grid": [1.0], "net": True, "pool_weight": 0.3}
    alone = train(NOTES, dev=OTHERS, config=make_config({"submodels": FEWER, "folds": 2, "jobs": 1, "stack": stack}))
    assert fewer.predict(OTHERS, threshold=0.0) == alone.deidentifier.predict(OTHERS, threshold=0.0)
    assert fewer.ensemble.stacker.threshold == alone.ensemble.stacker.threshold


@pytest.mark.parametrize("names", [["crf"], ["regex", "crf"], ["transformer"], [], ["regex", "tbed", "crf", "neural"]])
def test_a_subset_without_a_final_estimator_is_refused_and_the_others_named(model: Path, names: list[str]) -> None:
    with pytest.raises(ConfigError) as caught:
        Deidentifier.load(model, submodels=names)
    assert str(caught.value) == (
        f"{model}: no final estimator was fitted for {','.join(names)}; there is one for: regex,tbed,crf; regex,tbed"
    )


def test_the_command_line_loads_a_subset_in_every_process(
    model: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    notes = tmp_path / "notes"
    notes.mkdir()
    for note in OTHERS:
        (notes / f"{note.id}.txt").write_text(note.text, encoding="utf-8")
    expected = Deidentifier.load(model, submodels=FEWER).predict(OTHERS)
    for jobs in ("1", "2"):
        out = tmp_path / f"found{jobs}"
        arguments = [str(model), str(notes), "--out", str(out), "--quiet", "--jobs", jobs]
        assert main(["predict", *arguments, "--submodels", "regex,tbed"]) == 0
        found = {note.id: [s.key for s in note.spans] for note in read_corpus(out).documents}
        assert found == {note.id: [s.key for s in note.spans] for note in expected}
    assert main(["predict", *arguments, "--submodels", "regex"]) == 2
    assert "there is one for: regex,tbed,crf; regex,tbed" in capsys.readouterr().err


def test_what_may_be_left_out_is_checked_with_the_configuration() -> None:
    def stacks(*entries: str, submodels: tuple[str, ...] = ("regex", "tbed", "crf")) -> tuple[tuple[str, ...], ...]:
        config: Config = make_config({"submodels": submodels, "stack": {"also_without": entries}})
        return config.smaller_stacks

    assert stacks() == ()
    assert stacks("crf", "tbed+crf", "crf") == (("regex", "tbed"), ("regex",))
    # What is not there anyway needs no final estimator of its own.
    assert stacks("transformer", submodels=FEWER) == ()
    with pytest.raises(ConfigError, match=r"stack.also_without: unknown submodel 'crff'; did you mean crf\?"):
        stacks("crff")
    with pytest.raises(ConfigError, match=r"stack.also_without: without crf no submodel is left"):
        stacks("crf", submodels=("crf",))


def test_an_ablation_without_fitting_has_the_subsets_of_the_model(model: Path, tmp_path: Path) -> None:
    export_model(model, tmp_path / "exported")
    rows = ablate(tmp_path / "exported", OTHERS, jobs=1, report=lambda step: None, rows="as-trained")
    row = next(row for row in rows if row.name == "without crf")
    stacker = load_model(model, submodels=FEWER)[0].stacker
    assert row.threshold == stacker.cv_threshold
    fewer = Deidentifier.load(model, submodels=FEWER).ensemble.predict(
        OTHERS, PredictionOptions(threshold=stacker.cv_threshold)
    )
    assert row.counts is not None
    assert row.counts.tp + row.counts.fp == sum(map(len, fewer))
