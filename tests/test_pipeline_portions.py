"""Notes of any length and number pass through in portions of bounded size."""

from functools import partial
from pathlib import Path

import pytest
import tiny_stack
from bounded_work import calls
from hypothesis import given
from hypothesis import strategies as st

from ensemble_deid.deidentify.deidentifier import Deidentifier
from ensemble_deid.features.batch import Batch
from ensemble_deid.model import ensemble as ensemble_module
from ensemble_deid.model.feature_extractor import FeatureExtractor
from ensemble_deid.model.portions import PORTION, Piece, portions, stretches
from ensemble_deid.note.document import Document
from ensemble_deid.note.span import Span
from ensemble_deid.note.tokens import tokenize

_TEXT = st.text(st.sampled_from("ab \n\r"), max_size=60)


@given(_TEXT, st.integers(2, 20))
def test_stretches_make_up_the_text(text: str, longest: int) -> None:
    found = stretches(text, longest=longest)
    assert "".join(text[start:end] for start, end in found) == text
    assert [start for start, _ in found[1:]] == [end for _, end in found[:-1]]
    assert all(end - start <= longest for start, end in found)
    assert all(end > start for start, end in found) or found == [(0, 0)]
    # Each but the last holds at least half of what fits: the number of stretches grows with the length alone.
    assert all(end - start > longest // 2 for start, end in found[:-1])


def test_cuts_fall_where_least_is_lost() -> None:
    assert stretches("aaaaaa\n\nb\ncc dd", longest=10) == [(0, 8), (8, 15)]
    assert stretches("aaaa bb\ncc dd", longest=10) == [(0, 8), (8, 13)]
    assert stretches("aaaa\r\nbb cc dd", longest=7) == [(0, 6), (6, 12), (12, 14)]
    assert stretches("aaaa bb cc dd", longest=10) == [(0, 8), (8, 13)]
    assert stretches("a" * 25, longest=10) == [(0, 10), (10, 20), (20, 25)]
    assert stretches("", longest=10) == [(0, 0)]


@given(st.lists(_TEXT, max_size=8), st.integers(2, 40))
def test_portions_hold_every_document_once_and_in_order(texts: list[str], size: int) -> None:
    documents = [Document(str(k), text, patient_id="p") for k, text in enumerate(texts)]
    whole = [""] * len(texts)
    order = []
    assert list(portions(documents, size=60_000)) == [[Piece(k, 0, each) for k, each in enumerate(documents)]] * bool(
        texts
    )
    for portion in portions(documents, size=size):
        assert portion
        assert sum(len(piece.document.text) for piece in portion) <= size
        for piece in portion:
            assert len(whole[piece.index]) == piece.start
            assert piece.document.id == documents[piece.index].id
            assert piece.document.group == "p"
            whole[piece.index] += piece.document.text
            order.append(piece.index)
    assert whole == texts
    assert order == sorted(order)
    assert set(order) == set(range(len(texts)))


@pytest.mark.parametrize("text", ["a." * 300, "." * 700, "word " * 200, "\n".join(["a,b"] * 100), "e\u0301" * 200])
def test_portions_are_bounded_in_tokens_too(text: str) -> None:
    documents = [Document(str(k), text[: len(text) // (k + 1)]) for k in range(4)]
    sizes = []
    whole = [""] * 4
    for portion in portions(documents, size=300):
        sizes.append(len(tokenize([piece.document for piece in portion])))
        for piece in portion:
            whole[piece.index] += piece.document.text
    assert max(sizes) <= 100
    assert whole == [document.text for document in documents]
    # No more portions than it takes: all but the last have half of what fits, in tokens or in characters.
    tokens, characters = len(tokenize(documents)), sum(map(len, whole))
    assert len(sizes) <= 2 + 4 * max(tokens / 100, characters / 300)


@pytest.mark.parametrize("text", ["a." * 20_000, "." * 40_000])
def test_short_tokens_are_no_more_work_than_others(tiny_model: Path, text: str) -> None:
    """As one line they were one sequence, which was computed by itself, token by token."""
    model = Deidentifier.load(tiny_model)
    model.predict([Document("warm", text[:100])])
    usual = "Seen by Dr. Kemp for chest pain, on 03/04/2019.\n" * 3_000
    work = []
    for document in (Document("a", usual), Document("b", text)):
        work.append(calls(lambda document=document: model.predict([document])) / len(tokenize([document])))
    assert work[1] < 3 * work[0]


def test_a_short_document_is_handed_on_as_it_is() -> None:
    document = Document("a", "Anna", (Span(0, 4, "PATIENT"),))
    ((piece,),) = portions([document])
    assert piece.document is document
    assert piece.in_whole(document.spans[0]) is document.spans[0]


@pytest.mark.parametrize("submodel", [None, "tbed"])
def test_a_long_note_has_the_spans_of_its_parts(
    tiny_model: Path, monkeypatch: pytest.MonkeyPatch, submodel: str | None
) -> None:
    """Counted, not timed: what is processed is the text once, in pieces that never grow with it."""
    model = Deidentifier.load(tiny_model)
    part = tiny_stack.notes(700, patients=1)[0].text
    sizes: list[int] = []
    make = FeatureExtractor.extract

    def counting(self: FeatureExtractor, documents: list[Document]) -> Batch:
        sizes.append(sum(len(document.text) for document in documents))
        return make(self, documents)

    monkeypatch.setattr(FeatureExtractor, "extract", counting)
    monkeypatch.setattr(ensemble_module, "portions", partial(portions, size=4 * len(part)))
    counts = []
    for times in (10, 40):
        sizes.clear()
        (found,) = model.predict([Document("long", part * times)], submodel=submodel)
        assert sum(sizes) == times * len(part)
        assert max(sizes) <= 4 * len(part)
        counts.append((len(sizes), len(found.spans)))
        dates = [span.start % len(part) for span in found.spans if span.label == "DATE"]
        assert dates == [part.index("01/1"), part.rindex("01/1")] * times
        assert list(found.spans) == sorted(found.spans)
    (few_pieces, few_spans), (many_pieces, many_spans) = counts
    assert many_pieces <= 4 * few_pieces + 1
    assert many_spans == 4 * few_spans


def test_many_notes_are_predicted_as_each_alone(tiny_model: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    model = Deidentifier.load(tiny_model)
    notes = tiny_stack.notes(800, patients=5)
    monkeypatch.setattr(ensemble_module, "portions", partial(portions, size=300))
    together = model.predict(notes)
    alone = [model.predict([note])[0] for note in notes]
    assert [[span.key for span in note.spans] for note in together] == [[s.key for s in note.spans] for note in alone]


def test_a_portion_is_worth_many_notes() -> None:
    assert PORTION >= 100_000
