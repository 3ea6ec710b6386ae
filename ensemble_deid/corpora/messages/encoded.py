"""A text inside something else: every character with how it is written there, and what stands between characters."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from ensemble_deid.corpora.edits import Edit


@dataclass(slots=True)
class EncodedText:
    """`pieces[i]` writes character i (nothing, where it only stands for a break); `marks[i]` stands before it.

    Without edits the pieces and marks are the original, byte for byte. Marks (tags, escape sequences for highlighting,
    the rest of a message) are always kept, also inside what is replaced. `joined` has the first and the end of
    characters that are written together, for each of them.
    """

    characters: list[str] = field(default_factory=list, repr=False)
    pieces: list[str] = field(default_factory=list, repr=False)
    marks: dict[int, str] = field(default_factory=dict, repr=False)
    joined: dict[int, tuple[int, int]] = field(default_factory=dict)

    @property
    def text(self) -> str:
        """The text as a reader sees it."""
        return "".join(self.characters)

    def add(self, characters: str, piece: str) -> None:
        """Add characters that are written together."""
        first = len(self.pieces)
        if len(characters) > 1:
            self.joined.update(dict.fromkeys(range(first, first + len(characters)), (first, first + len(characters))))
        for number, character in enumerate(characters):
            self.characters.append(character)
            self.pieces.append("" if number else piece)

    def mark(self, written: str) -> None:
        """Add what is no text, and stays."""
        at = len(self.pieces)
        self.marks[at] = self.marks.get(at, "") + written

    def separate(self, character: str = "\n") -> None:
        """Add a character that is written nowhere, so that words on either side of a mark are not read as one."""
        if self.characters and not self.characters[-1].isspace():
            self.add(character, "")

    def edited(self, edits: Sequence[Edit], encode: Callable[[str], str]) -> str:
        """Return how the text is written with edits made: each replaces characters, in text order."""
        parts: list[str] = []
        position = 0
        for start, end, new in self._whole(edits):
            parts += [self._written(position, start), self.marks.get(start, ""), encode(new)]
            parts += [self.marks.get(inside, "") for inside in range(start + 1, end)]
            position = end
        return "".join([*parts, self._written(position, len(self.pieces)), self.marks.get(len(self.pieces), "")])

    def _whole(self, edits: Sequence[Edit]) -> list[Edit]:
        """Return edits that never take only some of the characters that are written together."""
        if not self.joined:
            return list(edits)
        whole: list[Edit] = []
        done, text = 0, self.text
        for start, end, new in edits:
            first, after = self.joined.get(start, (start, end))[0], self.joined.get(end - 1, (start, end))[1]
            if whole and first < whole[-1][1]:
                # The edit before has taken these characters up to its own end already.
                before, _, tail = whole.pop()
                kept = tail[: len(tail) - len(text[done : self.joined[start][1]])]
                new = kept + text[done:start] + new
                first = before
            else:
                new = text[first:start] + new
            whole.append(Edit(first, after, new + text[end:after]))
            done = end
        return whole

    def _written(self, start: int, end: int) -> str:
        return "".join(self.marks.get(at, "") + self.pieces[at] for at in range(start, end))
