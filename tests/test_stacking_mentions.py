"""What the submodels think of other mentions of a candidate's words, as features of the final estimator."""

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import tiny_stack
from hypothesis import given
from hypothesis import strategies as st
from stacking_columns import feature_names

from ensemble_deid.cli.main import main
from ensemble_deid.config import load_config
from ensemble_deid.features.batch import Batch, plain_batch
from ensemble_deid.model.pattern_choice import NO_PATTERNS
from ensemble_deid.note.document import Document
from ensemble_deid.note.span import Span
from ensemble_deid.stacking import context as mentions
from ensemble_deid.stacking.candidates import CandidateTable, collect
from ensemble_deid.stacking.context import extract_candidates, mention_columns
from ensemble_deid.stacking.dataset import build_stacking_dataset
from ensemble_deid.stacking.features import candidate_features, measure_statistics
from ensemble_deid.stacking.stacker import SETTINGS, Stacker
from ensemble_deid.taggers.base import Proposals

LABELS = ("DOCTOR", "PATIENT")
WORDS = ("Ann", "ann", "Lee", "LEE", "Al", "12", "123", "Qux.", "-")


def batch_of(*texts: str) -> Batch:
    return plain_batch(
        [Document(f"n{k}", text) for k, text in enumerate(texts)], patterns=NO_PATTERNS, split_lines=True
    )


def slow(table: CandidateTable, batch: Batch) -> list[list[float]]:
    """Compare every candidate with every other one."""
    texts = [
        batch.documents[d].text[a:b]
        for d, a, b in zip(table.document.tolist(), table.start.tolist(), table.end.tolist(), strict=True)
    ]
    words = [{word.strip(".").lower() for word in text.split() if word.strip(".").isalpha()} for text in texts]
    rows = []
    for i in range(len(table)):
        found = np.zeros((2, len(table.submodels)))
        for j in range(len(table)):
            elsewhere = table.end[j] <= table.start[i] or table.end[i] <= table.start[j]
            shared = any(len(word) >= 3 for word in words[i] & words[j])
            if table.document[i] == table.document[j] and elsewhere and shared:
                kind = int(table.label[i] != table.label[j])
                found[kind] = np.maximum(found[kind], table.confidence[j])
        rows.append(found.ravel().tolist())
    return rows


@st.composite
def candidates(draw: st.DrawFn) -> tuple[list[str], dict[str, Proposals]]:
    """Return texts, and for two submodels spans over any of their words."""
    notes = draw(st.lists(st.lists(st.sampled_from(WORDS), min_size=1, max_size=8), min_size=1, max_size=3))
    proposals = {}
    for name in ("regex", "crf"):
        found = []
        for words in notes:
            starts = np.cumsum([0, *(len(word) + 1 for word in words)]).tolist()
            spans = []
            for _ in range(draw(st.integers(0, 6))):
                first = draw(st.integers(0, len(words) - 1))
                last = draw(st.integers(first, min(len(words) - 1, first + 2)))
                end = starts[last] + len(words[last])
                spans.append(
                    Span(starts[first], end, draw(st.sampled_from(LABELS)), draw(st.sampled_from([0.1, 0.5, 0.9])))
                )
            found.append(tuple(sorted(spans)))
        proposals[name] = Proposals(((),) * len(notes), tuple(found))
    return [" ".join(words) for words in notes], proposals


@given(candidates())
def test_columns_are_those_of_comparing_every_pair(drawn: tuple[list[str], dict[str, Proposals]]) -> None:
    texts, proposals = drawn
    batch = batch_of(*texts)
    table = collect(proposals, labels=LABELS)
    columns = mention_columns(table, batch)
    assert columns.names == ("mention_same:regex", "mention_same:crf", "mention_other:regex", "mention_other:crf")
    assert columns.values.tolist() == slow(table, batch)


def test_a_full_name_tells_whose_name_its_parts_are() -> None:
    batch = batch_of("Dr. Marcia Hidalgo\nmarcia came, Ann left", "Marcia")
    found = ((Span(4, 18, "DOCTOR", 0.9), Span(19, 25, "PATIENT", 0.4)), (Span(0, 6, "PATIENT", 0.3),))
    table = collect({"crf": Proposals(found, found)}, labels=LABELS)
    assert mention_columns(table, batch).values.tolist() == [[0, 0.4], [0, 0.9], [0, 0]]


def test_a_word_that_fills_a_note_costs_no_more_than_its_surest_mentions() -> None:
    size = 400
    spans = tuple(Span(4 * k, 4 * k + 3, LABELS[k % 2], (k + 1) / size) for k in range(size))
    table = collect({"crf": Proposals((spans,), (spans,))}, labels=LABELS)
    batch = batch_of("Ann " * size)
    rows, words = mentions._words(table, batch)
    assert len(mentions._pairs(rows, words, table.confidence[:, 0])[0]) <= size * mentions._MOST
    np.testing.assert_array_equal(mention_columns(table, batch).values.max(axis=0), [1.0, 1.0])
    assert mention_columns(table, batch).values.tolist() == slow(table, batch)


def test_the_columns_are_features_and_go_with_their_submodel(tmp_path: Path) -> None:
    batch = batch_of("Dr. Marcia Hidalgo\nMarcia came")
    crf = (Span(4, 18, "DOCTOR", 0.9), Span(19, 25, "DOCTOR", 0.2))
    neural = (Span(19, 25, "PATIENT", 0.6),)
    proposals = {"crf": Proposals((crf,), (crf,)), "neural": Proposals((neural,), (neural,))}
    dataset = build_stacking_dataset(proposals, batch, labels=LABELS, min_confidence=0.01, net=True, mentions=True)
    table, context = dataset.table, dataset.context
    features = candidate_features(table, context, measure_statistics(table, context, dataset.correct))
    names = feature_names(table.submodels, LABELS, context.more.names)
    assert features.shape == (3, len(names))
    np.testing.assert_array_equal(features[:, names.index("mention_same:crf")], [0.2, 0.9, 0])
    np.testing.assert_array_equal(features[:, names.index("mention_other:neural")], [0.6, 0, 0])
    dataset.save(tmp_path)
    assert type(dataset).load(tmp_path).context.more.names == context.more.names
    less = dataset.without(["neural"], min_confidence=0.01)
    assert "mention_other:neural" not in less.context.more.names
    plain = extract_candidates(proposals, batch, labels=LABELS, min_confidence=0.01, net=True)[1].more.names
    assert [name for name in context.more.names if name not in plain] == [
        f"{kind}:{name}" for kind in mentions.MENTIONS for name in table.submodels
    ]


def test_no_candidates_have_no_mentions() -> None:
    nothing: tuple[tuple[Span, ...], ...] = ((),)
    table = collect({"crf": Proposals(nothing, nothing)}, labels=LABELS)
    assert mention_columns(table, batch_of("Ann")).values.shape == (0, 2)
    assert mention_columns(table, batch_of("")).values.shape == (0, 2)


def test_a_model_keeps_whether_it_reads_mentions_and_earlier_ones_do_not(tiny_model: Path, tmp_path: Path) -> None:
    stacker = replace(Stacker.load(tiny_model), mentions=True)
    stacker.save(tmp_path)
    assert Stacker.load(tmp_path).mentions
    content = json.loads((tmp_path / SETTINGS).read_text(encoding="utf-8"))
    del content["mentions"]
    (tmp_path / SETTINGS).write_text(json.dumps(content), encoding="utf-8")
    assert not Stacker.load(tmp_path).mentions


@pytest.mark.parametrize("name", ["best", "small", "zhao2020"])
def test_the_final_estimator_of_a_configuration_scores_what_it_was_trained_for(
    name: str, tiny_train: Path, tiny_dev: Path, tmp_path: Path
) -> None:
    arguments = ["train", str(tiny_train), "--dev", str(tiny_dev), "--config", name, "--submodels", "regex,crf"]
    options = tiny_stack.settings(tmp_path, **{"stack.also_without": "[]"})
    assert main([*arguments, "--out", str(tmp_path / "model"), *options]) == 0
    stacker, wanted = Stacker.load(tmp_path / "model"), load_config(name).stack
    assert (stacker.net, stacker.mentions) == (wanted.net, wanted.mentions)
