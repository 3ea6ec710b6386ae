"""Public lists as columns: against a slow and obvious look-up, hidden entries, own lists, damaged tables."""

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tiny_notes import PATTERNS

from ensemble_deid.config import Config
from ensemble_deid.errors import RuleError
from ensemble_deid.features.batch import plain_batch, training_view
from ensemble_deid.features.knowledge import is_hidden, read_knowledge, read_word_list
from ensemble_deid.model.feature_extractor import load_knowledge, reload_knowledge
from ensemble_deid.note.document import Document
from ensemble_deid.note.folding import unaccented
from ensemble_deid.resources import rules_directory
from ensemble_deid.word_tables import PhraseTable, is_listed

PLACES = ("ann arbor", "ann", "new york", "york", "new york city hall park")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    write(tmp_path / "given.words", "ann\t7\nzoe\t3\n")
    write(tmp_path / "place.phrases", "".join(f"{place}\n" for place in PLACES))
    return tmp_path


def write(path: Path, text: str) -> None:
    path.write_bytes(text.encode("utf-8"))


def columns(folder: Path, text: str, **options: object) -> dict[str, list[str]]:
    batch = plain_batch([Document("a", text)], patterns=PATTERNS, split_lines=True, knowledge=read_knowledge(folder))
    return {name: batch.table[name].strings() for name in batch.table.names if name.startswith("knowledge")}


def test_words_are_looked_up_without_case_and_accents(folder: Path) -> None:
    assert columns(folder, "Zoë, ANN and Bob")["knowledge_given"] == ["3", "-", "7", "-", "-"]


def test_the_longest_phrase_is_matched_and_lower_case_is_told(folder: Path) -> None:
    found = columns(folder, "New York City, ann arbor\nYork")["knowledge_place"]
    assert found == ["B", "I", "-", "-", "b", "i", "B"]


def test_a_phrase_does_not_cross_documents(folder: Path) -> None:
    documents = [Document("a", "New"), Document("b", "York")]
    batch = plain_batch(documents, patterns=PATTERNS, split_lines=True, knowledge=read_knowledge(folder))
    assert batch.table["knowledge_place"].strings() == ["-", "B"]


@settings(max_examples=60)
@given(st.lists(st.sampled_from("new york city hall park ann arbor x".split()), max_size=12), st.booleans())
def test_matches_are_those_of_a_slow_search(words: list[str], hidden: bool) -> None:
    from ensemble_deid.features.knowledge import _matches

    table = PhraseTable.of(PLACES, longest=8)
    expected, row = [], 0
    while row < len(words):
        sizes = [k for k in range(1, 9) if row + k <= len(words) and " ".join(words[row : row + k]) in PLACES]
        sizes = [k for k in sizes if not (hidden and is_hidden(" ".join(words[row : row + k])))]
        size = max(sizes, default=0)
        expected += [1] + [2] * (size - 1) if size else [0]
        row += max(1, size)
    assert _matches(table, words, [0, len(words)], hidden=hidden).tolist() == expected


def test_training_does_not_see_a_third_of_the_entries(tmp_path: Path) -> None:
    names = [f"name{chr(97 + k // 26)}{chr(97 + k % 26)}" for k in range(600)]
    letters = [name.replace("name", "q") for name in names]
    write(tmp_path / "given.words", "".join(f"{name}\t5\n" for name in sorted(set(letters))))
    text = " ".join(letters)
    batch = plain_batch(
        [Document("a", text)],
        patterns=PATTERNS,
        split_lines=True,
        knowledge=read_knowledge(tmp_path),
        for_training=True,
    )
    assert batch.table["knowledge_given"].strings() == ["5"] * len(letters)
    seen = training_view(batch).table["knowledge_given"].strings()
    assert seen == ["-" if is_hidden(name) else "5" for name in letters]
    assert 0.25 < seen.count("-") / len(seen) < 0.42


def test_own_lists_are_columns(folder: Path, tmp_path: Path) -> None:
    path = tmp_path / "staff.txt"
    path.write_text("# our ward\nNurse Joy\n\nWú\n", encoding="utf-8")
    knowledge = read_knowledge(folder, (("staff", read_word_list(path)),))
    batch = plain_batch([Document("a", "nurse Joy, Wu")], patterns=PATTERNS, split_lines=True, knowledge=knowledge)
    assert batch.table["knowledge_staff"].strings() == ["b", "i", "-", "B"]


def test_a_list_hides_no_other(folder: Path, tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("Joy\n", encoding="utf-8")
    entries = read_word_list(tmp_path / "a.txt")
    for own in ((("staff", entries), ("staff", entries)), (("given", entries),)):
        with pytest.raises(RuleError, match=f"text.word_lists: {own[0][0]}: there is another list, or a table"):
            read_knowledge(folder, own)
    for entry in ("a.txt", "=a.txt", "a b=a.txt", "a="):
        with pytest.raises(RuleError, match="expected NAME=FILE"):
            load_knowledge(Config(text={"word_lists": [entry]}), "en")


@pytest.mark.parametrize(
    "content",
    [b"\n", b"ann\t7\n\n", b"\xff\t7\n", b"ann 7\n", b"ann\t0\n"],
    ids=["a line end", "blank line", "not UTF-8", "without a tab", "out of range"],
)
def test_a_damaged_table_is_one_error_that_names_it(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "given.words").write_bytes(content)
    with pytest.raises(RuleError, match=r"given\.words: "):
        read_knowledge(tmp_path)


def test_a_model_reads_the_tables_it_was_trained_with_and_none_that_came_later(folder: Path) -> None:
    config = Config.model_validate({"text": {"knowledge": str(folder)}})
    recorded = read_knowledge(folder).to_json()
    write(folder / "drug.words", "zoe\t2\n")
    assert reload_knowledge(recorded, config=config).to_json() == recorded
    (folder / "given.words").unlink()
    read_knowledge.cache_clear()
    with pytest.raises(RuleError, match="not the ones"):
        reload_knowledge(recorded, config=config)


def test_the_shipped_tables_know_common_names_and_not_common_words() -> None:
    knowledge = read_knowledge(rules_directory() / "knowledge" / "en")
    assert knowledge.words["given"]["maria"] >= 7
    assert knowledge.words["surname"]["nguyen"] >= 5
    assert knowledge.words["english"]["patient"] >= 5
    assert "nguyen" not in knowledge.words["english"]
    assert {"tylenol", "lyrica", "soma", "prednisone"} <= set(knowledge.words["drug"])
    assert ("bell", "palsy") in knowledge.phrases["clinical"].by_first_word(["bell"])["bell"]
    assert ("new", "york") in knowledge.phrases["place"].by_first_word(["new"])["new"]
    assert unaccented("Éire".lower()) == "eire"


def test_building_without_the_sources_names_the_extra(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    from every_command import main

    from tools import knowledge_build

    assert "no-such-list" not in knowledge_build.SOURCES
    status = main(["knowledge", "build", "--out", str(tmp_path / "out"), "--scowl", str(tmp_path)])
    said = capsys.readouterr().err
    assert status == 2
    assert "pip install 'ensemble_deid[knowledge]'" in said or "apt-get install scowl" in said
    assert not (tmp_path / "out").exists()


def test_a_table_too_large_is_refused_and_an_empty_one_holds_nothing(folder: Path) -> None:
    (folder / "rare.words").touch()
    assert len(read_knowledge(folder).words["rare"]) == 0
    read_knowledge.cache_clear()
    with (folder / "large.words").open("wb") as stream:
        stream.truncate(100_000_001)
    with pytest.raises(RuleError, match=r"large\.words: larger than 100,000,000 bytes"):
        read_knowledge(folder)


def test_a_last_line_without_an_end_counts(folder: Path) -> None:
    (folder / "given.words").write_text("ann\t7\nzoe\t3", encoding="utf-8")
    assert dict(read_knowledge(folder).words["given"]) == {"ann": 7, "zoe": 3}


def test_phrases_asked_for_again_are_those_found_first(monkeypatch: pytest.MonkeyPatch) -> None:
    table = PhraseTable.of(["new", "new york", "new york city", "york"], longest=2)
    new = {("new",), ("new", "york")}
    for _ in range(2):
        found = table.by_first_word(["york", "boston", "new", "new"])
        assert found == {"york": {("york",)}, "new": new}
        assert table.by_first_word(["new"]) == {"new": new}
    assert table.by_first_word([]) == {}
    monkeypatch.setattr("ensemble_deid.word_tables._MOST_WORDS", 0)
    assert PhraseTable.of(["ann arbor"], longest=2).by_first_word(["ann"]) == {"ann": {("ann", "arbor")}}


def test_a_list_of_a_users_own_may_be_edited_while_it_is_used(folder: Path) -> None:
    table = read_knowledge(folder).words["given"]
    (folder / "given.words").write_text("", encoding="utf-8")
    assert dict(table) == {"ann": 7, "zoe": 3}


def test_words_are_looked_up_on_several_lists() -> None:
    assert is_listed("prednisone", "english", "drug")
    assert not is_listed("prednisone", "given", "surname")
