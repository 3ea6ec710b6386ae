"""Training further: what each submodel keeps of the one it starts from, and `train --start-from`."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tiny_stack
import torch
from test_taggers_common import section
from tiny_notes import SCHEME, tiny_batch, tiny_notes

from ensemble_deid.cli.main import main
from ensemble_deid.config import NeuralConfig, TbedConfig, TransformerConfig
from ensemble_deid.corpora.write import write_corpus
from ensemble_deid.deidentify.deidentifier import Deidentifier
from ensemble_deid.errors import ConfigError
from ensemble_deid.model.manifest import read_manifest
from ensemble_deid.model.seen_notes import SeenNotes
from ensemble_deid.model.submodels import submodel_class
from ensemble_deid.note.document import Document
from ensemble_deid.note.tags import TagScheme
from ensemble_deid.submodels import SUBMODELS
from ensemble_deid.taggers.base import FitOptions
from ensemble_deid.taggers.confidence import SourceConfidence
from ensemble_deid.taggers.inherit import inherit_weights

OLD, NEW = tiny_notes(16), tiny_notes(4, seed=5)
LABELS = ["CITY", "DATE", "DOCTOR", "PATIENT"]
CAN_START = [row.name for row in SUBMODELS if row.starts_from_model]


def fit(name: str, documents: Any, *, scheme: TagScheme = SCHEME, **options: Any) -> Any:
    config = options.pop("config", section(name))
    return submodel_class(name).fit(tiny_batch(documents), None, FitOptions(scheme, config, seed=3, **options))


def without_ids(notes: list[Document]) -> list[Document]:
    """Return the notes without their records' numbers, in the text and among the annotations."""
    cut = []
    for note in notes:
        (number,) = (span for span in note.spans if span.label == "ID")
        size = number.end - number.start
        text = note.text[: number.start] + note.text[number.end :]
        kept = [span for span in note.spans if span.label != "ID"]
        moved = [replace(s, start=s.start - size, end=s.end - size) if s.start > number.start else s for s in kept]
        cut.append(replace(note, text=text, spans=tuple(moved)))
    return cut


@pytest.fixture(scope="module")
def trained() -> dict[str, Any]:
    return {name: fit(name, OLD) for name in CAN_START}


def test_rows_and_columns_are_matched_by_what_they_stand_for() -> None:
    class Toy(torch.nn.Module):
        def __init__(self, rows: int, value: float) -> None:
            super().__init__()
            self.table = torch.nn.Parameter(value + torch.arange(rows * rows).reshape(rows, rows).float())
            self.same = torch.nn.Parameter(torch.full((2, 2), value))
            self.other = torch.nn.Parameter(torch.full((rows,), value))

    new, old = Toy(3, 100.0), Toy(2, 0.0)
    axes = {"table": ((["a", "b", "c"], ["c", "a"]), (["a", "b", "c"], ["c", "a"]))}
    start = {name: value.numpy() for name, value in old.state_dict().items()}
    assert inherit_weights(new, start, axes=axes) == "2 of 3"
    expected = np.array([[3.0, 101.0, 2.0], [103.0, 104.0, 105.0], [1.0, 107.0, 0.0]])
    assert np.array_equal(new.table.detach().numpy(), expected)
    assert new.same.detach().unique().tolist() == [0.0]
    assert new.other.detach().unique().tolist() == [100.0]
    assert old.table.detach().flatten().tolist() == [0.0, 1.0, 2.0, 3.0]


def test_a_network_that_learns_nothing_more_predicts_as_before(trained: dict[str, Any]) -> None:
    still = NeuralConfig(**{**section("neural").model_dump(), "learning_rate": 1e-12, "epochs": 1})
    old = trained["neural"]
    # The new notes' words and another label's tags are new rows; what both have is kept.
    scheme = TagScheme.from_labels([*SCHEME.labels, "CITY"])
    new = fit("neural", NEW, config=still, scheme=scheme, start=old)
    assert list(new.vocabularies.words)[: len(old.vocabularies.words)] == list(old.vocabularies.words)
    assert set(new.vocabularies.words) > set(old.vocabularies.words)
    for key in ("lstm.forwards.weight_hh_l0", "characters.convolutions.0.weight"):
        if key in old.network.weights:
            assert np.allclose(new.network.weights[key], old.network.weights[key], atol=1e-6)
    rows = len(old.vocabularies.words) + 2
    assert np.allclose(new.network.weights["words.weight"][:rows], old.network.weights["words.weight"], atol=1e-6)
    batch = tiny_batch(OLD)
    best = [[span.key for span in spans] for spans in old.propose(batch, n_best=1).best]
    again = fit("neural", NEW, config=still, start=old)
    assert [[span.key for span in spans] for spans in again.propose(batch, n_best=1).best] == best
    assert sum(map(len, best)) > len(OLD)


def test_a_transformer_that_learns_nothing_more_predicts_as_before(trained: dict[str, Any]) -> None:
    values = {"learning_rate": 1e-12, "epochs": 1, "eight_bit_weights": False, "half_precision_weights": False}
    still = TransformerConfig(**{**section("transformer").model_dump(), **values})
    old, batch = trained["transformer"], tiny_batch(OLD)
    messages: list[str] = []
    new = fit("transformer", NEW, config=still, start=old, progress=messages.append)
    assert "starts with" in messages[0]
    assert np.allclose(new.emissions(batch), old.emissions(batch), atol=1e-4)
    with pytest.raises(ConfigError, match="another encoder"):
        fit("transformer", NEW, config=still.model_copy(update={"encoder": "elsewhere"}), start=old)


def test_rules_of_a_list_come_first_and_new_ones_correct_them(trained: dict[str, Any]) -> None:
    old = trained["tbed"]
    new = fit("tbed", NEW, start=old)
    assert len(old.rules) > 0
    assert [rule.identity for rule in list(new.rules)[: len(old.rules)]] == [rule.identity for rule in old.rules]
    without = fit("tbed", NEW, config=TbedConfig(max_rules=0), start=old)
    batch = tiny_batch(NEW, learned_from=OLD)
    keys = [[[span.key for span in spans] for spans in t.propose(batch, n_best=1).best] for t in (without, old)]
    assert keys[0] == keys[1]
    # Without the label NAME the rules for it have no place.
    narrow = TagScheme.from_labels(["DATE", "ID"])
    notes = [note.with_spans(span for span in note.spans if span.label != "NAME") for note in NEW]
    fewer = fit("tbed", notes, scheme=narrow, start=old)
    assert not any("NAME" in rule.to_tag for rule in fewer.rules)
    with pytest.raises(ConfigError, match="begin with the initial tags"):
        fit("tbed", NEW, config=TbedConfig(initial="none"), start=old)


def test_a_whole_model_has_the_labels_of_both(
    tiny_model: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    corpus, out, settings = tmp_path / "new.jsonl", tmp_path / "model", tiny_stack.settings(tmp_path)
    # Doctors are nurses here, and towns are not annotated.
    others = {"PATIENT": "PATIENT", "DATE": "DATE", "DOCTOR": "NURSE"}
    notes = [
        note.with_spans(replace(s, label=others[s.label]) for s in note.spans if s.label in others)
        for note in tiny_stack.notes(503, patients=3)
    ]
    write_corpus(notes, corpus, "jsonl")
    arguments = ["train", str(corpus), "--out", str(out), "--start-from", str(tiny_model), *settings]
    assert main([*arguments, "--submodels=regex,tbed,crf"]) == 0
    said = capsys.readouterr().err
    assert "only the model to start from has: CITY, DOCTOR: tbed can still find them; crf cannot learn them" in said
    assert read_manifest(out).labels == ("CITY", "DATE", "DOCTOR", "NURSE", "PATIENT")
    assert read_manifest(out).choices["started_from"]["labels"] == LABELS
    model = Deidentifier.load(out)
    assert model.ensemble.stacker.unseen == ("CITY", "DOCTOR")
    taggers: list[Any] = [one.ensemble.taggers["tbed"] for one in (model, Deidentifier.load(tiny_model))]
    new, old = ([rule.identity for rule in tagger.rules] for tagger in taggers)
    assert new[: len(old)] == old


@pytest.mark.parametrize("name", ["neural", "transformer"])
def test_a_label_that_the_new_notes_lack_is_still_found(trained: dict[str, Any], name: str) -> None:
    # The network needs more epochs than other tests give it to find numbers at all.
    longer = section(name).model_copy(update={"epochs": 16})
    old = fit(name, OLD, config=longer) if name == "neural" else trained[name]
    notes, batch = without_ids(NEW), tiny_batch(OLD)
    new, cold = fit(name, notes, start=old), fit(name, notes)
    right = {(d, span.key) for d, note in enumerate(OLD) for span in note.spans if span.label == "ID"}
    found = [
        sum((d, span.key) in right for d, spans in enumerate(tagger.propose(batch, n_best=1).best) for span in spans)
        for tagger in (old, new, cold)
    ]
    assert min(found[:2]) > len(OLD) // 2
    assert found[2] == 0


def test_rules_that_the_new_notes_never_show_at_work_keep_their_confidence(trained: dict[str, Any]) -> None:
    old, notes = trained["tbed"], without_ids(NEW)
    new = fit("tbed", notes, start=old)
    assert [rule.identity for rule in list(new.rules)[: len(old.rules)]] == [rule.identity for rule in old.rules]
    assert old.confidence.counts["initial ID"][1] > 0
    assert new.confidence.counts["initial ID"] == old.confidence.counts["initial ID"]
    assert new.confidence.counts["initial DATE"] != old.confidence.counts["initial DATE"]
    # Where rules are left out, the others take their confidence along to their new numbers.
    first = SourceConfidence({"rule 1": (1, 2), "rule 2": (3, 4)})
    assert first.renamed({"rule 2": "rule 1", "rule 9": "rule 3"}).counts == {"rule 1": (3, 4)}
    assert SourceConfidence({"b": (0, 1)}).filled(SourceConfidence({"a": (1, 1), "b": (5, 5)})).counts == {
        "a": (1, 1),
        "b": (0, 1),
    }


def test_features_that_differ_are_refused(trained: dict[str, Any]) -> None:
    config = NeuralConfig(**{**section("neural").model_dump(), "features": ["case"]})
    with pytest.raises(ConfigError, match="other features"):
        fit("neural", NEW, config=config, start=trained["neural"])


def test_a_whole_model_starts_from_another(
    tiny_model: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], tiny_train: Path
) -> None:
    corpus = tmp_path / "new.jsonl"
    notes = tiny_stack.notes(503, patients=3)
    write_corpus(notes, corpus, "jsonl")
    settings = tiny_stack.settings(tmp_path)
    out = tmp_path / "model"
    assert main(["train", str(corpus), "--out", str(out), "--start-from", str(tiny_model), *settings]) == 0
    assert "crf: cannot start from a trained model" in capsys.readouterr().err
    manifest, old = read_manifest(out), read_manifest(tiny_model)
    assert manifest.choices["started_from"] == {
        **{"model": old.checksum, "submodels": ["tbed", "neural"]},
        **{"labels": LABELS},
    }
    # Notes of both trainings are known again.
    seen = SeenNotes.from_record(manifest.seen_notes)
    assert seen.overlap([*notes, *tiny_stack.notes()]).notes == len(notes) + len(tiny_stack.notes())
    again = ["train", str(tiny_train), "--out", str(tmp_path / "b"), "--start-from", str(tiny_model), *settings]
    assert main(again) == 2
    assert "for training are among the training notes" in capsys.readouterr().err
    alone = ["train", str(corpus), "--out", str(tmp_path / "b"), "--start-from", str(tiny_model), *settings]
    assert main([*alone, "--submodels=regex,crf"]) == 2
    assert "no submodel to be trained can start from it" in capsys.readouterr().err
    assert main([*alone, "--shareable", "--set", "min_patients_outside=2"]) == 2
    assert "holds words of that one's notes" in capsys.readouterr().err
    assert (
        main(["research", "ablate", str(out), str(corpus), "--retrain", str(corpus), "--out", str(tmp_path / "a.json")])
        == 2
    )
    assert "trained further from another model" in capsys.readouterr().err
