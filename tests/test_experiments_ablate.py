"""Ablation: what is left out, with which members and at which threshold."""

import json
import shutil
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import tiny_stack

from ensemble_deid.cli.main import main
from ensemble_deid.config import Config, make_config
from ensemble_deid.corpora.read import read_corpus
from ensemble_deid.corpora.write import write_corpus
from ensemble_deid.errors import ConfigError, ModelError
from ensemble_deid.evaluation.curve import Curve, just_below, keep_above, trace_curve
from ensemble_deid.evaluation.operating_points import choose_threshold, find_point
from ensemble_deid.model.directory import save_model, update_model
from ensemble_deid.model.loading import load_model
from ensemble_deid.model.manifest import Manifest
from ensemble_deid.model.options import PredictionOptions
from ensemble_deid.model.package import export_model
from ensemble_deid.note.counts import Counts
from ensemble_deid.note.document import Document
from ensemble_deid.note.overlaps import drop_overlaps
from ensemble_deid.note.span import Span
from ensemble_deid.stacking.dataset import StackingDataset
from ensemble_deid.stacking.stacker import Stacker
from ensemble_deid.training import ablate as ablation
from ensemble_deid.training.ablate import (
    AS_TRAINED,
    RETRAINED,
    AblationRow,
    ThresholdTarget,
    TrainingNotes,
    ablate,
    without_patterns,
)
from ensemble_deid.training.train import train
from research import ablation as by_site
from research.combiners import compare_combiners


@pytest.fixture
def model(tiny_model: Path, tmp_path: Path) -> Path:
    """A copy that a test may change."""
    return Path(shutil.copytree(tiny_model, tmp_path / "model"))


def notes(path: Path) -> tuple[Document, ...]:
    return tuple(read_corpus(str(path)).documents)


def rows_of(model: Path, dev: Path, **options: Any) -> list[AblationRow]:
    return ablate(model, notes(dev), jobs=1, report=lambda step: None, **options)


def freeze(model: Path, threshold: float) -> None:
    def edit(directory: Path, manifest: Manifest) -> Manifest:
        replace(Stacker.load(directory), threshold=threshold).save(directory)
        return manifest

    update_model(model, edit)


def test_a_frozen_threshold_changes_no_row(model: Path, tiny_dev: Path) -> None:
    """All systems have thresholds chosen alike: otherwise leaving out a submodel that finds nothing would change F1."""
    before = rows_of(model, tiny_dev)
    assert before[0].counts.f1 == pytest.approx(load_model(model)[1].figures["dev_strict_f1"]["ensemble"])
    freeze(model, 1.0)
    assert rows_of(model, tiny_dev) == before


def test_a_note_in_lower_case_is_read_in_capitals(model: Path, tmp_path: Path) -> None:
    head = 'ensemble-deid rule list, version 1\ncorpus: "by hand"\ntemplates: "none"\ninitial tagger: "regex"\n\n'
    (tmp_path / "my.rules").write_text(f'{head}change O to B-CITY if the word is "LYNDALE"\n', encoding="utf-8")
    assert main(["rules", "replace", str(model), str(tmp_path / "my.rules")]) == 0
    prose = "the patient came from lyndale with chest pain and was seen on the ward by the team in the morning. "
    start = prose.index("lyndale")
    write_corpus([Document("n", prose, (Span(start, start + 7, "CITY"),))], tmp_path / "low.jsonl", "jsonl")
    rows = {row.name: row for row in rows_of(model, tmp_path / "low.jsonl", rows="as-trained")}
    assert rows["tbed alone"].counts == Counts(1, 0, 0)
    by_combiner = compare_combiners(model, notes(tmp_path / "low.jsonl"), resamples=0)
    assert [row.counts.tp for row in by_combiner if (row.combiner, row.view) == ("union", "strict")] == [1]


def test_a_submodel_that_finds_nothing_makes_no_difference(tmp_path: Path, tiny_dev: Path) -> None:
    patterns = tmp_path / "none.toml"
    never = tiny_stack.PATTERNS.replace(r"\b\d\d/\d\d/\d{4}\b", "never written").partition("positive")[0]
    patterns.write_text(never, encoding="utf-8")
    sections = {"regex": {"patterns": str(patterns)}, "crf": {"max_iterations": 8}}
    settings = {"c_grid": [1.0], "gamma_grid": [0.01], "weight_grid": [1.0]}
    config = make_config({"submodels": ["regex", "crf"], "folds": 2, "jobs": 1, "stack": settings, **sections})
    trained = train(tiny_stack.notes(), [], config=config, report=lambda step: None)
    save_model(trained.ensemble, trained.stacking_dataset, trained.manifest, tmp_path / "model")
    freeze(tmp_path / "model", 1.0)
    rows = {row.name: row for row in rows_of(tmp_path / "model", tiny_dev)}
    assert rows["regex alone"].counts.tp + rows["regex alone"].counts.fp == 0
    assert rows["without regex"].counts == rows["ensemble"].counts
    assert rows["without regex"].difference.difference == 0


def test_the_rule_based_submodels_are_also_left_out_together(tiny_model: Path, tiny_dev: Path) -> None:
    rows = {row.name: row for row in rows_of(tiny_model, tiny_dev)}
    ensemble, _ = load_model(tiny_model)
    dataset = StackingDataset.load(tiny_model / "private").without(["regex", "tbed"], min_confidence=0.01)
    assert dataset.table.submodels == ("crf", "neural")
    stacker = Stacker.fit(dataset, config=ensemble.config, progress=lambda message: None)
    batch = ensemble.feature_extractor.extract(notes(tiny_dev))
    proposals = {name: ensemble.propose(batch)[name] for name in ("crf", "neural")}
    found = sum(map(len, stacker.predict(proposals, batch)))
    counts = rows["without regex and tbed"].counts
    assert counts.tp + counts.fp == found


def test_a_threshold_rule_holds_for_every_system(tiny_model: Path, tiny_dev: Path) -> None:
    dev = notes(tiny_dev)
    rows = rows_of(tiny_model, tiny_dev, threshold_rule=ThresholdTarget("sensitivity", 0.5))
    ensemble, _ = load_model(tiny_model)
    scored = [
        d.with_spans(s) for d, s in zip(dev, ensemble.predict(dev, PredictionOptions(threshold=0.0)), strict=True)
    ]
    assert rows[0].threshold == choose_threshold(dev, scored, rule="sensitivity", wanted=0.5).threshold
    assert rows[0].threshold is not None
    cut = ensemble.predict(dev, PredictionOptions(threshold=rows[0].threshold))
    assert rows[0].counts.tp + rows[0].counts.fp == sum(map(len, cut))
    stacked = [row for row in rows if row.name == "ensemble" or row.name.startswith("without")]
    assert all((row.threshold is None) == (row.counts is None) for row in stacked)
    found = {row.name: row for row in rows}
    # The rule chooses for the votes that score their spans, too.
    assert found["vote: log-odds"].threshold is not None
    assert found["vote: union"].threshold is None
    for row in rows:
        assert row.counts is None or row.token_recall is not None
    assert found["ensemble"].token_recall >= 0.5


def test_a_model_that_scores_no_single_tokens_is_compared_with_others_that_score_none(
    model: Path, tiny_dev: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As a model from before `stack.tokens`, whose configuration has the default."""

    def edit(directory: Path, manifest: Manifest) -> Manifest:
        replace(Stacker.load(directory), tokens=False).save(directory)
        return manifest

    update_model(model, edit)
    assert load_model(model)[0].config.stack.tokens
    fitted: list[bool] = []
    real = Stacker.predict

    def noted(self: Stacker, *arguments: Any, **options: Any) -> Any:
        fitted.append(self.tokens)
        return real(self, *arguments, **options)

    monkeypatch.setattr(Stacker, "predict", noted)
    rows_of(model, tiny_dev, threshold_rule=ThresholdTarget("sensitivity", 0.5))
    assert len(fitted) > 4
    assert not any(fitted)


def test_a_rule_that_the_ensemble_cannot_follow_is_an_error(model: Path, tiny_dev: Path) -> None:
    unlike_any = tiny_stack.note("z", (" ".join(f"w{k} {'-' * k}" for k in range(1, 60)), "CITY"), patient="z")
    with pytest.raises(ModelError, match="no threshold of the ensemble reaches"):
        ablate(
            model,
            [*notes(tiny_dev), unlike_any],
            jobs=1,
            report=lambda step: None,
            threshold_rule=ThresholdTarget("sensitivity", 1.0),
        )


def test_without_patterns_nothing_comes_from_them() -> None:
    config = without_patterns(Config(jobs=1))
    assert config.submodels == ("tbed", "crf", "neural")
    assert (config.regex.patterns, config.tbed.initial, config.jobs) == ("none", "none", 1)
    assert without_patterns(make_config({"tbed": {"initial": "frequent"}})).tbed.initial == "frequent"
    with pytest.raises(ModelError, match="no submodel is left"):
        without_patterns(make_config({"submodels": ["regex"]}))


def test_table_6_has_the_patterns_within_tbed_as_a_member_and_not_at_all(tiny_model: Path, tiny_dev: Path) -> None:
    rows = {row.name: row for row in rows_of(tiny_model, tiny_dev, rows="zhao2020")}
    everything = {row.name: row for row in rows_of(tiny_model, tiny_dev)}
    assert list(rows)[:5] == [
        "ensemble of tbed, crf, neural",
        "without tbed (with regex)",
        "without tbed (without regex)",
        "without crf",
        "without neural",
    ]
    same = {
        "ensemble of tbed, crf, neural": "without regex",
        "without tbed (with regex)": "without tbed",
        "without tbed (without regex)": "without regex and tbed",
        "regex alone": "regex alone",
        "tbed alone": "tbed alone",
    }
    for name, other in same.items():
        assert (rows[name].counts, rows[name].threshold) == (everything[other].counts, everything[other].threshold)
    assert rows["ensemble of tbed, crf, neural"].difference is None
    assert rows["without crf"].difference.a == rows["without crf"].counts.f1
    assert rows["without crf"].difference.b == rows["ensemble of tbed, crf, neural"].counts.f1


def test_table_6_needs_the_patterns_as_a_submodel(tmp_path: Path, tiny_dev: Path) -> None:
    patterns = tmp_path / "tiny.toml"
    patterns.write_text(tiny_stack.PATTERNS, encoding="utf-8")
    grid = {"c_grid": [1.0], "gamma_grid": [0.01], "weight_grid": [1.0]}
    content = {"submodels": ["tbed"], "folds": 2, "jobs": 1, "stack": grid, "regex": {"patterns": str(patterns)}}
    train(tiny_stack.notes(), [], config=make_config(content), notify=lambda line: None).save(tmp_path / "model")
    with pytest.raises(ModelError, match="has no submodel 'regex', which table 6 needs: train with --submodels regex,"):
        rows_of(tmp_path / "model", tiny_dev, rows="zhao2020")


@pytest.mark.parametrize("suffix", [".csv", ".tex", ".json", ".md"])
def test_the_command_writes_table_6_in_every_form(
    tiny_model: Path, tiny_dev: Path, tmp_path: Path, suffix: str
) -> None:
    out = tmp_path / f"table6{suffix}"
    arguments = ["research", "ablate", str(tiny_model), str(tiny_dev), "--jobs", "1", "--quiet", "--rows", "zhao2020"]
    assert main([*arguments, "--out", str(out)]) == 0
    text = out.read_text(encoding="utf-8")
    assert "without tbed (with regex)" in text
    if suffix == ".csv":
        assert text.startswith("system,other submodels,threshold,P,R,F1,change,paired 95% interval,p,token recall\n")
    if suffix == ".tex":
        assert r"paired 95\% interval & p & token recall \\" in text


def test_retraining_leaves_the_patterns_out_of_the_features(tiny_model: Path, tiny_train: Path, tiny_dev: Path) -> None:
    retrain = TrainingNotes(notes(tiny_train), notes(tiny_dev))
    rows = rows_of(tiny_model, tiny_dev, retrain=retrain)
    assert [row.name for row in rows if row.members == RETRAINED] == ["without regex", "without regex and tbed"]
    assert [row for row in rows if row.members == AS_TRAINED] == rows_of(tiny_model, tiny_dev)
    config = without_patterns(load_model(tiny_model)[0].config)
    again = train(retrain.train, retrain.dev, config=config, report=lambda step: None)
    batch = again.ensemble.feature_extractor.extract(notes(tiny_dev))
    for name in ("initial", "pattern", "in_note"):
        assert len(set(batch.table[name].strings())) == 1
    (row,) = [row for row in rows if row.members == RETRAINED and row.name == "without regex"]
    assert row.counts == again.dev_counts["ensemble"]
    assert row.threshold == again.ensemble.stacker.cv_threshold


def test_a_smaller_stack_that_needs_the_patterns_is_not_retrained() -> None:
    """Without regex and without crf nothing would be left: of the retrained stack no smaller one is asked for."""
    config = make_config({"submodels": ["regex", "crf"], "stack": {"also_without": ["crf"]}})
    changed = without_patterns(config)
    assert changed.submodels == ("crf",)
    assert changed.smaller_stacks == ()


def test_what_cannot_be_retrained_is_said_before_anything_is_refitted(
    tiny_model: Path, tiny_train: Path, tiny_dev: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def impossible(config: Config) -> Config:
        raise ConfigError("not possible")

    def refit(*_: object, **__: object) -> None:
        raise AssertionError("refitted first")

    monkeypatch.setattr(ablation, "without_patterns", impossible)
    monkeypatch.setattr(ablation._Stack, "of", refit)
    with pytest.raises(ConfigError, match="not possible"):
        rows_of(tiny_model, tiny_dev, retrain=TrainingNotes(notes(tiny_train), notes(tiny_dev)))


def test_retraining_needs_the_notes_of_training(tiny_model: Path, tiny_train: Path, tiny_dev: Path) -> None:
    train_notes, dev = notes(tiny_train), notes(tiny_dev)
    with pytest.raises(ModelError, match="was trained on other notes"):
        rows_of(tiny_model, tiny_dev, retrain=TrainingNotes(train_notes[1:], dev))
    with pytest.raises(ModelError, match=r"was trained with other dev notes; .* \(--retrain-dev\)"):
        rows_of(tiny_model, tiny_dev, retrain=TrainingNotes(train_notes, dev[1:]))


def test_the_command_writes_both_meanings(
    tiny_model: Path, tiny_train: Path, tiny_dev: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "report.md"
    arguments = ["research", "ablate", str(tiny_model), str(tiny_dev), "--jobs", "1", "--quiet"]
    retrain = ["--retrain", str(tiny_train), "--retrain-dev", str(tiny_dev)]
    assert main([*arguments, *retrain, "--out", str(out), "--sensitivity", "0.5"]) == 0
    text = out.read_text(encoding="utf-8")
    assert "Every threshold was chosen on the notes scored here" in capsys.readouterr().out
    assert "Every threshold was chosen on the notes scored here, for a token sensitivity of 0.5" in text
    assert "| without regex | as trained |" in text
    assert "| without regex | retrained without patterns |" in text
    assert "| system | other submodels | threshold | P | R | F1 | change | paired 95% interval |" in text


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--precision", "1.5"], "above 0 and at most 1"),
        (["--retrain-dev", "demo:dev"], "--retrain-dev goes with --retrain"),
    ],
)
def test_bad_options_are_refused(
    tiny_model: Path,
    tiny_dev: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    options: list[str],
    message: str,
) -> None:
    out = tmp_path / "report.json"
    assert main(["research", "ablate", str(tiny_model), str(tiny_dev), "--out", str(out), *options]) == 2
    assert message in capsys.readouterr().err
    assert not out.exists()


def test_a_system_that_cannot_follow_the_rule_has_no_figures(
    tiny_model: Path, tiny_dev: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = iter([0.5])
    chosen = "ensemble_deid.training.ablate.choose_threshold"
    monkeypatch.setattr(chosen, lambda *_, **__: SimpleNamespace(threshold=next(found, None)))
    out = tmp_path / "report.json"
    arguments = ["research", "ablate", str(tiny_model), str(tiny_dev), "--out", str(out), "--jobs", "1"]
    assert main([*arguments, "--precision", "0.9"]) == 0
    rows = {row["system"]: row for row in json.loads(out.read_text(encoding="utf-8"))}
    assert rows["without crf"]["f1"] is rows["without crf"]["threshold"] is None
    assert rows["ensemble"]["threshold"] == 0.5
    assert main([*arguments, "--precision", "0.9"]) == 2


def test_an_exported_model_is_scored_as_it_was_trained(tiny_model: Path, tiny_dev: Path, tmp_path: Path) -> None:
    export_model(tiny_model, tmp_path / "exported")
    with pytest.raises(ModelError, match="--rows as-trained"):
        rows_of(tmp_path / "exported", tiny_dev)
    rows = rows_of(tmp_path / "exported", tiny_dev, rows="as-trained")
    fitted = [row for row in rows_of(tiny_model, tiny_dev) if not row.name.startswith("without")]
    assert rows == fitted


def test_stored_candidates_are_enough_to_leave_out_any_part(
    tiny_model: Path, tiny_train: Path, tiny_dev: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    by_site.main([str(tiny_model), str(tiny_train)])
    rows = [line.strip("| ").split(" | ") for line in capsys.readouterr().out.splitlines()[2:]]
    assert [row[0] for row in rows][:3] == ["whole", "mean log odds, no SVM", "neural alone"]
    assert {f"without {part}" for part in ("regex", "crf", "regex and tbed", "the net", "lists")} < {r[0] for r in rows}
    assert {len(row) for row in rows} == {7}
    dataset = StackingDataset.load(tiny_model / "private")
    kinds = {name.partition(":")[0] for name in by_site.without_kinds(dataset, "net").context.more.names}
    assert kinds == {name.partition(":")[0] for name in dataset.context.more.names} - {"net"}
    assert by_site.main([str(tiny_model), str(tiny_dev)]) == 2
    assert capsys.readouterr().err.endswith("was trained on other notes\n")


def with_scores(gold: Sequence[Document]) -> list[Document]:
    """Return the notes with right and wrong spans, all with random scores."""
    random = np.random.default_rng(3)
    system = []
    for note in gold:
        wrong = [Span(place, place + 4, "DATE") for place in range(0, len(note.text) - 4, 9)]
        spans = drop_overlaps(replace(span, score=float(random.random())) for span in (*note.spans, *wrong))
        system.append(note.with_spans(spans))
    return system


def test_a_site_is_scored_at_the_threshold_chosen_on_the_others(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(by_site, "FROZEN", 200.0)
    gold = tiny_stack.notes(patients=5)
    system = with_scores(gold)
    frozen = by_site.at_frozen(gold, system)
    assert 0 < sum(len(note.spans) for note in frozen) < sum(len(note.spans) for note in system)
    for k, note in enumerate(gold):
        others = [j for j, other in enumerate(gold) if other.group != note.group]
        curve = trace_curve([gold[j] for j in others], [system[j] for j in others])
        point = find_point(curve, rule="false-positives", wanted=200.0)
        assert point is not None
        assert [frozen[k]] == list(keep_above([system[k]], just_below(point.threshold)))


def test_many_sites_share_thresholds_in_folds(monkeypatch: pytest.MonkeyPatch) -> None:
    sizes: list[int] = []

    def counted(gold: Sequence[Document], system: Sequence[Document]) -> Curve:
        sizes.append(len(gold))
        return trace_curve(gold, system)

    monkeypatch.setattr(by_site, "MOST_FOLDS", 2)
    monkeypatch.setattr(by_site, "trace_curve", counted)
    gold = tiny_stack.notes(patients=6)
    assert [note.id for note in by_site.at_frozen(gold, with_scores(gold))] == [note.id for note in gold]
    assert sizes == [6, 6]


def test_changed_copies_teach_and_are_not_scored(
    tiny_train: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    others = {"augment.share": "1.0", "submodels": '["regex", "crf"]', "stack.net": "true"}
    model = tmp_path / "model"
    settings = {k: v for k, v in tiny_stack.SETTINGS.items() if not k.startswith("neural.")}
    monkeypatch.setattr(tiny_stack, "SETTINGS", settings)
    arguments = ["train", str(tiny_train), "--out", str(model), *tiny_stack.settings(tmp_path, **others)]
    assert main(arguments) == 0
    gold = notes(tiny_train)
    assert StackingDataset.load(model / "private").table.document.max() >= len(gold), "copies have candidates"
    scored: list[tuple[int, int]] = []

    def recorded(gold: Sequence[Document], system: Sequence[Document]) -> list[Sequence[Document]]:
        scored.append((len(gold), len(system)))
        return answers_of(gold, system)

    answers_of = by_site.answers_of
    monkeypatch.setattr(by_site, "answers_of", recorded)
    by_site.main([str(model), str(tiny_train), "--rows", "1", "--fit-candidates", "100"])
    assert scored == [(len(gold), len(gold))]
