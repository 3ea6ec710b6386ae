"""E-mail addresses, URLs and user names of the output, in the domains that RFC 2606 reserves for examples."""

import re
from dataclasses import dataclass

from ensemble_deid.note.folding import fold, match_case
from ensemble_deid.surrogates.choices import Keyed
from ensemble_deid.surrogates.codes import Codes
from ensemble_deid.surrogates.known import Avoided
from ensemble_deid.surrogates.names import PersonNames
from ensemble_deid.surrogates.place_words import PLAIN_WORDS

_URL = re.compile(r"(?P<scheme>[a-z][a-z0-9+.-]*://)?(?P<host>[^\s/:?#]+)(?P<rest>.*)", re.IGNORECASE | re.DOTALL)
_LETTERS = re.compile(r"[^\W\d_]+")
_KEPT = frozenset("www http https html htm php aspx pdf index home mailto ftp com org net".split())
_SCHEMES = frozenset(f"{name}://" for name in "http https ftp ftps sftp file tel smb".split())
_TOP_LEVEL = ("com", "org", "net")
_SHORTEST_WORD = 4


@dataclass(frozen=True, slots=True)
class Web:
    """The addresses in one patient's notes; people in them have the surrogates that they have elsewhere."""

    keyed: Keyed
    avoided: Avoided
    names: PersonNames
    codes: Codes

    def email(self, surface: str) -> str | None:
        """Return another address, such as `mlopez@willow.example.org`."""
        local, at, host = surface.rpartition("@")
        if not at:
            return self.url(surface)
        handle = self.handle(local) if local else None
        return None if handle is None else f"{handle}@{self._host(host)}"

    def url(self, surface: str) -> str | None:
        """Return another URL: the scheme stays, the words and numbers of the path are replaced."""
        match = _URL.fullmatch(surface.strip())
        if match is None:
            return None
        scheme = match["scheme"] or ""
        if scheme.casefold() not in _SCHEMES:
            scheme = self._words(scheme)
        return surface.replace(match.group(), scheme + self._host(match["host"]) + self._words(match["rest"]))

    def handle(self, surface: str) -> str | None:
        """Return another user name: from a person's surrogate if it is one, else word by word."""
        named = self.names.handle(surface, self._letters)
        value = self.codes.digits(named) if named is not None else self._words(surface)
        if fold(value) == fold(surface) or not self.avoided.allows(value):
            return self.codes.replace(surface, "USERNAME")
        return value

    def _host(self, host: str) -> str:
        labels = host.casefold().split(".")
        ending = labels[-1] if labels[-1] in _TOP_LEVEL else _TOP_LEVEL[self.keyed.number(3, "ending", labels[-1])]
        www = "www." if labels[0] == "www" else ""
        # What tells the hosts of an organisation apart (mail, www) is left out: the domain is theirs.
        domain = ".".join(labels[-2:])
        return f"{www}{self._word(domain).lower()}.example.{ending}"

    def _words(self, text: str) -> str:
        return self.codes.digits(_LETTERS.sub(lambda match: self._letters(match.group()), text))

    def _letters(self, letters: str) -> str:
        if letters.casefold() in _KEPT:
            return letters
        if len(letters) < _SHORTEST_WORD:
            return self.codes.replace(letters, "IDNUM") or ""
        return match_case(letters, self._word(letters))

    def _word(self, word: str) -> str:
        value = self.keyed.pick(PLAIN_WORDS, "web", fold(word), fits=self.avoided.allows_words)
        return value or self.codes.replace(word, "IDNUM") or "example"
