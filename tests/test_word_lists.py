"""Word lists are read whole or refused with the line at fault, and a pattern file that was read needs them no more."""

import tomllib
from pathlib import Path

import pytest

from ensemble_deid.errors import RuleError
from ensemble_deid.features.patterns import parse_patterns, read_patterns
from ensemble_deid.features.shared_words import inline_word_lists, read_shared_words

RULES = Path(__file__).parents[1] / "rules"
LISTS = sorted((RULES / "words").glob("*.txt"))
PATTERN = "[[pattern]]\nname = 'a'\nlabel = 'CITY'\nregex = 'in ((?&town))\\b'\ngroup = 1\n"


def written(folder: Path, words: str, towns: str = "# source: invented\nBreda\nZeist\n") -> Path:
    """Write a pattern file with this `[words]` entry, and the list that it may name."""
    (folder / "towns.txt").write_text(towns, encoding="utf-8")
    path = folder / "p.toml"
    path.write_text(f"[words]\n{words}\n{PATTERN}", encoding="utf-8")
    return path


def test_a_list_is_read_in_its_order(tmp_path: Path) -> None:
    path = tmp_path / "towns.txt"
    path.write_text("# source: invented\nAda's Hill\nZeist\nÉvora\n", encoding="utf-8")
    assert read_shared_words(path) == ("Ada's Hill", "Zeist", "Évora")  # by code point


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "x.txt:1: expected '# source: ...'"),
        ("Breda\nZeist\n", "x.txt:1: expected '# source: ...'"),
        ("# source: \nBreda\n", "x.txt:1: expected '# source: ...'"),
        ("# source: invented\n", "x.txt: the list has no entries"),
        ("# source: invented\nBreda\n\nZeist\n", "x.txt:3: the line is blank"),
        ("# source: invented\nBreda\n\n", "x.txt:3: the line is blank"),
        ("# source: invented\nBreda\nZeist \n", "x.txt:3: the entry begins or ends with white space"),
        ("# source: invented\nBreda\n# Zeist\n", "x.txt:3: only the first line can be a comment"),
        ("# source: invented\nBre\u200bda\n", "x.txt:2: the entry contains a character that cannot be seen"),
        ("# source: invented\nBreda\nBreda\n", "x.txt:3: the entry repeats the line before it"),
        ("# source: invented\nBreda\nZeist\nVught\n", "x.txt:4: not sorted by code point"),
    ],
)
def test_errors_name_file_and_line(tmp_path: Path, text: str, message: str) -> None:
    path = tmp_path / "x.txt"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(RuleError) as caught:
        read_shared_words(path)
    assert str(caught.value).startswith(f"{tmp_path}/{message}")


def test_a_list_that_is_no_text_file(tmp_path: Path) -> None:
    (tmp_path / "x.txt").write_bytes(b"# source: x\n\xff\n")
    for name, message in (("y.txt", "no such word list"), ("x.txt", "not UTF-8 at byte 12"), (".", "cannot be read")):
        with pytest.raises(RuleError, match=message):
            read_shared_words(tmp_path / name)


def test_what_was_read_needs_the_list_no_more(tmp_path: Path) -> None:
    path = written(tmp_path, 'town = { file = "towns.txt" }', '# source: invented\n"t Harde\nBreda\nZ\\eist\n')
    patterns = read_patterns(path)
    (tmp_path / "towns.txt").unlink()
    for each in (patterns, parse_patterns(patterns.source)):
        assert each.patterns[0].matches('in Breda, in "t Harde, in Z\\eist, in Z eist') == [(3, 8), (13, 21), (26, 32)]


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ('town = { file = "other.txt" }', "other.txt: no such word list"),
        ('town = { file = "towns.txt", verbose = "x" }', "p.toml: [words] town: a word list is named by"),
        ("town = { file = 3 }", "p.toml: [words] town: a word list is named by"),
        ('town.file = "towns.txt"', "p.toml: [words] town: must stand on one line, as town = { file"),
        ('"town" = { file = "towns.txt" }', "p.toml: [words] town: must stand on one line, as town = { file"),
        ("town = { regex = 'x' }", "p.toml: [words] town: expected a list of words"),
        ("town = []", "p.toml: [words] town: expected a list of words"),
        ("town = ", "p.toml: Invalid value"),
    ],
)
def test_errors_name_the_pattern_file_and_the_piece(tmp_path: Path, words: str, message: str) -> None:
    path = written(tmp_path, words)
    with pytest.raises(RuleError) as caught:
        read_patterns(path)
    assert str(caught.value).startswith(f"{tmp_path}/{message}")


def test_words_must_be_a_table(tmp_path: Path) -> None:
    path = tmp_path / "p.toml"
    path.write_text(f"words = 3\n{PATTERN}", encoding="utf-8")
    with pytest.raises(RuleError, match=r"p.toml: \[words\] must be a table"):
        read_patterns(path)
    with pytest.raises(RuleError, match=r"\[words\] must be a table"):
        parse_patterns(path.read_text(encoding="utf-8"))


def test_only_a_file_that_is_read_can_name_a_list() -> None:
    """A model's own text must not send the reader to the installation's files."""
    with pytest.raises(RuleError, match=r"m.toml: \[words\] town: only a pattern file that is read from disk"):
        parse_patterns(f"[words]\ntown = {{ file = 'towns.txt' }}\n{PATTERN}", path="m.toml")


def test_only_the_entry_itself_is_replaced(tmp_path: Path) -> None:
    comment = "# town = { file = 'towns.txt' }\n"
    path = written(tmp_path, f"{comment}town = {{ file = 'towns.txt' }}  # invented")
    source = inline_word_lists(path.read_text(encoding="utf-8"), path)
    assert source == f'[words]\n{comment}town = ["Breda", "Zeist"]  # invented\n{PATTERN}'


@pytest.mark.parametrize("path", LISTS, ids=lambda path: path.stem)
def test_every_list_of_the_project_is_sound_and_says_its_language(path: Path) -> None:
    assert len(read_shared_words(path)) >= 15, "a shorter list stands in the pattern file"
    assert path.stem[:3] in ("en-", "es-")


def test_every_list_of_the_project_is_used_and_no_long_one_is_left_in_a_pattern_file() -> None:
    named = set()
    for path in (RULES / "patterns").glob("*.toml"):
        for value in tomllib.loads(path.read_text(encoding="utf-8"))["words"].values():
            if isinstance(value, dict) and "file" in value:
                named.add((path.parent / value["file"]).resolve())
                assert Path(value["file"]).name.startswith(path.name[:3])
            assert not isinstance(value, list) or len(value) < 15
    assert named == {path.resolve() for path in LISTS}


@pytest.mark.parametrize("path", sorted((RULES / "patterns").glob("*.toml")), ids=lambda path: path.stem)
def test_the_sets_of_the_project_are_self_contained_once_read(path: Path) -> None:
    patterns = read_patterns(path)
    again = parse_patterns(patterns.source, path=str(path))
    assert again == patterns
    assert all(len(line) <= 165 for line in path.read_text(encoding="utf-8").splitlines()), (
        "break long regexes: VERBOSE"
    )
