"""Called like a pipeline of Hugging Face transformers: the shapes and keys are those of a real pipeline."""

from pathlib import Path

import pytest
import tiny_stack

from ensemble_deid import ConfigError, CorpusError
from ensemble_deid.integrations.huggingface import TokenClassifier

TEXTS = [note.text for note in tiny_stack.notes(700, patients=1)]


@pytest.fixture(scope="module")
def classify(tiny_model: Path) -> TokenClassifier:
    return TokenClassifier.load(tiny_model)


def shape(answer: object) -> object:
    """Return the keys of entities within the lists that hold them, and the types of what is no number."""
    if isinstance(answer, list):
        return [shape(part) for part in answer][:1]
    return {key: str if isinstance(value, str) else "number" for key, value in answer.items()}


def test_the_shapes_are_those_of_a_real_pipeline(classify: TokenClassifier) -> None:
    transformers = pytest.importorskip("transformers", reason="transformers is not installed (extra train)")
    from tiny_encoder import tiny_encoder

    network = transformers.AutoModelForTokenClassification.from_pretrained(tiny_encoder(), num_labels=2)
    tokenizer = transformers.AutoTokenizer.from_pretrained(tiny_encoder())
    real = transformers.pipeline(
        "token-classification", model=network, tokenizer=tokenizer, aggregation_strategy="simple", device=-1
    )
    texts = ["Date: 03/04/2019", "Date: 05/04/2019"]
    assert shape(real(texts[0])) == shape(classify(texts[0]))
    assert shape(real(texts)) == shape(classify(texts))
    assert shape(real(texts[:1])) == shape(classify(texts[:1]))
    assert list(real(texts[0])[0]) == list(classify(texts[0])[0])


def test_what_is_found(classify: TokenClassifier) -> None:
    (first, second) = classify(TEXTS)
    assert [entity["entity_group"] for entity in first] == ["PATIENT", "DATE", "CITY", "DOCTOR", "DATE"]
    assert all(entity["word"] == TEXTS[0][entity["start"] : entity["end"]] for entity in first)
    assert first == classify(TEXTS[0], aggregation_strategy="max")
    lazily = classify(text for text in TEXTS)
    assert not isinstance(lazily, list)
    assert list(lazily) == [first, second]
    assert classify([]) == []


def test_what_cannot_be_answered_is_refused(classify: TokenClassifier) -> None:
    with pytest.raises(
        ConfigError, match="aggregation_strategy must be one of simple, first, average, max, not 'none'"
    ):
        classify(TEXTS[0], aggregation_strategy="none")
    with pytest.raises(CorpusError, match=r"inputs\[1\]: character 4 of the text is NUL"):
        classify([TEXTS[0], "Anna\0Bell"])
