"""What the readers of FHIR and HL7 v2 return: one message with its note text, and what else is in it."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from ensemble_deid.corpora.edits import Edit


@dataclass(frozen=True, slots=True)
class Message:
    """`text` is all note text of the message; `written(edits)` is the message with the text replaced.

    `kept` names the other fields with a value, which may hold PHI and are never changed. Raises CorpusError, from
    `written`, where the replacement cannot be written in the message's character set.
    """

    text: str = field(repr=False)
    written: Callable[[Sequence[Edit]], bytes] = field(repr=False)
    kept: tuple[str, ...] = ()
    patient: str | None = field(default=None, repr=False)
