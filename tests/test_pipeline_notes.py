"""Many notes: in order, each with its own outcome, failing closed."""

import os
import shutil
import time
from collections.abc import Iterable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import tiny_stack
from joblib import delayed

from ensemble_deid.deidentify import prediction as notes_module
from ensemble_deid.deidentify.deidentifier import Deidentifier
from ensemble_deid.deidentify.prediction import Note
from ensemble_deid.errors import ConfigError, CorpusError, ModelError
from ensemble_deid.features.batch import Batch
from ensemble_deid.model import loading
from ensemble_deid.model.directory import PATTERNS, save_model, update_model
from ensemble_deid.model.ensemble import Ensemble
from ensemble_deid.model.loading import load_model, load_once
from ensemble_deid.model.manifest import Manifest
from ensemble_deid.note.document import Document
from ensemble_deid.parallel import in_processes
from ensemble_deid.stacking.dataset import StackingDataset
from ensemble_deid.taggers.base import Proposals
from ensemble_deid.taggers.tbed.tagger import TbedTagger

MARKER = "Zyxwvut"


@pytest.fixture(scope="module")
def model(tiny_model: Path) -> Deidentifier:
    return Deidentifier.load(tiny_model)


def given_notes(count: int = 20) -> list[Note]:
    return list(tiny_stack.notes(300, patients=count // 2))


def found(notes: Iterable[Note]) -> list[Document]:
    """Return the notes, none of which may be withheld."""
    documents = []
    for note in notes:
        assert isinstance(note, Document), note
        documents.append(note)
    return documents


def raise_on_marker(monkeypatch: pytest.MonkeyPatch, error: type[BaseException]) -> list[int]:
    """Make TBED raise, quoting the note, wherever a batch holds the marker; return the sizes of the batches it saw."""
    seen: list[int] = []
    propose = TbedTagger.propose

    def bad(self: TbedTagger, batch: Batch, *, n_best: int) -> Proposals:
        seen.append(len(batch.documents))
        for document in batch.documents:
            if MARKER in document.text:
                raise error(document.text)
        return propose(self, batch, n_best=n_best)

    monkeypatch.setattr(TbedTagger, "propose", bad)
    return seen


@pytest.mark.parametrize("error", [ValueError, KeyError, MemoryError, RecursionError, AssertionError])
def test_a_note_on_which_a_tagger_fails_is_withheld_alone(
    model: Deidentifier, monkeypatch: pytest.MonkeyPatch, error: type[Exception]
) -> None:
    notes = given_notes()
    expected = found(model.predict_each(notes[:3] + notes[4:]))
    notes[3] = Document("bad", f"Patient: {MARKER}\n")
    seen = raise_on_marker(monkeypatch, error)
    predicted = list(model.predict_each(notes, batch_size=8))
    bad = predicted.pop(3)
    assert isinstance(bad, CorpusError)
    assert str(bad) == f"bad: processing failed ({error.__name__})"
    assert predicted == expected
    assert seen == [8, 1, 1, 1, 1, 1, 1, 1, 1, 8, 4]


def test_the_models_own_fault_ends_the_run(model: Deidentifier, monkeypatch: pytest.MonkeyPatch) -> None:
    raise_on_marker(monkeypatch, ModelError)
    with pytest.raises(ModelError):
        list(model.predict_each([Document("bad", MARKER), *given_notes(2)]))


def test_an_interruption_ends_the_run(model: Deidentifier, monkeypatch: pytest.MonkeyPatch) -> None:
    raise_on_marker(monkeypatch, KeyboardInterrupt)
    with pytest.raises(KeyboardInterrupt):
        list(model.predict_each([Document("bad", MARKER)]))


@pytest.mark.parametrize("jobs", [1, 2])
def test_unreadable_notes_keep_their_places(model: Deidentifier, jobs: int) -> None:
    notes = given_notes(18)
    for place in (0, 7, 8, 17):
        notes[place] = CorpusError(f"file {place}: not UTF-8")
    predicted = list(model.predict_each(notes, jobs=jobs, batch_size=8))
    assert len(predicted) == 18
    for place, (given, note) in enumerate(zip(notes, predicted, strict=True)):
        if isinstance(given, Document):
            assert isinstance(note, Document)
            assert (note.id, note.text) == (given.id, given.text)
        else:
            assert str(note) == f"file {place}: not UTF-8"


def test_only_unreadable_notes_and_none_at_all(model: Deidentifier) -> None:
    problem = CorpusError("x: broken")
    assert list(model.predict_each([problem])) == [problem]
    assert list(model.predict_each([])) == []


def test_notes_of_one_name_are_kept_apart(model: Deidentifier) -> None:
    texts = ["Date: 03/04/2019\n", "Seen. Back on 05/06/2020.\n"]
    notes = found(model.predict_each([Document("same", text) for text in texts]))
    assert [note.text for note in notes] == texts
    assert [len(note.spans) for note in notes] == [1, 1]


@pytest.mark.parametrize("text", ["", "\n", " \t\r\n  ", "x", "7", ".", "\N{SNOWMAN}", "́", "﻿", "🙂" * 3])
def test_notes_of_next_to_nothing(model: Deidentifier, text: str) -> None:
    (alone,) = found(model.predict_each([Document("odd", text)]))
    among = found(model.predict_each([*given_notes(2), Document("odd", text)]))
    for note in (alone, among[-1]):
        assert note.text == text
        assert all(text[span.start : span.end].strip() for span in note.spans)


def test_gold_annotations_neither_help_nor_pass(model: Deidentifier) -> None:
    note = tiny_stack.notes(900, patients=1)[0]
    with_gold, without = found(model.predict_each([note, note.with_spans(())]))
    assert with_gold == without
    assert all(span.source != "" for span in with_gold.spans)


def test_what_a_model_cannot_serve_is_refused_before_a_note_is_read(model: Deidentifier) -> None:
    def notes() -> Iterator[Note]:
        pytest.fail("a note was read")
        yield from ()

    for jobs in (1, 2):
        with pytest.raises(ConfigError, match="no submodel 'crv'; it has: regex, tbed, crf, neural"):
            model.predict_each(notes(), submodel="crv", jobs=jobs)
    with pytest.raises(ConfigError, match="save this one, then load it"):
        Deidentifier(model.ensemble).predict_each(notes(), jobs=2)
    for options in ({"jobs": 0}, {"jobs": 1.5}, {"batch_size": 0}, {"batch_size": None}):
        with pytest.raises(ConfigError, match="must be a whole number of at least 1"):
            model.predict_each(notes(), **options)
    for jobs in (0, 1.5, "2"):
        with pytest.raises(ConfigError, match="jobs must be a whole number of at least 1"):
            Deidentifier.load("anywhere", jobs=jobs)  # type: ignore[arg-type]


def test_a_model_trained_anew_in_the_same_place_is_used(tiny_model: Path, tmp_path: Path) -> None:
    """Processes keep the model that they have loaded, but not when another one stands there."""
    place = tmp_path / "model"
    ensemble, manifest = load_model(tiny_model)
    stacking_dataset = StackingDataset.load(tiny_model / "private")
    answers = []
    for threshold in (0.0, 1.0):
        stacker = type(ensemble.stacker)(
            *(
                threshold if name == "threshold" else getattr(ensemble.stacker, name)
                for name in ensemble.stacker.__slots__
            )
        )
        changed = Ensemble(ensemble.config, ensemble.scheme, ensemble.feature_extractor, ensemble.taggers, stacker)
        save_model(changed, stacking_dataset, manifest, place)
        notes = found(Deidentifier.load(place).predict_each(given_notes(2), jobs=2))
        answers.append(sum(len(note.spans) for note in notes))
    assert answers[0] > 0
    assert answers[1] == 0


def loaded_here(seconds: float) -> tuple[int, int]:
    # Long enough for the other process to take the other call.
    time.sleep(seconds)
    return os.getpid(), load_once.cache_info().misses


def test_only_other_processes_load_a_model_that_they_will_use(
    tiny_model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    place = Path(shutil.copytree(tiny_model, tmp_path / "model"))
    here = Deidentifier.load(place)
    before = dict(in_processes([delayed(loaded_here)(0.5)] * 2, jobs=2))
    calls: list[Path] = []

    def load_here(directory: Path, **options: Any) -> tuple[Ensemble, Manifest]:
        calls.append(directory)
        return load_model(directory, **options)

    monkeypatch.setattr(loading, "load_model", load_here)
    loaded = Deidentifier.load(place, jobs=2)
    assert (loaded.source, loaded.labels, loaded.description) == (here.source, here.labels, here.description)
    after = dict(in_processes([delayed(loaded_here)(0.5)] * 2, jobs=2))
    assert after == {process: misses + 1 for process, misses in before.items()}
    # None of them loads it again.
    notes = given_notes(16)
    assert list(loaded.predict_each(notes, jobs=2, batch_size=8)) == here.predict(notes)
    assert dict(in_processes([delayed(loaded_here)(0.5)] * 2, jobs=2)) == after
    assert not calls
    # This one does when it must, and once.
    assert loaded.predict(notes) == loaded.predict(notes) == here.predict(notes)
    assert calls == [place]


def test_what_other_processes_cannot_load_is_said(tiny_model: Path, tmp_path: Path) -> None:
    place = Path(shutil.copytree(tiny_model, tmp_path / "model"))

    def damage(scratch: Path, manifest: Manifest) -> Manifest:
        (scratch / PATTERNS).write_text("[", encoding="utf-8")
        return manifest

    update_model(place, damage)
    with pytest.raises(ModelError, match="model") as here:
        Deidentifier.load(place)
    with pytest.raises(ModelError) as elsewhere:
        Deidentifier.load(place, jobs=2)
    assert str(elsewhere.value) == str(here.value)


def test_a_model_replaced_while_it_is_in_use_is_refused(tiny_model: Path, tmp_path: Path) -> None:
    place = Path(shutil.copytree(tiny_model, tmp_path / "model"))
    loaded = Deidentifier.load(place)
    update_model(place, lambda _, manifest: replace(manifest, figures={}))
    with pytest.raises(ModelError, match="the model was replaced while it was in use"):
        list(loaded.predict_each(given_notes(2), jobs=2))
    elsewhere = Deidentifier.load(place, jobs=2)
    update_model(place, lambda _, manifest: replace(manifest, figures={"more": {}}))
    with pytest.raises(ModelError, match="the model was replaced while it was in use"):
        _ = elsewhere.ensemble


def test_notes_are_read_while_others_are_processed(model: Deidentifier) -> None:
    """A corpus larger than memory passes: nothing runs far ahead of what is taken."""
    read = 0

    def notes() -> Iterator[Note]:
        nonlocal read
        for note in given_notes(40):
            read += 1
            yield note

    predicted = model.predict_each(notes(), submodel="regex", batch_size=5)
    next(predicted)
    assert read == 5
    assert sum(1 for _ in predicted) == 39


def test_spans_and_scores_do_not_depend_on_the_batches(model: Deidentifier) -> None:
    notes = given_notes(40)
    alone = found(model.predict_each(notes, batch_size=1))
    assert any(note.spans for note in alone)
    for options in ({"batch_size": 8}, {}, {"batch_size": 8, "jobs": 2}):
        assert found(model.predict_each(notes, **options)) == alone


def test_long_notes_do_not_pile_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(notes_module, "BATCH_CHARACTERS", 10)
    sizes = [3, 3, 3, 3, 30, 1, 9, 2]
    notes: list[Note] = [*(Document(str(size), "x" * size) for size in sizes), CorpusError("e")]
    chunks = [
        [len(n.text) if isinstance(n, Document) else 0 for n in chunk] for chunk in notes_module._chunks(notes, 8)
    ]
    assert chunks == [[3, 3, 3, 3], [30], [1, 9], [2, 0]]
