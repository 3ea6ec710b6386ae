"""Surrogate e-mail addresses, URLs and user names. Names in them match the new names of the people in the notes."""

import re

from ensemble_deid.note.folding import fold, match_case
from ensemble_deid.surrogates.codes import CodeMap
from ensemble_deid.surrogates.persons import PersonMap
from ensemble_deid.surrogates.source import ValueSource

_HOST = re.compile(r"(?:https?://)?([^/\s:?#]+)", re.IGNORECASE)
_LETTERS = re.compile(r"[^\W\d_]+")
_LABEL = re.compile(r"[^\W_]+")
_KEPT_LABELS = frozenset(
    (
        "www com org net edu gov example test localhost us uk es http https mail my portal "
        "gmail yahoo hotmail outlook icloud"
    ).split()
)
_DIGITS = re.compile(r"\d+")


class WebMap:
    """One patient's addresses: a part of a host name is always replaced alike."""

    def __init__(self, source: ValueSource, persons: PersonMap, codes: CodeMap) -> None:
        self._source = source
        self._persons = persons
        self._codes = codes
        self._labels: dict[str, str] = {}

    def email(self, surface: str) -> str:
        """Return another address: names in it are replaced as in the notes, the top-level domain is kept."""
        local, at, host = surface.rpartition("@")
        return self.handle(local) + at + self._host(host) if at else self.url(surface)

    def url(self, surface: str) -> str:
        """Return another address of the same form: host and numbers are replaced, scheme and words in the path kept."""
        match = _HOST.match(surface)
        if match is None:
            return self._codes.replace(surface, "IDNUM")
        path = self._persons.replace_handle(surface[match.end() :]) or surface[match.end() :]
        rest = _DIGITS.sub(lambda found: self._codes.replace(found.group(), "IDNUM"), path)
        replaced = surface[: match.start(1)] + self._host(match.group(1)) + rest
        return replaced if replaced != surface else self._codes.replace(surface, "IDNUM")

    def handle(self, surface: str) -> str:
        """Return another user name: from a person's new name if the old one was, else character by character."""
        named = self._persons.replace_handle(surface)
        if named is None:
            named = _LETTERS.sub(self._handle_word, surface)
        if named == surface:
            return self._codes.replace(surface, "USERNAME")
        return _DIGITS.sub(lambda match: self._codes.replace(match.group(), "USERNAME"), match_case(surface, named))

    def _handle_word(self, match: "re.Match[str]") -> str:
        # A long run of letters is a word or a name, a short one a code.
        letters = match.group()
        return self._label(letters) if len(letters) > 3 else self._codes.replace(letters, "USERNAME")

    def _host(self, host: str) -> str:
        labels = host.split(".")
        # The last label is the top level; a host of one label has none.
        last = len(labels) - 1 if len(labels) > 1 else len(labels)
        return ".".join(
            label if index == last else _LABEL.sub(lambda match: self._label(match.group()), label)
            for index, label in enumerate(labels)
        )

    def _label(self, label: str) -> str:
        key = label.casefold()
        if key in _KEPT_LABELS:
            return label
        if key.isdecimal():
            return self._codes.replace(label, "IDNUM")
        if key not in self._labels:
            name = self._source.family_name(self._source.home, label)
            self._labels[key] = fold(name)
        return match_case(label, self._labels[key])
