"""The page that a rule list is reviewed on: each rule in words and as text, its effect on notes, and its approvals."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from ensemble_deid.evaluation.render.html.markup import Html, element, join, phi_warning, static_page
from ensemble_deid.note.document import Document
from ensemble_deid.taggers.tbed.rule_text import write_rule
from ensemble_deid.taggers.tbed.rule_words import rule_in_words
from ensemble_deid.taggers.tbed.templates import Rule
from ensemble_deid.training.rule_approvals import Approval, RuleApprovals, rule_approvals
from ensemble_deid.training.rules import CheckedRule, RuleExample, RuleModel, check_rules

EXAMPLES = 3
"""Places of the notes shown for each rule, at most."""
_AROUND = 60
_TITLE = "Rules for review"
_STYLE = """
body{font:16px/1.5 system-ui,sans-serif;max-width:60rem;margin:1rem auto;padding:0 1rem;overflow-wrap:anywhere}
.warning{border:2px solid #b3261e;border-radius:.5rem;padding:.6rem 1rem}.warning strong{color:#b3261e}
article{border-top:1px solid #ccc;padding:.5rem 0;break-inside:avoid}h2{font-size:1.05rem;margin:.3rem 0}
code,.context{font:.85rem/1.5 ui-monospace,monospace}.context{white-space:pre-wrap;margin:.2rem 0 .2rem 1rem}
.approved{color:#1a7f37}.open,.hurts,.broken b{color:#b3261e}.fixed b{color:#1a7f37}
ul{margin:.3rem 0;padding-left:1rem;list-style:none}
"""


@dataclass(frozen=True, slots=True)
class RuleCard:
    """A rule as a person judges it; `checked` is None where there were no notes to check it on."""

    number: int
    rule: Rule
    checked: CheckedRule | None
    decisions: tuple[Approval, ...]

    @property
    def words(self) -> str:
        return rule_in_words(self.rule)

    @property
    def purpose(self) -> str:
        before, after = self.rule.from_tag[2:], self.rule.to_tag[2:]
        if not before:
            return f"{after}: finds words"
        if not after:
            return f"{before}: drops words"
        return f"{after}: moves a border" if before == after else f"{after}: takes words from {before}"

    @property
    def effect(self) -> str | None:
        done = self.checked
        if done is None:
            return None
        counts = f"In these notes: fixed {done.fixed}, broken {done.broken}, tags changed {done.changed}"
        if done.mislabelled:
            are = ", ".join(f"{'no PHI' if label == 'O' else label} {n}" for label, n in done.mislabelled.items())
            counts += f", turned from one wrong label into another {sum(done.mislabelled.values())} (they are: {are})"
        return counts

    @property
    def verdict(self) -> str | None:
        """What is wrong with it, None if nothing is."""
        if self.checked is None:
            return None
        return "never fires here" if not self.checked.changed else "hurts here" if self.checked.score < 0 else None


def rule_cards(model: RuleModel, approvals: RuleApprovals, documents: Sequence[Document] | None) -> list[RuleCard]:
    """Return the rules in order, with their effect on annotated notes and the decisions about them."""
    checked = None if documents is None else check_rules(model, documents, examples=EXAMPLES)
    return [
        RuleCard(number, rule, None if checked is None else checked[number - 1], approvals.of_rule(number))
        for number, rule in enumerate(model.rules, 1)
    ]


def around(example: RuleExample) -> tuple[str, str, str]:
    text = example.document.text
    first, last = max(0, example.start - _AROUND), min(len(text), example.end + _AROUND)
    before = ("…" if first else "") + text[first : example.start]
    return before, text[example.start : example.end], text[example.end : last] + ("…" if last < len(text) else "")


def review_rules(model: Path, documents: Sequence[Document] | None) -> str:
    """Return the page as HTML that loads nothing and runs nothing; it contains PHI.

    With annotated notes it has what each rule does there. Raises ModelError for a model without a rule list.
    """
    loaded = RuleModel.load(model)
    approvals = rule_approvals(model)
    articles = map(_article, rule_cards(loaded, approvals, documents))
    quotes = "the training notes" if documents is None else "the training notes, and the examples quote notes"
    warning = phi_warning(f" Rules hold words of {quotes}. Keep it where the notes themselves are kept.")
    body = element("body", warning, element("h1", _TITLE), _facts(loaded, approvals, documents), *articles)
    return static_page(_TITLE, body, style=_STYLE)


def _facts(model: RuleModel, approvals: RuleApprovals, documents: Sequence[Document] | None) -> Html:
    header = "; ".join(f"{key}: {value}" for key, value in model.rules.header.items())
    notes = (
        None if documents is None else f"Checked on {len(documents)} notes. Each rule counts at its turn in the list."
    )
    lines = [
        f"Rules: {len(model.rules)}, applied in this order ({header}).",
        f"SHA-256 of the list: {approvals.sha256}",
        f"Approved: {approvals.summary()}",
        notes,
        "Fixed: wrong tags put right; broken: right tags put wrong. A word is a word, a number or a punctuation mark.",
    ]
    return element("ul", *(element("li", line) for line in lines if line is not None))


def _article(card: RuleCard) -> Html:
    here: list[Html] = []
    if card.checked is not None:
        verdict = element("b", f" ({card.verdict})", class_="hurts") if card.verdict else None
        here.append(element("p", card.effect, verdict))
        here += [_example(example) for example in card.checked.examples]
    return element(
        "article",
        element("h2", f"{card.number}. {card.words}"),
        element("p", element("code", write_rule(card.rule))),
        *here,
        *(_decision_lines(card.decisions) or [element("p", "Not approved.", class_="open")]),
        id=f"rule-{card.number}",
    )


def _decision_lines(decisions: Sequence[Approval]) -> list[Html]:
    lines = []
    for verb, rejected, kind in (("Approved", False, "approved"), ("Rejected", True, "open")):
        given = "; ".join(f"{one.by}, {one.date}" for one in decisions if one.rejected == rejected)
        lines += [element("p", f"{verb} by {given}.", class_=kind)] if given else []
    return lines


def _example(example: RuleExample) -> Html:
    before, place, after = around(example)
    head = join([element("b", example.effect), f" in {example.document.id}, {example.start}-{example.end}"])
    quoted = element("div", before, element("mark", place), after, class_="context", dir="auto")
    return element("div", head, quoted, class_=example.effect)
