"""The page for judging a model's rules: a card for each; decisions are stored with the model."""

from collections.abc import Callable, Sequence
from datetime import date
from functools import partial
from pathlib import Path
from typing import Annotated, Any

from fastapi import APIRouter
from fastapi import Path as InPath
from pydantic import Field
from starlette.types import ASGIApp

from ensemble_deid.errors import ModelError, RuleError
from ensemble_deid.note.document import Document
from ensemble_deid.service.processor import Processor
from ensemble_deid.service.refusal import Refused
from ensemble_deid.service.review.pages import make_page_app
from ensemble_deid.service.review.routes import ByReviewer
from ensemble_deid.service.settings import ServiceSettings
from ensemble_deid.taggers.tbed.rule_text import write_rule
from ensemble_deid.training.rule_approvals import approve_rules, rule_approvals
from ensemble_deid.training.rule_replacement import edit_rule
from ensemble_deid.training.rule_review import RuleCard, around, rule_cards
from ensemble_deid.training.rules import RuleModel

RulePath = Annotated[int, InPath(ge=1, le=10**6)]


class _OfList(ByReviewer):
    """A request about the list that the page shows, by its hash."""

    sha256: str


class RuleDecision(_OfList):
    rejected: bool


class RuleText(_OfList):
    text: Annotated[str, Field(max_length=2000)]


class RuleDesk:
    """A model's rules on some notes; the effect of a list on them is counted once."""

    def __init__(self, model: Path, documents: Sequence[Document] | None) -> None:
        self.model, self._documents = model, documents
        self._shown: tuple[str, list[RuleCard]] | None = None

    def cards(self) -> dict[str, Any]:
        approvals = rule_approvals(self.model)
        if self._shown is None or self._shown[0] != approvals.sha256:
            found = rule_cards(RuleModel.load(self.model), approvals, self._documents)
            self._shown = approvals.sha256, found
        return {
            "sha256": approvals.sha256,
            "summary": approvals.summary(),
            "notes": None if self._documents is None else len(self._documents),
            "cards": [_card(card, approvals.of_rule(card.number)) for card in self._shown[1]],
        }

    def change(self, sha256: str, edit: Callable[[], object]) -> dict[str, Any]:
        """Change the model and return what the page then shows. Raises Refused if that is not possible."""
        if rule_approvals(self.model).sha256 != sha256:
            raise Refused(409, "the list has changed since the page was loaded: load it again")
        try:
            edit()
        except (ModelError, RuleError) as error:
            raise Refused(409, str(error)) from None
        return self.cards()


def _card(card: RuleCard, decisions: Sequence[Any]) -> dict[str, Any]:
    examples = () if card.checked is None else card.checked.examples
    return {
        "number": card.number,
        "purpose": card.purpose,
        "words": card.words,
        "text": write_rule(card.rule),
        "effect": card.effect,
        "verdict": card.verdict,
        "examples": [{"effect": one.effect, "note": one.document.id, "quoted": around(one)} for one in examples],
        "decisions": [{"by": one.by, "date": one.date, "rejected": one.rejected} for one in decisions],
    }


def make_rules_app(desk: RuleDesk, settings: ServiceSettings) -> ASGIApp:
    processor = Processor(places=settings.queue, time_limit=settings.time_limit)
    return make_page_app("rules", [_rule_routes(desk, processor)], settings, processor)


def _rule_routes(desk: RuleDesk, processor: Processor) -> APIRouter:
    """Return the routes; one thread reads and changes the model."""
    routes = APIRouter(prefix="/api/rules")

    @routes.get("")
    async def cards() -> dict[str, Any]:
        return await processor.run(desk.cards)

    @routes.post("/{number}/decision")
    async def decide(number: RulePath, body: RuleDecision) -> dict[str, Any]:
        # The local date: the page is used on this machine.
        today = date.today().isoformat()
        edit = partial(approve_rules, desk.model, by=body.reviewer, on=today, rules=[number], reject=body.rejected)
        return await processor.run(partial(desk.change, body.sha256, edit))

    @routes.post("/{number}/text")
    async def rewrite(number: RulePath, body: RuleText) -> dict[str, Any]:
        edit = partial(edit_rule, desk.model, number, body.text, by=body.reviewer)
        return await processor.run(partial(desk.change, body.sha256, edit))

    return routes
