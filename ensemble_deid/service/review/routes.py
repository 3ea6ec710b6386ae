"""The review page's requests: reads, and decisions, each answered with the updated note.

A body with an unknown key is refused.
"""

from collections.abc import Callable
from dataclasses import asdict
from typing import Annotated, Any

from fastapi import APIRouter, Path, Query
from pydantic import AfterValidator, BaseModel, ConfigDict, Field

from ensemble_deid.service.refusal import Refused
from ensemble_deid.service.review.accounts import acting, owns
from ensemble_deid.service.review.edits import Search, add_span, alter, decide, find_hits, finish, mark_all
from ensemble_deid.service.review.file import Facts, ReviewFile
from ensemble_deid.service.review.fill import uncertainty
from ensemble_deid.service.review.layers import begin_layer
from ensemble_deid.service.review.overview import Order, agreement, note_page, reviewers, to_settle
from ensemble_deid.service.review.records import ADJUDICATION, Status, read_disagreements, read_spans
from ensemble_deid.service.review.steps import is_adjudicated, may_replay, redo, undo
from ensemble_deid.service.review.team import read_guideline, write_guideline


def _named(value: str) -> str:
    if not value.isprintable() or value != value.strip():
        raise ValueError("a name is printable and has no white space around it")
    return value


def _own(value: str) -> str:
    """Return the name. Raises Refused (403) where it is not that of the account whose token was sent."""
    account = acting()
    if account is None or value == account.name or (value == ADJUDICATION and account.adjudicates):
        return value
    raise Refused(403, "the token is that of another reviewer")


ReviewerName = Annotated[str, Field(min_length=1, max_length=40), AfterValidator(_named), AfterValidator(_own)]


class ByReviewer(BaseModel):
    model_config = ConfigDict(extra="forbid")

    reviewer: ReviewerName


class SelectedPlace(ByReviewer):
    """A place in a note; offsets in code points, as everywhere."""

    start: int
    end: int


class NewSpan(SelectedPlace):
    label: str


class Decision(ByReviewer):
    status: Status


class Alteration(ByReviewer):
    """A span's new ends or label; None leaves it unchanged."""

    start: int | None = None
    end: int | None = None
    label: str | None = None


class Finish(ByReviewer):
    """Whether a note is finished, or open again; `settle` accepts what the model found and rejects its suggestions."""

    finished: bool
    settle: bool = False


class NewGuideline(ByReviewer):
    """The text of the version that follows `after`."""

    text: Annotated[str, Field(max_length=100_000)]
    after: int


class SearchFields(ByReviewer):
    words: Annotated[str, Field(max_length=500)]
    whole_words: bool = True
    match_case: bool = False


class MarkAll(SearchFields):
    label: str


ReviewerQuery = Annotated[ReviewerName, Query()]
# SQLite's integers have 64 bits.
_LARGEST = 2**63 - 1
NotePath = Annotated[int, Path(ge=1, le=_LARGEST)]
SpanPath = Annotated[int, Path(ge=1, le=_LARGEST)]


class Review:
    """A store as the routes use it."""

    def __init__(self, file: ReviewFile, facts: Facts, *, explains: bool = True) -> None:
        self.file, self.facts, self.explains = file, facts, explains

    def change(self, note: int, reviewer: str, edit: Callable[[Any], object]) -> dict[str, Any]:
        """Make one decision and return the note after it. Raises Refused or ReviewError where it is not possible."""
        with self.file.transaction() as database:
            self.require(database, note)
            edit(database)
            return self.note(database, note, reviewer)

    def note(self, database: Any, note: int, reviewer: str) -> dict[str, Any]:
        """Return a note with the reviewer's spans."""
        begin_layer(database, reviewer, note)
        row = database.execute("SELECT id, name, text, patient FROM notes WHERE id = ?", (note,)).fetchone()
        (finished,) = database.execute(
            "SELECT finished FROM layers WHERE reviewer = ? AND note = ?", (reviewer, note)
        ).fetchone()
        divided = read_disagreements(database, note)
        spans = [
            {
                **asdict(span),
                "uncertainty": self._uncertainty(span.score),
                "disagreement": 1.0 if span.score is None else divided.get(span.key, 0.0),
            }
            for span in read_spans(database, reviewer, note)
        ]
        locked = reviewer != ADJUDICATION and is_adjudicated(database, note)
        replays = {what: may_replay(database, reviewer, backwards=what == "undo") for what in ("undo", "redo")}
        return {**dict(row), "finished": bool(finished), "locked": locked, "spans": spans, **replays}

    def require(self, database: Any, note: int) -> None:
        """Raise Refused where there is no such note."""
        if database.execute("SELECT 1 FROM notes WHERE id = ?", (note,)).fetchone() is None:
            raise Refused(404, "there is no such note")

    def require_label(self, label: str | None) -> None:
        """Raise Refused for a label that the review does not have."""
        if label is not None and label not in self.facts.labels:
            raise Refused(422, "label: not one of the review's labels")

    def _uncertainty(self, score: float | None) -> float:
        return 1.0 if score is None else uncertainty(score, self.facts.threshold)


def review_routes(review: Review, then: tuple[str, str]) -> APIRouter:
    """Return the routes; `then`, the next step and its command, is shown. All run in threads: a store may wait."""
    routes = APIRouter(prefix="/api")

    @routes.get("/state")
    def state() -> dict[str, Any]:
        account = acting()
        with review.file.transaction() as database:
            return {
                "labels": review.facts.labels,
                "threshold": review.facts.threshold,
                "reviewers": reviewers(database),
                "then": then,
                "adjudication": ADJUDICATION,
                "to_settle": to_settle(database) if account is None or account.adjudicates else 0,
                "account": None if account is None else account.name,
                "owner": owns(),
                "explains": review.explains,
            }

    @routes.get("/agreement")
    def agree() -> list[dict[str, Any]]:
        # From exact counts a reader could tell, mark by mark, what another has marked.
        if not owns():
            return []
        with review.file.transaction() as database:
            return [asdict(pair) for pair in agreement(database)]

    @routes.get("/guideline")
    def guideline() -> dict[str, Any]:
        with review.file.transaction() as database:
            return asdict(read_guideline(database))

    @routes.post("/guideline")
    def new_guideline(body: NewGuideline) -> dict[str, Any]:
        if not owns():
            raise Refused(403, "the guideline is the owners' to change")
        with review.file.transaction() as database:
            return asdict(write_guideline(database, body.text, after=body.after))

    @routes.get("/notes")
    def notes(
        reviewer: ReviewerQuery,
        order: Order = "score",
        around: int | None = None,
        offset: Annotated[int | None, Query(ge=0)] = None,
    ) -> dict[str, Any]:
        with review.file.transaction() as database:
            return asdict(note_page(database, reviewer, order=order, around=around, offset=offset))

    @routes.get("/notes/{note}")
    def one(note: NotePath, reviewer: ReviewerQuery) -> dict[str, Any]:
        return review.change(note, reviewer, lambda _: None)

    routes.include_router(_decisions(review))
    routes.include_router(_across_notes(review))
    return routes


def _decisions(review: Review) -> APIRouter:
    routes = APIRouter(prefix="/notes/{note}")

    @routes.post("/spans")
    def add(note: NotePath, body: NewSpan) -> dict[str, Any]:
        review.require_label(body.label)
        with review.file.transaction() as database:
            review.require(database, note)
            made = add_span(database, body.reviewer, note, start=body.start, end=body.end, label=body.label)
            return {**review.note(database, note, body.reviewer), "selected": made}

    @routes.post("/spans/{span}/status")
    def status(note: NotePath, span: SpanPath, body: Decision) -> dict[str, Any]:
        return review.change(note, body.reviewer, lambda db: decide(db, body.reviewer, note, span, body.status))

    @routes.post("/spans/{span}")
    def change(note: NotePath, span: SpanPath, body: Alteration) -> dict[str, Any]:
        review.require_label(body.label)
        new: dict[str, Any] = body.model_dump(exclude={"reviewer"})
        return review.change(note, body.reviewer, lambda db: alter(db, body.reviewer, note, span, **new))

    @routes.post("/finished")
    def finished(note: NotePath, body: Finish) -> dict[str, Any]:
        return review.change(
            note, body.reviewer, lambda db: finish(db, body.reviewer, note, finished=body.finished, settle=body.settle)
        )

    return routes


def _across_notes(review: Review) -> APIRouter:
    routes = APIRouter()

    @routes.post("/undo")
    def take_back(body: ByReviewer) -> dict[str, int | None]:
        with review.file.transaction() as database:
            return {"note": undo(database, body.reviewer)}

    @routes.post("/redo")
    def do_again(body: ByReviewer) -> dict[str, int | None]:
        with review.file.transaction() as database:
            return {"note": redo(database, body.reviewer)}

    @routes.post("/search")
    def search(body: SearchFields) -> dict[str, Any]:
        with review.file.transaction() as database:
            return asdict(find_hits(database, body.reviewer, _search(body)))

    @routes.post("/mark-all")
    def mark(body: MarkAll) -> dict[str, Any]:
        review.require_label(body.label)
        with review.file.transaction() as database:
            return asdict(mark_all(database, body.reviewer, _search(body), body.label))

    return routes


def _search(body: SearchFields) -> Search:
    return Search(body.words, body.whole_words, body.match_case)
