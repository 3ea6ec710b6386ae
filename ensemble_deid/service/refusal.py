"""The answer to a request that is not served; it never quotes the request."""

from collections.abc import Iterable, Mapping
from typing import Annotated, Any

from pydantic import Field
from starlette.responses import JSONResponse

Word = Annotated[str, Field(max_length=10_000)]
"""A string of a request that is no note. With a limit, pydantic refuses unpaired surrogates, which cannot be sent."""


class Refused(Exception):  # noqa: N818 (nothing went wrong: it is an answer)
    """Ends a request with this status and message. `close` ends the connection too, since its body was not read."""

    def __init__(self, status: int, message: str, *, retry: bool = False, close: bool = False) -> None:
        super().__init__(message)
        self.status, self.message = status, message
        self.headers: Mapping[str, str] = {
            **({"retry-after": "1"} if retry else {}),
            **({"connection": "close"} if close else {}),
            **({"www-authenticate": "Bearer"} if status == 401 else {}),
        }

    def response(self) -> JSONResponse:
        """Return the answer: `{"error": message}`, as Presidio's services answer."""
        return JSONResponse({"error": self.message}, self.status, dict(self.headers))


INTERNAL = Refused(500, "internal error", close=True)
"""The answer to what nobody foresaw; the log says where it happened."""


# Why a request does not fit its form, without a word of it: by default, FastAPI's answer quotes the input.


# The only words of a place that are shown: other keys are the client's, and might be anything.
_KNOWN = frozenset(
    "body query text language score_threshold entities return_decision_process ad_hoc_recognizers allow_list "
    "allow_list_match analyzer_results anonymizers start end entity_type score type new_value masking_char "
    "chars_to_mask from_end hash_type salt id patient_id style styles policy scope threshold min_score set "
    "reviewer label status finished words whole_words match_case note span format".split()
)
# pydantic's names of errors -> what is said; any other is only said not to fit.
_MESSAGES = {
    "missing": "is missing",
    "string_type": "must be a string",
    "string_unicode": "must be a string without unpaired surrogates",
    "string_too_short": "is too short",
    "string_too_long": "is too long",
    "list_type": "must be a list",
    "dict_type": "must be an object",
    "model_type": "must be an object",
    "model_attributes_type": "must be an object (with the header Content-Type: application/json)",
    "int_type": "must be a whole number",
    "int_parsing": "must be a whole number",
    "float_type": "must be a number",
    "float_parsing": "must be a number",
    "greater_than_equal": "is too small",
    "less_than_equal": "is too large",
    "extra_forbidden": "holds a key that is not known",
    "union_tag_invalid": "has an unknown type",
    "union_tag_not_found": "has no type",
    "literal_error": "not one of the possible values",
}


def problem(errors: Iterable[Mapping[str, Any]]) -> str:
    """Return one line for the first of pydantic's errors."""
    for error in errors:
        if error.get("type") == "json_invalid":
            break
        place = [part for part in error.get("loc", ()) if part in _KNOWN or isinstance(part, int)]
        named = ".".join(str(part) for part in place if part != "body") or "the body"
        return f"{named}: {_MESSAGES.get(str(error.get('type')), 'does not have the expected form')}"
    return "the body is not valid JSON"
