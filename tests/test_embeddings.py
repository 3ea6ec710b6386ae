"""`embeddings train`: which words get vectors, the same file on every run, and a network that reads it."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from every_command import main

from ensemble_deid.config import NeuralConfig
from ensemble_deid.corpora.write import write_corpus
from ensemble_deid.errors import ConfigError, CorpusError
from ensemble_deid.note.document import Document
from ensemble_deid.taggers.neural.encoding import read_word_vectors
from research.word_vectors import EmbeddingOptions, train_vectors

pytest.importorskip("gensim", reason="gensim (the extra embeddings) is not installed")

SMALL = EmbeddingOptions(dimension=4, epochs=1, min_count=2, min_patients=2, seed=3)
NOTES = [
    Document("a", "The nurse saw Ann on 4/12.\nThe nurse saw Zelda. Zelda slept.", (), "1"),
    Document("b", "the nurse saw Bob on 5/12.\nHe slept.", (), "2"),
    Document("c", "Ann slept in 2031.", (), "1"),
]


def test_words_of_too_few_patients_or_places_have_no_vector() -> None:
    found = train_vectors(NOTES, SMALL)
    # Ann and Zelda are in notes of one patient only, Bob occurs once; numbers of one form are one word.
    assert set(found.words) == {"the", "nurse", "saw", "on", "0", "00", "/", ".", "slept"}
    assert found.left_out == len({"ann", "zelda", "bob", "he", "in", "0000"})
    assert found.vectors.shape == (9, 4)
    counts = [" ".join(note.text.lower() for note in NOTES).count(word) for word in ("slept", "nurse")]
    assert counts == [3, 3]
    with_digits = train_vectors(NOTES, EmbeddingOptions(dimension=4, min_count=2, min_patients=2, digits_to_zero=False))
    assert {"12", "0"} & set(with_digits.words) == {"12"}
    everything = train_vectors(NOTES, EmbeddingOptions(dimension=4, min_count=1, min_patients=1))
    assert {"ann", "zelda", "bob", "0000"} <= set(everything.words)
    assert everything.left_out == 0


def test_notes_without_a_patient_count_one_each() -> None:
    notes = [Document("a", "Ann slept", ()), Document("b", "Ann slept", ())]
    assert set(train_vectors(notes, SMALL).words) == {"ann", "slept"}


def test_too_few_notes_and_impossible_options_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(CorpusError, match="no word occurs 10 times in notes of 5 patients"):
        train_vectors(NOTES, EmbeddingOptions())
    with pytest.raises(CorpusError, match="no word occurs"):
        train_vectors([Document("a", " ", ())], SMALL)
    with pytest.raises(ConfigError, match="min patients is 1 or more, not 0"):
        EmbeddingOptions(min_patients=0)
    monkeypatch.setitem(sys.modules, "gensim.models", None)
    with pytest.raises(ConfigError, match=r"comes with the extra ensemble_deid\[embeddings\]"):
        train_vectors(NOTES, SMALL)


def test_two_processes_write_the_same_bytes_and_the_network_reads_them(tmp_path: Path) -> None:
    write_corpus(NOTES, tmp_path / "notes.jsonl", "jsonl")
    command = [sys.executable, "-m", "research", "embeddings", str(tmp_path / "notes.jsonl")]
    command += ["--dimension=6", "--min-occurrences=2", "--min-patients=2", "--epochs=2"]
    for number in (1, 2):
        environment = {**os.environ, "PYTHONHASHSEED": str(number)}
        out = [f"--out={tmp_path / f'{number}.txt'}"]
        done = subprocess.run([*command, *out], env=environment, capture_output=True, text=True, check=True)
        assert "9 words written to" in done.stdout
        assert "the file holds words of the notes" in done.stdout
        assert "Zelda" not in done.stdout + done.stderr
    assert (tmp_path / "1.txt").read_bytes() == (tmp_path / "2.txt").read_bytes()
    words, vectors = read_word_vectors(tmp_path / "1.txt", dimension=6, limit=100, digits_to_zero=True)
    assert vectors.shape == (len(words), 6) == (9, 6)
    NeuralConfig(word_vectors=str(tmp_path / "1.txt"), word_dimension=6)


def test_the_command_says_which_notes_name_no_patient_and_writes_over_no_input(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for name in "ab":
        (tmp_path / f"{name}.txt").write_text("Ann slept well", encoding="utf-8")
    options = ["--dimension=4", "--min-occurrences=2", "--min-patients=2"]
    out = tmp_path / "out" / "vectors.txt"
    assert main(["embeddings", str(tmp_path), "--out", str(out), *options]) == 0
    assert "2 notes of unknown patients" in capsys.readouterr().err
    assert out.read_text(encoding="utf-8").startswith("3 4\n")
    assert main(["embeddings", str(tmp_path), "--out", str(tmp_path / "a.txt"), *options]) == 2
    assert "the output is the input" in capsys.readouterr().err
    assert main(["embeddings", str(tmp_path), "--out", str(out)]) == 2
    assert "no word occurs 10 times" in capsys.readouterr().err
