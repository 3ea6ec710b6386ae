"""The figures of a corpus, counted by hand, and their tables."""

import json
from collections import defaultdict
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ensemble_deid.cli.main import main
from ensemble_deid.corpora.statistics import corpus_statistics, render_statistics
from ensemble_deid.corpora.write import write_corpus
from ensemble_deid.note.document import Document
from ensemble_deid.note.span import Span
from ensemble_deid.note.tags import TagLoss
from tools.variety import Overlap, ngram_overlap

TRAIN = (
    Document(
        "1-01", "Ada saw Ada Lee", (Span(0, 3, "PATIENT"), Span(8, 11, "PATIENT"), Span(12, 14, "X")), "1", site="S"
    ),
    Document("1-02", "May\n3", (Span(0, 5, "DATE"),), "1"),
    Document("free", ""),
)
TEST = (Document("2-01", "Ada Bo May 3", (Span(0, 3, "DOCTOR"), Span(4, 6, "PATIENT"), Span(7, 12, "DATE")), "2"),)


def test_statistics_count_by_hand() -> None:
    found = corpus_statistics(TRAIN)
    assert (found.notes, found.patients, found.sites) == (3, 2, 1)
    assert (found.words, found.tokens, found.characters, found.spans) == (6, 6, 20, 4)
    assert found.words_of_note == (0, 2, 4)
    assert found.phi_per_100_words == pytest.approx(100 * 4 / 6)
    assert [(name, label.spans, label.distinct) for name, label in found.labels.items()] == [
        ("PATIENT", 2, 1),
        ("DATE", 1, 1),
        ("X", 1, 1),
    ]
    assert {name: label.spans for name, label in found.categories.items()} == {"NAME": 2, "(none)": 1, "DATE": 1}
    # "Le" of "Lee" ends inside a token.
    assert found.tokenization == TagLoss(spans=4, cut=1, lost=0)


def test_what_train_has_not_shown() -> None:
    train, test = corpus_statistics(TRAIN), corpus_statistics(TEST)
    # A line break inside the date makes no other string of it; a name known as PATIENT is new as DOCTOR.
    shares = {name: label.unseen_share(train.labels.get(name)) for name, label in test.labels.items()}
    assert shares == {"DATE": 0.0, "DOCTOR": 1.0, "PATIENT": 1.0}
    assert test.categories["NAME"].unseen_share(train.categories["NAME"]) == 0.5
    entry = test.as_dict(known=train)
    assert isinstance(entry["labels"], dict)
    assert entry["labels"]["DATE"] == {"category": "DATE", "spans": 1, "distinct": 1, "unseen_share": 0.0}
    assert "unseen_share" not in json.dumps(train.as_dict())


def test_tables_have_a_group_of_columns_for_each_split() -> None:
    text = render_statistics({"train": corpus_statistics(TRAIN), "test": corpus_statistics(TEST)})
    rows = {line.strip().split("  ")[0]: line.split()[1:] for line in text.splitlines() if line}
    assert rows["patients"] == ["2", "1"]
    assert rows["spans that begin or end inside a token"][-2:] == ["1", "0"]
    assert rows["NAME"] == ["2", "50.0%", "1", "2", "66.7%", "2", "50.0%"]
    assert rows["DOCTOR"] == ["0", "-", "0", "1", "33.3%", "1", "100.0%"]
    assert rows["X"] == ["1", "25.0%", "1", "0", "-", "0", "-"]
    assert rows["all"] == ["4", "100.0%", "3", "3", "100.0%", "3", "33.3%"]
    # A category that is its own type is not told twice.
    assert sum(line.strip().startswith("DATE") for line in text.splitlines()) == 1


def test_statistics_of_nothing() -> None:
    found = corpus_statistics(())
    assert found.phi_per_100_words is None
    assert "Table 2" not in render_statistics({"none": found})


def test_the_command_takes_several_splits(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for name, notes in (("train", TRAIN), ("test", TEST)):
        write_corpus(notes, tmp_path / f"{name}.jsonl", "jsonl")
    names = [str(tmp_path / "train.jsonl"), str(tmp_path / "test.jsonl")]
    out = tmp_path / "stats.json"
    assert main(["corpus", "stats", *names, "--out", str(out)]) == 0
    found = json.loads(out.read_text(encoding="utf-8"))
    assert list(found) == names
    assert found[names[0]]["tokenization"] == {"spans_cut": 1, "spans_lost": 0}
    assert found[names[1]]["labels"]["DOCTOR"]["unseen_share"] == 1.0
    assert main(["corpus", "stats", names[0], names[0]]) == 2
    assert "named twice" in capsys.readouterr().err


def _slow_overlap(notes: list[Document], length: int) -> Overlap:
    grams = {
        note.id: [tuple(words[i : i + length]) for i in range(len(words) - length + 1)]
        for note in notes
        for words in [note.text.split()]
    }
    patients: dict[tuple[str, ...], set[str]] = defaultdict(set)
    for note in notes:
        for gram in grams[note.id]:
            patients[gram].add(note.group)
    shared = {name: sum(len(patients[gram]) > 1 for gram in found) for name, found in grams.items()}
    total = sum(map(len, grams.values()))
    highest, name = max(((shared[n] / len(found), n) for n, found in grams.items() if found), default=(0.0, ""))
    share = sum(shared.values()) / total if total else 0.0
    return Overlap(share, highest, name, sum(count == 0 for count in shared.values()))


@given(st.lists(st.tuples(st.text("ab ", max_size=12), st.sampled_from("123")), max_size=5), st.integers(1, 4))
@settings(max_examples=100)
def test_overlap_is_that_of_the_slow_way(drawn: list[tuple[str, str]], length: int) -> None:
    notes = [Document(f"n{i}", text, patient_id=patient) for i, (text, patient) in enumerate(drawn)]
    fast, slow = ngram_overlap(notes, length=length), _slow_overlap(notes, length)
    assert fast.share == pytest.approx(slow.share)
    assert (fast.highest, fast.highest_note) == (slow.highest, slow.highest_note)
    assert fast.notes_without == slow.notes_without
