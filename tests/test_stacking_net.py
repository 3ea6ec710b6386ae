"""The net under the submodels: places that none of them proposes become candidates."""

from pathlib import Path

import numpy as np
import pytest
from stacking_columns import feature_names

from ensemble_deid.features.batch import Batch, plain_batch
from ensemble_deid.features.knowledge import Knowledge
from ensemble_deid.model.pattern_choice import NO_PATTERNS
from ensemble_deid.note.document import Document
from ensemble_deid.note.span import Span
from ensemble_deid.stacking.candidates import NamedColumns, collect
from ensemble_deid.stacking.context import extract_candidates
from ensemble_deid.stacking.dataset import build_stacking_dataset
from ensemble_deid.stacking.features import candidate_features, measure_statistics
from ensemble_deid.stacking.net import KINDS, alone, cast_net, unexplained_numbers
from ensemble_deid.taggers.base import Proposals, TokenScores
from ensemble_deid.word_tables import WordTable

LABELS = ("DATE", "ID", "NAME")
WORDS = {"english": {"the": 9, "called": 8, "pain": 8}, "medical": {"stent": 5}}
LISTS = Knowledge(Path("en"), {name: WordTable.of(bins) for name, bins in WORDS.items()}, {}, {})


def batch_of(*texts: str, lists: Knowledge | None = None) -> Batch:
    notes = [Document(f"n{k}", text) for k, text in enumerate(texts)]
    return plain_batch(notes, patterns=NO_PATTERNS, split_lines=True, knowledge=lists)


def scores_of(batch: Batch, phi: dict[str, float], label: str, *, others: float = 1e-6) -> tuple[TokenScores, ...]:
    """Return scores with the given probability of PHI for some words, and `others` for the rest."""
    words = batch.table["word"].strings()
    bounds = batch.tokens.document_starts[1:-1].tolist()
    values = np.array([phi.get(word, others) for word in words], np.float32)
    labels = np.full(len(words), LABELS.index(label), np.int16)
    return tuple(map(TokenScores, np.split(values, bounds), np.split(labels, bounds)))


def caught(
    batch: Batch, proposals: dict[str, Proposals], *, min_confidence: float = 0.01
) -> tuple[list[tuple[int, str, str, str]], NamedColumns]:
    """Return document, text, label and kind of every candidate of the net."""
    before = collect(proposals, labels=LABELS, min_confidence=min_confidence)
    table, net = cast_net(before, proposals, batch)
    assert len(table) == len(before) + int(alone(net).sum())
    found = []
    for row in np.flatnonzero(alone(net)).tolist():
        start, end, label = table.keys()[row]
        kind = KINDS[int(net.values[row, : len(KINDS)].argmax())]
        found.append((int(table.document[row]), batch.documents[table.document[row]].text[start:end], label, kind))
    return found, net


def silent(batch: Batch, tokens: tuple[TokenScores, ...] = ()) -> Proposals:
    nothing: tuple[tuple[Span, ...], ...] = ((),) * len(batch.documents)
    return Proposals(nothing, nothing, tokens)


def test_doubts_are_candidates_with_the_likeliest_label_and_adjacent_ones_are_joined() -> None:
    batch = batch_of("seen by Ann Lee in\nLee today")
    crf = silent(batch, scores_of(batch, {"Ann": 0.005, "Lee": 0.008, "by": 0.0005}, "NAME"))
    expected = [(0, "Ann Lee", "NAME", "doubt"), (0, "Lee", "NAME", "doubt")]
    assert caught(batch, {"crf": crf})[0] == expected
    # The label is that of the model which is surest of PHI, and the odds are the mean over the models.
    neural = silent(batch, scores_of(batch, {"Ann": 0.006, "Lee": 0.009}, "ID"))
    assert caught(batch, {"crf": crf, "neural": neural})[0] == [(d, t, "ID", k) for d, t, _, k in expected]
    sure_of_nothing = silent(batch, scores_of(batch, {}, "ID"))
    assert caught(batch, {"crf": crf, "neural": sure_of_nothing})[0] == []


def test_words_on_no_list_and_codes_are_candidates_at_lower_odds() -> None:
    text = "the stent pain called Zorblax B7K and 4412 given 12 mg"
    low = dict.fromkeys(("stent", "pain", "called", "Zorblax", "B", "7", "K", "4412", "12", "mg"), 0.0015)
    batch = batch_of(text, lists=LISTS)
    found, _ = caught(batch, {"crf": silent(batch, scores_of(batch, low, "ID"))})
    assert found == [
        (0, "Zorblax", "ID", "unknown"),
        (0, "B7K", "ID", "number"),
        (0, "4412", "ID", "number"),
        (0, "mg", "ID", "unknown"),
    ]
    # Without lists no word is unknown; numbers need none.
    plain = batch_of(text)
    found, _ = caught(plain, {"crf": silent(plain, scores_of(plain, low, "ID"))})
    assert {kind for *_, kind in found} == {"number"}


def test_repeats_and_parts_of_a_believed_string_are_candidates_in_the_same_note_only() -> None:
    batch = batch_of("Ann Zorblax came. ANN ZORBLAX, Zorblax and zorblax; ann said", "Zorblax came", lists=LISTS)
    name = Span(0, 11, "NAME", 0.8)
    believed = Proposals(((name,), ()), ((name,), ()))
    assert caught(batch, {"regex": believed})[0] == [
        (0, "ANN ZORBLAX", "NAME", "repeat"),
        (0, "Zorblax", "NAME", "part"),
        (0, "zorblax", "NAME", "part"),
        (0, "ann", "NAME", "part"),
    ]
    # Without lists, a word in lower case may be any word.
    plain = batch_of("Ann Zorblax came. ANN ZORBLAX, Zorblax and zorblax; ann said", "Zorblax came")
    assert [text for _, text, *_ in caught(plain, {"regex": believed})[0]] == ["ANN ZORBLAX", "Zorblax"]
    doubted = Proposals(((), ()), ((Span(0, 11, "NAME", 0.4),), ()))
    assert caught(plain, {"crf": doubted})[0] == []


def test_where_a_candidate_lies_the_net_adds_none() -> None:
    batch = batch_of("Lee saw Lee and 4412")
    spans = (Span(0, 3, "NAME", 0.9), Span(8, 11, "ID", 0.2))
    proposed = Proposals(((spans[0],),), (spans,), scores_of(batch, {"Lee": 0.02, "4412": 0.02}, "ID"))
    assert caught(batch, {"crf": proposed})[0] == [(0, "4412", "ID", "doubt")]


def test_a_note_has_few_candidates_of_the_net_however_much_is_doubted() -> None:
    long = " ".join(f"Word{'abcdefghij'[k % 10]}" for k in range(500))
    batch = batch_of(long, "one two")
    scores = scores_of(batch, {"Worda": 0.2, "Wordb": 0.1}, "NAME", others=0.05)
    found, net = caught(batch, {"crf": silent(batch, scores)})
    assert [sum(d == note for d, *_ in found) for note in (0, 1)] == [500 // 20, 1]
    assert {text for d, text, *_ in found if d == 0} == {"Worda"}
    assert alone(net).all()


def test_a_note_alone_has_the_candidates_that_it_has_among_others() -> None:
    texts = ["Ann Zorblax saw ANN\n4412", "", "Zorblax K9 and Ann"]
    phi = {"saw": 0.004, "4412": 0.0015, "K": 0.01}
    name = Span(0, 11, "NAME", 0.8)

    def run(notes: list[str]) -> list[tuple[str, str, str]]:
        batch = batch_of(*notes, lists=LISTS)
        spans = tuple((name,) if text.startswith("Ann Z") else () for text in notes)
        found, _ = caught(batch, {"crf": Proposals(spans, spans, scores_of(batch, phi, "ID"))})
        return [(text, label, kind) for _, text, label, kind in found]

    assert run(texts) == [row for text in texts for row in run([text])]


def test_the_columns_are_the_mean_log_odds_and_the_share_of_agreeing_tokens() -> None:
    batch = batch_of("Ann Lee came")
    span = Span(0, 7, "NAME", 0.9)
    scores = TokenScores(np.array([0.9, 0.6, 1e-9], np.float32), np.array([2, 1, 0], np.int16))
    table, net = cast_net(*_collected({"crf": Proposals(((span,),), ((span,),), (scores,))}, batch))
    assert net.names == (*(f"net:{kind}" for kind in KINDS), "net:source", "phi:crf", "agrees:crf")
    odds = np.mean([np.log(0.9 / 0.1), np.log(0.6 / 0.4)])
    assert net.values[0].tolist() == pytest.approx([0.0] * 6 + [odds, 0.5], abs=1e-6)
    assert len(table) == 1


def _collected(proposals: dict[str, Proposals], batch: Batch):  # type: ignore[no-untyped-def]
    return collect(proposals, labels=LABELS), proposals, batch


@pytest.mark.parametrize(
    ("text", "left"),
    [
        ("BP 134/78, HR 88, T 37.2, INR 24", []),
        ("12. Take 40 mg, 325mg, 10-12 weeks at 14:30, 98%", []),
        ("room 412 ext 5512", ["412", "5512"]),
        ("No. 8, 9 and 7", []),
        ("AB12-99 and T4", ["AB", "12", "99", "T", "4"]),
    ],
)
def test_a_number_that_no_measurement_explains_is_left(text: str, left: list[str]) -> None:
    batch = batch_of(text)
    words = batch.table["word"].strings()
    assert [words[row] for row in np.flatnonzero(unexplained_numbers(batch))] == left


def test_the_net_s_columns_are_features_and_go_with_the_dataset_to_disk(tmp_path: Path) -> None:
    batch = batch_of("Ann Zorblax came. ANN left 4412")
    name = Span(0, 11, "NAME", 0.8)
    proposals = {
        "regex": Proposals(((name,),), ((name,),)),
        "crf": silent(batch, scores_of(batch, {"4412": 0.01}, "ID")),
        "neural": silent(batch, scores_of(batch, {"4412": 0.02}, "ID")),
    }
    dataset = build_stacking_dataset(proposals, batch, labels=LABELS, min_confidence=0.01, net=True)
    table, context = dataset.table, dataset.context
    keys = table.keys()
    assert [batch.documents[0].text[key[0] : key[1]] for key in keys] == ["Ann Zorblax", "ANN", "4412"]
    features = candidate_features(table, context, measure_statistics(table, context, dataset.correct))
    names = feature_names(table.submodels, LABELS, context.more.names)
    assert features.shape == (3, len(names))
    np.testing.assert_array_equal(features[:, names.index("net:part")], [0, 1, 0])
    dataset.save(tmp_path)
    loaded = type(dataset).load(tmp_path)
    assert loaded.context.more.names == context.more.names
    np.testing.assert_array_equal(loaded.context.more.values, context.more.values)
    # Without a submodel, its columns go; what the net added stays.
    less = dataset.without(["neural"], min_confidence=0.01)
    assert "phi:neural" not in less.context.more.names
    assert len(less) == 3
    assert len(dataset.without(["regex"], min_confidence=0.01)) == 2


def test_without_the_net_nothing_is_added() -> None:
    batch = batch_of("Ann Zorblax came. ANN left 4412")
    proposals = {"crf": silent(batch, scores_of(batch, {"4412": 0.01}, "ID"))}
    table, context = extract_candidates(proposals, batch, labels=LABELS, min_confidence=0.01, net=False)
    assert (len(table), context.more.values.shape) == (0, (0, 0))


def test_a_batch_without_tokens_or_candidates_has_an_empty_net() -> None:
    for batch in (batch_of(""), batch_of("", "the pain"), batch_of()):
        found, net = caught(batch, {"crf": silent(batch, scores_of(batch, {}, "ID") if batch.documents else ())})
        assert (found, len(net.values)) == ([], 0)
