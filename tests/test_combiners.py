"""The combiners: what each keeps, what it needs, and that every way of predicting takes them."""

import json
import shutil
from dataclasses import replace
from pathlib import Path

import pytest
import tiny_stack
from every_command import main

from ensemble_deid.corpora.read import read_corpus
from ensemble_deid.deidentify.deidentifier import Deidentifier
from ensemble_deid.errors import ConfigError, CorpusError, ModelError
from ensemble_deid.model.directory import update_model
from ensemble_deid.model.loading import load_model
from ensemble_deid.model.manifest import Manifest, read_manifest
from ensemble_deid.model.options import CHOICE, COMBINERS
from ensemble_deid.note.document import Document
from ensemble_deid.note.span import Span
from ensemble_deid.stacking.voting import choose_best_members, claims_of_best_members
from ensemble_deid.taggers.base import Proposals
from ensemble_deid.training.thresholds import choose_members
from research.combiners import compare_combiners

NAME, OTHER_NAME, DATE = Span(0, 3, "NAME", 0.6), Span(1, 5, "NAME", 0.5), Span(2, 6, "DATE", 0.9)


def said(*spans: Span) -> Proposals:
    return Proposals((spans,), (spans,))


@pytest.fixture
def model(tiny_model: Path, tmp_path: Path) -> Path:
    """A copy that a test may change."""
    return Path(shutil.copytree(tiny_model, tmp_path / "model"))


def forget(model: Path) -> None:
    def edit(directory: Path, manifest: Manifest) -> Manifest:
        return replace(manifest, choices={k: v for k, v in manifest.choices.items() if k != CHOICE})

    update_model(model, edit)


def test_the_best_submodels_of_each_label_are_chosen_by_f1() -> None:
    document = Document("a", "Ann Lee 3/4", (NAME, Span(8, 11, "DATE")))
    found = {
        "regex": said(Span(8, 11, "DATE")),
        "tbed": said(NAME, Span(4, 7, "NAME"), Span(8, 11, "DATE")),
        "crf": said(NAME, Span(0, 1, "DATE"), Span(8, 11, "DATE")),
        "neural": said(NAME),
    }
    chosen = choose_best_members([document], found, labels=["DATE", "ID", "NAME"], best=2)
    assert chosen == {"DATE": ("regex", "tbed"), "ID": tuple(found), "NAME": ("crf", "neural")}
    assert choose_best_members([document], found, labels=["NAME"], best=1) == {"NAME": ("crf",)}


def test_only_claims_of_a_labels_own_submodels_count_and_the_surest_wins() -> None:
    found = {"crf": said(NAME), "neural": said(DATE), "tbed": said(OTHER_NAME)}
    labels = ("DATE", "NAME")

    def claims(date: tuple[str, ...], name: tuple[str, ...]) -> list[tuple[int, int, str]]:
        (spans,) = claims_of_best_members(found, labels=labels, members={"DATE": date, "NAME": name})
        return [span.key for span in spans]

    assert claims(("crf",), ("crf", "tbed")) == [NAME.key]
    assert claims(("neural",), ("crf", "tbed")) == [DATE.key]
    assert claims(("crf",), ("tbed",)) == [OTHER_NAME.key]
    assert claims(("crf",), ("neural",)) == []


def test_training_chooses_out_of_fold_and_stores_it(tiny_model: Path) -> None:
    record = read_manifest(tiny_model).choices[CHOICE]
    ensemble, _ = load_model(tiny_model)
    assert record["notes"] == 8
    assert {label: tuple(names) for label, names in record["members"].items()} == ensemble.best_members
    assert set(ensemble.best_members) == set(ensemble.scheme.labels)


def test_every_way_of_predicting_gives_a_combiners_answer(tiny_model: Path, tmp_path: Path, tiny_dev: Path) -> None:
    model = Deidentifier.load(tiny_model)
    notes = [document.with_spans(()) for document in read_corpus(str(tiny_dev)).documents]
    by_submodel = {name: model.predict(notes, submodel=name) for name in model.ensemble.taggers}
    every = {(d.id, s.key) for found in by_submodel.values() for d in found for s in d.spans}
    for combiner in COMBINERS:
        found = model.predict(notes, combiner=combiner)
        if combiner != "svm":
            assert {(d.id, s.key) for d in found for s in d.spans} <= every
        assert list(model.predict_each(notes, combiner=combiner, jobs=2, batch_size=8)) == found
        text = model.deidentify(notes[0].text, combiner=combiner, accept_unfit=combiner != "svm")
        assert [s.key for s in text.spans] == [s.key for s in found[0].spans]
        out = tmp_path / combiner
        assert main(["predict", str(tiny_model), str(tiny_dev), "--out", str(out), "--combiner", combiner]) == 0
        read = {d.id: [s.key for s in d.spans] for d in read_corpus(str(out)).documents}
        assert read == {d.id: [s.key for s in d.spans] for d in found}
        assert main(["evaluate", str(tiny_dev), str(tiny_model), "--combiner", combiner, "--resamples", "0"]) == 0
        lines = tmp_path / f"{combiner}.jsonl"
        # The recall of the final estimator alone is on record.
        arguments = ["--combiner", combiner, "--spans", str(lines), "--accept-unfit"]
        redacted = str(tmp_path / f"{combiner}-out.jsonl")
        assert main(["deidentify", str(tiny_model), str(tiny_dev), "--out", redacted, *arguments]) == 0
        assert len(lines.read_text().splitlines()) >= sum(len(d.spans) for d in found)


def test_the_union_finds_at_least_what_every_submodel_finds(tiny_model: Path, tiny_dev: Path) -> None:
    model = Deidentifier.load(tiny_model)
    notes = read_corpus(str(tiny_dev)).documents
    union = model.predict(notes, combiner="union")
    for name in model.ensemble.taggers:
        for one, all_ in zip(model.predict(notes, submodel=name), union, strict=True):
            covered = {c for span in all_.spans for c in range(span.start, span.end)}
            assert all(covered & set(range(span.start, span.end)) for span in one.spans)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"combiner": "vote"}, "there is no combiner 'vote'; there are: svm, union, majority, per-type"),
        ({"combiner": "union", "threshold": 0.5}, "has no threshold"),
        ({"combiner": "union", "submodel": "crf"}, "give one of the two"),
    ],
)
def test_a_combiner_that_cannot_serve_is_refused_at_the_call(
    tiny_model: Path, options: dict[str, object], message: str
) -> None:
    model = Deidentifier.load(tiny_model)
    with pytest.raises(ConfigError, match=message):
        model.predict([], **options)  # type: ignore[arg-type]
    with pytest.raises(ConfigError, match=message):
        model.predict_each([], **options)  # type: ignore[arg-type]


def test_a_model_that_does_not_say_its_best_submodels_is_told_how(
    model: Path, tiny_dev: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    forget(model)
    arguments = ["--out", str(tmp_path / "out"), "--combiner", "per-type"]
    assert main(["predict", str(model), str(tiny_dev), *arguments]) == 2
    assert "model members" in capsys.readouterr().err
    assert main(["deidentify", str(model), str(tiny_dev), *arguments]) == 2
    assert not (tmp_path / "out").exists()
    assert "per-type" not in {figure.combiner for figure in compare_combiners(model, _notes(tiny_dev), resamples=0)}
    assert main(["model", "members", str(model), str(tiny_dev), "--top", "1"]) == 0
    assert main(["predict", str(model), str(tiny_dev), *arguments]) == 0
    members = read_manifest(model).choices[CHOICE]
    assert members["chosen_on"] == "dev notes"


def test_members_are_not_chosen_on_training_notes_or_for_labels_that_dev_lacks(
    model: Path, tiny_train: Path, tiny_dev: Path
) -> None:
    with pytest.raises(CorpusError, match="to choose submodels on"):
        choose_members(model, _notes(tiny_train), best=2)
    before = load_model(model)[0].best_members
    dates = [d.with_spans(s for s in d.spans if s.label == "DATE") for d in _notes(tiny_dev)]
    after = choose_members(model, dates, best=1)
    assert {label: after[label] for label in after if label != "DATE"} == {
        label: before[label] for label in before if label != "DATE"
    }
    forget(model)
    everyone = tuple(load_model(model)[0].taggers)
    after = choose_members(model, dates, best=1)
    assert {label: len(names) for label, names in after.items()} == {
        label: 1 if label == "DATE" else len(everyone) for label in after
    }


def test_a_damaged_choice_is_a_model_error(model: Path) -> None:
    def edit(directory: Path, manifest: Manifest) -> Manifest:
        return replace(manifest, choices={**manifest.choices, CHOICE: {"members": {"DATE": ["nobody"]}}})

    update_model(model, edit)
    with pytest.raises(ModelError, match="best submodels"):
        load_model(model)


def test_the_comparison_is_one_table_with_paired_differences(
    tiny_model: Path, tiny_dev: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "table.json"
    arguments = ["combiners", str(tiny_model), str(tiny_dev), "--resamples", "50"]
    assert main([*arguments, "--out", str(out)]) == 0
    rows = json.loads(out.read_text())
    assert [(row["combiner"], row["view"]) for row in rows] == [
        (combiner, view) for view in ("strict", "token-binary") for combiner in COMBINERS
    ]
    assert "f1_minus_svm" not in rows[0]
    for row in rows[1:4]:
        both_defined = row["recall"] is not None and rows[0]["recall"] is not None
        if both_defined:
            assert row["recall_minus_svm"] == pytest.approx(row["recall"] - rows[0]["recall"])
    assert "per-type" in capsys.readouterr().out
    assert main([*arguments, "--out", str(tmp_path / "table.docx")]) == 2
    for form in (".md", ".csv", ".tex"):
        assert main([*arguments, "--out", str(tmp_path / f"table{form}")]) == 0


def test_annotations_have_no_combiner_and_no_combiner_but_the_svm_a_threshold(
    tiny_model: Path, tiny_dev: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["evaluate", str(tiny_dev), str(tiny_dev), "--combiner", "union"]) == 2
    assert "is not a model" in capsys.readouterr().err
    assert main(["evaluate", str(tiny_dev), str(tiny_model), "--combiner", "union", "--oracle"]) == 2
    assert "no threshold" in capsys.readouterr().err


def _notes(path: Path) -> tuple[Document, ...]:
    return tuple(read_corpus(str(path)).documents)


def test_submodels_that_are_left_out_leave_no_claims(tmp_path: Path, tiny_train: Path) -> None:
    arguments = [*tiny_stack.settings(tmp_path, **{"stack.also_without": '["neural"]'}), "--out", str(tmp_path / "m")]
    assert main(["train", str(tiny_train), *arguments]) == 0

    def edit(directory: Path, manifest: Manifest) -> Manifest:
        members = {label: ["neural"] for label in manifest.labels}
        return replace(manifest, choices={**manifest.choices, CHOICE: {"members": members}})

    update_model(tmp_path / "m", edit)
    fast = Deidentifier.load(tmp_path / "m", submodels=["regex", "tbed", "crf"])
    with pytest.raises(ConfigError, match="none of the best submodels for CITY is loaded"):
        fast.predict([Document("a", "text")], combiner="per-type")
