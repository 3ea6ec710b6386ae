"""Templates of sentences, the patterns made of them, and what a harvest keeps."""

import itertools

import pytest
import tiny_stack
from hypothesis import given
from hypothesis import strategies as st

from ensemble_deid.errors import CorpusError, RuleError
from ensemble_deid.features.pattern_text import check_pattern, failed_examples, patterns_text
from ensemble_deid.features.patterns import Pattern, PatternSet, find_all, parse_patterns
from ensemble_deid.model.additions import parse_inclusion_list
from ensemble_deid.note.document import Document
from ensemble_deid.note.span import Span
from ensemble_deid.training.harvest import (
    HarvestLimits,
    PatternHits,
    count_hits,
    frequent_sentences,
    harvest_patterns,
    inclusion_effect,
)
from ensemble_deid.training.sentence_templates import in_words, patterns_of, templates_of

FEW = HarvestLimits(patients=3, occurrences=3)


def signed(patient: str, surname: str = "LEE", *, label: str = "DOCTOR") -> Document:
    return tiny_stack.note(
        f"note of {patient}", "Signed: ", (surname, label), ", MD on ", ("03/04/2020", "DATE"), ".\n", patient=patient
    )


def test_a_sentence_has_a_syntax_template_and_a_phi_template() -> None:
    ((syntax, slots),) = templates_of(signed("a", "O'Brien-McDonald"))
    assert in_words(syntax) == "Signed: W'W-W, MD on N/N/N."
    assert [slot.label for slot in slots] == ["DOCTOR", "DATE"]
    ((mixed, _),) = templates_of(tiny_stack.note("x", "MRN: ", ("AB12C 7", "MEDICALRECORD")))
    assert in_words(mixed) == "MRN: A N"


@pytest.mark.parametrize(
    "document",
    [
        Document("cuts a word", "Dr. Lee", (Span(4, 6, "DOCTOR"),)),
        Document("crosses a line", "Dr. Lee\nMay", (Span(4, 11, "DOCTOR"),)),
        Document("overlaps", "Dr. Ann Lee", (Span(4, 11, "DOCTOR"), Span(8, 11, "PATIENT"))),
        Document("touches a word", "x12", (Span(1, 3, "ID"),)),
        Document("no PHI", "Dr. Lee"),
        Document("empty", ""),
    ],
    ids=lambda document: document.id,
)
def test_sentences_without_clear_phi_have_no_template(document: Document) -> None:
    assert list(templates_of(document)) == []


WORDS = st.sampled_from(
    ["Signed", "by", "Dr", "of", "ward", "MRN", "é", "(", ")", ":", ",", "7", "12", "+", "[x]", "?"]
)
PHI = st.sampled_from(["Lee", "McDonald", "Ann Lee", "AB-12", "03/04/2020", "Zoë", "O'Brien", "7", "A1"])
GAPS = st.sampled_from([" ", "  ", "\t"])
PARTS = st.lists(st.tuples(WORDS | st.tuples(PHI, st.sampled_from(["DATE", "NAME"])), GAPS), min_size=1, max_size=8)


def put_together(parts: list[tuple[str | tuple[str, str], str]]) -> Document:
    return tiny_stack.note("made", *itertools.chain.from_iterable(parts))


@given(PARTS)
def test_the_patterns_of_a_template_find_its_own_phi(parts: list[tuple[str | tuple[str, str], str]]) -> None:
    document = put_together(parts)
    gold = {span.key for span in document.spans}
    for syntax, slots in templates_of(document):
        patterns = patterns_of(syntax, slots, confidence=0.75)
        found = find_all(PatternSet("", patterns, ""), document)
        # The sentence itself is found again: every slot of the template is one of the annotated spans.
        assert {span.source for span in found} == {pattern.name for pattern in patterns}
        assert {span.key for span in found} & gold
        assert [problem for pattern in patterns for problem in failed_examples(pattern)] == []


@given(PARTS, PARTS)
def test_what_a_pattern_matches_has_the_same_template(
    parts: list[tuple[str | tuple[str, str], str]], others: list[tuple[str | tuple[str, str], str]]
) -> None:
    """A pattern that matches a whole other sentence finds PHI between the same words."""
    other = put_together(others)
    for syntax, slots in templates_of(put_together(parts)):
        literals = [item.text for item in syntax if item.text]
        for pattern in patterns_of(syntax, slots):
            for match in pattern.regex.finditer(other.text):
                places = [match[0].find(text) for text in literals]
                assert -1 not in places


def content(pattern: Pattern) -> tuple[object, ...]:
    """Return what a pattern is: compiled expressions are equal only as long as the library keeps the first one."""
    rest = (pattern.group, pattern.positive, pattern.negative, pattern.confidence)
    return (pattern.name, pattern.label, pattern.regex.pattern, pattern.regex.flags, *rest)


@given(PARTS)
def test_patterns_survive_being_written_and_read(parts: list[tuple[str | tuple[str, str], str]]) -> None:
    patterns = [p for syntax, slots in templates_of(put_together(parts)) for p in patterns_of(syntax, slots)]
    distinct = {pattern.name: pattern for pattern in patterns}.values()
    if distinct:
        again = parse_patterns(patterns_text(distinct, name="a", description="b\n'c'\x7f")).patterns
        assert list(map(content, again)) == list(map(content, distinct))


def test_flags_groups_and_confidence_are_written() -> None:
    source = """
        [[pattern]]
        name = "it's"
        label = "AGE"
        regex = '''(age) (?P<n>\\d+) # 'years'
        '''
        flags = ["IGNORECASE", "VERBOSE"]
        group = 2
        confidence = 1
        positive = ["age«41»"]
        negative = ["a \\"page\\""]
    """
    patterns = parse_patterns(source).patterns
    again = parse_patterns(patterns_text(patterns, name="n", description="d")).patterns
    assert list(map(content, again)) == list(map(content, patterns))
    assert patterns[0].confidence == 1


@pytest.mark.parametrize("value", ["1.5", "-0.1", "'high'", "true", "nan"])
def test_a_confidence_is_a_probability(value: str) -> None:
    with pytest.raises(RuleError, match="'confidence' must be a number from 0 to 1"):
        parse_patterns(f"[[pattern]]\nname='a'\nlabel='AGE'\nregex='x'\nconfidence={value}")


def test_slow_patterns_and_false_examples_are_refused() -> None:
    slow, wrong = parse_patterns(
        "[[pattern]]\nname='slow'\nlabel='AGE'\nregex='(?:a|aa|a)+[bc]'\n"
        "[[pattern]]\nname='wrong'\nlabel='AGE'\nregex='x'\npositive=['«y»']"
    ).patterns
    with pytest.raises(RuleError, match="slow: takes more than"):
        check_pattern(slow)
    with pytest.raises(RuleError, match="wrong: positive example 1"):
        check_pattern(wrong)


def test_harvest_keeps_a_template_with_one_phi_template() -> None:
    documents = [signed(patient, name) for patient, name in zip("abcd", ("LEE", "Diaz", "Bell", "Ito"), strict=True)]
    harvest = harvest_patterns(documents, FEW)
    assert [(t.patients, t.occurrences) for t in harvest.templates] == [(4, 4)]
    assert [pattern.label for pattern in harvest.patterns] == ["DOCTOR", "DATE"]
    # Each patient is held out once, and both spans of the note are found.
    assert harvest.elsewhere == PatternHits(8, 8)
    assert {pattern.confidence for pattern in harvest.patterns} == {0.9}
    read = parse_patterns(harvest.text(name="notes"))
    assert read.patterns == harvest.patterns
    assert not any(name in harvest.text(name="notes") for name in ("LEE", "Diaz", "Bell", "Ito", "2020"))


@pytest.mark.parametrize("word", ["Patient\u2019s", "con\ufb01rmed", "see\u200bn"])
def test_templates_are_refuted_in_the_form_in_which_they_are_used(word: str) -> None:
    """A pattern is read from its file with plain apostrophes and the like, as notes are."""
    documents = [
        tiny_stack.note(
            f"note of {p}", f"{word} plan by ", ("Ada Bell", "DOCTOR"), f"\n{word} plan by bed rest\n", patient=p
        )
        for p in "abcd"
    ]
    harvest = harvest_patterns(documents, FEW)
    assert (harvest.templates, harvest.refuted) == ((), 1)
    clear = [
        tiny_stack.note(f"note of {p}", f"{word} plan by ", ("Ada Bell", "DOCTOR"), ".\n", patient=p) for p in "abcd"
    ]
    harvest = harvest_patterns(clear, FEW)
    read = parse_patterns(harvest.text(name="notes")).patterns
    assert count_hits(read, clear) == count_hits(harvest.patterns, clear) == {read[0].name: PatternHits(4, 4)}
    check_pattern(read[0])


def test_a_remark_may_hold_what_a_comment_may_not() -> None:
    harvest = harvest_patterns(
        [tiny_stack.note(f"note of {p}", "Signed \x07 by ", ("Ada Bell", "DOCTOR"), ".\n", patient=p) for p in "abcd"],
        FEW,
    )
    assert parse_patterns(harvest.text(name="notes")).patterns == harvest.patterns


def test_ambiguous_rare_and_refuted_templates_are_left_out() -> None:
    same = [signed(patient) for patient in "abcd"]
    ambiguous = harvest_patterns([*same, signed("e", label="PATIENT")], FEW)
    assert (ambiguous.templates, ambiguous.ambiguous) == ((), 1)
    assert harvest_patterns(same[:2], FEW).templates == ()
    # Four notes of one patient are no four patients.
    assert harvest_patterns([signed("a")] * 4, FEW).templates == ()
    # Annotated elsewhere as nothing: the sentence has no template then, but the regex matches it.
    refuted = harvest_patterns([*same, signed("e").with_spans(())], FEW)
    assert (refuted.templates, refuted.refuted) == ((), 1)
    with pytest.raises(CorpusError, match="notes: no sentence"):
        refuted.text(name="notes")


def test_a_template_without_a_word_is_too_general() -> None:
    notes = [tiny_stack.note(p, ("Lee", "PATIENT"), ": ", ("12", "AGE"), patient=p) for p in "abcd"]
    assert harvest_patterns(notes, FEW).templates == ()


def test_precision_is_measured_on_notes_held_out() -> None:
    """The last patient writes a name where all others have a doctor: harvesting without him gives a wrong pattern."""
    documents = [*(signed(patient) for patient in "abcd"), signed("e", label="PATIENT")]
    hits = harvest_patterns(documents, FEW).elsewhere
    assert (hits.found, hits.right) == (2, 1)


def test_hits_are_right_by_place_and_label() -> None:
    patterns = parse_patterns("[[pattern]]\nname='year'\nlabel='DATE'\nregex='\\d{4}'").patterns
    notes = [Document("a", "in 2020, 2021 or 2022", (Span(3, 7, "DATE"), Span(9, 13, "AGE")))]
    assert count_hits(patterns, notes) == {"year": PatternHits(3, 1)}
    assert PatternHits().confidence == 0.5


def sentence_notes() -> list[Document]:
    """Return notes of three patients: two sentences without PHI in all, one with PHI in one, one with a PHI string."""
    text = "No known  allergies. Denies pain.\nMarch on.\nJune is fine.\n"
    plain = [Document(p, text, patient_id=p) for p in "ab"]
    june = text.index("June")
    third = Document("c", f"{text}Seen in March.", (Span(june, june + 4, "DATE"),), patient_id="c")
    march = third.text.rindex("March")
    return [*plain, third.with_spans([*third.spans, Span(march, march + 5, "DATE")])]


def test_sentences_with_phi_anywhere_do_not_enter() -> None:
    found = frequent_sentences(sentence_notes(), min_patients=3)
    assert found.patients == (("Denies pain.", 3), ("No known allergies.", 3))
    assert (found.with_phi, found.with_phi_string) == (1, 1)
    assert frequent_sentences(sentence_notes(), min_patients=4).patients == ()
    listed = parse_inclusion_list(found.text(name="notes", least=3))
    assert listed.sentences == {"Denies pain.", "No known allergies."}
    with pytest.raises(CorpusError, match="no sentence without PHI was seen in 4 patients"):
        frequent_sentences(sentence_notes(), min_patients=4).text(name="notes", least=4)


@given(st.lists(st.lists(st.sampled_from(["No pain.", "Dr. Lee.", "Lee ok.", "x"]), max_size=4), max_size=5))
def test_no_listed_sentence_was_ever_seen_with_phi(texts: list[list[str]]) -> None:
    notes = []
    for number, lines in enumerate(texts):
        text = "\n".join(lines)
        # Every second note has its names annotated.
        places = [k for k in range(len(text)) if text.startswith("Lee", k)] if number % 2 else []
        notes.append(Document(str(number), text, tuple(Span(k, k + 3, "DOCTOR") for k in places)))
    found = frequent_sentences(notes, min_patients=2)
    for sentence, patients in found.patients:
        assert sum(sentence in lines for lines in texts) == patients >= 2
        if any("Lee" in note.text for note in notes if note.spans):
            assert "Lee" not in sentence


def test_spans_in_listed_sentences_are_dropped_unless_they_must_stay() -> None:
    listed = parse_inclusion_list("sentences = ['No known allergies.']")
    text = "No known\tallergies. Seen by Lee.\nNo known allergies to Lee."
    inside, outside, longer = Span(3, 8, "CITY"), Span(28, 31, "DOCTOR"), Span(9, 27, "ORGANIZATION")
    elsewhere = Span(text.rindex("Lee"), len(text) - 1, "DOCTOR")
    document = Document("a", text, (inside, outside, longer, elsewhere))
    kept, dropped = listed.apply(document)
    assert (set(kept.spans), dropped) == ({outside, longer, elsewhere}, 1)
    assert listed.apply(document, must_stay=[Span(5, 6, "ID")]) == (document, 0)
    assert listed.apply(Document("b", text)) == (Document("b", text), 0)


def test_the_effect_of_a_list_is_counted() -> None:
    listed = parse_inclusion_list("sentences = ['No pain.', 'Lee ok.']")
    gold = [Document("a", "No pain.\nLee ok.\nHome.", (Span(9, 12, "DOCTOR"),))]
    system = [gold[0].with_spans([Span(3, 7, "CITY"), Span(9, 12, "DOCTOR")])]
    effect = inclusion_effect(listed, gold, system)
    assert (effect.sentences, effect.all_sentences, effect.dropped, effect.annotated) == (2, 3, 2, 1)


@pytest.mark.parametrize(
    ("source", "message"),
    [
        ("sentences = []", "at least one sentence"),
        ("sentences = 'x'", "at least one sentence"),
        ("sentences = [1]", "sentence 1 is not text"),
        ("sentences = ['No pain.', 'No pain. Seen by Lee.']", "sentence 2 is not one sentence"),
        ("sentences = ['  ']", "sentence 1 is not one sentence"),
        ("words = []", "unknown key 'words'"),
        ("sentences = ['a'", "my.toml: "),
    ],
)
def test_a_damaged_inclusion_list_is_refused(source: str, message: str) -> None:
    with pytest.raises(RuleError, match=message) as refused:
        parse_inclusion_list(source, path="my.toml")
    assert "Lee" not in str(refused.value)
