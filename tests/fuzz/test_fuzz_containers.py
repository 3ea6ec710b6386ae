"""PHI anywhere in a message: it is note text, or the message says that it keeps it, or nothing comes out."""

import json
from typing import Any

from budget import Budget
from hostile import MARKER
from hypothesis import strategies as st

from ensemble_deid.corpora.messages.fhir import read_fhir
from ensemble_deid.corpora.messages.hl7 import read_hl7
from ensemble_deid.errors import CorpusError

_NAMES = st.sampled_from(
    "resourceType status language contentType size hash coding system code text div data attachment note conclusion "
    "contained extension id meta class".split()
) | st.just(MARKER)
_SHELLS = (
    "{}",
    "http://loinc.org/{}",
    "en-{}",
    "text/plain; charset={}",
    "final {}",
    "1 {}",
    " {} ",
    "<p title='{}'/>",
)
_STRINGS = st.sampled_from([*(shell.format(MARKER) for shell in _SHELLS), "final", "en", "http://loinc.org", "11502-2"])
_VALUES = st.recursive(
    st.none() | st.booleans() | _STRINGS,
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(_NAMES, inner, max_size=3),
    max_leaves=8,
)


def test_fhir_says_what_it_keeps(budget: Budget) -> None:
    def check(fields: dict[str, Any]) -> None:
        div = '<div xmlns="http://www.w3.org/1999/xhtml">A note.</div>'
        content = {"resourceType": "DiagnosticReport", **fields, "text": {"div": div}}
        raw = json.dumps(content)
        try:
            message = read_fhir(raw.encode(), "x")
            said = str(message.kept)
        except CorpusError as error:
            message, said = None, str(error)
        assert MARKER not in said
        if message is None:
            return
        # Whoever takes all note text away, and keeps no other field, gives no marker away.
        emptied = message.written([(0, len(message.text), "")]).decode()
        assert message.kept or MARKER not in emptied

    budget.every(st.dictionaries(_NAMES, _VALUES, max_size=4), check)


def test_hl7_says_what_it_keeps(budget: Budget) -> None:
    fields = st.lists(st.sampled_from(["", "1", "TX", "F", MARKER, f"11502-2^{MARKER}^LN", f"1^{MARKER}"]), max_size=13)
    segments = st.lists(st.tuples(st.sampled_from(["OBX", "NTE", "PID", "ZZZ", "OBR"]), fields), max_size=4)

    def check(drawn: list[tuple[str, list[str]]]) -> None:
        lines = ["MSH|^~\\&|||||||ORU^R01||P|2.5", "NTE|1||A note.", *("|".join([n, *f]) for n, f in drawn)]
        try:
            message = read_hl7("\r".join(lines).encode(), "x")
            said = str(message.kept)
        except CorpusError as error:
            message, said = None, str(error)
        assert MARKER not in said
        if message is None:
            return
        assert message.kept or MARKER.encode() not in message.written([(0, len(message.text), "")])

    budget.every(segments, check)
