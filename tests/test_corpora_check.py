"""`corpus check`: everything that is wrong with marked notes, by file, line and column."""

from pathlib import Path

import pytest
from every_command import main

from ensemble_deid.errors import CorpusError
from ensemble_deid.note.span import Span
from tools.note_sources import note_files, read_note_sources
from tools.reserved_values import unreserved_value
from tools.unmarked import unmarked_forms, unmarked_repeats


def note(folder: Path, body: str, *, name: str = "200-01.note", site: str = "S01") -> Path:
    path = folder / name
    path.write_text(f"kind: letter\nsite: {site}\n---\n{body}", encoding="utf-8")
    return path


def test_every_problem_is_listed_in_the_order_of_the_text(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = note(tmp_path, "[[DOCTOR:Ada Quill]] saw Quill.\nAda Quill [[PHONE:212-867-5309]] [[PLACE:x]]\nQuill ]]")
    good = note(tmp_path, "No PHI at all.", name="201-01.note", site="S02")
    assert main(["check", str(tmp_path)]) == 1
    *problems, summary = capsys.readouterr().out.splitlines()
    # "Ada Quill" is told once, not again for each of its words.
    assert [problem.removeprefix(str(path)).split(": ")[0] for problem in problems] == [
        ":4:26",
        ":5:1",
        ":5:11",
        ":5:34",
        ":6:1",
        ":6:7",
    ]
    assert "Quill" not in "".join(problems)
    assert summary == "notes checked: 2, problems: 6"
    assert main(["check", str(good)]) == 0
    assert capsys.readouterr().out == "notes checked: 1, problems: 0\n"


def test_a_broken_head_does_not_hide_what_is_wrong_below(tmp_path: Path) -> None:
    path = tmp_path / "note.note"
    path.write_text("kind: a\n---\n[[DATE:]]\x07", encoding="utf-8")
    problems = read_note_sources([path]).problems
    assert [problem.removeprefix(f"{path}:") for problem in problems] == [
        "1:1: the file's name is not XXX-YY.note (patient, note)",
        "1:1: the head has no site",
        "3:1: an empty mark",
        "3:10: U+0007 cannot be written in XML",
    ]


def test_a_patient_in_two_sites_is_a_problem(tmp_path: Path) -> None:
    paths = [note(tmp_path, "x"), note(tmp_path, "y", name="200-02.note", site="S02")]
    sources = read_note_sources(paths)
    assert [document.id for document in sources.notes] == ["200-01", "200-02"]
    assert sources.problems == [f"{paths[1]}:1:1: the site is S02, but S01 in {paths[0]}: a patient has one site"]


def test_files_and_folders_are_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    second, first = note(tmp_path, "x", name="200-02.note"), note(tmp_path, "x")
    (tmp_path / "notes.txt").write_text("")
    assert note_files([second, tmp_path]) == [second, first]
    for place, message in [("gone", "no such file"), ("notes.txt", "is no .note file")]:
        with pytest.raises(CorpusError, match=message):
            note_files([tmp_path / place])
    assert main(["check", str(tmp_path / "gone")]) == 2
    assert "there is no such file or folder" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("label", "surface"),
    [
        ("PHONE", "(360) 555-0148"),
        ("PHONE", "1-800-555-0100 x12"),
        ("PHONE", "x4471"),
        ("PHONE", "555-0148 ext. 123"),
        ("PHONE", "360-555-0148-22"),
        ("PHONE", "3605550148"),
        ("PHONE", "+52 55 5555 0123"),
        ("PHONE", "01632 960412"),
        ("PHONE", "+44 7700 900123"),
        ("PHONE", "020 7946 0018"),
        ("PHONE", "(07) 5550 0142"),
        ("PHONE", "5550 4882"),
        ("PHONE", "0491 570 156"),
        ("PHONE", "020 913 4567"),
        ("FAX", "+1 360.555.0148"),
        ("EMAIL", "a.b@mail.example.org"),
        ("EMAIL", "A@CLINIC.TEST"),
        ("URL", "https://user@portal.example:8080/a?b"),
        ("URL", "portal.example.com/a"),
        ("IPADDR", "198.51.100.7"),
        ("IPADDR", "10.2.3.4"),
        ("IPADDR", "2001:db8::1"),
        ("SSN", "900-41-7723"),
        ("SSN", "000-41-7723"),
        ("SSN", "7723"),
        ("DATE", "212-867-5309"),
    ],
)
def test_reserved_and_partial_values_pass(label: str, surface: str) -> None:
    assert unreserved_value(label, surface) is None


@pytest.mark.parametrize(
    ("label", "surface"),
    [
        ("PHONE", "(360) 867-5309"),
        ("FAX", "555-867-5309"),
        ("PHONE", "020 7123 4567"),
        ("PHONE", "07911 123456"),
        ("PHONE", "+44 20 7123 0018"),
        ("PHONE", "867-5309 x555"),
        ("EMAIL", "a@gmail.com"),
        ("EMAIL", "a@notexample.com"),
        ("URL", "https://example.com.org/x"),
        ("URL", "https://hospital.org/example.com"),
        ("IPADDR", "8.8.8.8"),
        ("IPADDR", "300.1.1.1"),
        ("SSN", "123-45-6789"),
    ],
)
def test_values_that_could_be_somebodys_are_refused(label: str, surface: str) -> None:
    assert unreserved_value(label, surface)


def test_repeats_are_whole_words_in_the_same_case() -> None:
    text = "Ada May, may; Maya May's ada MAY"
    span = Span(0, 7, "PATIENT")
    assert list(unmarked_repeats(text, [span], excused=())) == [(19, 3, span)]
    assert not list(unmarked_repeats(text, [span], excused=("May",)))


def test_forms_that_are_phi_everywhere() -> None:
    text = "555-0148, 900-41-7723, www.a.example/b 1/2/2090 2090-01-02 but 31/44/71, 1/2, 4-5555-01489, 555-0199"
    found = [(text[start : start + length], label) for start, length, label in unmarked_forms(text, [], excused=())]
    assert found == [
        ("555-0148", "PHONE"),
        ("555-0199", "PHONE"),
        ("900-41-7723", "SSN"),
        ("www.a.example/b", "URL"),
        ("1/2/2090", "DATE"),
        ("2090-01-02", "DATE"),
    ]
    marked = [Span(0, 8, "PHONE")]
    assert next(unmarked_forms(text, marked, excused=("555-0199",)))[2] == "SSN"
