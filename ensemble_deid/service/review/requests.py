"""The bodies of the review page's requests; a key that is not known is refused."""

from typing import Annotated

from pydantic import AfterValidator, BaseModel, ConfigDict, Field

from ensemble_deid.service.refusal import Refused
from ensemble_deid.service.review.accounts import acting
from ensemble_deid.service.review.records import ADJUDICATION, Status


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


class NewSpan(ByReviewer):
    """A place to mark; offsets in code points, as everywhere."""

    start: int
    end: int
    label: str


class Decision(ByReviewer):
    status: Status


class Alteration(ByReviewer):
    """A span's new ends or label; what is None stays."""

    start: int | None = None
    end: int | None = None
    label: str | None = None


class Finish(ByReviewer):
    """Whether a note is finished, or open again; `settle` decides what is undecided as it is shown."""

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


class SelectedPlace(ByReviewer):
    start: int
    end: int
