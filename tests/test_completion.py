"""Spans that are whole: each rule's example, the examples that were seen, and what holds for any text."""

import re
from collections.abc import Iterable, Sequence
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st
from made_keys import KEY

from ensemble_deid.deidentify.repeats import PatientStrings
from ensemble_deid.deidentify.replacement import Replacer
from ensemble_deid.note.completion import RULES, Completion
from ensemble_deid.note.completion import complete as complete_for
from ensemble_deid.note.document import Document
from ensemble_deid.note.labels import I2B2_CATEGORIES, I2B2_TYPES
from ensemble_deid.note.span import Span
from ensemble_deid.note.tokens import tokenize


def complete(text: str, spans: Iterable[Span], rules: Sequence[Completion] = RULES) -> tuple[Span, ...]:
    """Complete the spans of a model that finds all types of i2b2."""
    return complete_for(text, spans, I2B2_TYPES, rules)


def marked(text: str, label: str = "DATE", score: float = 0.9) -> tuple[str, list[Span]]:
    """Return a text without its brackets, and a span for each pair of them."""
    plain, spans, opened = "", [], 0
    for character in text:
        if character == "[":
            opened = len(plain)
        elif character == "]":
            spans.append(Span(opened, len(plain), label, score))
        else:
            plain += character
    return plain, spans


def shown(text: str, label: str) -> str:
    """Return a text with its spans, which are in brackets, completed, and in brackets again."""
    plain, spans = marked(text, label)
    for span in reversed(complete(plain, spans)):
        plain = f"{plain[: span.start]}[{plain[span.start : span.end]}]{plain[span.end :]}"
    return plain


def labels_of(rule: Completion) -> list[str]:
    return [label for name in rule.labels for label in I2B2_CATEGORIES.get(name, (name,))]


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.name)
def test_example(rule: Completion) -> None:
    before, after = rule.example
    assert before != after
    assert marked(before)[0] == marked(after)[0]
    for label in labels_of(rule):
        text, spans = marked(before, label)
        whole = [(span.start, span.end) for span in marked(after, label)[1]]
        for rules in (RULES, [rule]):
            assert [(span.start, span.end) for span in complete(text, spans, rules)] == whole, label
    if rule.side != "alone":
        text, spans = marked(before, "OWN")
        assert complete(text, spans, [rule]) == tuple(spans)


@pytest.mark.parametrize(
    ("label", "text", "whole"),
    [
        ("AGE", "a woman in her [70]s", "a woman in her [70s]"),
        ("DATE", "a woman in her early [70]'s", "a woman in her early [70's]"),
        ("AGE", "a [2].5-year-old boy", "a [2.5]-year-old boy"),
        ("AGE", "a [2].[5]-year-old boy", "a [2.5]-year-old boy"),
        ("AGE", "a 2-week-old girl", "a [2]-week-old girl"),
        ("AGE", "walked at one year of age", "walked at [one] year of age"),
        ("AGE", "a 2-week-long trip, glasses two years old", "a 2-week-long trip, glasses two years old"),
        ("PHONE", "call [555-555-0142] x4471 today", "call [555-555-0142] [x4471] today"),
        ("PHONE", "call [(555) 555-0142], ext. 4471", "call [(555) 555-0142], ext. [4471]"),
        ("PHONE", "call [555-0142] [x4471]", "call [555-0142] [x4471]"),
        ("DATE", "seen [March 3], 2000", "seen [March 3, 2000]"),
        ("DATE", "seen [3/3]/2000 and [March] of 2000", "seen [3/3/2000] and [March of 2000]"),
        ("DATE", "seen [March 3]. 2000 mL were given", "seen [March 3]. 2000 mL were given"),
        ("DATE", "seen [March 3], 2000-2100 h", "seen [March 3], 2000-2100 h"),
        ("DATE", "surgery in 2000. Fluid in 2000 mL, in 2000 h", "surgery in [2000]. Fluid in 2000 mL, in 2000 h"),
        ("DOCTOR", "DOB [MM]/[DD]/YYYY", "DOB MM/DD/YYYY"),
        ("DOCTOR", "(YYYY-[MM]-DD) by [MM]/[DD]", "(YYYY-MM-DD) by [MM]/[DD]"),
        ("HOSPITAL", "at [Riverbend] Oncology in May", "at [Riverbend Oncology] in May"),
        ("HOSPITAL", "the [Lakeland] Medical Group", "the [Lakeland Medical Group]"),
        ("HOSPITAL", "at [Greenfield] Cancer Center in May", "at [Greenfield Cancer Center] in May"),
        ("HOSPITAL", "at [Riverbend]. Oncology saw him", "at [Riverbend]. Oncology saw him"),
        ("HOSPITAL", "the [Dana Point Institute] (DPI)", "the [Dana Point Institute] ([DPI])"),
        ("DOCTOR", "Dr. van der [Berg] and [Maartje] van Veen", "Dr. [van der Berg] and [Maartje van Veen]"),
        ("PATIENT", "told [Jess] I came", "told [Jess] I came"),
        ("PATIENT", "told [Jess]'s wife", "told [Jess]'s wife"),
        ("PATIENT", "MSH|^~\\&\rPID|||30433960||AKÇA^T^T||", "MSH|^~\\&\rPID|||30433960||[AKÇA^T^T]||"),
        ("PATIENT", "PID|866|SURESH^MASON^R||02/04/2061|M|E4", "PID|866|SURESH^MASON^R||02/04/2061|M|E4"),
        ("PATIENT", "Dr. [Ülkü] Ş", "Dr. [Ülkü] Ş"),
        ("DOCTOR", "seen by van der [Öztürk]", "seen by [van der Öztürk]"),
        ("DATE", "5/5 at 1400; 15/20 1400; Thu 8/24 1030", "5/5 at 1400; 15/20 1400; Thu 8/24 1030"),
        ("DOCTOR", "by [OTT],RN and [OTT],DON", "by [OTT],RN and [OTT,DON]"),
        ("DATE", "power 5/5; 16/11 0930 fed", "power 5/5; [16/11] 0930 fed"),
        ("DOCTOR", "by\t[Bhatt\tToby]\tok", "by\t[Bhatt]\t[Toby]\tok"),
        ("PATIENT", "[Reinsch</fam><giv>Baby]</giv>", "[Reinsch]</fam><giv>[Baby]</giv>"),
        ("PATIENT", "for [<hw> Tarver]", "for [<hw> Tarver]"),
        ("DATE", "at [208412040648]", "at [20841204]0648"),
        ("IDNUM", "at [208412040648]", "at [208412040648]"),
        ("DATE", "no [201345678901]", "no [201345678901]"),
        ("PHONE", "dial [nine one one] or [five nine one one]", "dial nine one one or [five nine one one]"),
    ],
)  # fmt: skip
def test_seen(label: str, text: str, whole: str) -> None:
    assert shown(text, label) == whole


def test_the_rest_of_a_word_needs_even_odds() -> None:
    text = "Dr. K1ttredge"
    assert complete(text, [Span(4, 5, "DOCTOR", 0.49)]) == (Span(4, 5, "DOCTOR", 0.49),)
    assert complete(text, [Span(4, 5, "DOCTOR", 0.5)]) == (Span(4, 13, "DOCTOR", 0.5),)


def test_a_higher_score_takes_what_a_lower_one_had() -> None:
    text = "on March 3, 2000 he"
    day, year = Span(3, 10, "DATE", 0.9), Span(12, 16, "DATE", 0.4)
    assert complete(text, [day, year]) == (Span(3, 16, "DATE", 0.9),)
    other = Span(12, 16, "IDNUM", 0.95)
    assert complete(text, [day, other]) == (day, other)


WORDS = (
    "March 3 , 2000 [70] s 2 .5 -year-old in since her MM/DD/YYYY x4471 ext. 555-0142 one fifty nine twenty third of "
    "Center Oncology HOSPITAL clinic ( DPI ) van der Berg Jess P sphiwe d ^S D. K1t tredge -on- Mooi oh two double E9G "
    "0K4 AMSH/0072 PID|||||A^Ö| NK1| Sat 3/12 1400 's ,DON OTT plot apt Ülkü week of age , Tuesday \n \t  \u2028"
).split(" ")
LABELS = [label for labels in I2B2_CATEGORIES.values() for label in labels] + ["FECHAS", "OWN"]


@st.composite
def notes(draw: st.DrawFn) -> tuple[str, tuple[Span, ...]]:
    """A text of such words, and spans over whole tokens that do not overlap."""
    words = draw(st.lists(st.sampled_from(WORDS), min_size=1, max_size=14))
    text = "".join(word + draw(st.sampled_from(["", " ", " ", " ", "\n"])) for word in words)
    table = tokenize([Document("n", text)])
    starts, ends = table.start.tolist(), table.end.tolist()
    spans, at = [], 0
    while at < len(starts):
        size = min(draw(st.sampled_from([0, 0, 1, 2])), len(starts) - at)
        if size and table.line[at] == table.line[at + size - 1]:
            label, score = draw(st.sampled_from(LABELS)), draw(st.sampled_from([0.1, 0.4, 0.6, 0.9]))
            spans.append(Span(starts[at], ends[at + size - 1], label, score))
        at += max(size, 1)
    return text, tuple(spans)


def covered(text: str, spans: tuple[Span, ...]) -> set[int]:
    return {place for span in spans for place in range(span.start, span.end) if text[place].isalnum()}


@given(notes())
def test_what_holds_for_any_text(note: tuple[str, tuple[Span, ...]]) -> None:
    text, spans = note
    whole = complete(text, spans)
    assert complete(text, whole) == whole == tuple(sorted(whole))
    assert all(one.end <= other.start for one, other in pairwise(whole))
    table = tokenize([Document("n", text)])
    starts, ends = set(table.start.tolist()), set(table.end.tolist())
    for span in whole:
        assert (span.start in starts, span.end in ends) == (True, True)
        assert len(text[span.start : span.end].splitlines()) == 1
    templates = covered(text, tuple(Span(*m.span(), "DATE") for m in re.finditer("MM/DD/YYYY", text)))
    assert covered(text, spans) - templates <= covered(text, whole)
    for threshold in (0.3, 0.5, 0.7):
        above = tuple(span for span in spans if span.score >= threshold)
        then = tuple(span for span in whole if span.score >= threshold)
        assert covered(text, complete(text, above)) == covered(text, then)


def searched(*texts: str, label: str = "DOCTOR", score: float = 0.9) -> list[list[str]]:
    """Return the texts of the spans after the repeats, of notes of one patient that are marked by brackets."""
    found = [Document(f"n{k}", *marked(text, label, score), patient_id="7") for k, text in enumerate(texts)]
    strings = PatientStrings()
    whole = [note.with_spans(complete(note.text, note.spans)) for note in found]
    for note in whole:
        strings.add(note)
    return [[note.text[s.start : s.end] for s in strings.of(note).search(note).spans] for note in whole]


def test_an_abbreviation_in_brackets_is_found_in_the_next_sentence_and_note() -> None:
    found = searched("To [Dana Point Institute] (DPI). At DPI she fell.", "DPI called.", label="HOSPITAL")
    assert found == [["Dana Point Institute", "DPI", "DPI"], ["DPI"]]


def test_initials_are_repeated_where_they_are_sure() -> None:
    assert searched("given by [KB]", "1625 KB patent, KBC, kb") == [["KB"], ["KB"]]
    assert searched("given by [KB]", "1625 KB patent", score=0.49) == [["KB"], []]
    assert searched("in [GA]", "1625 GA", label="STATE") == [["GA"], []]


def test_a_year_that_joins_its_date_is_shifted_with_it() -> None:
    surrogates = Replacer.from_options("surrogate", key=KEY)
    made = []
    for text in ("Seen [March 3], 2000.", "Seen [March 3, 2000]."):
        plain, spans = marked(text)
        note = Document("n1", plain, complete(plain, spans), patient_id="7")
        made.append(surrogates.replace(note).text)
    assert made[0] == made[1] != "Seen March 3, 2000."


def test_a_model_finds_no_other_labels_than_its_own() -> None:
    text = "A 2-week-old, surgery in 2000."
    assert {span.label for span in complete(text, [])} == {"AGE", "DATE"}
    assert [span.label for span in complete_for(text, [], ["AGE", "PATIENT"])] == ["AGE"]
    assert complete_for(text, [], ["PHI"]) == ()


def test_spanish_spans_stay_as_they_are() -> None:
    text = "Remitido por: Maria J de la Torre y 14 mars 2019 Hospital"
    spans = (Span(14, 19, "NOMBRE_PERSONAL_SANITARIO", 0.9), Span(44, 48, "FECHAS", 0.9))
    assert complete_for(text, spans, ["NOMBRE_PERSONAL_SANITARIO", "FECHAS"]) == spans
