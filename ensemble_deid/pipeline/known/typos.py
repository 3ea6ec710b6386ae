"""Words at an edit distance of one, found by look-ups instead of comparisons.

Two words that differ by one letter have a form in common that lacks a letter of each (the symmetric deletes of W.
Garbe's SymSpell). So every word is stored under all its forms with a letter deleted.
"""

from collections.abc import Iterable

SHORTEST = 6
"""Words with fewer letters are not looked for with typing errors: too many other words are like them."""


class Typos:
    """An index of words, of which those with six letters or more are found with one typing error."""

    def __init__(self, words: Iterable[str]) -> None:
        self._words: dict[str, list[str]] = {}
        for word in sorted(set(words)):
            if len(word) >= SHORTEST:
                for form in {word, *_deletions(word)}:
                    self._words.setdefault(form, []).append(word)

    def near(self, word: str) -> list[str]:
        """Return the words that differ from this one by exactly one edit."""
        if len(word) < SHORTEST - 1:
            return []
        forms = {word, *_deletions(word)}
        found = {near for form in forms for near in self._words.get(form, ())}
        return sorted(near for near in found if near != word and within_one_edit(word, near))


def within_one_edit(first: str, second: str) -> bool:
    """Whether one letter inserted, deleted or substituted, or two neighbours exchanged, makes one of the other."""
    if len(first) > len(second):
        first, second = second, first
    start = 0
    while start < len(first) and first[start] == second[start]:
        start += 1
    rest, other = first[start:], second[start:]
    if len(rest) < len(other):
        return rest == other[1:]
    return rest[1:] == other[1:] or (rest[2:] == other[2:] and rest[:2] == other[1::-1])


def _deletions(word: str) -> list[str]:
    return [word[:place] + word[place + 1 :] for place in range(len(word))]
