"""A submodel's training notes with copies of them in which other values stand for the PHI (pipeline/resampled.py)."""

from typing import Any

import pytest
from tiny_encoder import tiny_encoder
from tiny_notes import SCHEME, tiny_batch, tiny_notes

from ensemble_deid.config import Config, TransformerConfig
from ensemble_deid.errors import ConfigError
from ensemble_deid.model.submodels import fit_submodel, with_resampled_copies
from ensemble_deid.note.document import grouped_by_site
from ensemble_deid.taggers.transformer.tagger import TransformerTagger

TINY: dict[str, Any] = {"window": 40, "overlap": 8, "epochs": 1, "batch_pieces": 200}


def test_the_notes_stand_first_as_they_were_and_the_copies_name_others() -> None:
    notes = tiny_notes(6)
    enlarged = with_resampled_copies(tiny_batch(notes), copies=2, config=Config())
    assert [d.text for d in enlarged.documents[:6]] == [d.text for d in notes]
    assert [d.spans for d in enlarged.documents[:6]] == [d.spans for d in notes]
    assert len(enlarged.documents) == 18
    for copy in (enlarged.documents[6:12], enlarged.documents[12:]):
        for note, fresh in zip(notes, copy, strict=True):
            assert [s.label for s in fresh.spans] == [s.label for s in note.spans]
            own = {note.text[s.start : s.end] for s in note.spans if s.label == "NAME"}
            assert own.isdisjoint(fresh.text[s.start : s.end] for s in fresh.spans)


def test_columns_and_annotated_tags_are_those_of_the_tokens() -> None:
    enlarged = with_resampled_copies(tiny_batch(tiny_notes(4)), copies=1, config=Config())
    assert enlarged.table["word"].strings() == enlarged.tokens.words(enlarged.documents)
    tags = enlarged.gold(SCHEME)
    words = enlarged.table["word"].strings()
    owners = enlarged.tokens.document.tolist()
    for d, document in enumerate(enlarged.documents):
        tagged = "".join(w for w, tag, owner in zip(words, tags.tolist(), owners, strict=True) if tag and owner == d)
        assert tagged == "".join("".join(document.text[s.start : s.end].split()) for s in document.spans)


def test_whether_folds_keep_sites_together_changes_no_copy() -> None:
    notes = tiny_notes(4)
    plain, grouped = tiny_batch(notes), tiny_batch(grouped_by_site(notes))
    texts = [
        [d.text for d in with_resampled_copies(batch, copies=1, config=Config()).documents]
        for batch in (plain, grouped, plain)
    ]
    assert texts[0] == texts[1] == texts[2]
    other = with_resampled_copies(plain, copies=1, config=Config(seed=14))
    assert [d.text for d in other.documents] != texts[0]


def test_the_encoder_alone_trains_on_copies(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[int] = []

    def fit(train: Any, *_: object, **__: object) -> str:
        seen.append(len(train.documents))
        return "tagger"

    monkeypatch.setattr(TransformerTagger, "fit", fit)
    monkeypatch.setattr("ensemble_deid.taggers.crf.tagger.CrfTagger.fit", fit)
    config = Config(submodels=("crf", "transformer"), transformer=TransformerConfig(resampled_copies=3))
    for name in ("crf", "transformer"):
        fit_submodel(name, tiny_batch(tiny_notes(4)), None, scheme=SCHEME, config=config, progress=lambda message: None)
    assert seen == [4, 16]


def test_an_encoder_learns_from_copies() -> None:
    def losses(copies: int) -> list[str]:
        told: list[str] = []
        options = TransformerConfig(encoder=tiny_encoder(), resampled_copies=copies, **TINY)
        config = Config(submodels=("transformer",), transformer=options)
        fit_submodel("transformer", tiny_batch(tiny_notes(6)), None, scheme=SCHEME, config=config, progress=told.append)
        return told

    assert losses(2) == losses(2)
    assert losses(2) != losses(0)


@pytest.mark.parametrize(
    ("settings", "named"),
    [
        ({"text": {"bpe_vocabulary": 100}, "transformer": {"resampled_copies": 1}}, "text.bpe_vocabulary"),
        ({"transformer": {"resampled_copies": 1, "features": ["shape"]}}, "transformer.features"),
    ],
)
def test_what_copies_do_not_have_is_refused(settings: dict[str, Any], named: str) -> None:
    with pytest.raises(ConfigError, match=named):
        Config(submodels=("regex", "transformer"), **settings)
    # Without the encoder the setting concerns nothing.
    Config(submodels=("regex",), **settings)
