"""Offsets in UTF-16 code units, in which tools written in Java and JavaScript count, and in code points, as here."""

from itertools import accumulate

_LAST_OF_ONE_UNIT = "\uffff"


class Utf16Offsets:
    """Translates offsets into one text; a character beyond U+FFFF is two units long."""

    def __init__(self, text: str) -> None:
        self._length = len(text)
        # Most texts have no such character: then the offsets are the same.
        self._units: list[int] | None = None
        self._points: dict[int, int] = {}
        if text and max(text) > _LAST_OF_ONE_UNIT:
            self._units = [0, *accumulate(1 + (character > _LAST_OF_ONE_UNIT) for character in text)]
            self._points = {unit: point for point, unit in enumerate(self._units)}

    @property
    def differ(self) -> bool:
        """Whether the two kinds of offsets differ anywhere in the text."""
        return self._units is not None

    def to_units(self, offset: int) -> int:
        """Return an offset in code points as one in code units."""
        return offset if self._units is None else self._units[offset]

    def to_points(self, unit: int) -> int | None:
        """Return an offset in code units as one in code points; None outside the text and inside a character."""
        if self._units is None:
            return unit if 0 <= unit <= self._length else None
        return self._points.get(unit)
