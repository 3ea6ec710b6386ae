"""An explanation as one HTML page, and the sentence about what became of a candidate."""

from ensemble_deid.evaluation.render.html.markup import Html, element, join, static_page
from ensemble_deid.evaluation.render.html.tables import data_table
from ensemble_deid.experiments.explain import Candidate, Explanation, PlaceExplanation
from ensemble_deid.text.digits import four_digits

_STYLE = """
body{font:16px/1.5 system-ui,sans-serif;max-width:70rem;margin:1rem auto;padding:0 1rem;overflow-wrap:anywhere}
.warning{border:2px solid #b3261e;border-radius:.5rem;padding:.6rem 1rem}.warning strong{color:#b3261e}
section{border-top:1px solid #ccc;padding:.5rem 0;break-inside:avoid}h2{font-size:1.1rem;margin:.3rem 0}
table{border-collapse:collapse;width:100%}th,td{text-align:left;padding:.2rem .6rem .2rem 0;vertical-align:top}
caption{text-align:left;padding-top:.6rem}thead th{border-bottom:1px solid #ccc}tbody th{font-weight:inherit}
.cue{display:none}.found{color:#1a7f37}.missed{color:#b3261e}
"""


def outcome_text(candidate: Candidate, explanation: Explanation) -> str:
    """Say what became of a candidate, with its probability and the threshold."""
    if candidate.probability is None:
        return f"no submodel's confidence reaches {explanation.min_confidence:g}, so it is no candidate"
    text = f"probability {four_digits(candidate.probability)}"
    if candidate.outcome == "below the threshold":
        return f"{text}, below the threshold {four_digits(explanation.threshold)}"
    if candidate.outcome == "overlapped":
        winners = ", ".join(f"{start}-{end} {label}" for start, end, label in candidate.beaten_by)
        return f"{text}, beaten by {winners}, which overlaps it and scores higher (or is longer)"
    return f"{text}, found"


def explanation_page(explanation: Explanation, *, text: str | None) -> str:
    """Return a page that loads nothing and runs nothing; with the note's `text` it quotes spans, which are PHI."""
    title = f"How the model reads {explanation.note}"
    body = element(
        "body",
        _warning(text),
        element("h1", title),
        element(
            "p",
            f"Threshold {four_digits(explanation.threshold)}; submodels {', '.join(explanation.submodels)}. "
            "Offsets count characters of the note from 0.",
        ),
        *(_section(place, explanation, text) for place in explanation.places),
        None if explanation.places else element("p", "The model finds nothing in this note."),
    )
    return static_page(title, body, style=_STYLE)


def _warning(text: str | None) -> Html:
    if text is None:
        strong, rest = "This page may still identify patients.", " Rules hold words of the training notes."
    else:
        strong, rest = "This page contains protected health information (PHI).", " Keep it where the notes are kept."
    return element("p", element("strong", strong), rest, class_="warning", role="note")


def _section(place: PlaceExplanation, explanation: Explanation, text: str | None) -> Html:
    head = f"{place.start}-{place.end}{_quote(text, place.start, place.end)}: "
    verdict = element("span", "found", class_="found") if place.found else element("span", "not found", class_="missed")
    tables = [
        _table(
            "Candidates",
            ("Span", "Proposed by, with confidence (* its own answer)", "Outcome"),
            [
                (
                    f"{c.start}-{c.end} {c.label}{_quote(text, c.start, c.end)}",
                    ", ".join(
                        f"{p.submodel} {four_digits(p.confidence)}{'*' if p.answer else ''}" for p in c.proposals
                    ),
                    outcome_text(c, explanation),
                )
                for c in place.candidates
            ],
        ),
        _table(
            "Patterns",
            ("Pattern", "Match", "Used"),
            [
                (
                    m.pattern,
                    f"{m.start}-{m.end} {m.label}",
                    "yes" if m.used else "no: an earlier pattern took its place",
                )
                for m in place.patterns
            ],
        ),
        _table(
            "Rules, in the order in which they changed tags",
            ("Rule", "At", "What it does"),
            [(str(rule.number), f"{rule.start}-{rule.end}", rule.words) for rule in place.rules],
        ),
    ]
    nothing = None if place.candidates else element("p", "No submodel proposed anything here.")
    return element("section", element("h2", join([head, verdict])), nothing, *tables)


def _table(title: str, header: tuple[str, ...], rows: list[tuple[str, ...]]) -> Html | None:
    return data_table(title, header, rows, words=len(header)) if rows else None


def _quote(text: str | None, start: int, end: int) -> str:
    return "" if text is None else f" “{text[start:end]}”"
