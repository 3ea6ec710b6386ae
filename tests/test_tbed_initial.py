"""What rules start from: patterns, nothing, or the most frequent tag of each word, never a patient's own."""

import pytest

from ensemble_deid.errors import ModelError
from ensemble_deid.features.batch import plain_batch
from ensemble_deid.features.patterns import parse_patterns
from ensemble_deid.note.document import Document
from ensemble_deid.note.span import Span
from ensemble_deid.note.tags import TagScheme
from ensemble_deid.taggers.tbed.initial import InitialTagger, fit_initial

PATTERNS = parse_patterns('[[pattern]]\nname = "n"\nlabel = "DATE"\nregex = "[0-9]+/[0-9]+"\n')
SCHEME = TagScheme(("DATE", "NAME"))


def notes() -> list[Document]:
    return [Document(f"{k}", "Moss 1/2", (Span(0, 4, "NAME"),), patient_id=f"p{k}") for k in range(3)] + [
        Document("x", "Only here", (Span(0, 4, "NAME"),), patient_id="p9")
    ]


def test_patterns_and_nothing() -> None:
    batch = plain_batch(notes(), patterns=PATTERNS, split_lines=False)
    tagger, start = fit_initial("regex", batch, SCHEME)
    assert start.strings()[:4] == ["O", "B-DATE", "I-DATE", "I-DATE"]
    assert tagger.tag(batch).strings() == start.strings()
    assert set(fit_initial("none", batch, SCHEME)[1].strings()) == {"O"}


def test_a_word_has_its_most_frequent_tag_of_other_patients() -> None:
    batch = plain_batch(notes(), patterns=PATTERNS, split_lines=False)
    tagger, start = fit_initial("frequent", batch, SCHEME)
    # Two other patients have Moss as a name; the word of one patient alone has no tag even on that patient's note.
    assert start.strings()[0] == "B-NAME"
    assert start.strings()[-2:] == ["O", "O"]
    assert tagger.words == {"moss": "B-NAME"}
    assert InitialTagger.from_json(tagger.to_json()) == tagger


@pytest.mark.parametrize("text", ["", "{}", '{"kind": "other", "words": {}}', '{"kind": "none", "words": []}'])
def test_damaged_json_is_a_model_error(text: str) -> None:
    with pytest.raises(ModelError, match="damaged"):
        InitialTagger.from_json(text)
