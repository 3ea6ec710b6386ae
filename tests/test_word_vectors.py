"""Pretrained word vectors: the forms of the files, and a network that knows words which its training notes lack."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from test_taggers_neural import SMALL, fit, load
from tiny_notes import tiny_batch, tiny_notes

from ensemble_deid.config import Config, NeuralConfig
from ensemble_deid.errors import ConfigError
from ensemble_deid.taggers.base import FitOptions
from ensemble_deid.taggers.neural.encoding import read_word_vectors

GLOVE = "the 1 2 3\nThe 9 9 9\n. . 4 5 6\nin1999 7 8 -9.5e-1\n"


def read(path: Path, **options: Any) -> tuple[tuple[str, ...], Any]:
    return read_word_vectors(path, **{"dimension": 3, "limit": 100, "digits_to_zero": False, **options})


@pytest.mark.parametrize("head", ["", "4 3\n"])
def test_files_with_and_without_a_header(head: str, tmp_path: Path) -> None:
    path = tmp_path / "words.vec"
    path.write_text(head + GLOVE, encoding="utf-8")
    words, vectors = read(path)
    assert words == ("the", ". .", "in1999")
    assert np.allclose(vectors, [[1, 2, 3], [4, 5, 6], [7, 8, -0.95]])
    assert read(path, digits_to_zero=True)[0][-1] == "in0000"
    assert read(path, limit=2)[0] == ("the", ". .")


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"the 1 2\n", "words.vec:1: expected a word and 3 numbers"),
        (b"the 1 2 3 4\n", "words.vec:1: expected a word and 3 numbers"),
        (b"the 1 2 3\nof 1 2 x\n", "words.vec:2: expected a word and 3 numbers"),
        (b"the 1 2 3\nof 1 2 nan\n", "words.vec:2: expected a word and 3 numbers"),
        (b"", "the file holds no word vectors"),
        (b"the 1 2 3\n\xff 1 2 3\n", "not UTF-8"),
    ],
)
def test_what_is_no_such_file_is_refused(content: bytes, message: str, tmp_path: Path) -> None:
    (tmp_path / "words.vec").write_bytes(content)
    with pytest.raises(ConfigError, match=message):
        read(tmp_path / "words.vec")
    with pytest.raises(ConfigError, match=r"none\.vec: cannot be read"):
        read(tmp_path / "none.vec")


@pytest.fixture(scope="module")
def vectors(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A file in which every first and last name of the tiny notes is near one point, every other word elsewhere."""
    path = tmp_path_factory.mktemp("vectors") / "words.vec"
    names = "Ann Bob Carla Dora Eve Frank Gina Hugo Lee Moss Nash Ortiz Park Quinn Reyes Stone Zelda".split()
    others = "slept well had pain took mg was seen at home visits help name record on dr".split()
    lines = [f"{word} " + " ".join(["1"] * 12) for word in names] + [f"{w} " + " ".join(["-1"] * 12) for w in others]
    path.write_text(f"{len(lines)} 12\n" + "\n".join(lines) + "\n", encoding="utf-8")
    return path


def test_a_network_keeps_them_as_they_are_and_carries_them_in_its_files(vectors: Path, tmp_path: Path) -> None:
    config = NeuralConfig(**{**SMALL, "word_vectors": str(vectors), "zero_digits": True, "optimizer": "adagrad"})
    batch = tiny_batch(tiny_notes(8))
    tagger = fit(batch, config=config)
    row = tagger.vocabularies.vectors["zelda"]
    assert "zelda" not in tagger.vocabularies.words
    assert np.unique(tagger.network.weights["pretrained.weight"][row]).tolist() == [1.0]
    assert np.unique(tagger.network.weights["pretrained.weight"][:2]).tolist() == [0.0]
    # Numbers of one form are one word.
    assert "0000" in tagger.vocabularies.words
    assert not any(digit in word for word in tagger.vocabularies.words for digit in "123456789")
    tagger.save(tmp_path)
    vectors_gone = config.model_copy(update={"word_vectors": "gone.vec"})
    again = load(tmp_path, config=vectors_gone)
    assert again.propose(batch, n_best=2) == tagger.propose(batch, n_best=2)
    # A network that starts from it keeps them, with or without the file.
    further = NeuralConfig(**{**SMALL, "zero_digits": True, "epochs": 1})
    new = type(tagger).fit(
        tiny_batch(tiny_notes(4, seed=3)), None, FitOptions(tagger.scheme, further, seed=1, start=tagger)
    )
    assert np.array_equal(new.network.weights["pretrained.weight"], tagger.network.weights["pretrained.weight"])


def test_a_bias_against_outside_finds_more() -> None:
    batch = tiny_batch(tiny_notes(12, seed=2))
    tagger = fit(batch)

    def tokens(bias: float) -> int:
        config = tagger.config.model_copy(update={"outside_bias": bias})
        biased = type(tagger)(tagger.scheme, config, tagger.vocabularies, tagger.network, tagger.epochs)
        found = biased.propose(batch, n_best=1).best
        return sum(span.end - span.start for spans in found for span in spans)

    assert tokens(60) == 0
    assert tokens(-60) > tokens(0) > 0


def test_a_shareable_model_has_no_words_of_a_file() -> None:
    with pytest.raises(ConfigError, match=r"neural\.word_vectors brings words of its own"):
        Config(shareable=True, neural=NeuralConfig(word_vectors="words.vec"))
