"""How a model arrives at its spans for a note: the submodels' proposals, their probabilities, and what became of them.

Every span that is found is explained, or any place that is named, whether something is found there or not.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal, TypeVar

from ensemble_deid.evaluation.render.html.markup import Html, data_table, element, join, phi_warning, static_page
from ensemble_deid.features.batch import Batch
from ensemble_deid.features.patterns import find_all
from ensemble_deid.model.ensemble import Ensemble, view_of
from ensemble_deid.model.options import threshold_factor
from ensemble_deid.model.portions import Piece, portions
from ensemble_deid.note.digits import four_digits
from ensemble_deid.note.document import Document
from ensemble_deid.note.overlaps import keep_first
from ensemble_deid.note.reading import Reading, read
from ensemble_deid.note.span import Span, SpanKey
from ensemble_deid.reproducible import one_thread
from ensemble_deid.stacking.candidates import collect
from ensemble_deid.stacking.sequence_scores import SOURCE
from ensemble_deid.taggers.base import Proposals
from ensemble_deid.taggers.tbed.rule_words import rule_in_words
from ensemble_deid.taggers.tbed.tagger import TbedTagger
from ensemble_deid.taggers.tbed.templates import Rule
from ensemble_deid.training.rules import RuleModel

NET = "net"
"""Stands for the net under the submodels (`stacking/net.py`) where a submodel's name would stand."""

Outcome = Literal["found", "overlapped", "below the threshold", "confidence too low to be a candidate"]


@dataclass(frozen=True, slots=True)
class Proposal:
    """A submodel's confidence in a span; `answer` says that the span is in the submodel's own answer.

    `submodel` may also be `NET`, for a candidate that the net made, or `token`, for a single token that no candidate
    covers; the confidence is then the span's probability.
    """

    submodel: str
    confidence: float
    answer: bool


@dataclass(frozen=True, slots=True)
class Candidate:
    """A proposed span and what became of it.

    `probability` is the final estimator's (None where the span did not reach it); `beaten_by` are the spans found in
    its place.
    """

    start: int
    end: int
    label: str
    proposals: tuple[Proposal, ...]
    probability: float | None
    outcome: Outcome
    beaten_by: tuple[SpanKey, ...] = ()

    @property
    def key(self) -> SpanKey:
        return (self.start, self.end, self.label)


@dataclass(frozen=True, slots=True)
class PatternMatch:
    """A match of a pattern; `used` is False where an earlier pattern of the set took its place."""

    pattern: str
    start: int
    end: int
    label: str
    used: bool


@dataclass(frozen=True, slots=True)
class RuleChange:
    """A rule of the TBED submodel that changed tags of the characters `[start, end)`: its number, and it in words."""

    number: int
    start: int
    end: int
    words: str


_Part = TypeVar("_Part", Candidate, PatternMatch, RuleChange)


@dataclass(frozen=True, slots=True)
class PlaceExplanation:
    """All that happened at the characters `[start, end)` of a note.

    `found` are the spans of the answer that lie there, in text order; the candidates come with the most probable first.
    """

    start: int
    end: int
    found: tuple[SpanKey, ...]
    candidates: tuple[Candidate, ...]
    patterns: tuple[PatternMatch, ...]
    rules: tuple[RuleChange, ...]


@dataclass(frozen=True, slots=True)
class Explanation:
    """A note's explained places, with what every decision was measured by."""

    note: str
    threshold: float
    min_confidence: float
    submodels: tuple[str, ...]
    places: tuple[PlaceExplanation, ...]


def explain(ensemble: Ensemble, document: Document, *, places: Sequence[tuple[int, int]] | None = None) -> Explanation:
    """Explain some places of a note, as (start, end), or every span that the model finds (None)."""
    candidates: list[Candidate] = []
    patterns: list[PatternMatch] = []
    rules: list[RuleChange] = []
    document = ensemble.with_given(document)
    reading = read(document.text)
    factor = threshold_factor(reading)
    for portion in portions([view_of(reading, document)]):
        for piece in portion:
            batch = ensemble.feature_extractor.extract([piece.document])
            for candidate in _moved(_candidates(ensemble, batch, factor), piece, reading):
                beaten_by = tuple((*_place_of(a, b, piece, reading), label) for a, b, label in candidate.beaten_by)
                candidates.append(replace(candidate, beaten_by=beaten_by))
            patterns += _moved(_pattern_matches(ensemble, piece.document), piece, reading)
            rules += _moved(_rule_changes(ensemble, batch), piece, reading)
    if places is None:
        places = sorted((c.start, c.end) for c in candidates if c.outcome == "found")
    stacker = ensemble.stacker
    return Explanation(
        document.id,
        factor * stacker.threshold,
        stacker.min_confidence,
        stacker.submodels,
        tuple(_place(start, end, candidates, patterns, rules) for start, end in places),
    )


def _place(
    start: int, end: int, candidates: Sequence[Candidate], patterns: Sequence[PatternMatch], rules: Sequence[RuleChange]
) -> PlaceExplanation:
    def here(part: Candidate | PatternMatch | RuleChange) -> bool:
        return part.start < end and start < part.end

    near = sorted(
        filter(here, candidates),
        key=lambda c: (
            -1.0 if c.probability is None else c.probability,
            max((p.confidence for p in c.proposals), default=0.0),
        ),
        reverse=True,
    )
    return PlaceExplanation(
        start,
        end,
        tuple(sorted(c.key for c in near if c.outcome == "found")),
        candidates=tuple(near),
        patterns=tuple(filter(here, patterns)),
        rules=tuple(sorted(filter(here, rules), key=lambda change: (change.number, change.start))),
    )


def _moved(parts: Sequence[_Part], piece: Piece, reading: Reading) -> list[_Part]:
    """Return what was found in a piece of a note's reading with its offsets in the whole note."""
    placed = ((part, _place_of(part.start, part.end, piece, reading)) for part in parts)
    return [replace(part, start=start, end=end) for part, (start, end) in placed]


def _place_of(start: int, end: int, piece: Piece, reading: Reading) -> tuple[int, int]:
    return reading.original(start + piece.start, end + piece.start)


def _candidates(ensemble: Ensemble, batch: Batch, factor: float) -> list[Candidate]:
    """Return everything that was proposed on the one note of a batch, by submodels, net and single tokens."""
    if not len(batch.tokens):
        return []
    stacker = ensemble.stacker
    proposals: dict[str, Proposals] = ensemble.propose(batch)
    ordered = {name: proposals[name] for name in stacker.submodels}
    made = _made(ordered, stacker.labels)
    proposed = set(collect(ordered, labels=stacker.labels, min_confidence=stacker.min_confidence).keys())
    with one_thread():
        scored = stacker.predict_proba(proposals, batch)[0]
        found = stacker.predict(proposals, batch, factors=[factor])[0]
    probability: dict[SpanKey, float] = {}
    for span in scored:
        probability[span.key] = span.score
        # What no submodel proposed with enough confidence has a score from the net or as a single token alone.
        if span.key not in proposed:
            name = SOURCE if span.source == SOURCE else NET
            made.setdefault(span.key, []).append(Proposal(name, span.score, False))
    candidates = []
    for key, parts in sorted(made.items()):
        outcome, beaten_by = _outcome(Span(*key), probability.get(key), factor * stacker.threshold, found)
        candidates.append(Candidate(*key, tuple(parts), probability.get(key), outcome, beaten_by))
    return candidates


def _made(proposals: Mapping[str, Proposals], labels: tuple[str, ...]) -> dict[SpanKey, list[Proposal]]:
    table = collect(proposals, labels=labels)
    return {
        key: [
            Proposal(name, score, answer)
            for name, score, answer in zip(table.submodels, confidence, chosen, strict=True)
            if answer or score > 0
        ]
        for key, confidence, chosen in zip(table.keys(), table.confidence.tolist(), table.chosen.tolist(), strict=True)
    }


def _outcome(
    span: Span, probability: float | None, threshold: float, found: Sequence[Span]
) -> tuple[Outcome, tuple[SpanKey, ...]]:
    if probability is None:
        return "confidence too low to be a candidate", ()
    if probability < threshold:
        return "below the threshold", ()
    if any(other.key == span.key for other in found):
        return "found", ()
    return "overlapped", tuple(other.key for other in found if other.overlaps(span))


def _pattern_matches(ensemble: Ensemble, document: Document) -> list[PatternMatch]:
    matches = find_all(ensemble.feature_extractor.patterns, document)
    used = {(span.key, span.source) for span in keep_first(matches)}
    return [PatternMatch(m.source, m.start, m.end, m.label, (m.key, m.source) in used) for m in matches]


def _rule_changes(ensemble: Ensemble, batch: Batch) -> list[RuleChange]:
    """Return every change of the TBED submodel's rules, runs of neighbouring tokens as one; none without it."""
    tagger = next((tagger for tagger in ensemble.taggers.values() if isinstance(tagger, TbedTagger)), None)
    if tagger is None or not len(batch.tokens):
        return []
    rules: Sequence[Rule] = tagger.rules.rules
    starts, ends = batch.tokens.start, batch.tokens.end
    changes = []
    for firing in RuleModel(ensemble, tagger).firings(batch):
        words = rule_in_words(rules[firing.rule])
        changes += [
            RuleChange(firing.rule + 1, int(starts[token]), int(ends[token]), words) for token in firing.tokens.tolist()
        ]
    return changes


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
        return f"no submodel's confidence reaches {explanation.min_confidence:g}, so it is not a candidate"
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
    if text is None:
        rest = " Rules hold words of the training notes."
        warning = phi_warning(rest, strong="This page may still identify patients.")
    else:
        warning = phi_warning(" Keep it where the notes are kept.")
    body = element(
        "body",
        warning,
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


def _section(place: PlaceExplanation, explanation: Explanation, text: str | None) -> Html:
    head = f"{place.start}-{place.end}{_quote(text, place.start, place.end)}: "
    verdict = element("span", "found", class_="found") if place.found else element("span", "not found", class_="missed")
    candidates = [
        (
            f"{c.start}-{c.end} {c.label}{_quote(text, c.start, c.end)}",
            ", ".join(f"{p.submodel} {four_digits(p.confidence)}{'*' if p.answer else ''}" for p in c.proposals),
            outcome_text(c, explanation),
        )
        for c in place.candidates
    ]
    unused = "no: an earlier pattern took its place"
    patterns = [(m.pattern, f"{m.start}-{m.end} {m.label}", "yes" if m.used else unused) for m in place.patterns]
    rules = [(str(rule.number), f"{rule.start}-{rule.end}", rule.words) for rule in place.rules]
    confidences = "Proposed by, with confidence (* its own answer)"
    tables = [
        _table("Candidates", ("Span", confidences, "Outcome"), candidates),
        _table("Patterns", ("Pattern", "Match", "Used"), patterns),
        _table("Rules, in the order in which they changed tags", ("Rule", "At", "What it does"), rules),
    ]
    nothing = None if place.candidates else element("p", "No submodel proposed anything here.")
    return element("section", element("h2", join([head, verdict])), nothing, *tables)


def _table(title: str, header: tuple[str, ...], rows: Sequence[tuple[str, ...]]) -> Html | None:
    return data_table(title, header, rows, words=len(header)) if rows else None


def _quote(text: str | None, start: int, end: int) -> str:
    return "" if text is None else f" “{text[start:end]}”"
