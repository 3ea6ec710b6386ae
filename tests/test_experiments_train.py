"""Training: patients kept apart, odd corpora survived, and every step told."""

import itertools
from dataclasses import replace
from pathlib import Path

import pytest
import tiny_stack
from hypothesis import given
from hypothesis import strategies as st
from tiny_notes import tiny_notes

from ensemble_deid.config import Config, load_config
from ensemble_deid.errors import CorpusError, ModelError
from ensemble_deid.model.directory import save_model
from ensemble_deid.model.loading import load_model
from ensemble_deid.model.manifest import fingerprint
from ensemble_deid.note.document import Document
from ensemble_deid.note.span import Span
from ensemble_deid.parallel import Step
from ensemble_deid.submodels import BY_NAME, NAMES
from ensemble_deid.training.ablate import ablate
from ensemble_deid.training.fold_training import WHOLE, plan
from ensemble_deid.training.train import Trained, train
from ensemble_deid.training.training_notes import in_fold_groups


def config(tmp_path: Path, *submodels: str, **others: object) -> Config:
    patterns = tmp_path / "tiny.toml"
    patterns.write_text(tiny_stack.PATTERNS, encoding="utf-8")
    overrides = [f"{key}={value}" for key, value in tiny_stack.SETTINGS.items()]
    chosen = {"submodels": list(submodels) or None, "folds": 2, "jobs": 1, **others}
    return load_config(overrides=[*overrides, f"regex.patterns={patterns}"], **chosen)


def trained(documents: list[Document], dev: list[Document], settings: Config) -> tuple[Trained, list[Step]]:
    steps: list[Step] = []
    return train(documents, dev, config=settings, report=steps.append, allow_overlap=True), steps


# Folds


@given(
    st.lists(st.integers(0, 3), min_size=1, max_size=12).filter(lambda folds: len(set(folds)) > 1),
    st.sets(st.sampled_from(NAMES), min_size=1),
    st.data(),
)
def test_every_note_is_held_out_once_of_every_submodel(
    folds: list[int], submodels: set[str], data: st.DataObject
) -> None:
    inner = data.draw(st.lists(st.sampled_from(range(len(folds))), unique=True, max_size=len(folds) - 1))
    names, n_folds = sorted(submodels), max(folds) + 1
    tasks = plan(names, folds, n_folds, inner_dev=sorted(inner))
    assert all(a.cost >= b.cost for a, b in itertools.pairwise(tasks))
    for name in names:
        mine = [task for task in tasks if task.submodel == name]
        (whole,) = [task for task in mine if task.fold == WHOLE]
        kept_back = sorted(inner) if BY_NAME[name].stops_early_on_dev else []
        assert sorted(whole.train + whole.held_out) == list(range(len(folds)))
        assert list(whole.held_out) == kept_back
        apart = [task for task in mine if task.fold != WHOLE]
        assert sorted(note for task in apart for note in task.held_out) == list(range(len(folds)))
        for task in apart:
            assert {folds[note] for note in task.held_out} <= {task.fold}
            assert task.fold not in {folds[note] for note in task.train}
            assert len(task.train) + len(task.held_out) == len(folds)


# What cannot be learned from


def test_too_little_to_learn_from(tmp_path: Path) -> None:
    bare = [document.with_spans(()) for document in tiny_stack.notes()]
    with pytest.raises(CorpusError, match=r"8 notes\) has no annotated PHI"):
        trained(bare, [], config(tmp_path))
    for one in (tiny_stack.notes(patients=1), tiny_stack.notes()[:1], [Document("x", "a", (Span(0, 1, "ID"),))]):
        with pytest.raises(CorpusError, match="at least two patients"):
            trained(one, [], config(tmp_path))
    with pytest.raises(CorpusError, match="no annotated PHI"):
        trained([], [], config(tmp_path))


def test_notes_without_a_patient_are_patients_of_their_own(tmp_path: Path) -> None:
    documents = [Document(document.id, document.text, document.spans) for document in tiny_stack.notes()]
    result, _ = trained(documents, [], config(tmp_path, "regex"))
    assert result.manifest.training["patients"] == 8


# Odd corpora


def odd_notes() -> list[Document]:
    """Return notes with all that is allowed and unusual: labels, newlines, overlaps, next to no text."""
    label = 'Na"me, o\u0301f \u00df#'
    return [
        tiny_stack.note(
            "a", "Se\u00f1or ", ("Bj\u00f6rk \U0001f642", label), "\r\nborn ", ("03/04/2019", "DATE"), patient="1"
        ),
        Document("b", "Bj\u00f6rk Strau\u00df", (Span(0, 5, label), Span(0, 12, label), Span(4, 12, "DATE")), "1"),
        Document("c", "", patient_id="2"),
        Document("d", " \n\t\u2028", patient_id="2"),
        Document("e", "x", patient_id="3"),
        Document("f", "7", (Span(0, 1, "DATE"),), "4"),
        Document("g", "\n" * 50 + "Bj\u00f6rk" + " " * 300 + "\r" + "w" * 3000, (Span(50, 55, label),), "4"),
    ]


def test_an_odd_corpus_trains_saves_loads_and_predicts(tmp_path: Path) -> None:
    """PHI that few patients have, empty notes, overlapping gold, any label: a model comes out, the same when loaded."""
    dev = [
        tiny_stack.note("x", "Bj\u00f6rk came ", ("today", "UNSEEN"), patient="9"),
        Document("y", "", patient_id="8"),
    ]
    result, steps = trained(odd_notes(), dev, config(tmp_path, folds=3))
    assert result.dev_counts["ensemble"].fn >= 1
    save_model(result.ensemble, result.stacking_dataset, result.manifest, tmp_path / "model")
    again, manifest = load_model(tmp_path / "model")
    assert again.predict(odd_notes()) == result.ensemble.predict(odd_notes())
    # Blank notes teach nothing and are left out.
    counts = {"notes": 5, "patients": 3, "sites": 0, "groups": 3, "spans": 7, "spans_cut": 0, "spans_lost": 2}
    assert manifest.training == counts
    assert again.scheme.labels == result.ensemble.scheme.labels
    assert [step.done for step in steps] == sorted(step.done for step in steps)
    assert steps[-1].done == steps[-1].total


def test_phi_of_one_patient_only(tmp_path: Path) -> None:
    """Where nothing can be learned in the other patients' fold, every stack trains to its end and is refused."""
    documents = [*tiny_stack.notes(patients=1), Document("clean", "No change since.\n", patient_id="other")]
    with pytest.raises(ModelError, match="finds 0 of the 20 PHI tokens of its training notes"):
        trained(documents, [], config(tmp_path))


@pytest.mark.parametrize("submodels", [("regex",), ("regex", "tbed"), ("crf",)])
def test_a_stack_without_candidates_is_refused(tmp_path: Path, submodels: tuple[str, ...]) -> None:
    documents = [
        Document(str(k), f"word {k} plain\n", (Span(0, 4, "ID"),) if k == 0 else (), patient_id=str(k))
        for k in range(4)
    ]
    with pytest.raises(ModelError, match="finds 0 of the 1 PHI tokens of its training notes"):
        trained(documents, documents, config(tmp_path, *submodels))


@pytest.mark.parametrize("submodels", [("regex",), ("regex", "tbed"), ("crf",)])
def test_a_stack_finds_nothing_where_there_are_no_candidates(tmp_path: Path, submodels: tuple[str, ...]) -> None:
    clean = [Document(str(k), f"word {k} plain\n", patient_id=str(k)) for k in range(4)]
    result, _ = trained(tiny_stack.notes(), clean, config(tmp_path, *submodels))
    assert result.dev_counts["ensemble"].recall is None
    save_model(result.ensemble, result.stacking_dataset, result.manifest, tmp_path / "model")
    assert load_model(tmp_path / "model")[0].predict(clean) == [()] * 4
    assert len(ablate(tmp_path / "model", clean, jobs=1, report=lambda step: None)) >= 4


def test_dev_notes_without_text_leave_figures_undefined(tmp_path: Path) -> None:
    blank = [Document("a", " \n"), Document("b", "")]
    result, _ = trained(tiny_stack.notes(), blank, config(tmp_path, "regex", "tbed", "crf"))
    assert result.dev_counts["ensemble"].f1 is None
    save_model(result.ensemble, result.stacking_dataset, result.manifest, tmp_path / "model")
    rows = ablate(tmp_path / "model", blank, jobs=1, report=lambda step: None)
    assert all(row.counts.f1 is None for row in rows)


def test_one_submodel_has_nothing_to_be_switched_off(tmp_path: Path) -> None:
    result, _ = trained(tiny_stack.notes(), [], config(tmp_path, "regex"))
    save_model(result.ensemble, result.stacking_dataset, result.manifest, tmp_path / "model")
    rows = ablate(tmp_path / "model", tiny_stack.notes(400, patients=2), jobs=1, report=lambda step: None)
    assert [row.name for row in rows] == [
        "ensemble",
        "regex alone",
        *(f"vote: {m}" for m in ("union", "majority", "mean", "log-odds")),
    ]
    assert rows[0].difference is None
    assert all(row.difference is not None for row in rows[1:])
    assert rows[1].counts.recall == pytest.approx(2 / 5)


# The fingerprint


def test_the_fingerprint_tells_corpora_apart() -> None:
    notes = tiny_stack.notes()
    first = notes[0]
    others = [
        notes[1:],
        [*notes, first],
        [first.with_spans(first.spans[1:]), *notes[1:]],
        [Document(first.id, first.text + " ", first.spans, first.patient_id), *notes[1:]],
        [Document("other", first.text, first.spans, first.patient_id), *notes[1:]],
        [Document(first.id, first.text, first.spans, "other"), *notes[1:]],
    ]
    prints = [fingerprint(corpus) for corpus in (notes, *others)]
    assert len(set(prints)) == len(prints)
    assert fingerprint(notes[::-1]) == prints[0]
    # How sure an annotation is, and who made it, is no part of it.
    scored = [
        note.with_spans(Span(s.start, s.end, s.label, 0.5, "hand") for s in reversed(note.spans)) for note in notes
    ]
    assert fingerprint(scored) == prints[0]


def test_folds_keep_sites_together_where_there_are_enough() -> None:
    notes = [replace(note, site=f"S{k % 4}") for k, note in enumerate(tiny_notes(12))]
    config = Config(folds=3)
    assert {d.group for d in in_fold_groups(notes, config=config)} == {f"site S{k}" for k in range(4)}
    few = [replace(note, site="S1") for note in notes]
    assert in_fold_groups(few, config=config) == few
    assert {d.group for d in in_fold_groups(few, config=Config(group_by="site"))} == {"site S1"}
    assert in_fold_groups(notes, config=Config(folds=3, group_by="patient")) == notes
    unknown = [notes[0], replace(notes[1], site=None)]
    assert [d.group for d in in_fold_groups(unknown, config=Config(group_by="site"))] == [
        "site S0",
        unknown[1].patient_id,
    ]
