"""What is taken out is gone, what is left is as it was, and each label has the style that was asked for."""

import pickle
import re
import shlex
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from made_keys import KEY, made_key
from marked_notes import marked_note

from ensemble_deid.deidentify.replacement import ReplacedSpan, Replacer
from ensemble_deid.deidentify.replacement.styles import policies
from ensemble_deid.errors import ConfigError
from ensemble_deid.note.document import Document
from ensemble_deid.note.span import Span

LABELS = ("DATE", "DOCTOR", "LOCATION-OTHER")
LABELS_OF_SURROGATES = ("PROFESSION", "CITY", "STATE", "PATIENT", "DATE", "AGE", "IDNUM", "EMAIL")
STYLES = ("tag", "mask", "remove")
_PLAIN = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="§"), max_size=12)
# Every character of PHI is followed by a mark that stands nowhere else, so a single leaked one is seen.
_PHI = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="§"), min_size=1, max_size=8)


@st.composite
def annotated(draw: st.DrawFn) -> tuple[str, list[Span], list[str]]:
    """Return a text, spans in any order that may touch but do not overlap, and the pieces of text between them."""
    pieces = [draw(_PLAIN)]
    text, spans = pieces[0], []
    for surface in draw(st.lists(_PHI, max_size=5)):
        marked = "".join(f"{character}§" for character in surface)
        spans.append(Span(len(text), len(text) + len(marked), draw(st.sampled_from(LABELS)), draw(st.floats(0, 1))))
        pieces.append(draw(_PLAIN))
        text += marked + pieces[-1]
    return text, draw(st.permutations(spans)), pieces


def replaced(text: str, spans: list[Span], style: str) -> str:
    return Replacer.from_options(style, key=KEY).replace(Document("n", text, tuple(spans))).text


@given(annotated(), st.sampled_from(STYLES))
def test_what_is_no_span_is_kept_verbatim(case: tuple[str, list[Span], list[str]], style: str) -> None:
    text, spans, pieces = case
    by_hand = pieces[0]
    for span, piece in zip(sorted(spans), pieces[1:], strict=True):
        surface = text[span.start : span.end]
        by_hand += {
            "tag": f"[{span.label}]",
            "mask": "".join(character if character.isspace() else "X" for character in surface),
            "remove": "",
        }[style] + piece
    assert replaced(text, spans, style) == by_hand


@given(annotated())
def test_no_character_of_a_span_is_left(case: tuple[str, list[Span], list[str]]) -> None:
    text, spans, pieces = case
    styles = (*STYLES, "hash", "numbered", "text:NAME")
    assert "§" not in "".join(replaced(text, spans, style) for style in styles)
    assert replaced(text, spans, "remove") == "".join(pieces)


@pytest.mark.parametrize("style", STYLES)
def test_newlines_around_and_inside(style: str) -> None:
    text = "Anna\r\nBell\n12 Oak\nSt.\r"
    out = replaced(text, [Span(0, 10, "PATIENT"), Span(11, 21, "STREET")], style)
    assert out == {"tag": "[PATIENT]\n[STREET]\r", "mask": "XXXX\r\nXXXX\nXX XXX\nXXX\r", "remove": "\n\r"}[style]


@pytest.mark.parametrize("style", [*STYLES, "surrogate", "numbered"])
@pytest.mark.parametrize(
    "spans", [[Span(0, 3, "DATE"), Span(2, 4, "DATE")], [Span(0, 3, "DATE"), Span(0, 3, "AGE")], [Span(1, 99, "DATE")]]
)
def test_spans_that_cannot_be_taken_out_are_refused(spans: list[Span], style: str) -> None:
    with pytest.raises(ValueError, match=r"overlaps another|reaches outside") as raised:
        replaced("QZJKXW", spans, style)
    assert "QZ" not in str(raised.value)


TEXT = "Ann Poe, Dr. Lee, Ann Poe, Poe, 93, 45, 5/6/1950, 5/6/2014, Monday, Ohio 43004 03601, RN"
NOTE_SPANS = (
    *(
        (0, 7, "PATIENT"),
        (13, 16, "DOCTOR"),
        (18, 25, "PATIENT"),
        (27, 30, "PATIENT"),
        (32, 34, "AGE"),
        (36, 38, "AGE"),
    ),
    *((40, 48, "DATE"), (50, 58, "DATE"), (60, 66, "DATE"), (68, 72, "STATE"), (73, 78, "ZIP"), (79, 84, "ZIP")),
    (86, 88, "PROFESSION"),
)
NOTE = Document("n1", TEXT, tuple(Span(*place) for place in NOTE_SPANS), patient_id="7")


def test_numbers_tell_people_apart_and_part_of_a_name_is_the_person() -> None:
    text = Replacer.from_options("numbered", key=KEY).replace(NOTE).text
    assert text.startswith("[PATIENT-1], Dr. [DOCTOR-1], [PATIENT-1], [PATIENT-1], [AGE-1], [AGE-2], [DATE-1]")


def test_numbers_are_the_same_in_all_notes_of_a_patient() -> None:
    replacer = Replacer.from_options("numbered", key=KEY)
    other = Document("n2", "Poe", (Span(0, 3, "PATIENT"),), patient_id="7")
    taken = {"ann poe", "poe", "lee", "5/6/1950"}
    first, second = (replacer.replace(note, taken=taken).text for note in (NOTE.with_spans(NOTE.spans[:1]), other))
    assert first.startswith(second)


def test_safe_harbor_keeps_what_the_rule_lets_stand() -> None:
    text = Replacer.from_options(policy="safe-harbor", key=KEY).replace(NOTE).text
    assert text == ("[PATIENT], Dr. [DOCTOR], [PATIENT], [PATIENT], 90+, 45, 1950, 2014, [DATE], Ohio 430** 000**, RN")


def test_a_birth_year_that_shows_an_age_over_89_is_no_year_to_keep() -> None:
    note = Document("n", "born 3/1/1919, seen 5/6/2014", (Span(5, 13, "DATE"), Span(20, 28, "DATE")))
    assert Replacer.from_options(policy="safe-harbor", key=KEY).replace(note).text == "born [DATE], seen 2014"
    assert "born [DATE], seen " in Replacer.from_options("surrogate", key=KEY).replace(note).text


def test_a_limited_data_set_keeps_dates_and_places() -> None:
    text = Replacer.from_options(policy="limited-data-set", key=KEY).replace(NOTE).text
    assert text == f"[PATIENT], Dr. [DOCTOR], [PATIENT], [PATIENT]{TEXT[30:]}"


def test_the_nearest_setting_counts() -> None:
    styles = {"NAME": "mask", "DOCTOR": "text:a doctor", "AGE": "keep"}
    text = Replacer.from_options("remove", styles, "safe-harbor", KEY).replace(NOTE).text
    assert text.startswith("XXX XXX, Dr. a doctor, XXX XXX, XXX, 93, 45, 1950, 2014, [DATE], Ohio 430**")
    spanish = Document("n", "Ana Gil", (Span(0, 7, "NOMBRE_SUJETO_ASISTENCIA"),))
    assert Replacer.from_options("tag", {"PATIENT": "text:X"}, key=KEY).replace(spanish).text == "X"


@pytest.mark.parametrize("name", policies())
def test_policies_are_complete_and_say_what_they_are(name: str) -> None:
    Replacer.from_options(policy=name, key=KEY)
    assert policies()[name].read_text(encoding="utf-8").startswith("# ")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"style": "blank"}, "unknown style 'blank'; known: tag, numbered"),
        ({"style": "keep"}, "for single labels only"),
        ({"styles": {"AGE": "blank"}}, r"styles.AGE: unknown style"),
        ({"styles": {"AEG": "keep"}}, r"styles.AEG: there is no such label"),
        ({"policy": "nowhere.toml"}, "nowhere.toml: no such file, and none of the policies everything"),
        ({"settings": {"weeks": True}}, "surrogates.weeks"),
    ],
)
def test_mistakes_are_named(options: dict[str, object], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        Replacer.from_options(**options, key=KEY, labels=["DATE", "AGE"])  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("content", "message"),
    [("styel = 'tag'", "unknown key styel"), ("styles = 3", "must be a table"), ("[", "policy.toml: ")],
)
def test_a_policy_file_with_mistakes_is_refused(tmp_path: Path, content: str, message: str) -> None:
    (tmp_path / "policy.toml").write_text(content, encoding="utf-8")
    with pytest.raises(ConfigError, match=message):
        Replacer.from_options(policy=tmp_path / "policy.toml", key=KEY)


def test_a_policy_file_of_ones_own(tmp_path: Path) -> None:
    content = "style = 'surrogate'\n[styles]\nAGE = 'keep'\n[surrogates]\nwhole_weeks = true\n"
    (tmp_path / "policy.toml").write_text(content, encoding="utf-8")
    replacer = Replacer.from_options(policy=tmp_path / "policy.toml", key=KEY)
    assert "Monday" in replacer.replace(NOTE).text
    assert ", 93, 45, " in replacer.replace(NOTE).text


def test_a_hash_says_the_same_of_the_same_value_only() -> None:
    text = Replacer.from_options("hash", key=KEY).replace(NOTE).text
    first, _, third, fourth = text.split(", ")[:4]
    assert first == third != fourth
    assert text != Replacer.from_options("hash", key=KEY, scope="b").replace(NOTE).text


@pytest.mark.parametrize(
    ("label", "surface", "hidden", "style"),
    [
        ("DATE", "3/14/2019", "3/\u206014/20\u00ad19", "year"),
        ("DATE", "3/14/2019", "3/\u206014/20\u00ad19", "surrogate"),
        ("PATIENT", "Marcia Hidalgo", "Mar\u00adcia Hi\u2060dal\u00adgo\u2060", "surrogate"),
        ("PATIENT", "Marcia Hidalgo", "Mar\u00adcia Hi\u2060dal\u00adgo\u2060", "hash"),
        ("ZIP", "93711", "93\u2060711", "zip3"),
        ("AGE", "93", "9\u20603", "cap-age"),
        ("PHONE", "(202) 456-1414", "(202)\u2060 456-\u00ad1414", "surrogate"),
    ],
)
def test_what_shows_nothing_changes_no_value(label: str, surface: str, hidden: str, style: str) -> None:
    replacer = Replacer.from_options("tag", styles={label: style}, key=KEY)
    first, second = (
        replacer.replace(Document("n", written, (Span(0, len(written), label),))).text for written in (surface, hidden)
    )
    assert first == second != surface


@pytest.mark.parametrize("label", LABELS_OF_SURROGATES)
def test_a_span_of_nothing_that_shows_has_a_tag(label: str) -> None:
    note = Document("n", "a \u00ad b", (Span(2, 3, label),))
    assert Replacer.from_options("surrogate", key=KEY).replace(note).text == f"a [{label}] b"


def test_pseudonyms_keep_integers_integers_and_depend_on_their_kind() -> None:
    replacer = Replacer.from_options(key=KEY)
    number = replacer.pseudonym("17", kind="note")
    assert number == replacer.pseudonym("17", kind="note")
    assert 10**14 <= int(number) < 10**15
    assert number != replacer.pseudonym("17", kind="patient")
    assert replacer.pseudonym("a-17", kind="note").startswith("note-")
    assert len({replacer.pseudonym(str(value), kind="note") for value in range(2000)}) == 2000


def test_the_map_and_other_processes() -> None:
    replacer = Replacer.from_options("tag", key=KEY)
    out = replacer.replace(NOTE.with_spans(NOTE.spans[:2]))
    assert out.spans == (ReplacedSpan(0, 7, 0, 9, "PATIENT", 1.0), ReplacedSpan(13, 16, 15, 23, "DOCTOR", 1.0))
    assert pickle.loads(pickle.dumps(replacer)) == replacer
    assert "Ann" not in repr(out)


GALLERY = (
    "<PATIENT|Ann Poe>, <AGE|93>, of <CITY|Peoria>, <STATE|IL> <ZIP|61602>, "
    "came on <DATE|3/14/2026> for Dr. <DOCTOR|Lee>. "
    "Mrs. <PATIENT|Poe>'s phone: <PHONE|(309) 523-8842>. Back on <DATE|Monday>."
)
_SHOWN = re.compile(r"^`(--[^`]+)`\n\n    (.+)\n", re.MULTILINE)


def options_of(shown: str) -> dict[str, object]:
    """Return the options of the command line as those of `Replacer.from_options`."""
    options: dict[str, object] = {}
    words = shlex.split(shown)
    for name, value in zip(words[::2], words[1::2], strict=True):
        if name == "--set":
            label, style = value.removeprefix("styles.").split("=")
            options["styles"] = {label: style}
        else:
            options[name.removeprefix("--")] = value
    return options


def test_the_gallery_shows_what_the_styles_do() -> None:
    page = (Path(__file__).parents[1] / "docs" / "styles-and-surrogates.md").read_text(encoding="utf-8")
    note = marked_note(GALLERY, patient="7")
    assert f"    {note.text}\n" in page
    shown = dict(_SHOWN.findall(page))
    assert list(shown) == ["--style tag", "--style numbered", "--style surrogate", "--policy safe-harbor"]
    for options, text in shown.items():
        replacer = Replacer.from_options(
            **options_of(options),
            key=made_key("gallery"),
            scope="gallery",  # type: ignore[arg-type]
        )
        assert replacer.replace(note).text == text, options
