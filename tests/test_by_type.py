"""Submodels that are one model for each type of PHI, or that read lower case: training, files, answers, warm start."""

import shutil
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import tiny_notes
import tiny_stack
from hypothesis import given
from hypothesis import strategies as st

from ensemble_deid.cli.main import main
from ensemble_deid.config import Config, config_to_toml, load_config, make_config
from ensemble_deid.deidentify.deidentifier import Deidentifier
from ensemble_deid.errors import ConfigError, ModelError
from ensemble_deid.features.batch import Batch
from ensemble_deid.model.submodels import compact_submodel, fit_submodel, load_submodel
from ensemble_deid.note.document import Document
from ensemble_deid.note.label_map import label_groups
from ensemble_deid.note.span import Span
from ensemble_deid.note.tags import TagScheme
from ensemble_deid.taggers.base import Proposals, Tagger, TokenScores
from ensemble_deid.taggers.by_type import ByTypeTagger, uncased
from ensemble_deid.training.train import train

LABELS = ("CITY", "DATE", "DOCTOR", "PATIENT")


def config(**more: object) -> Config:
    return make_config({"crf": {"max_iterations": 30}, **more})


def fit(batch: Batch, chosen: Config, *, start: Tagger | None = None, name: str = "crf") -> Tagger:
    return fit_submodel(
        name, batch, None, scheme=tiny_notes.SCHEME, config=chosen, progress=tiny_notes.no_progress, start=start
    )


def test_groups_hold_every_label_once() -> None:
    assert label_groups(["NAME"], LABELS) == (("DOCTOR", "PATIENT"), ("CITY", "DATE"))
    assert label_groups(["DATE+LOCATION", "NAME"], LABELS) == (("CITY", "DATE"), ("DOCTOR", "PATIENT"))
    assert label_groups(["label"], LABELS) == (("CITY",), ("DATE",), ("DOCTOR",), ("PATIENT",))
    assert label_groups([], LABELS) == (LABELS,)


@pytest.mark.parametrize("entries", [["AGE"], ["NAME", "DOCTOR"], ["names"], [""], ["DATE+"]])
def test_a_group_of_no_label_or_of_anothers_is_refused(entries: list[str]) -> None:
    with pytest.raises(ConfigError, match=r"^by_type: "):
        label_groups(entries, LABELS)


def test_each_model_claims_its_own_labels_and_the_submodel_all() -> None:
    batch = tiny_notes.tiny_batch(tiny_notes.tiny_notes(24))
    tagger = fit(batch, config(by_type=["NAME"]))
    assert isinstance(tagger, ByTypeTagger)
    assert tagger.groups == (("NAME",), ("DATE", "ID"))
    found = tagger.propose(batch, n_best=2)
    by_member = [member.propose(batch, n_best=2) for member in tagger.members]
    for own, group in zip(by_member, tagger.groups, strict=True):
        assert {span.label for spans in own.candidates for span in spans} == set(group)
    claimed = {(d, s.key) for own in by_member for d, spans in enumerate(own.best) for s in spans}
    assert {(d, s.key) for d, spans in enumerate(found.best) for s in spans} <= claimed
    assert {span.label for spans in found.best for span in spans} == {"NAME", "DATE", "ID"}
    phi = np.stack([own.tokens[0].phi for own in by_member]).max(axis=0)
    np.testing.assert_array_equal(found.tokens[0].phi, phi)
    sure = [tiny_notes.SCHEME.labels[label] for label in found.tokens[0].label[phi > 0.9].tolist()]
    assert set(sure) == {"NAME", "DATE", "ID"}


class Fixed:
    """A submodel that always gives the same answer to a batch of one note."""

    def __init__(self, *spans: Span) -> None:
        self.proposals = Proposals((spans,), (spans,), ())

    def propose(self, batch: Batch, *, n_best: int) -> Proposals:
        return self.proposals

    def save(self, directory: Path) -> None:
        raise NotImplementedError


def test_of_claims_that_overlap_the_surest_is_predicted_and_all_are_candidates() -> None:
    name, date, other = Span(0, 4, "NAME", 0.9), Span(2, 6, "DATE", 0.8), Span(8, 9, "DATE", 0.3)
    tagger = ByTypeTagger(tiny_notes.SCHEME, (("NAME",), ("DATE", "ID")), (Fixed(name), Fixed(date, other)))
    found = tagger.propose(tiny_notes.plain([Document("a", "Ann Lee 1")]), n_best=1)
    assert found == Proposals(((name, other),), ((name, date, other),), ())


def test_files_are_numbered_read_back_and_made_smaller(tmp_path: Path) -> None:
    batch = tiny_notes.tiny_batch(tiny_notes.tiny_notes(12))
    chosen = config(by_type=["NAME"], uncased=["crf"])
    tagger = fit(batch, chosen)
    tagger.save(tmp_path)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["type1.crf.safetensors", "type2.crf.safetensors"]

    def sizes() -> int:
        return sum(path.stat().st_size for path in tmp_path.iterdir())

    before = sizes()
    again = load_submodel("crf", tmp_path, scheme=tiny_notes.SCHEME, config=chosen)
    assert again.propose(batch, n_best=2) == tagger.propose(batch, n_best=2)
    compact_submodel("crf", tmp_path, labels=tiny_notes.SCHEME.labels, config=chosen)
    assert sizes() < before
    smaller = load_submodel("crf", tmp_path, scheme=tiny_notes.SCHEME, config=chosen)
    assert [[span.key for span in note] for note in smaller.propose(batch, n_best=2).best] == [
        [span.key for span in note] for note in tagger.propose(batch, n_best=2).best
    ]


def test_a_damaged_or_missing_file_is_named_where_it_stands(tmp_path: Path) -> None:
    chosen = config(by_type=["NAME"])
    fit(tiny_notes.tiny_batch(tiny_notes.tiny_notes(12)), chosen).save(tmp_path)
    compact_submodel("crf", tmp_path, labels=tiny_notes.SCHEME.labels, config=chosen)
    (tmp_path / "type2.crf.safetensors").write_bytes(b"nothing")
    with pytest.raises(ModelError, match=rf"^{tmp_path}/type2\.crf\.safetensors: damaged"):
        load_submodel("crf", tmp_path, scheme=tiny_notes.SCHEME, config=chosen)
    (tmp_path / "type1.crf.safetensors").unlink()
    with pytest.raises(ModelError, match=rf"^{tmp_path}/type1\.crf\.safetensors: there is no such file"):
        load_submodel("crf", tmp_path, scheme=tiny_notes.SCHEME, config=chosen)


@given(st.lists(st.text(st.sampled_from("aBcD9."), min_size=1, max_size=8), min_size=1, max_size=6))
def test_an_uncased_submodel_cannot_tell_capitals(words: list[str]) -> None:
    """Words of one case each are tokens of the same length, so that only their case differs."""
    text = " ".join(word.lower() for word in words)
    lower, upper = (tiny_notes.plain([Document("a", form)]) for form in (text, text.upper()))
    for name in ("word", "shape", "short_shape", "case", "in_note", "lower", "prefix3", "suffix3"):
        assert uncased(lower).table[name].strings() == uncased(upper).table[name].strings(), name
    assert uncased(lower).tokens is lower.tokens


def test_an_uncased_submodel_gives_the_same_answer_to_capitals() -> None:
    batch = tiny_notes.tiny_batch(tiny_notes.tiny_notes(24))
    other = tiny_notes.tiny_notes(4, seed=1)
    loud = [replace(document, text=document.text.upper()) for document in other]
    first, second = (tiny_notes.tiny_batch(notes, learned_from=tiny_notes.tiny_notes(24)) for notes in (other, loud))
    blind, sighted = fit(batch, config(uncased=["crf"])), fit(batch, config())
    assert [[s.key for s in spans] for spans in blind.propose(first, n_best=1).best] == [
        [s.key for s in spans] for spans in blind.propose(second, n_best=1).best
    ]
    assert sighted.propose(first, n_best=1).tokens != sighted.propose(second, n_best=1).tokens


@pytest.mark.parametrize("name", ["tbed", "transformer", "crfs"])
def test_only_what_reads_words_in_the_table_can_be_uncased(name: str) -> None:
    with pytest.raises(ConfigError, match=r"^uncased: "):
        Config(uncased=[name])


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        (
            {"submodels": ["regex", "tbed"], "by_type": ["NAME"]},
            "by_type has no effect on the submodels regex, tbed",
        ),
        ({"submodels": ["regex", "crf"], "uncased": ["neural"]}, "uncased names neural, and the submodels are regex, "),
        ({"submodels": ["regex", "tbed"], "uncased": ["crf"]}, "uncased names crf, and the submodels are regex, tbed"),
    ],
)
def test_what_concerns_no_submodel_in_use_is_refused(
    tmp_path: Path, settings: dict[str, list[str]], message: str
) -> None:
    # A model that was trained with it is still read.
    chosen = make_config(settings)
    with pytest.raises(ConfigError, match=message):
        train(tiny_stack.notes(), config=chosen)
    with pytest.raises(ConfigError, match=f"configuration: {message}"):
        load_config(**settings)
    (tmp_path / "mine.toml").write_text(config_to_toml(chosen), encoding="utf-8")
    with pytest.raises(ConfigError, match=f"mine.toml: {message}"):
        load_config(tmp_path / "mine.toml")


def test_what_concerns_one_submodel_in_use_is_not() -> None:
    chosen = load_config(submodels=["regex", "crf"], by_type=["NAME"], uncased=["crf", "neural"])
    chosen.refuse_without_effect()


def test_each_model_starts_from_the_one_with_most_of_its_labels() -> None:
    scheme = TagScheme(("A", "B", "C"))
    members = (Fixed(), Fixed())
    tagger = ByTypeTagger(scheme, (("A",), ("B", "C")), members)
    assert tagger.start_for(("B",)) is members[1]
    assert tagger.start_for(("A", "B")) is members[0]
    assert tagger.start_for(("D",)) is None


def test_a_start_of_another_make_is_refused() -> None:
    batch = tiny_notes.tiny_batch(tiny_notes.tiny_notes(8))
    split = ByTypeTagger(tiny_notes.SCHEME, (("NAME",), ("DATE", "ID")), (Fixed(), Fixed()))
    with pytest.raises(ConfigError, match=r"^by_type: neural "):
        fit(batch, config(), start=split, name="neural")
    with pytest.raises(ConfigError, match=r"^uncased: neural "):
        fit(batch, config(uncased=["neural"]), start=Fixed(), name="neural")


def test_a_stack_by_type_is_trained_saved_exported_and_continued(tmp_path: Path, tiny_train: Path) -> None:
    split = tiny_stack.settings(tmp_path, by_type='["NAME", "LOCATION"]', uncased='["crf"]')
    model = tmp_path / "model"
    arguments = ["--submodels", "regex,tbed,crf,neural", *split]
    assert main(["train", str(tiny_train), "--out", str(model), *arguments]) == 0
    files = {path.name for path in model.iterdir()}
    assert {"type1.crf.safetensors", "type3.network.json", "tbed.rules"} <= files
    assert main(["model", "export", str(model), "--out", str(tmp_path / "small"), "--compact"]) == 0
    notes = [document.with_spans(()) for document in tiny_stack.notes(500, patients=2)]
    for submodel in ("crf", "neural"):
        whole, small = (
            Deidentifier.load(place).predict(notes, submodel=submodel) for place in (model, tmp_path / "small")
        )
        places = [[[span.key for span in note.spans] for note in notes] for notes in (whole, small)]
        assert places[0] == places[1] or submodel == "neural"
    shutil.rmtree(tmp_path / "small")
    more = tmp_path / "more.jsonl"
    from ensemble_deid.corpora.write import write_corpus

    write_corpus(tiny_stack.notes(600), more, "jsonl")
    assert main(["train", str(more), "--start-from", str(model), "--out", str(tmp_path / "next"), *arguments]) == 0


def test_token_scores_keep_their_labels_in_the_scheme_of_all() -> None:
    """Label 0 of the second group is label 0 of the scheme, and not that of the first group."""

    class Scored(Fixed):
        def __init__(self, phi: float) -> None:
            self.proposals = Proposals(((),), ((),), (TokenScores(np.float32([phi]), np.int16([0])),))

    tagger = ByTypeTagger(tiny_notes.SCHEME, (("NAME",), ("DATE", "ID")), (Scored(0.25), Scored(0.5)))
    (scores,) = tagger.propose(tiny_notes.plain([Document("a", "x")]), n_best=1).tokens
    assert (scores.phi.tolist(), scores.label.tolist()) == ([0.5], [tiny_notes.SCHEME.labels.index("DATE")])
