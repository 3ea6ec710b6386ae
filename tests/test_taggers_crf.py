"""The CRF as read back against CRFsuite itself, and what happens to damaged model files."""

import itertools
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import sklearn_crfsuite
from tiny_notes import SCHEME, tiny_batch, tiny_notes
from viterbi import viterbi

from ensemble_deid.config import CrfConfig
from ensemble_deid.errors import ConfigError, ModelError
from ensemble_deid.features.batch import Batch
from ensemble_deid.features.windows import joined_column
from ensemble_deid.mapped import MappedArrays, to_file_bytes
from ensemble_deid.note.document import Document
from ensemble_deid.note.span import Span
from ensemble_deid.note.tags import TagScheme
from ensemble_deid.taggers.base import FitOptions
from ensemble_deid.taggers.chain import Marginals
from ensemble_deid.taggers.crf.crfsuite_file import CrfsuiteWeights, read_crfsuite
from ensemble_deid.taggers.crf.tagger import FILE, CrfTagger
from ensemble_deid.taggers.crf.weights import LEAST_WEIGHT, CrfWeights
from ensemble_deid.taggers.crf.windows import DEFAULT_WINDOWS, read_windows
from ensemble_deid.taggers.sequences import sequence_of_rows

CONFIG = CrfConfig(max_iterations=15, max_sequence=14)
TRAIN = tiny_notes(16)
OTHERS = tiny_notes(6, seed=1)


def fit(batch: Batch, config: CrfConfig = CONFIG, scheme: TagScheme = SCHEME) -> CrfTagger:
    return CrfTagger.fit(batch, None, FitOptions(scheme, config, seed=13))


def fit_and_keep(batch: Batch, config: CrfConfig) -> tuple[CrfTagger, bytes]:
    """Return a tagger, and the model that CRFsuite wrote for it."""
    written: list[bytes] = []

    def keep(data: bytes) -> CrfsuiteWeights:
        written.append(data)
        return read_crfsuite(data)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("ensemble_deid.taggers.crf.tagger.read_crfsuite", keep)
        return fit(batch, config), written[0]


@pytest.fixture(scope="module")
def learned() -> tuple[CrfTagger, bytes]:
    return fit_and_keep(tiny_batch(TRAIN), CONFIG)


@pytest.fixture(scope="module")
def tagger(learned: tuple[CrfTagger, bytes]) -> CrfTagger:
    return learned[0]


@pytest.fixture(scope="module")
def others() -> Batch:
    return tiny_batch(OTHERS, learned_from=TRAIN)


def test_emissions_best_path_and_marginals_are_crfsuites_own(
    learned: tuple[CrfTagger, bytes], others: Batch, tmp_path: Path
) -> None:
    tagger, data = learned
    (tmp_path / "crf").write_bytes(data)
    crfsuite = sklearn_crfsuite.CRF(model_filename=str(tmp_path / "crf"))
    emissions, starts = tagger.emissions(others)
    sequence = sequence_of_rows(starts, len(others.tokens))
    columns = [(name, joined_column(others.table, w, sequence)) for name, w in read_windows(DEFAULT_WINDOWS)]
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
    ((name, windows),) = read_windows((" lower[+1] & short_shape[-2]",))
    assert name == "lower[1]&short_shape[-2]"
    assert read_windows((name,)) == ((name, windows),)
    # The names are part of CRFsuite's model: none of the built-in ones may change.
    assert tuple(name for name, _ in read_windows(DEFAULT_WINDOWS)) == DEFAULT_WINDOWS


def test_a_window_of_an_unknown_feature_is_named(tagger: CrfTagger) -> None:
    with pytest.raises(ModelError, match=r"window colour\[0\] asks for the feature 'colour'"):
        fit(tiny_batch(TRAIN), CrfConfig(windows=("lower[0]", "colour[0]")))


@pytest.fixture(scope="module")
def small() -> bytes:
    """Return what CRFsuite wrote for a model of two windows and two tags."""
    config = CrfConfig(windows=("case[0]", "digits[-1]&digits[0]"), max_iterations=3)
    notes = [Document(str(i), f"Ann has {i}0", (Span(0, 3, "NAME"),)) for i in range(4)]
    return fit_and_keep(tiny_batch(notes), config)[1]


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
    weights = CrfWeights.of_crfsuite(read_crfsuite(small))
    with pytest.raises(ModelError, match="tags that the model's manifest does not name"):
        CrfTagger.of_weights(weights, scheme=TagScheme(("DATE",)), config=CONFIG)


def by_name(weights: CrfWeights) -> dict[str, dict[str, float]]:
    """Return attribute -> label -> weight."""
    found: dict[str, dict[str, float]] = {}
    for name, (a, b) in zip(weights.attributes(), itertools.pairwise(weights.begins.tolist()), strict=True):
        labels = [weights.labels[k] for k in weights.label[a:b].tolist()]
        found[name] = dict(zip(labels, weights.weight[a:b].tolist(), strict=True))
    return found


def test_the_file_has_the_weights_of_crfsuite_and_a_compact_one_rounds_them(small: bytes, tmp_path: Path) -> None:
    read = read_crfsuite(small)
    weights = CrfWeights.of_crfsuite(read)
    expected: dict[str, dict[str, float]] = {name: {} for name in read.attributes}
    for a, label, w in zip(
        read.attribute_of_weight.tolist(), read.label_of_weight.tolist(), read.weight.tolist(), strict=True
    ):
        expected[read.attributes[a]][read.labels[label]] = w
    for kept in (weights, weights.compact()):
        (tmp_path / FILE).write_bytes(kept.to_bytes())
        again = CrfWeights.of_file(tmp_path / FILE)
        assert by_name(again) == by_name(kept)
        assert again.to_bytes() == kept.to_bytes()
        assert np.array_equal(again.transitions, read.transitions)
    assert by_name(weights) == expected
    assert "digits[-1]&digits[0]=<>\x1fnone" in expected
    rounded = {name: {label: float(np.float32(w)) for label, w in found.items()} for name, found in expected.items()}
    assert by_name(weights.compact()) == rounded


def test_a_compact_file_has_no_weights_near_to_0(small: bytes, tmp_path: Path) -> None:
    weights = CrfWeights.of_crfsuite(read_crfsuite(small))
    third = np.arange(len(weights.weight)) % 3 == 0
    weights = replace(weights, weight=np.where(third, -LEAST_WEIGHT / 2, weights.weight))
    expected: dict[str, dict[str, float]] = {}
    for name, found in by_name(weights).items():
        if large := {label: float(np.float32(w)) for label, w in found.items() if abs(w) >= LEAST_WEIGHT}:
            expected[name] = large
    assert 0 < len(expected) < len(weights.begins) - 1
    (tmp_path / FILE).write_bytes(weights.compact().to_bytes())
    assert by_name(CrfWeights.of_file(tmp_path / FILE)) == expected


@pytest.mark.parametrize("flip", [0x01, 0x80, 0xFF])
def test_a_damaged_file_is_an_error_and_never_a_crash(small: bytes, flip: int, tmp_path: Path) -> None:
    data = CrfWeights.of_crfsuite(read_crfsuite(small)).to_bytes()
    path = tmp_path / FILE
    for i in range(0, len(data), 7):
        path.write_bytes(data[:i])
        with pytest.raises(ModelError):
            CrfWeights.of_file(path)
        damaged = bytearray(data)
        damaged[i] ^= flip
        path.write_bytes(bytes(damaged))
        try:
            again = CrfWeights.of_file(path)
        except ModelError:
            continue
        assert len(list(again.attributes())) == len(again.begins) - 1


@pytest.mark.parametrize("name", ["begins", "label", "weight", "keys.0", "column.0.ends", "transitions"])
def test_parts_that_do_not_fit_each_other_are_refused(name: str, small: bytes, tmp_path: Path) -> None:
    arrays = dict(MappedArrays.of_bytes(CrfWeights.of_crfsuite(read_crfsuite(small)).to_bytes()).arrays)
    out_of_range = [] if name in ("weight", "transitions") else [arrays[name] * 0 + 200]
    for wrong in (arrays[name][:-1], arrays[name].astype(np.float32) * np.nan, *out_of_range):
        (tmp_path / FILE).write_bytes(to_file_bytes({**arrays, name: wrong}))
        with pytest.raises(ModelError, match="damaged"):
            CrfWeights.of_file(tmp_path / FILE)


def test_keys_of_one_byte_which_the_core_does_not_read_are_refused(small: bytes, tmp_path: Path) -> None:
    arrays = dict(MappedArrays.of_bytes(CrfWeights.of_crfsuite(read_crfsuite(small)).to_bytes()).arrays)
    k = next(k for k in range(1000) if arrays[f"keys.{k}"].max(initial=0) < 255)
    narrow = {**arrays, f"keys.{k}": arrays[f"keys.{k}"].astype(np.uint8)}
    (tmp_path / FILE).write_bytes(to_file_bytes(narrow))
    with pytest.raises(ModelError, match="damaged"):
        CrfWeights.of_file(tmp_path / FILE)
