"""Every submodel of the table against the contract that `taggers/base.py` states.

- Fitted to an annotated batch, it finds spans. Its predictions are among its candidates and do not overlap, and all
  scores lie in [0, 1].
- It proposes nothing for a batch without tokens.
- Its output for a note does not depend on the other notes of the batch.
- The same arguments give the same bytes on disk.
- It survives saving and loading.
- It refuses damaged files with ModelError.
- Where it has a compact form, that is smaller, proposes nearly the same, and is the same when made again.

A new submodel is a folder under `taggers/`, a section in `config_sections.py` with a field of its name in `Config`, and
a row in `submodels.py`. It is then tested here without a change; `SMALL` may make its default settings smaller, so that
the tests stay fast.
"""

import itertools
from collections.abc import Callable
from pathlib import Path
from typing import Any, cast

import numpy as np
import pytest
from tiny_encoder import tiny_encoder
from tiny_notes import SCHEME, tiny_batch, tiny_notes

from ensemble_deid.config import Section, make_config
from ensemble_deid.errors import ModelError
from ensemble_deid.features.batch import Batch, select_documents
from ensemble_deid.model.submodels import submodel_class
from ensemble_deid.note.document import Document
from ensemble_deid.submodels import BY_NAME, NAMES, SUBMODELS, Submodel
from ensemble_deid.taggers.base import CompactableTagger, FitOptions, TrainableTagger

SMALL: dict[str, dict[str, Any]] = {
    "crf": {"max_iterations": 15, "max_sequence": 14},
    "neural": {
        "word_dimension": 12,
        "character_dimension": 4,
        "channels": 4,
        "hidden": 24,
        "epochs": 4,
        "batch_tokens": 40,
        "learning_rate": 0.02,
        "max_sequence": 12,
    },
    "transformer": {
        "encoder": tiny_encoder(),
        "window": 40,
        "overlap": 8,
        "epochs": 12,
        "batch_pieces": 160,
        "learning_rate": 0.004,
        "head_rate": 1.0,
    },
}
TRAIN = tiny_notes(16)
OTHERS = tiny_notes(6, seed=1)


def section(name: str) -> Section:
    return make_config({name: SMALL.get(name, {})}).of_submodel(name)


def fit(name: str) -> TrainableTagger:
    dev = tiny_batch(OTHERS, learned_from=TRAIN)
    return submodel_class(name).fit(tiny_batch(TRAIN), dev, FitOptions(SCHEME, section(name), seed=13))


def load(name: str, folder: Path) -> TrainableTagger:
    return submodel_class(name).load(folder, scheme=SCHEME, config=section(name), device="cpu")


@pytest.fixture(scope="module", params=NAMES)
def name(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture(scope="module")
def tagger(name: str) -> TrainableTagger:
    return fit(name)


@pytest.fixture(scope="module")
def others() -> Batch:
    return tiny_batch(OTHERS, learned_from=TRAIN)


def test_it_finds_spans_and_its_predictions_are_candidates_without_overlaps(
    tagger: TrainableTagger, others: Batch
) -> None:
    proposals = tagger.propose(others, n_best=5)
    assert len(proposals.best) == len(proposals.candidates) == len(OTHERS)
    found = 0
    for document, best, candidates in zip(OTHERS, proposals.best, proposals.candidates, strict=True):
        found += len({span.key for span in best} & {span.key for span in document.spans})
        assert set(best) <= set(candidates)
        assert len({span.key for span in candidates}) == len(candidates)
        assert not any(a.overlaps(b) for a, b in itertools.combinations(best, 2))
        for span in candidates:
            assert 0 <= span.score <= 1
            assert span.label in SCHEME.labels
            assert span.end <= len(document.text)
    assert found > len(OTHERS)


@pytest.mark.parametrize("texts", [[], [" "], ["", "\n\n"]])
def test_it_proposes_nothing_where_there_are_no_tokens(tagger: TrainableTagger, texts: list[str]) -> None:
    batch = tiny_batch([Document(str(i), text) for i, text in enumerate(texts)], learned_from=TRAIN)
    proposals = tagger.propose(batch, n_best=5)
    assert proposals.best == proposals.candidates == ((),) * len(texts)


def test_a_note_alone_has_the_proposals_that_it_has_in_a_batch(tagger: TrainableTagger, others: Batch) -> None:
    together = tagger.propose(others, n_best=5)
    for d in range(len(OTHERS)):
        alone = tagger.propose(select_documents(others, [d]), n_best=5)
        for mine, theirs in ((alone.best[0], together.best[d]), (alone.candidates[0], together.candidates[d])):
            assert [span.key for span in mine] == [span.key for span in theirs]
            # Padding may change the last digits of single-precision arithmetic.
            assert [span.score for span in mine] == pytest.approx([span.score for span in theirs], abs=1e-5)


def test_two_fits_with_the_same_arguments_save_the_same_bytes(
    name: str, tagger: TrainableTagger, tmp_path: Path
) -> None:
    contents = []
    for number, fitted in enumerate((tagger, fit(name))):
        folder = tmp_path / str(number)
        folder.mkdir()
        fitted.save(folder)
        contents.append({path.name: path.read_bytes() for path in sorted(folder.iterdir())})
    assert contents[0]
    assert contents[0] == contents[1]


def test_it_survives_the_disk(name: str, tagger: TrainableTagger, others: Batch, tmp_path: Path) -> None:
    tagger.save(tmp_path)
    assert load(name, tmp_path).propose(others, n_best=3) == tagger.propose(others, n_best=3)


def files_of(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in sorted(folder.iterdir())}


def compact(name: str, folder: Path) -> None:
    cast("type[CompactableTagger]", submodel_class(name)).compact_saved(folder)


@pytest.mark.parametrize("row", SUBMODELS, ids=lambda row: row.name)
def test_what_has_a_compact_form_says_so(row: Submodel) -> None:
    assert hasattr(submodel_class(row.name), "compact_saved") == row.has_compact_form


def test_its_compact_form_is_smaller_and_proposes_nearly_the_same(
    name: str, tagger: TrainableTagger, others: Batch, tmp_path: Path
) -> None:
    if not BY_NAME[name].has_compact_form:
        return
    tagger.save(tmp_path)
    before = sum(map(len, files_of(tmp_path).values()))
    compact(name, tmp_path)
    small = files_of(tmp_path)
    after = sum(map(len, small.values()))
    # An encoder is in eight bits already.
    assert after == before if name == "transformer" else after < before
    compact(name, tmp_path)
    assert files_of(tmp_path) == small
    mine, theirs = load(name, tmp_path).propose(others, n_best=1), tagger.propose(others, n_best=1)
    for a, b in zip(mine.tokens, theirs.tokens, strict=True):
        np.testing.assert_allclose(a.phi, b.phi, atol=0.05)


@pytest.mark.parametrize("form", [lambda name, folder: None, compact], ids=["as saved", "compact"])
def test_damaged_files_are_model_errors(
    form: Callable[[str, Path], None], name: str, tagger: TrainableTagger, tmp_path: Path
) -> None:
    tagger.save(tmp_path)
    if BY_NAME[name].has_compact_form:
        form(name, tmp_path)
    for path in sorted(tmp_path.iterdir()):
        data = path.read_bytes()
        for damaged in (b"", data[:7], b"\xff" * len(data)):
            path.write_bytes(damaged)
            with pytest.raises(ModelError):
                load(name, tmp_path)
        path.write_bytes(data)
