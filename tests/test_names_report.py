"""The report on names: whose names stand in a note, in which form, and what of them is counted as found."""

from pathlib import Path

import pytest
from marked_notes import marked_note

from ensemble_deid.note.document import Document
from ensemble_deid.note.folding import fold
from ensemble_deid.surrogates.lists import name_lists
from research import names
from research.__main__ import build_parser

NOTE = marked_note(
    "Seen by Dr. <DOCTOR|Ada M. Strong>, MD on <DATE|4/2/2071>. <PATIENT|STRONG, Rosa> called; <DOCTOR|Strong> agrees."
)


def strings(note: Document) -> list[str]:
    return [note.text[span.start : span.end] for span in sorted(note.spans)]


@pytest.mark.parametrize("origin", names.origins())
def test_each_part_of_a_name_has_one_new_name_of_the_origin(origin: str) -> None:
    doctor, day, patient, again = strings(names.renamed(NOTE, origin))
    given, letter, family = doctor.split(" ")
    assert (day, len(letter), letter[1]) == ("4/2/2071", 2, ".")
    assert patient.split(",")[0] == family.upper()
    assert again == family
    assert "Strong" not in doctor
    if (origin, "S") in name_lists().given_out:
        assert fold(family) in {fold(name) for name in name_lists().given_out[origin, "S"]}
    assert names.renamed(NOTE, origin) == names.renamed(NOTE, origin)
    assert given != names.renamed(NOTE, "turkish").text.split()[3] or origin == "turkish"


@pytest.mark.parametrize(
    ("form", "text"),
    [
        ("as they are", NOTE.text),
        ("titles", "Seen by Dr. Ada M. Strong, MD on 4/2/2071. Ms. STRONG, Rosa called; Dr. Strong agrees."),
        ("no titles", "Seen by Ada M. Strong, MD on 4/2/2071. STRONG, Rosa called; Strong agrees."),
        ("surname alone, no title", "Seen by Strong, MD on 4/2/2071. STRONG called; Strong agrees."),
        ("initials", "Seen by Dr. A. M. Strong, MD on 4/2/2071. STRONG, R. called; Strong agrees."),
        ("capitals", "Seen by Dr. ADA M. STRONG, MD on 4/2/2071. STRONG, ROSA called; STRONG agrees."),
        ("lower case", "Seen by Dr. ada m. strong, MD on 4/2/2071. strong, rosa called; strong agrees."),
    ],
)
def test_forms(form: str, text: str) -> None:
    changed = names.FORMS[form](NOTE)
    assert changed.text == text
    assert [span.label for span in sorted(changed.spans)] == ["DOCTOR", "DATE", "PATIENT", "DOCTOR"]


def test_a_part_is_found_where_spans_cover_it() -> None:
    found = marked_note("Seen by Dr. Ada M. <CITY|Strong>, MD on 4/2/2071. STRON<ID|G, Rosa> called; Strong agrees.")
    figure = names.figure_of("row", [NOTE], [found])
    assert (figure.found, figure.names) == (2, 5)
    assert figure.recall == 2 / 5


def test_the_report(tiny_model: Path, tiny_dev: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "names.md"
    options = build_parser().parse_args(["names", str(tiny_model), str(tiny_dev), "--sample", "2", "--out", str(out)])
    assert options.run(options) == 0
    rows = [line.split("|")[1].strip() for line in out.read_text().splitlines() if line.startswith("|")][2:]
    assert rows == [*names.origins(), *names.FORMS]
    assert "Recall of names in 2 notes" in capsys.readouterr().out
