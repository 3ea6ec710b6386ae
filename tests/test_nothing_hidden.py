"""Nothing that a note says is hidden from whoever reads it: it is in the reading, or counted as unread."""

import base64
import random
import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ensemble_deid.deidentify.gate import Gate
from ensemble_deid.note.document import Document
from ensemble_deid.note.reading import read

ENGLISH = Gate(("en",), None)
HISTORY = "She has had chest pain on walking uphill since the spring, and it goes away at rest. \n"

# Each holds a word at {}, in a place where some reader of markup shows nothing.
PLACES = [
    "<{}>", "<Mark {}, MD>", "<B {}>", "<p {} DOB>", "<address 12 {}, Boston>", "</p {}>", "</{}>", "<b {}='x'>",
    "<b title={}>", "<td class='{}'>", "<span style='color:{}'>", "<font face={}>", "<p lang='{}' nowrap>", "<br/{}>",
    "<!-- {} -->", "<!DOCTYPE html {}>", '<!DOCTYPE html PUBLIC "-//W3C//DTD HTML 4.0//EN" "{}">', "<b\n{}\n>x</b>",
    "<a href='mailto:{}'>x</a>", "<p data-{}=1>", "&{};", "&#{};", "<{0}>x</{0} {0}>", "<script>{}</script>", "<S {}",
    "{{\\fonttbl{{\\f0 {};}}}}", "{{\\fonttbl{{\\f0 Arial;}}\\pard {}", "{{\\*\\generator {};}}", "{{\\pict {}}}",
    "{{\\stylesheet{{\\s1 {};}}}}", "{{\\info{{\\*\\company {}}}}}", "{{\\*\\unheardof {}}}", "\\{}", "\\{} ",
    "\\u233 {}", "\\uc9\\u233 {}", "\\fonttbl {} \\par", "\\colortbl;{}", "{{\\v {}}}", "\\par{}", "\\'{}",
    "\\b0{}", "\\tab{}\\tab",
    "\\bin {}", "{{\\*\\objdata {}}}", "\\uc0\\u8217{}", "{}=20\n", "T=20\nMRN={}", "a%20b %{}", "={}=\n", "  {}  ",
    "{}\n", "(\u200b{}\u200b)", "\u202e{}\u202c", "\u00ad{}\u2060",
]  # fmt: skip
PLAIN = [
    "Seen on rounds. ",
    "\n",
    "<b>",
    "</b>",
    "<p>",
    "{",
    "}",
    "\\par ",
    "=3D",
    "&amp;",
    "<!--",
    "=\n",
    "Ada%20Strong ",
]
SECRETS = ["Okonkwo", "SMITH", "4821377", "Qz82Vb", "zabriskie"]


def is_read(secret: str, text: str) -> bool:
    """Whether a word is in the reading, forwards or as an override shows it; or the text is not to go out."""
    reading = read(text)
    solid = re.sub(r"[\W_]", "", reading.text).lower()
    return secret.lower() in solid or secret.lower()[::-1] in solid or reading.unread > 0


@pytest.mark.parametrize("secret", SECRETS)
@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("start", ["", "{\\rtf1\\ansi "])
def test_a_word_in_markup_is_read(start: str, place: str, secret: str) -> None:
    assert is_read(secret, f"{start}Seen with {place.format(secret)} on rounds.")


@given(
    st.lists(st.sampled_from([*PLACES, *PLAIN]), max_size=8),
    st.sampled_from(PLACES),
    st.sampled_from(SECRETS),
    st.integers(0, 8),
    st.sampled_from(["", "{\\rtf1 "]),
)
@settings(max_examples=300, deadline=None)
def test_a_word_is_read_whatever_is_around_it(pieces: list[str], place: str, secret: str, at: int, start: str) -> None:
    filled = [piece.format("John") if piece in PLACES else piece for piece in pieces]
    filled.insert(min(at, len(filled)), f" {place.format(secret)} ")
    assert is_read(secret, start + "".join(filled))


@pytest.mark.parametrize(
    "text",
    [
        "Seen with <Mark Jones, MD> on rounds.",
        "cc: <B Jones>, <S Patel MD>, <Mark>, <Li>",
        "<address 12 Elm Street, Boston MA 02115>",
        "<p John Smith DOB 03/04/1950>",
        "Smith &#4821377 and &#48213",
    ],
)
def test_what_is_no_tag_is_its_own_reading(text: str) -> None:
    assert read(text).text == text


@pytest.mark.parametrize(
    ("text", "reading"),
    [
        ("<td nowrap class='label' width=12%>Name</td>", " Name "),
        ("<p style='margin:0in;font-size:11pt;color:#1a2b3c'>Name</p>", "\nName\n"),
        ('<!DOCTYPE html PUBLIC "-//W3C//DTD XHTML 1.0 Strict//EN" '
         '"http://www.w3.org/TR/xhtml1/DTD/xhtml1-strict.dtd"><b/>Name', "\nName"),
        ("<input type=checkbox checked disabled/>Name", " checkbox Name"),
        ("<st1:PersonName w:st='on'>Name</st1:PersonName>", " on Name"),
    ],
)  # fmt: skip
def test_tags_are_left_out(text: str, reading: str) -> None:
    assert read(text).text == reading


def test_rtf_shows_its_words_alone() -> None:
    text = (
        r"{\rtf1\ansi\ansicpg1252\deff0{\fonttbl{\f0\fswiss\fcharset0 Arial;}{\f1 Times New Roman;}}"
        r"{\colortbl ;\red0\green0\blue255;}{\stylesheet{\s0 Normal;}{\s1\b heading 1;}}"
        r"{\*\generator Riched20 10.0.19041;}\viewkind4\uc1\pard\sa200\sl276\f0\fs22 Jos\u233e M\u252?ller \b0 seen}"
    )
    assert read(text).text.split() == "José Müller seen".split()
    dated = r"{\rtf1{\info{\creatim\yr2019\mo3\dy4\hr10\min5}}\pard Seen}"
    assert read(dated).text == "2019-3-4\nSeen"


def noise(size: int) -> bytes:
    return random.Random(7).randbytes(size)


def wrapped(block: str, columns: int, start: str = "") -> str:
    return "\n".join(start + block[k : k + columns] for k in range(0, len(block), columns))


UNREAD = {
    **{f"base64 of {n} columns": wrapped(base64.b64encode(noise(200)).decode(), n) for n in (16, 20, 48, 57, 76)},
    "quoted base64": wrapped(base64.b64encode(noise(200)).decode(), 48, "> "),
    "a dump of bytes": wrapped(noise(80).hex(" "), 48),
    "braille": "".join(chr(0x2800 + 1 + ord(c) % 60) for c in "john smith"),
}


@pytest.mark.parametrize("form", UNREAD)
def test_what_nobody_read_withholds_the_note(form: str) -> None:
    unfit = ENGLISH.check(HISTORY * 20 + UNREAD[form] + "\n" + HISTORY)
    assert unfit is not None
    assert "could not be read" in unfit.reason


@pytest.mark.parametrize(
    "group", ["{\\*\\objdata %s}", "{\\pict\\wmetafile8\\picw10 %s}", "{\\*\\datastore x %s}", "{\\*\\themedata{%s}}"]
)
def test_an_object_in_rtf_withholds_the_note(group: str) -> None:
    text = "{\\rtf1 " + HISTORY * 9 + group % wrapped(noise(500).hex(), 64) + "}"
    reading = read(text)
    assert reading.unread >= 1000
    assert reading.text.split() in ((HISTORY * 9).split(), [*(HISTORY * 9).split(), "x"])
    assert ENGLISH.check(text) is not None
    assert ENGLISH.check("{\\rtf1 " + HISTORY * 9 + group % "" + "}") is None


def test_data_of_word_processors_is_not_read() -> None:
    """Only in the text itself, from which the output leaves it out."""
    data = wrapped(noise(500).hex(), 64)
    text = "{\\rtf1 " + HISTORY * 9 + "{\\*\\themedata " + data + "}{\\*\\datastore \n" + data + "\n}}"
    reading = read(text)
    assert (reading.unread, reading.text.split()) == (0, (HISTORY * 9).split())
    assert ENGLISH.check(text) is None
    assert ENGLISH.check(base64.b64encode(text.encode()).decode()) is not None
    assert read(text.removeprefix("{\\rtf1")).unread > 0


@pytest.mark.parametrize(
    "text",
    [
        "hydrochlorothiazide\nlevothyroxine sodium\nacetylsalicylic acid\nmethylprednisolone\n" * 3,
        "550e8400-e29b-41d4-a716-446655440000\n" * 3,
        " ".join(f"{k:02d}" for k in range(10, 99)),
        "----------------------------------------------------------------\n" * 3,
    ],
)
def test_lists_and_tables_are_no_encodings(text: str) -> None:
    assert read(text).unread == 0


@pytest.mark.parametrize(
    "text", ["\u24ac\u24a3", "\U0001f159\U0001f15e", "\U0001f179\U0001f17e", "\u2811\u2815", "&#74;", "7"]
)
def test_letters_in_disguise_are_letters_to_the_gate(text: str) -> None:
    poor = Gate(("en",), ENGLISH.check(UNREAD["braille"]))
    assert poor.check(text) is not None
    assert poor.check("-" * 200) is poor.check(" .\n__ | == <b></b>") is None


@pytest.mark.parametrize(
    "text", ["\U0001f159\U0001f15e\U0001f157\U0001f15d", "\U0001f179\U0001f17e\U0001f177\U0001f17d"]
)
def test_white_letters_on_black_are_read(text: str) -> None:
    assert read(f"Seen by Dr. {text}").text == "Seen by Dr. JOHN"
    assert read("flag \U000e0061\U000e0062 \u2778").text == "flag ab 3"


def test_a_note_nested_too_deep_is_withheld_however_short() -> None:
    assert ENGLISH.check("Dr &amp;amp;amp;amp;amp;#74;ones") is not None


def test_spans_in_markup_come_back() -> None:
    text = r"{\rtf1{\info{\creatim\yr2019\mo3\dy4\hr10}}\pard <Mark Jones, MD>}"
    note = read(text).document(Document("1", text))
    at = note.text.index("2019-3-4")
    low, high = read(text).original(at, at + 8)
    assert text[low:high] == r"2019\mo3\dy4"
