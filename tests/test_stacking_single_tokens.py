"""Tokens that no candidate covers have scores below the candidates'."""

import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import tiny_stack
from hypothesis import given
from hypothesis import strategies as st

from ensemble_deid.deidentify.deidentifier import Deidentifier
from ensemble_deid.features.batch import Batch, plain_batch
from ensemble_deid.model.pattern_choice import NO_PATTERNS
from ensemble_deid.note.document import Document
from ensemble_deid.note.span import Span
from ensemble_deid.stacking.sequence_scores import HIGHEST, SOURCE, single_tokens
from ensemble_deid.stacking.stacker import SETTINGS, Stacker
from ensemble_deid.taggers.base import Proposals, TokenScores

LABELS = ("DATE", "NAME")
TEXTS = ("Ann Lee came on May 3 . Dr. Poe saw her - and left", "nothing", "")


def batch_of(*texts: str) -> Batch:
    return plain_batch(
        [Document(f"n{k}", text) for k, text in enumerate(texts)], patterns=NO_PATTERNS, split_lines=True
    )


def proposals_of(batch: Batch, phi: list[float], label: int = 1) -> Proposals:
    bounds = batch.tokens.document_starts[1:-1].tolist()
    values, labels = np.array(phi, np.float32), np.full(len(phi), label, np.int16)
    nothing: tuple[tuple[Span, ...], ...] = ((),) * len(batch.documents)
    return Proposals(nothing, nothing, tuple(map(TokenScores, np.split(values, bounds), np.split(labels, bounds))))


def words_found(text: str, found: Sequence[Span]) -> list[str]:
    return [text[span.start : span.end] for span in found]


def test_the_likeliest_quarter_of_the_tokens_that_no_candidate_covers_is_scored() -> None:
    likely = [f"Poe{letter}" for letter in "abcdefghijklmn"]
    text = f"Lee {' '.join(likely)} . {'and ' * 40}"
    batch = batch_of(text, "nothing", "")
    of_word = {"Lee": 0.4, ".": 0.45, "and": 1e-5, "nothing": 0.9}
    phi = [of_word.get(word, 0.3) for word in batch.tokens.words(batch.documents)]
    found = single_tokens([[Span(0, 3, "NAME")], [], []], {"crf": proposals_of(batch, phi)}, batch, labels=LABELS)
    # 56 tokens, so 14 places: "Lee" is covered, and a full stop takes none.
    assert len(phi) == 56 + 1
    assert words_found(text, found[0]) == likely
    assert {(span.label, span.source) for span in found[0]} == {("NAME", SOURCE)}
    assert [span.score for span in found[0]] == pytest.approx([HIGHEST * 0.3] * 14, rel=1e-5)
    assert [words_found("nothing", spans) for spans in found[1:]] == [["nothing"], []]


@pytest.mark.parametrize(
    ("text", "of_word", "expected"),
    [
        ("maria lopez", {"maria": 0.4, "lopez": 0.4}, ["maria", "lopez"]),
        ("A , B , C , D , E maria f g", {",": 0.01, "maria": 0.009}, ["A", "B", "C", "D", "E", "maria", "f", "g"]),
        (f"{', ' * 30}maria {'and ' * 29}", {",": 0.01, "maria": 0.009}, ["maria", *["and"] * 14]),
        (f"maria {'and ' * 30}", {"maria": 0.009}, ["maria", *["and"] * 11]),
    ],
    ids=["two words", "a short note", "a quarter of all tokens", "twelve"],
)
def test_short_notes_have_them_and_punctuation_takes_no_place(
    text: str, of_word: dict[str, float], expected: list[str]
) -> None:
    batch = batch_of(text)
    phi = [of_word.get(word, 1e-5) for word in batch.tokens.words(batch.documents)]
    (found,) = single_tokens([[]], {"crf": proposals_of(batch, phi)}, batch, labels=LABELS)
    assert words_found(text, found) == expected


def test_several_models_are_averaged_in_log_odds_and_the_surest_names_the_label() -> None:
    batch = batch_of("Ann saw Poe there now and")
    one = proposals_of(batch, [0.5, 1e-9, 1e-3, 1e-9, 1e-9, 1e-9], label=1)
    two = proposals_of(batch, [0.5, 1e-9, 1e-1, 1e-9, 1e-9, 1e-9], label=0)
    (found,) = single_tokens([[Span(0, 3, "NAME")]], {"crf": one, "neural": two}, batch, labels=LABELS)
    odds = (np.log(1e-3 / (1 - 1e-3)) + np.log(1e-1 / (1 - 1e-1))) / 2
    likeliest = max(found, key=lambda span: span.score)
    assert (likeliest.start, likeliest.end, likeliest.label) == (8, 11, "DATE")
    assert likeliest.score == pytest.approx(HIGHEST / (1 + np.exp(-odds)), rel=1e-5)


def test_without_a_sequence_model_there_are_none() -> None:
    batch = batch_of(*TEXTS)
    silent = Proposals(((),) * 3, ((),) * 3)
    assert single_tokens([[], [], []], {"regex": silent}, batch, labels=LABELS) == [[], [], []]


@given(
    phi=st.lists(st.sampled_from([0.0, 1e-8, 0.01, 0.5, 1.0]), min_size=60, max_size=60),
    places=st.lists(st.tuples(st.integers(0, 200), st.integers(1, 9)), max_size=4),
    copies=st.integers(1, 4),
    pool_weight=st.sampled_from([0.0, 0.3, 0.5]),
)
def test_they_touch_no_candidate_and_are_the_likeliest(
    phi: list[float], places: list[tuple[int, int]], copies: int, pool_weight: float
) -> None:
    """Compared with a search token by token."""
    text = "\n".join([TEXTS[0]] * copies)
    batch, phi = batch_of(text), phi[: 15 * copies]
    candidates = [Span(start, min(start + size, len(text)), "DATE") for start, size in places if start < len(text)]
    proposals = {"crf": proposals_of(batch, phi)}
    (found,) = single_tokens([candidates], proposals, batch, labels=LABELS, pool_weight=pool_weight)
    tokens = list(zip(batch.tokens.start.tolist(), batch.tokens.end.tolist(), phi, strict=True))
    free = [token for token in tokens if not any(token[0] < c.end and c.start < token[1] for c in candidates)]
    words = [token for token in free if text[token[0] : token[1]].strip(".-")]
    likeliest = sorted(words, key=lambda token: (-token[2], token[0]))[: max(12, len(tokens) // 4)]
    assert [(span.start, span.end) for span in found] == [(start, end) for start, end, _ in sorted(likeliest)]
    # At `HIGHEST` itself, a threshold that training searches, they would be found.
    assert all(0 <= span.score < HIGHEST for span in found)


def with_tokens(model: Deidentifier, tokens: bool) -> Deidentifier:
    return Deidentifier(replace(model.ensemble, stacker=replace(model.ensemble.stacker, tokens=tokens)))


def test_a_model_finds_them_at_low_thresholds_only_and_every_threshold_takes_from_the_same_scores(
    tiny_model: Path,
) -> None:
    model = Deidentifier.load(tiny_model)
    notes = list(tiny_stack.notes(77, patients=3))
    everything = with_tokens(model, True).predict(notes, threshold=0.0)
    assert sum(span.source == SOURCE for note in everything for span in note.spans) > 3
    for threshold in (0.0, 1e-9, 1e-5, 1e-3, 0.01, HIGHEST, 0.06, 0.5):
        found = with_tokens(model, True).predict(notes, threshold=threshold)
        kept = [note.with_spans(span for span in note.spans if span.score >= threshold) for note in everything]
        assert [note.spans for note in found] == [note.spans for note in kept]
        without = with_tokens(model, False).predict(notes, threshold=threshold)
        candidates = [note.with_spans(span for span in note.spans if span.source != SOURCE) for note in found]
        assert [note.spans for note in candidates] == [note.spans for note in without]
        if threshold >= HIGHEST:
            assert found == without
        elif threshold <= 1e-3:
            assert found != without


def test_a_model_keeps_whether_it_scores_them(tiny_model: Path, tmp_path: Path) -> None:
    stacker = Stacker.load(tiny_model)
    assert stacker.tokens
    replace(stacker, tokens=False).save(tmp_path)
    assert not Stacker.load(tmp_path).tokens
    content = json.loads((tmp_path / SETTINGS).read_text(encoding="utf-8"))
    # As models of earlier versions are.
    del content["tokens"]
    (tmp_path / SETTINGS).write_text(json.dumps(content), encoding="utf-8")
    assert not Stacker.load(tmp_path).tokens
