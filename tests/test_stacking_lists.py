"""What the public lists say of a candidate, as features of the final estimator."""

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ensemble_deid.features.batch import Batch, plain_batch
from ensemble_deid.features.knowledge import Knowledge, is_hidden
from ensemble_deid.model.pattern_choice import NO_PATTERNS
from ensemble_deid.note.document import Document
from ensemble_deid.note.span import Span
from ensemble_deid.stacking.candidates import collect
from ensemble_deid.stacking.context import list_columns
from ensemble_deid.stacking.dataset import build_stacking_dataset
from ensemble_deid.taggers.base import Proposals
from ensemble_deid.word_tables import PhraseTable, WordTable

GIVEN, SURNAME = {"ann": 7, "grace": 5}, {"lee": 8, "grace": 3, "zorblax": 1}
ENGLISH, MEDICAL = {"grace": 6, "the": 9, "lee": 2}, {"stent": 4, "grace": 1}
PLACES = PhraseTable.of(["new york"], longest=8)
WORDS = {"given": GIVEN, "surname": SURNAME, "english": ENGLISH, "medical": MEDICAL}
LISTS = Knowledge(Path("en"), {name: WordTable.of(bins) for name, bins in WORDS.items()}, {"place": PLACES}, {})
VOCABULARY = ("Ann", "Lee", "Grace", "Zorblax", "the", "stent", "New", "York", "12", "-", "qux")


def batch_of(text: str, *, lists: Knowledge | None = LISTS, for_training: bool = False) -> Batch:
    note = Document("n", text)
    return plain_batch([note], patterns=NO_PATTERNS, split_lines=True, knowledge=lists, for_training=for_training)


def columns_of(text: str, spans: list[Span], batch: Batch) -> dict[str, list[float]]:
    table = collect({"regex": Proposals((tuple(spans),), (tuple(spans),))}, labels=("X",))
    columns = list_columns(table, batch)
    return {name: columns.values[:, k].tolist() for k, name in enumerate(columns.names)}


def slow(words: list[str]) -> dict[str, float]:
    """Return the columns of one candidate, word by word."""
    letters = [word.lower() for word in words if word.isalpha()]
    n = max(1, len(letters))
    known = {f"known:{name}": sum(word in table for word in letters) / n for name, table in WORDS.items()}
    means = {f"list:{name}": sum(table.get(word, 0) for word in letters) / n for name, table in WORDS.items()}
    name = {word: max(GIVEN.get(word, 0), SURNAME.get(word, 0)) for word in letters}
    rare = [word for word in letters if ENGLISH.get(word, 0) < 6 and word not in MEDICAL]
    unlisted = [word for word in letters if word not in ENGLISH and word not in MEDICAL]
    return (
        known
        | means
        | {
            "words:name": sum(name[word] > 0 for word in rare) / n,
            "words:unlisted": len(unlisted) / n,
            "words:more_as_name": sum(name[word] - ENGLISH.get(word, 0) for word in letters) / n,
            "words:commonest": max((ENGLISH.get(word, 0) for word in letters), default=0),
        }
    )


@given(st.lists(st.sampled_from(VOCABULARY), min_size=1, max_size=8), st.data())
def test_the_columns_are_those_of_the_words(words: list[str], data: st.DataObject) -> None:
    text = " ".join(words)
    low = data.draw(st.integers(0, len(words) - 1))
    high = data.draw(st.integers(low + 1, len(words)))
    start = len(" ".join(words[:low])) + (low > 0)
    span = Span(start, start + len(" ".join(words[low:high])), "X", 0.9)
    found = columns_of(text, [span], batch_of(text))
    assert {name: values[0] for name, values in found.items() if name != "list:place"} == pytest.approx(
        slow(words[low:high])
    )


def test_the_share_of_tokens_in_a_phrase() -> None:
    text = "in New York City"
    spans = [Span(3, 11, "X", 0.9), Span(7, 16, "X", 0.8), Span(12, 16, "X", 0.7)]
    assert columns_of(text, spans, batch_of(text))["list:place"] == [1.0, 0.5, 0.0]


def test_without_lists_there_are_no_columns_and_without_candidates_no_rows() -> None:
    assert columns_of("Ann Lee", [Span(0, 3, "X", 0.9)], batch_of("Ann Lee", lists=None)) == {}
    assert all(values == [] for values in columns_of("Ann Lee", [], batch_of("Ann Lee")).values())


def test_a_third_of_the_entries_is_hidden_from_the_training_set() -> None:
    names = {"".join(chr(97 + (k // 26**i) % 26) for i in range(3)): 5 for k in range(60)}
    lists = Knowledge(Path("en"), {"given": WordTable.of(names)}, {}, {})
    text = " ".join(names)
    batch = batch_of(text, lists=lists, for_training=True)
    spans = tuple(Span(4 * k, 4 * k + 3, "X", 0.9) for k in range(len(names)))
    dataset = build_stacking_dataset({"regex": Proposals((spans,), (spans,))}, batch, labels=("X",), min_confidence=0.0)
    known = dataset.context.more.values[:, dataset.context.more.names.index("known:given")]
    np.testing.assert_array_equal(known, [float(not is_hidden(name)) for name in names])
    assert 0 < known.sum() < len(names)
