"""Notes through chains of forms, and known identifiers broken at random: replaced whole, or the note is withheld."""

import random
from pathlib import Path

from budget import Budget
from hostile import texts
from hypothesis import strategies as st
from made_keys import KEY

from benchmarks.forms import FORMS
from ensemble_deid.deidentify.deidentifier import Deidentifier
from ensemble_deid.deidentify.known.site_lists import SiteLists
from ensemble_deid.deidentify.known.words import compacted
from ensemble_deid.deidentify.one_pass import DeidentificationResult, finish_alone
from ensemble_deid.deidentify.options import RunOptions
from ensemble_deid.deidentify.replacement import Replacer
from ensemble_deid.note.document import Document
from ensemble_deid.note.reading import read

_NOTE = (
    "Patient: Anna Bell\nSeen by Dr. Kemp on 03/04/2019, MRN 4821377. She lives in Springfield with Dr. Kemp's aunt.\n"
)
_STYLES = ("tag", "mask", "remove", "hash", "surrogate")


def check_the_rest_is_untouched(text: str, result: DeidentificationResult) -> None:
    assert result.text is not None
    at = new_at = 0
    for span in result.replaced:
        assert text[at : span.start] == result.text[new_at : span.new_start]
        at, new_at = span.end, span.new_end
    assert text[at:] == result.text[new_at:]


def test_forms_of_forms(tiny_model: Path, budget: Budget) -> None:
    model = Deidentifier.load(tiny_model)

    def check(drawn: tuple[str, str, list[str], str, int]) -> None:
        before, after, chain, style, seed = drawn
        text = before + _NOTE + after
        for name in chain:
            text = FORMS[name](Document("n", text), random.Random(seed)).text[:50_000]
        result = next(model.pipe([text], patients=["7"], style=style, key=KEY, accept_unfit=True))
        if result.error is None:
            check_the_rest_is_untouched(text, result)

    chains = st.lists(st.sampled_from(sorted(FORMS)), min_size=1, max_size=4)
    budget.every(st.tuples(texts, texts, chains, st.sampled_from(_STYLES), st.integers(0, 9)), check)


_VALUES = {"name": "Edward Tamblyn", "mrn": "4821377", "phone": "251-555-0138", "city": "Springfield"}
_MARKS = (
    " ",
    "\n",
    "-\n",
    "- \n",
    ".",
    "-",
    "_",
    "\u00b7",
    "\u200b",
    "\u00ad",
    "\u034f",
    "\u2060",
    "<b>",
    "</b>",
    "&#8203;",
    "&shy;",
)
_AROUND = ("Seen with {} today, and the plan was discussed.\n", "{}", "Pt: {}\n", "({})", "* {}: stable\n", "see {},")


@st.composite
def broken(draw: st.DrawFn) -> tuple[str, str]:
    """A note that holds a known value in some spelling, and the longest word of that value."""
    kind = draw(st.sampled_from(sorted(_VALUES)))
    word = max(_VALUES[kind].split(), key=len)
    spelled = draw(st.sampled_from([str, str.upper, str.lower]))(word)
    mark = draw(st.sampled_from(_MARKS))
    inner = [k for k in range(1, len(spelled)) if spelled[k - 1 : k + 1].isalnum()]
    cuts = set(draw(st.one_of(st.just(list(inner)), st.lists(st.sampled_from(inner), min_size=1, max_size=2))))
    pieces = "".join(c + (mark if k + 1 in cuts else "") for k, c in enumerate(spelled))
    return draw(st.sampled_from(_AROUND)).format(pieces), compacted(word)


def test_known_identifiers_broken_at_random(budget: Budget, tmp_path: Path) -> None:
    path = tmp_path / "known.csv"
    path.write_text("\n".join(["patient_id,kind,value", *(f"7,{k},{v}" for k, v in _VALUES.items())]), encoding="utf-8")
    lists = SiteLists.read(known=path, strict=True, labels=("PATIENT", "MEDICALRECORD", "PHONE", "CITY"))

    def check(drawn: tuple[list[tuple[str, str]], str]) -> None:
        notes, style = drawn
        text = " and then ".join(note for note, _ in notes)
        options = RunOptions(replacer=Replacer.from_options(style, key=KEY), lists=lists)
        result = finish_alone(Document("n", text, patient_id="7"), options, None)
        if result.error is not None:
            assert "known identifiers are left" in result.error
            return
        check_the_rest_is_untouched(text, result)
        left = compacted(read(result.text or "").text)
        assert not [word for _, word in notes if word in left], text

    budget.every(st.tuples(st.lists(broken(), min_size=1, max_size=3), st.sampled_from(_STYLES)), check)
