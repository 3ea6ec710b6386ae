"""Which language notes are written in, told by the share of frequent function words; no library is needed for that.

Function words (articles, prepositions, pronouns, forms of *be* and *have*) make up a fifth to a half of running text in
the languages below, and far less of a text in another language. Languages that no pattern set is for are listed too,
so that French notes are not taken for Spanish ones on the strength of *de* and *la*.
"""

import re
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from types import MappingProxyType

from ensemble_deid.note.document import Document

NAMES: Mapping[str, str] = MappingProxyType(
    {
        "ca": "Catalan",
        "de": "German",
        "en": "English",
        "es": "Spanish",
        "fr": "French",
        "it": "Italian",
        "nl": "Dutch",
        "pt": "Portuguese",
    }
)
_FUNCTION_WORDS: Mapping[str, frozenset[str]] = {
    language: frozenset(words.split())
    for language, words in {
        "ca": "de la el i a les els per amb que en un una del no es va al dels seva seu ha més pel als són fou",
        "de": "der die und das mit von bei im den des zu in ist nicht ein eine einer dem zur wurde sich auf für am es",
        "en": "the of and to in with was on for a is at by he she his her had has no not be are that from this an were",
        "es": "de la el y en con que a los las del por un una se no al para su lo es como más le presenta sin fue",
        "fr": "de la le et les des du un une à en est pour dans au par avec sur il elle pas qui ce sa son a été ne",
        "it": "di e il la con per in del della che un una è non a le da al i dei nel alla si ha sono gli lo ed stato",
        "nl": "de en van het een in met op is te voor niet bij zijn geen werd er aan dat was door heeft om werden",
        "pt": "de e a o com do da em um uma que no na os as para por não se ao dos das foi é sem à mais ou",
    }.items()
}
_WORD = re.compile(r"[^\W\d_]+")
_LEAST_WORDS, _LEAST_DISTINCT, _LEAST_SHARE, _LEAST_RATIO = 50, 5, 0.05, 1.2


@dataclass(frozen=True, slots=True)
class LanguageGuess:
    """The language of some notes, None where it cannot be told, and each language's share of function words."""

    language: str | None
    shares: Mapping[str, float]

    def __str__(self) -> str:
        first, second = sorted(self.shares, key=lambda name: (-self.shares[name], name))[:2]
        shares = ", ".join(f"{NAMES[name]} {100 * self.shares[name]:.1f}%" for name in (first, second))
        if self.language is None:
            return f"the language of the notes could not be told (function words: {shares})"
        return f"the notes look {NAMES[self.language]} (function words: {shares})"


def guess_language(documents: Iterable[Document]) -> LanguageGuess:
    """Tell the language of all notes together.

    It is told where at least fifty words stand, one in twenty is a function word of the language, five different ones
    occur, and no other language has nearly as many.
    """
    words = Counter(word for document in documents for word in _WORD.findall(document.text.lower()))
    total = words.total()
    shares = {
        language: sum(words[word] for word in sorted(listed)) / total if total else 0.0
        for language, listed in _FUNCTION_WORDS.items()
    }
    first, second = sorted(shares, key=lambda name: (-shares[name], name))[:2]
    # A language whose word "na" or "a" is also an abbreviation shows no others.
    distinct = sum(word in words for word in _FUNCTION_WORDS[first])
    told = total >= _LEAST_WORDS and distinct >= _LEAST_DISTINCT
    told = told and shares[first] >= max(_LEAST_SHARE, _LEAST_RATIO * shares[second])
    return LanguageGuess(first if told else None, shares)
