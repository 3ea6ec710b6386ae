"""Many notes: in order, each with its own outcome, failing closed."""

from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest
import tiny_stack

from ensemble_deid.errors import ConfigError, CorpusError, DeidError, ModelError
from ensemble_deid.features.batch import Batch
from ensemble_deid.pipeline import notes as notes_module
from ensemble_deid.pipeline.directory import load_model, save_model
from ensemble_deid.pipeline.ensemble import Ensemble
from ensemble_deid.pipeline.notes import Outcome, predict_notes
from ensemble_deid.stacking.dataset import StackingDataset
from ensemble_deid.taggers.base import Proposals
from ensemble_deid.taggers.tbed.tagger import TbedTagger
from ensemble_deid.text.document import Document

MARKER = "Zyxwvut"
Notes = list[tuple[str, Document | DeidError]]


def given_notes(count: int = 20) -> Notes:
    return [(document.id, document) for document in tiny_stack.notes(300, patients=count // 2)]


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
    tiny_model: Path, monkeypatch: pytest.MonkeyPatch, error: type[Exception]
) -> None:
    notes = given_notes()
    notes[3] = ("bad", Document("bad", f"Patient: {MARKER}\n"))
    expected = list(predict_notes(tiny_model, [note for note in notes if note[0] != "bad"]))
    seen = raise_on_marker(monkeypatch, error)
    outcomes = list(predict_notes(tiny_model, notes))
    assert [outcome.name for outcome in outcomes] == [name for name, _ in notes]
    bad = outcomes.pop(3)
    assert (bad.document, bad.problem) == (None, f"bad: processing failed ({error.__name__})")
    assert [(o.name, o.problem, o.document.spans) for o in outcomes if o.document] == [
        (o.name, None, o.document.spans) for o in expected if o.document
    ]
    assert seen == [8, 1, 1, 1, 1, 1, 1, 1, 1, 8, 4]


def test_the_models_own_fault_ends_the_run(tiny_model: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    notes = [("bad", Document("bad", MARKER)), *given_notes(2)]
    raise_on_marker(monkeypatch, ModelError)
    with pytest.raises(ModelError):
        list(predict_notes(tiny_model, notes))


def test_an_interruption_ends_the_run(tiny_model: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    raise_on_marker(monkeypatch, KeyboardInterrupt)
    with pytest.raises(KeyboardInterrupt):
        list(predict_notes(tiny_model, [("bad", Document("bad", MARKER))]))


@pytest.mark.parametrize("jobs", [1, 2])
def test_unreadable_notes_keep_their_places(tiny_model: Path, jobs: int) -> None:
    notes = given_notes(18)
    for place in (0, 7, 8, 17):
        notes[place] = (f"unreadable {place}", CorpusError(f"file {place}: not UTF-8"))
    outcomes = list(predict_notes(tiny_model, notes, jobs=jobs))
    assert [outcome.name for outcome in outcomes] == [name for name, _ in notes]
    assert [k for k, outcome in enumerate(outcomes) if outcome.document is None] == [0, 7, 8, 17]
    assert outcomes[8].problem == "file 8: not UTF-8"
    assert all((outcome.document is None) != (outcome.problem is None) for outcome in outcomes)
    assert all(
        o.document.text == n.text
        for o, (_, n) in zip(outcomes, notes, strict=True)
        if o.document and isinstance(n, Document)
    )


def test_only_unreadable_notes_and_none_at_all(tiny_model: Path) -> None:
    problem = CorpusError("x: broken")
    assert list(predict_notes(tiny_model, [("x", problem)])) == [Outcome("x", None, "x: broken")]
    assert list(predict_notes(tiny_model, [])) == []


def test_notes_of_one_name_are_kept_apart(tiny_model: Path) -> None:
    texts = ["Date: 03/04/2019\n", "Seen. Back on 05/06/2020.\n"]
    outcomes = list(predict_notes(tiny_model, [("same", Document("same", text)) for text in texts]))
    assert [outcome.document.text for outcome in outcomes if outcome.document] == texts
    assert [len(o.document.spans) for o in outcomes if o.document] == [1, 1]


@pytest.mark.parametrize("text", ["", "\n", " \t\r\n  ", "x", "7", ".", "\N{SNOWMAN}", "́", "﻿", "🙂" * 3])
def test_notes_of_next_to_nothing(tiny_model: Path, text: str) -> None:
    (alone,) = predict_notes(tiny_model, [("odd", Document("odd", text))])
    among = list(predict_notes(tiny_model, [*given_notes(2), ("odd", Document("odd", text))]))
    for outcome in (alone, among[-1]):
        assert outcome.problem is None
        assert outcome.document is not None
        assert outcome.document.text == text
        assert all(text[span.start : span.end].strip() for span in outcome.document.spans)


def test_gold_annotations_neither_help_nor_pass(tiny_model: Path) -> None:
    note = tiny_stack.notes(900, patients=1)[0]
    (with_gold,) = predict_notes(tiny_model, [("a", note)])
    (without,) = predict_notes(tiny_model, [("a", note.with_spans(()))])
    assert with_gold.document is not None
    assert without.document is not None
    assert with_gold.document.spans == without.document.spans
    assert all(span.source != "" for span in with_gold.document.spans)


@pytest.mark.parametrize("jobs", [1, 2])
def test_an_unusable_model_is_refused_before_a_note_is_read(tiny_model: Path, tmp_path: Path, jobs: int) -> None:
    def notes() -> Iterator[tuple[str, Document | DeidError]]:
        pytest.fail("a note was read")
        yield from ()

    with pytest.raises(ModelError, match="no such model directory"):
        predict_notes(tmp_path / "nowhere", notes(), jobs=jobs)
    with pytest.raises(ConfigError, match="no submodel 'crv'; it has: regex, tbed, crf, neural"):
        predict_notes(tiny_model, notes(), submodel="crv", jobs=jobs)


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
        outcomes = list(predict_notes(place, given_notes(2), jobs=2))
        answers.append(sum(len(outcome.document.spans) for outcome in outcomes if outcome.document))
    assert answers[0] > 0
    assert answers[1] == 0


def test_notes_are_read_while_others_are_processed(tiny_model: Path) -> None:
    """A corpus larger than memory passes: nothing runs far ahead of what is taken."""
    read = 0

    def notes() -> Iterator[tuple[str, Document | DeidError]]:
        nonlocal read
        for name, document in given_notes(40):
            read += 1
            yield name, document

    outcomes = predict_notes(tiny_model, notes(), submodel="regex")
    next(outcomes)
    assert read == 8
    assert sum(1 for _ in outcomes) == 39


def test_long_notes_do_not_pile_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(notes_module, "PORTION", 10)
    notes: Notes = [(str(k), Document(str(k), "x" * size)) for k, size in enumerate([3, 3, 3, 3, 30, 1, 9, 2])]
    chunks: Sequence[Notes] = list(notes_module._chunks([*notes, ("e", CorpusError("e"))]))
    assert [[name for name, _ in chunk] for chunk in chunks] == [["0", "1", "2", "3"], ["4"], ["5", "6"], ["7", "e"]]
