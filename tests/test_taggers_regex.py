"""The regex submodel: matches, and the precision of their patterns."""

from pathlib import Path

import pytest
from tiny_notes import PATTERNS, SCHEME, plain, tiny_notes

from ensemble_deid.config import RegexConfig
from ensemble_deid.errors import ModelError
from ensemble_deid.features.patterns import find_all
from ensemble_deid.note.document import Document
from ensemble_deid.note.overlaps import keep_first
from ensemble_deid.note.span import Span
from ensemble_deid.taggers.base import FitOptions
from ensemble_deid.taggers.regex import FILE, RegexTagger


def fit(documents: list[Document]) -> RegexTagger:
    return RegexTagger.fit(plain(documents), None, FitOptions(SCHEME, RegexConfig(), seed=13))


def test_matches_are_scored_with_the_precision_of_their_pattern_in_training() -> None:
    train = [Document("1", "100 mg 4711", (Span(7, 11, "ID"),)), Document("2", "10/10", (Span(0, 5, "DATE"),))]
    proposals = fit(train).propose(plain([Document("3", "5678 on 11/12")]), n_best=5)
    assert proposals.best == ((Span(0, 4, "ID", 2 / 4, "number"), Span(8, 13, "DATE", 2 / 3, "date")),)
    assert proposals.candidates == proposals.best


def test_offsets_are_those_of_the_patterns() -> None:
    notes = tiny_notes(6)
    best = fit(notes).propose(plain(notes), n_best=1).best
    for document, spans in zip(notes, best, strict=True):
        assert [span.key for span in spans] == [span.key for span in keep_first(find_all(PATTERNS, document))]


def test_a_truncated_file_is_a_model_error_wherever_it_ends(tmp_path: Path) -> None:
    fit(tiny_notes(4)).save(tmp_path)
    text = (tmp_path / FILE).read_text()
    for size in range(len(text)):
        (tmp_path / FILE).write_text(text[:size])
        with pytest.raises(ModelError):
            RegexTagger.load(tmp_path, scheme=SCHEME, config=RegexConfig(), device="cpu")
