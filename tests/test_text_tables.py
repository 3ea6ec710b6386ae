"""Tables drawn in a note: which cells share a column, and its heading."""

import re
from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from ensemble_deid.features.columns import line_labels
from ensemble_deid.note.document import Document
from ensemble_deid.note.text_tables import cells_of_tokens, table_cells
from ensemble_deid.note.tokens import tokenize

BOARD = """\
3 LAUREL   Thu 3/12   chg MULLINS

BED   NAME            AGE  MD    RN   COMMENT
----------------------------------------------
L301  BLEVINS, H       77  LAW   TS   home O2
L302  LOONEY, ARTI     64  VAN   TS   outline q shift
L303  -- terminal clean --
L306  FIELDS-O'QUINN, K 22  VAN  RP   OB to see
"""


def columns(text: str) -> dict[str, list[str]]:
    """Return the cells of each column by heading, that of columns without one being their number."""
    found: dict[str, list[str]] = {}
    for cell in table_cells(text):
        found.setdefault(cell.heading or str(cell.column), []).append(text[cell.start : cell.end])
    return found


def test_cells_between_blanks_belong_to_the_column_where_most_cells_begin() -> None:
    found = columns(BOARD)
    assert found["name"] == ["NAME", "BLEVINS, H", "LOONEY, ARTI", "FIELDS-O'QUINN, K 22"]
    assert found["md"] == ["MD", "LAW", "VAN", "VAN"]
    assert found["rn"] == ["RN", "TS", "TS", "RP"]
    assert columns(BOARD.replace("\n", "   \r\n")) == found
    # What comes before an empty line, and a line without cells, are not of the table.
    assert not {"3 LAUREL", "L303"} & {text for texts in found.values() for text in texts}


def test_tabs_bars_and_csv_count_their_columns_and_may_leave_cells_empty() -> None:
    rows = (("time", "nurse", "pain", "drug"), ("0915", "KB", "", "ketamine"), ("0930", "", "4", ""))
    for separator in ("\t", "|", " | ", ";", ","):
        text = "\n".join(separator.join(row) for row in rows)
        expected = {"time": ["time", "0915", "0930"], "nurse": ["nurse", "KB"], "pain": ["pain", "4"]}
        assert columns(text) == expected | {"drug": ["drug", "ketamine"]}, repr(separator)


def test_a_title_may_come_before_the_headings_and_data_are_no_headings() -> None:
    rota = "rota 2\t1\t2093\nday\tdoctor\tx\nMo\tKiser\t-\nTu\tOsborne\t-"
    assert columns(rota)["doctor"] == ["1", "doctor", "Kiser", "Osborne"]
    assert [rota[cell.start : cell.end] for cell in table_cells(rota) if cell.is_heading] == ["day", "doctor", "x"]
    numbers = "1\t12\tKiser\n2\t13\tOsborne\n3\t14\tYoon"
    assert list(columns(numbers)) == ["0", "1", "2"]


def test_prose_short_runs_and_lines_of_other_lengths_are_no_tables() -> None:
    assert not table_cells("Seen today.  Feels well.  No pain.\nHe sleeps.  He eats.\nPlan: rest, walk, eat, sleep.")
    assert not table_cells("a  b  c\nd  e  f")
    assert not table_cells("one, two, three, four\none, two, three, four, five\none, two, three, four")


def test_columns_are_numbered_over_the_tables_of_all_documents() -> None:
    table = "a\tb\tc\nd\te\tf\ng"
    assert not table_cells(table)
    # The last line ends early: the next table's columns still follow the second.
    notes = [
        Document("1", "a\tb\tc\nd\te\tf\ng\t\t\n\nk|l|m\nn|o|p\nq|r|s"),
        Document("2", "a\tb\tc\nd\te\tf\ng\th\ti"),
    ]
    which, cells = cells_of_tokens(notes, tokenize(notes))
    assert [cell.column for cell in cells] == [0, 1, 2, 0, 1, 2, 0, *[3, 4, 5] * 3, *[6, 7, 8] * 3]
    assert (which >= 0).sum() == len(cells)


def test_the_heading_is_the_field_of_a_cell_without_a_label_of_its_own() -> None:
    note = [Document("1", "bed\tnurse\tremark\n1\tKB\tDr: Lee\n2\tRW\t-")]
    tokens = tokenize(note)
    field = dict(zip(tokens.words(note), line_labels(note, tokens)[1], strict=True))
    assert (field["KB"], field["RW"], field["Lee"], field["2"]) == ("nurse", "nurse", "dr", "bed")


@given(st.text(alphabet="a1 \t|;,-\n\u0301é\r\u2003", max_size=200))
def test_cells_are_apart_in_order_and_without_blanks_around(text: str) -> None:
    cells = table_cells(text)
    assert all(before.end <= after.start for before, after in pairwise(cells))
    for cell in cells:
        assert re.fullmatch(r"\S[^\n]*(?<=\S)", text[cell.start : cell.end])
    which, kept = cells_of_tokens([note := Document("1", text)], tokens := tokenize([note]))
    assert which.max(initial=-1) == len(kept) - 1
    for start, index in zip(tokens.start.tolist(), which.tolist(), strict=True):
        assert index < 0 or start < kept[index].end
