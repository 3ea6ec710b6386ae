"""The report as one self-contained page."""

import base64
import hashlib
import json
from collections.abc import Mapping, Sequence, Set
from importlib.resources import files
from typing import Literal

from ensemble_deid.evaluation.bootstrap import LEVEL, RESAMPLES
from ensemble_deid.evaluation.curve import has_scores, trace_curve
from ensemble_deid.evaluation.error_list import ErrorList, list_errors
from ensemble_deid.evaluation.evaluate import evaluate
from ensemble_deid.evaluation.leaks import KIND_KEY
from ensemble_deid.evaluation.operating_points import OperatingPoints
from ensemble_deid.evaluation.pairs import Pair, keep_gold_labels, keep_labels, pair_documents, select_labels
from ensemble_deid.evaluation.render.html.curves import curve_section
from ensemble_deid.evaluation.render.html.errors import error_section, words_section
from ensemble_deid.evaluation.render.html.front import front_section, leak_section, summary_section
from ensemble_deid.evaluation.render.html.labels import confusion_section, label_section, subgroup_section
from ensemble_deid.evaluation.render.html.markup import (
    NO_SCRIPTS,
    Html,
    element,
    join,
    page_head,
    phi_warning,
    section,
    whole_page,
)
from ensemble_deid.evaluation.subgroups import measure_subgroups
from ensemble_deid.evaluation.views import VIEWS
from ensemble_deid.note.document import Document

MOST_NOTE_TEXT = 8_000_000
"""Characters of whole notes that the page holds; notes beyond are shown around their errors only."""

_FILES = files("ensemble_deid.evaluation.render.html")
_SCRIPT = "\n" + _FILES.joinpath("report.js").read_text(encoding="utf-8")
_STYLE = "\n" + _FILES.joinpath("report.css").read_text(encoding="utf-8")

_SECTIONS = {
    "front": "Record",
    "summary": "Summary",
    "leaks": "Leaks",
    "subgroups": "Subgroups",
    "labels": "Labels",
    "confusion": "Confusion",
    "curves": "Curves",
    "errors": "Errors",
    "words": "Words",
    "guide": "How to read",
}

ReportPart = Literal["whole", "summary", "errors"]
_PARTS: Mapping[ReportPart, tuple[str, ...]] = {
    "whole": tuple(_SECTIONS),
    "summary": ("front", "summary", "leaks", "subgroups", "labels"),
    "errors": ("confusion", "curves", "errors", "words", "guide"),
}


def render_report(
    gold: Sequence[Document],
    system: Sequence[Document],
    *,
    title: str = "De-identification: what was found and what was not",
    include_text: bool = True,
    votes: Mapping[str, Sequence[Document]] | None = None,
    scored: Sequence[Document] | None = None,
    threshold: float = 0.0,
    operating: OperatingPoints | None = None,
    warnings: Sequence[str] = (),
    facts: Sequence[tuple[str, str]] | None = None,
    part: ReportPart = "whole",
    seen: Set[str] | None = None,
    name_lists: Mapping[str, Set[str]] | None = None,
    curve_view: str = "token-binary",
    labels: Sequence[str] | None = None,
    kind_key: str = KIND_KEY,
    resamples: int = RESAMPLES,
    level: float = LEVEL,
    seed: int = 0,
) -> str:
    """Return the report as one HTML page that loads nothing; it contains PHI unless `include_text` is False.

    `votes` maps each submodel's name to its own output, to be shown at each error. `scored` has all that the system
    gives a score, of which `system` is what it keeps at its `threshold`: the curves go over all of it. `operating` adds
    operating points that were chosen elsewhere, `warnings` come first, `facts` (names and what is
    said of them) make a first page. `seen` and `name_lists` are those of `measure_subgroups`. Without text no word of a
    note is on the page, but ids, kinds, labels and offsets are. The other options are those of `evaluate`. Raises
    EvaluationError when the documents do not match.
    """
    include_text = include_text and part != "summary"
    result = evaluate(gold, system, labels=labels, kind_key=kind_key, resamples=resamples, level=level, seed=seed)
    pairs = in_groups = pair_documents(gold, system)
    candidates = system if scored is None else scored
    if result.labels is not None:
        chosen = frozenset(result.labels)
        pairs, in_groups = keep_labels(pairs, chosen), keep_gold_labels(pairs, chosen)
        candidates = select_labels(candidates, chosen)
    subgroups = measure_subgroups(
        in_groups, resampling=result.resampling, kind_key=kind_key, seen=seen, name_lists=name_lists
    )
    golds, systems = [pair.gold for pair in pairs], [pair.system for pair in pairs]
    by_id = {pair.id: pair for pair in pairs}
    errors = list_errors(golds, systems, kind_key=kind_key)
    held = _held_notes(errors, by_id) if include_text else {}
    curve = trace_curve(golds, candidates, view=curve_view) if has_scores(candidates) else None
    spans_by_model = {model: {note.id: note.spans for note in notes} for model, notes in (votes or {}).items()}
    sections = {
        "front": front_section(facts, result, subgroups) if facts else None,
        "summary": summary_section(result, errors),
        "leaks": leak_section(result, brief=part == "summary"),
        "subgroups": subgroup_section(subgroups, result.resampling, brief=part == "summary"),
        "labels": label_section(result),
        "confusion": confusion_section(errors),
        "curves": curve_section(curve, operating, threshold=threshold),
        "errors": error_section(errors, by_id, spans_by_model, held, include_text=include_text),
        "words": words_section(errors, by_id) if include_text else None,
        "guide": _guide(),
    }
    shown = {name: html for name in _PARTS[part] if (html := sections[name]) is not None}
    dialog = _dialog(held, by_id) if held else None
    return _page(title, shown, dialog, warnings=warnings, include_text=include_text)


def _page(
    title: str, sections: Mapping[str, Html], dialog: Html | None, *, warnings: Sequence[str], include_text: bool
) -> str:
    links = [element("li", element("a", _SECTIONS[name], href=f"#{name}")) for name in sections]
    navigation = element("nav", element("ul", *links), aria_label="Sections")
    main = element("main", *sections.values(), id="main", tabindex=-1)
    head = _head_of_page(title, warnings, include_text=include_text)
    footer = element("footer", "Made by ensemble_deid. Every figure is defined in docs/evaluation.md.")
    script = element("script", Html(_SCRIPT))
    body = element("body", head, navigation, main, dialog, script, footer)
    return whole_page(_head(title), body)


def _head(title: str) -> Html:
    digest = base64.b64encode(hashlib.sha256(_SCRIPT.encode()).digest()).decode()
    # Nothing can be loaded or sent, and no script but the page's own can run, whatever a note holds.
    scripts = f"; script-src 'sha256-{digest}'; base-uri 'none'; form-action 'none'"
    return page_head(title, style=_STYLE, policy=f"{NO_SCRIPTS}{scripts}")


def _head_of_page(title: str, warnings: Sequence[str], *, include_text: bool) -> Html:
    if include_text:
        warning = phi_warning(
            " It quotes the notes with the names, dates and numbers that were to be removed. Keep it where the notes "
            "themselves are kept, and do not send it or publish it.",
            tag="div",
        )
    else:
        rest = " It quotes no note text, but note ids, kinds of notes, labels and positions remain."
        warning = phi_warning(rest, tag="div", strong="This page may still identify patients.")
    return join(
        [
            element("a", "Skip to the content", href="#main", class_="skip"),
            warning,
            *(phi_warning(f" {one}.", tag="div", strong="Warning.") for one in warnings),
            element("header", element("h1", title), class_="top"),
        ]
    )


def _held_notes(errors: ErrorList, pairs: Mapping[str, Pair]) -> dict[str, int]:
    held: dict[str, int] = {}
    room = MOST_NOTE_TEXT
    for error in errors.errors:
        length = len(pairs[error.document_id].gold.text)
        if error.document_id not in held and length <= room:
            held[error.document_id] = len(held)
            room -= length
    return held


def _dialog(held: Mapping[str, int], pairs: Mapping[str, Pair]) -> Html:
    notes = [
        {
            "id": name,
            "text": pairs[name].gold.text,
            "gold": [list(span.key) for span in sorted(pairs[name].gold.spans)],
            "system": [list(span.key) for span in sorted(pairs[name].system.spans)],
        }
        for name in held
    ]
    close = element("button", "Close", id="note-close", type="button")
    head = element("div", element("strong", id="note-title"), close, class_="bar")
    text = element("div", id="note-text", class_="note", dir="auto", tabindex=0)
    dialog = element("dialog", head, text, id="note-dialog", aria_labelledby="note-title")
    return join([dialog, element("script", _as_script_data(notes), type="application/json", id="notes")])


def _as_script_data(data: object) -> Html:
    """Return JSON in which no note text can end the script element that holds it."""
    text = json.dumps(data, ensure_ascii=False)
    return Html(text.replace("<", "\\u003c").replace("\u2028", "\\u2028").replace("\u2029", "\\u2029"))


_TERMS: tuple[tuple[str, str], ...] = (
    ("Precision (PPV)", "of what the system gave, the share that is right"),
    ("Recall (sensitivity)", "of what is gold, the share that the system found"),
    ("F1", "2 TP / (2 TP + FP + FN)"),
    ("Undefined", "there was nothing to divide by; it is neither 0 nor 1"),
    ("Interval", "from resampling patients with all their notes, because one patient's annotations are alike"),
    ("Missed", "depends on the unit: see “Missed, unit by unit” in the summary, which defines each figure"),
    ("Leak", "a letter or digit of gold PHI that no annotation of the system covers, whatever its label"),
    ("At most", "a rate this high would show as few leaks, or fewer, in one sample of twenty (Clopper-Pearson)"),
    ("Score", "the system's confidence in an annotation, from 0 to 1"),
)


def _guide() -> Html:
    views = [(view.name, view.definition) for view in VIEWS.values()]
    items = [part for term, meaning in (*_TERMS, *views) for part in (element("dt", term), element("dd", meaning))]
    j, k, escape = (element("kbd", key) for key in ("j", "k", "Esc"))
    moves = " go to the next and the previous error, "
    keys = element("p", "Keys: ", j, " and ", k, moves, escape, " closes a note.", class_="soft screen")
    return section("guide", "How to read this page", element("dl", *items), keys)
