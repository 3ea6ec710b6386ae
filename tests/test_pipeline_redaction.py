"""What is taken out is gone, what is left is as it was."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ensemble_deid.errors import ConfigError
from ensemble_deid.pipeline.redaction import STYLES, redact
from ensemble_deid.text.span import Span

LABELS = ("DATE", "DOCTOR", "LOCATION-OTHER")
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
    assert redact(text, spans, style=style) == by_hand


@given(annotated())
def test_no_character_of_a_span_is_left(case: tuple[str, list[Span], list[str]]) -> None:
    text, spans, pieces = case
    assert "§" not in "".join(redact(text, spans, style=style) for style in STYLES)
    assert redact(text, spans, style="remove") == "".join(pieces)


@given(annotated())
def test_a_mask_keeps_length_and_white_space(case: tuple[str, list[Span], list[str]]) -> None:
    text, spans, _ = case
    masked = redact(text, spans, style="mask")
    assert len(masked) == len(text)
    inside = {place for span in spans for place in range(span.start, span.end)}
    for place, (before, after) in enumerate(zip(text, masked, strict=True)):
        assert after == ("X" if place in inside and not before.isspace() else before)


@pytest.mark.parametrize("style", STYLES)
def test_newlines_around_and_inside(style: str) -> None:
    text = "Anna\r\nBell\n12 Oak\nSt.\r"
    out = redact(text, [Span(0, 10, "PATIENT"), Span(11, 21, "STREET")], style=style)
    assert out == {"tag": "[PATIENT]\n[STREET]\r", "mask": "XXXX\r\nXXXX\nXX XXX\nXXX\r", "remove": "\n\r"}[style]


@pytest.mark.parametrize("style", STYLES)
@pytest.mark.parametrize(
    "spans", [[Span(0, 3, "DATE"), Span(2, 4, "DATE")], [Span(0, 3, "DATE"), Span(0, 3, "AGE")], [Span(1, 99, "DATE")]]
)
def test_spans_that_cannot_be_taken_out_are_refused(spans: list[Span], style: str) -> None:
    with pytest.raises(ValueError, match="overlaps another or reaches outside") as raised:
        redact("QZJKXW", spans, style=style)
    assert "QZ" not in str(raised.value)


def test_an_unknown_style_names_the_known() -> None:
    with pytest.raises(ConfigError, match="tag, mask, remove"):
        redact("", [], style="blank")
