"""The CRF as read back against CRFsuite itself, and what happens to damaged model files."""

import lzma
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import sklearn_crfsuite
from safetensors.numpy import save
from tiny_notes import SCHEME, no_progress, tiny_batch, tiny_notes
from viterbi import viterbi

from ensemble_deid.config import CrfConfig
from ensemble_deid.errors import ConfigError, ModelError
from ensemble_deid.features.batch import Batch
from ensemble_deid.features.windows import joined_column
from ensemble_deid.model.scan import file_text
from ensemble_deid.note.document import Document
from ensemble_deid.note.span import Span
from ensemble_deid.note.tags import TagScheme
from ensemble_deid.taggers.chain import Marginals
from ensemble_deid.taggers.crf.crfsuite_file import compact_weights, read_compact_weights, read_crfsuite
from ensemble_deid.taggers.crf.tagger import COMPACT, FILE, CrfTagger
from ensemble_deid.taggers.crf.windows import DEFAULT_WINDOWS, read_windows
from ensemble_deid.taggers.sequences import merge_lines, sequence_of_rows

CONFIG = CrfConfig(max_iterations=15, max_sequence=14)
TRAIN = tiny_notes(16)
OTHERS = tiny_notes(6, seed=1)


def fit(batch: Batch, config: CrfConfig = CONFIG, scheme: TagScheme = SCHEME) -> CrfTagger:
    return CrfTagger.fit(batch, None, scheme=scheme, config=config, seed=13, device="cpu", progress=no_progress)


@pytest.fixture(scope="module")
def tagger() -> CrfTagger:
    return fit(tiny_batch(TRAIN))


@pytest.fixture(scope="module")
def others() -> Batch:
    return tiny_batch(OTHERS, learned_from=TRAIN)


def test_emissions_best_path_and_marginals_are_crfsuites_own(tagger: CrfTagger, others: Batch, tmp_path: Path) -> None:
    (tmp_path / FILE).write_bytes(tagger.data)
    crfsuite = sklearn_crfsuite.CRF(model_filename=str(tmp_path / FILE))
    starts = merge_lines(others.tokens, max_tokens=14)
    sequence = sequence_of_rows(starts, len(others.tokens))
    columns = [(name, joined_column(others.table, w, sequence)) for name, w in read_windows(DEFAULT_WINDOWS)]
    emissions = tagger.emissions(columns, len(others.tokens))
    values = [[f"{name}={value}" for value in column.strings()] for name, column in columns]
    tags = SCHEME.tags
    for low, high in zip(starts.tolist(), [*starts.tolist()[1:], len(others.tokens)], strict=True):
        items = [[column[row] for column in values] for row in range(low, high)]
        scores, lengths = emissions[None, low:high], np.array([high - low], dtype=np.int32)
        assert [tags[code] for code in viterbi(tagger.chain, scores, lengths)[0]] == crfsuite.predict_single(items)
        marginals = Marginals.from_emissions(tagger.chain, scores, lengths)
        ours = (marginals.forward * marginals.backward)[0]
        for row, theirs in zip(ours, crfsuite.predict_marginals_single(items), strict=True):
            assert row[[tags.index(tag) for tag in theirs]] == pytest.approx(list(theirs.values()), abs=1e-6)


def test_it_learns_and_more_sequences_give_more_candidates(tagger: CrfTagger, others: Batch) -> None:
    proposals = tagger.propose(others, n_best=5)
    gold = {(d, span.key) for d, document in enumerate(others.documents) for span in document.spans}
    best = {(d, span.key) for d, spans in enumerate(proposals.best) for span in spans}
    assert len(best & gold) > 0.9 * len(gold)
    assert {span.source for spans in proposals.candidates for span in spans} == {"crf"}
    assert sum(map(len, proposals.candidates)) >= sum(map(len, tagger.propose(others, n_best=1).candidates))


def test_a_tag_that_training_never_saw_is_never_chosen(others: Batch) -> None:
    scheme = TagScheme.from_labels([*SCHEME.labels, "AGE", "ZIP"])
    tagger = fit(tiny_batch(TRAIN), scheme=scheme)
    proposals = tagger.propose(others, n_best=5)
    labels = {span.label for spans in proposals.candidates for span in spans if span.score > 1e-9}
    assert labels == set(SCHEME.labels)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("lower[0]&", r"window 2, column 10: expected the name of a feature column"),
        ("lower in [-2,-1]", r"window 2: the CRF looks at one place a window"),
    ],
)
def test_a_window_that_the_crf_cannot_use_is_named(text: str, expected: str) -> None:
    with pytest.raises(ConfigError, match=rf"crf\.windows: {expected}"):
        fit(tiny_batch(TRAIN), CrfConfig(windows=("lower[0]", text)))


def test_windows_are_named_in_one_form() -> None:
    ((name, windows),) = read_windows([" lower[+1] & short_shape[-2]"])
    assert name == "lower[1]&short_shape[-2]"
    assert read_windows([name]) == [(name, windows)]
    # The names are part of CRFsuite's model: none of the built-in ones may change.
    assert tuple(name for name, _ in read_windows(DEFAULT_WINDOWS)) == DEFAULT_WINDOWS


def test_a_window_of_an_unknown_feature_is_named(tagger: CrfTagger) -> None:
    with pytest.raises(ModelError, match=r"window colour\[0\] asks for the feature 'colour'"):
        fit(tiny_batch(TRAIN), CrfConfig(windows=("lower[0]", "colour[0]")))


@pytest.fixture(scope="module")
def small() -> bytes:
    """Return a model of two windows and two tags."""
    config = CrfConfig(windows=("case[0]", "digits[0]"), max_iterations=3)
    notes = [Document(str(i), f"Ann has {i}0", (Span(0, 3, "NAME"),)) for i in range(4)]
    return fit(tiny_batch(notes), config).data


def test_a_truncated_model_is_an_error_wherever_it_ends(small: bytes) -> None:
    for size in range(len(small)):
        with pytest.raises(ModelError, match="the CRF's model file is damaged"):
            read_crfsuite(small[:size])
    with pytest.raises(ModelError):
        read_crfsuite(small + b"\0")


@pytest.mark.parametrize("flip", [0x01, 0x80, 0xFF])
def test_a_flipped_byte_is_an_error_in_the_header_and_never_a_crash_elsewhere(small: bytes, flip: int) -> None:
    # The fifth field of the header, bytes 16 to 19, is never written nor read by CRFsuite.
    header = [i for i in range(48) if i not in range(16, 20)]
    for i in range(len(small)):
        damaged = bytearray(small)
        damaged[i] ^= flip
        try:
            read = read_crfsuite(bytes(damaged))
        except ModelError:
            continue
        assert i not in header, f"byte {i} of the header"
        assert np.isfinite(read.weight).all()


def test_tags_that_the_model_does_not_name_are_refused(small: bytes) -> None:
    with pytest.raises(ModelError, match="tags that the model's manifest does not name"):
        CrfTagger.from_bytes(small, scheme=TagScheme(("DATE",)), config=CONFIG)


def test_a_compressed_file_that_would_fill_the_memory_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / COMPACT).write_bytes(lzma.compress(b"\0" * 5000))
    monkeypatch.setattr("ensemble_deid.taggers.crf.crfsuite_file._LARGEST", 4999)
    with pytest.raises(ModelError, match="larger than a model can be"):
        CrfTagger.load(tmp_path, scheme=SCHEME, config=CrfConfig(), device="cpu")
    with pytest.raises(ModelError, match="larger than a model can be"):
        file_text(tmp_path / COMPACT)


def test_the_compact_form_has_the_same_weights_in_single_precision(small: bytes) -> None:
    read = read_crfsuite(small)
    again = read_compact_weights(compact_weights(read))
    assert (again.labels, again.attributes) == (read.labels, read.attributes)
    weights = [
        dict(
            zip(
                zip(r.attribute_of_weight.tolist(), r.label_of_weight.tolist(), strict=True),
                r.weight.tolist(),
                strict=True,
            )
        )
        for r in (read, again)
    ]
    assert weights[1] == {key: float(np.float32(value)) for key, value in weights[0].items()}
    assert np.array_equal(again.transitions, read.transitions)
    assert compact_weights(read) == compact_weights(read)


@pytest.mark.parametrize("flip", [0x01, 0x80, 0xFF])
def test_a_damaged_compact_form_is_an_error_and_never_a_crash(small: bytes, flip: int) -> None:
    data = compact_weights(read_crfsuite(small))
    for i in range(0, len(data), 3):
        with pytest.raises(ModelError):
            read_compact_weights(data[:i])
        damaged = bytearray(data)
        damaged[i] ^= flip
        # Some bits say nothing of the content; the others are behind a checksum.
        with suppress(ModelError):
            assert compact_weights(read_compact_weights(bytes(damaged))) == data


@pytest.mark.parametrize(
    ("name", "wrong"),
    [
        ("weight", np.float32([np.nan])),
        ("attribute", np.uint32([9])),
        ("label", np.uint16([9])),
        ("weight", np.zeros(2)),
    ],
)
def test_parts_that_do_not_fit_each_other_are_refused(name: str, wrong: np.ndarray[Any, Any]) -> None:
    text = np.frombuffer(b"a", np.uint8)
    parts = {"attributes": text, "labels": text, "attribute": np.uint32([0]), "label": np.uint16([0])}
    parts |= {"weight": np.float32([1]), "transitions": np.zeros((1, 1))}
    assert read_compact_weights(lzma.compress(save(parts))).attributes == ("a",)
    with pytest.raises(ModelError, match="do not fit"):
        read_compact_weights(lzma.compress(save(parts | {name: wrong})))
