"""Where an ensemble's members disagree, who is right, and what the ensemble makes of it (Zhao et al. 2020, table 7).

A place is a range of characters that gold, a member or the ensemble annotates. At each place a system says a label, or
nothing; it is right where it says what gold says, as strict counting has it. Members disagree where they do not all say
the same.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass

from ensemble_deid.evaluation.pairs import EvaluationError, pair_documents
from ensemble_deid.evaluation.render.results import Block, Point, Results, Table, draw_points
from ensemble_deid.note.counts import ratio
from ensemble_deid.note.document import Document
from ensemble_deid.note.span import Span

NOTHING = ""
_AROUND = 30


@dataclass(frozen=True, slots=True)
class Disagreement:
    """A place where members disagree: the label that each says (`NOTHING` for none), the ensemble's and gold's."""

    note: str
    start: int
    end: int
    members: Mapping[str, str]
    ensemble: str
    gold: str

    @property
    def right(self) -> tuple[str, ...]:
        """The members that say what gold says."""
        return tuple(name for name, label in self.members.items() if label == self.gold)

    @property
    def solved(self) -> bool:
        """Whether the ensemble is right."""
        return self.ensemble == self.gold

    def rescued_by(self, name: str) -> bool:
        """Whether that member alone is right, and the ensemble with it."""
        return self.solved and self.right == (name,)


@dataclass(frozen=True, slots=True)
class MemberRecord:
    """How one member fares where members disagree: of `alone_right` places the ensemble solves `rescued`.

    Of `alone_wrong` places, at which all others are right, the ensemble is `misled` at some.
    """

    name: str
    right: int
    alone_right: int
    rescued: int
    alone_wrong: int
    misled: int


def find_disagreements(
    gold: Sequence[Document], members: Mapping[str, Sequence[Document]], ensemble: Sequence[Document]
) -> tuple[Disagreement, ...]:
    """Return the places in the order of the notes' ids and of the text.

    Raises EvaluationError for fewer than two members, or notes that do not match.
    """
    if len(members) < 2:
        raise EvaluationError("it takes two members to disagree")
    answers = {name: {p.id: p.system for p in pair_documents(gold, notes)} for name, notes in members.items()}
    found: list[Disagreement] = []
    for pair in pair_documents(gold, ensemble):
        said = {name: _labels(notes[pair.id].spans) for name, notes in answers.items()}
        truth, decided = _labels(pair.gold.spans), _labels(pair.system.spans)
        for place in sorted({place for labels in said.values() for place in labels}):
            votes = {name: labels.get(place, NOTHING) for name, labels in said.items()}
            if len(set(votes.values())) > 1:
                ensemble_label, gold_label = decided.get(place, NOTHING), truth.get(place, NOTHING)
                found.append(Disagreement(pair.id, *place, votes, ensemble_label, gold_label))
    return tuple(found)


def _labels(spans: Sequence[Span]) -> dict[tuple[int, int], str]:
    """Return the label at each place; several at the same place are joined."""
    found: dict[tuple[int, int], set[str]] = {}
    for span in spans:
        found.setdefault((span.start, span.end), set()).add(span.label)
    return {place: "+".join(sorted(labels)) for place, labels in found.items()}


def member_records(cases: Sequence[Disagreement], names: Sequence[str]) -> tuple[MemberRecord, ...]:
    """Return each member's record over the places where members disagree."""
    records = []
    for name in names:
        alone = [case for case in cases if case.right == (name,)]
        others = [case for case in cases if set(case.right) == set(names) - {name}]
        records.append(
            MemberRecord(
                name,
                right=sum(name in case.right for case in cases),
                alone_right=len(alone),
                rescued=sum(case.solved for case in alone),
                alone_wrong=len(others),
                misled=sum(not case.solved for case in others),
            )
        )
    return tuple(records)


def right_together(cases: Sequence[Disagreement]) -> dict[tuple[str, ...], tuple[int, int]]:
    """Return for each set of members that are right, most frequent first, the places and how many are solved."""
    places = Counter(case.right for case in cases)
    solved = Counter(case.right for case in cases if case.solved)
    return {right: (n, solved[right]) for right, n in sorted(places.items(), key=lambda item: (-item[1], item[0]))}


# The places as a table.


def disagreement_counts(cases: Sequence[Disagreement], names: Sequence[str]) -> list[Block]:
    """Return who was right how often, alone and together."""
    records = tuple(
        (r.name, *map(str, (r.right, r.alone_right, r.rescued, r.alone_wrong, r.misled)))
        for r in member_records(cases, list(names))
    )
    together = tuple(
        (", ".join(right) or "none", str(places), str(kept)) for right, (places, kept) in right_together(cases).items()
    )
    columns = ("submodel", "right", "alone right", "of these rescued", "alone wrong", "of these misled")
    return [
        [Table("", columns, records)],
        [Table("", ("right together", "places", "ensemble right"), together)],
    ]


def disagreements_results(
    cases: Sequence[Disagreement], texts: Mapping[str, Document] | None, names: Sequence[str]
) -> Results:
    """Return the places; with `texts` they quote the notes, and contain PHI."""
    entries = [asdict(case) | ({"text": _quoted(case, texts[case.note])} if texts else {}) for case in cases]
    points = [Point(record.name, ratio(record.right, len(cases))) for record in member_records(cases, list(names))]
    points.append(Point("ensemble", ratio(sum(case.solved for case in cases), len(cases))))
    return Results(
        [[_table(cases, texts)]], entries, draw_points(points, measure="share of these places decided right")
    )


def _quoted(case: Disagreement, note: Document) -> str:
    before, after = note.text[max(0, case.start - _AROUND) : case.start], note.text[case.end : case.end + _AROUND]
    return " ".join(f"{before}[{note.text[case.start : case.end]}]{after}".split())


def _table(cases: Sequence[Disagreement], texts: Mapping[str, Document] | None) -> Table:
    names = tuple(cases[0].members) if cases else ()
    place = ("note", "start", "end", *(("text",) if texts else ()))
    rows = []
    for case in cases:
        here = (case.note, str(case.start), str(case.end), *((_quoted(case, texts[case.note]),) if texts else ()))
        labels = (*case.members.values(), case.ensemble, case.gold)
        rows.append((*here, *(label or "-" for label in labels)))
    caption = "Places where submodels disagree: the label that each gives, the ensemble's, and gold's (-: none)."
    return Table(caption, (*place, *names, "ensemble", "gold"), tuple(rows))
