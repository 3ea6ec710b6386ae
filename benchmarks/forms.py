"""How much a model finds in notes that are written in other forms: entities, letters apart, look-alikes, encodings.

    python benchmarks/forms.py en --notes 30 --seed 0

Every form is made of notes of demo dev. For each: recall of the letters and digits of PHI, by token of the plain note
(a token is found where all of its letters and digits are inside spans), false positives a note (spans that touch no
PHI), and the share of notes in which the reading saw a form. The bar is the plain notes' recall less one point.
"""

import argparse
import base64
import html
import quopri
import random
import re
import sys
import urllib.parse
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from ensemble_deid import Deidentifier, Document, read_corpus
from ensemble_deid.cli.terminal import as_script
from ensemble_deid.note.reading import read
from ensemble_deid.note.span import Span
from ensemble_deid.note.tokens import tokenize

Place = tuple[int, int]


@dataclass(frozen=True)
class Written:
    """A note in another form: its text, and where in it each character of the plain note is."""

    text: str
    places: Sequence[Place]


Form = Callable[[Document, random.Random], Written]


def _pieces(pieces: Sequence[str]) -> Written:
    """Return the text of one piece for each character of the note."""
    places, at = [], 0
    for piece in pieces:
        places.append((at, at + len(piece)))
        at += len(piece)
    return Written("".join(pieces), places)


def each(change: Callable[[str], str]) -> Form:
    """Return the form in which every character is changed by itself."""
    return lambda note, rng: _pieces([change(c) for c in note.text])


def in_phi(change: Callable[[str], Sequence[str]]) -> Form:
    """Return the form in which the text of every span is changed: a string in, a piece for each character out."""

    def form(note: Document, rng: random.Random) -> Written:
        pieces = list(note.text)
        for span in note.spans:
            pieces[span.start : span.end] = change(note.text[span.start : span.end])
        return _pieces(pieces)

    return form


def between(mark: str, *, least: int = 1) -> Callable[[str], list[str]]:
    """Return the change that puts a mark after every letter but the last of a string."""
    return lambda text: [c + mark if k + 1 < len(text) else c for k, c in enumerate(text)]


def within_words(mark: str) -> Form:
    """Return the form in which a mark is in the middle of every word of four letters or more."""

    def form(note: Document, rng: random.Random) -> Written:
        pieces = list(note.text)
        for match in re.finditer(r"[^\W\d_]{4,}", note.text):
            middle = (match.start() + match.end()) // 2
            pieces[middle - 1] += mark
        return _pieces(pieces)

    return form


def hyphenated(note: Document, rng: random.Random) -> Written:
    """Cut every word of PHI with six letters or more at a line end."""
    pieces = list(note.text)
    for span in note.spans:
        for match in re.finditer(r"[^\W\d_]{6,}", note.text[span.start : span.end]):
            pieces[span.start + (match.start() + match.end()) // 2 - 1] += "-\n"
    return _pieces(pieces)


def tagged(note: Document, rng: random.Random) -> Written:
    """Put tags around every word of PHI, and inside every third."""
    pieces = list(note.text)
    for span in note.spans:
        for match in re.finditer(r"\w+", note.text[span.start : span.end]):
            first, last = span.start + match.start(), span.start + match.end() - 1
            name = rng.choice(["b", "span", "name", "i"])
            if rng.random() < 0.33 and last > first:
                pieces[first] = f"{pieces[first]}<{name}>"
            else:
                pieces[first] = f"<{name}>{pieces[first]}"
            pieces[last] += f"</{name}>"
    return _pieces(pieces)


def reversed_phi(note: Document, rng: random.Random) -> Written:
    """Write PHI backwards after a right-to-left override."""
    pieces = list(note.text)
    places: list[Place] = list(_pieces(pieces).places)
    out, at = "", 0
    for span in sorted(note.spans):
        out += note.text[at : span.start]
        places[at : span.start] = [
            (len(out) - span.start + k, len(out) - span.start + k + 1) for k in range(at, span.start)
        ]
        begin = len(out) + 1
        out += "\u202e" + note.text[span.start : span.end][::-1] + "\u202c"
        for k in range(span.start, span.end):
            place = begin + span.end - 1 - k
            places[k] = (place, place + 1)
        at = span.end
    rest = len(out) - at
    places[at:] = [(k + rest, k + rest + 1) for k in range(at, len(note.text))]
    return Written(out + note.text[at:], places)


def encoded_base64(note: Document, rng: random.Random) -> Written:
    """Encode the whole note in base64, 76 characters a line."""
    data = base64.b64encode(note.text.encode()).decode()
    text = "\n".join(data[k : k + 76] for k in range(0, len(data), 76))
    places, at = [], 0
    for character in note.text:
        size = len(character.encode())
        first, last = at * 8 // 6, ((at + size) * 8 - 1) // 6
        places.append((first + first // 76, last + last // 76 + 1))
        at += size
    return Written(text, places)


def quoted_printable(note: Document, rng: random.Random) -> Written:
    """Encode the note in quoted-printable; long lines get soft line breaks."""
    pieces: list[str] = []
    for line in note.text.replace("\n", " \n" if rng.random() < 0.5 else "\n").splitlines(keepends=True):
        column = 0
        for character in line:
            code = quopri.encodestring(character.encode()).decode().replace("=\n", "") if character != "\n" else "\n"
            if character == " " and line.endswith(" \n") and len(pieces) >= 0:
                code = " "
            if column + len(code) > 75 and character != "\n":
                code, column = "=\n" + code, 0
            column += len(code)
            pieces.append(code)
    if len(pieces) != len(note.text):
        return quoted_printable(note, _Never())
    return _pieces(pieces)


class _Never(random.Random):
    def random(self) -> float:
        return 1.0


def rtf(note: Document, rng: random.Random) -> Written:
    """Write the note in RTF, with its names in bold."""
    head = r"{\rtf1\ansi\ansicpg1252{\fonttbl{\f0\fswiss Helvetica;}}{\colortbl;\red0\green0\blue0;}\pard\f0\fs24 "
    pieces = [_in_rtf(c) for c in note.text]
    for span in note.spans:
        if rng.random() < 0.5:
            pieces[span.start] = r"{\b " + pieces[span.start]
            pieces[span.end - 1] += "}"
    pieces[0] = head + pieces[0]
    pieces[-1] += "}"
    return _pieces(pieces)


def _in_rtf(character: str) -> str:
    if character == "\n":
        return "\\par\n"
    if character in "\\{}":
        return f"\\{character}"
    if character.isascii():
        return character
    code = character.encode("cp1252", "ignore")
    return f"\\'{code.hex()}" if code else f"\\u{ord(character)}?"


def one_word_a_line(note: Document, rng: random.Random) -> Written:
    """Write every word on a line of its own."""
    return _pieces(["\n" if c.isspace() else c for c in re.sub(r"\s", " ", note.text)])


def noisy(note: Document, rng: random.Random) -> Written:
    """Read a tenth of the characters that scanners misread wrong."""
    wrong = {
        "O": "0",
        "o": "0",
        "l": "1",
        "I": "l",
        "S": "5",
        "B": "8",
        "m": "rn",
        "e": "c",
        "h": "b",
        "0": "O",
        "1": "l",
        "5": "S",
    }
    return _pieces([wrong[c] if c in wrong and rng.random() < 0.1 else c for c in note.text])


def two_columns(note: Document, rng: random.Random) -> Written:
    """Set the note in two columns of 42 characters."""
    lines: list[list[int]] = [[]]
    for k, character in enumerate(note.text):
        if character == "\n":
            lines.append([])
        elif len(lines[-1]) < 42 or character != " ":
            lines[-1].append(k)
            if len(lines[-1]) >= 46:
                lines.append([])
        else:
            lines.append([])
    half = (len(lines) + 1) // 2
    places: list[Place] = [(0, 0)] * len(note.text)
    text = ""
    for left, right in zip(lines[:half], [*lines[half:], []][:half], strict=True):
        for column in (left, right):
            for k in column:
                places[k] = (len(text), len(text) + 1)
                text += note.text[k]
            if column is left:
                text += " " * (50 - len(left))
        text = text.rstrip(" ") + "\n"
    return Written(text, places)


def _shifted(first_upper: int, first_lower: int, first_digit: int) -> Callable[[str], str]:
    def change(c: str) -> str:
        if c.isascii() and c.isupper():
            return chr(first_upper + ord(c) - 65)
        if c.isascii() and c.islower():
            return chr(first_lower + ord(c) - 97)
        return chr(first_digit + int(c)) if c.isascii() and c.isdigit() else c

    return change


def _mapped(source: str, target: str, share: float = 1.0) -> Form:
    table = dict(zip(source, target, strict=True))
    return lambda note, rng: _pieces([table[c] if c in table and rng.random() < share else c for c in note.text])


def _numbers(change: Callable[[str], str]) -> Form:
    return in_phi(lambda text: [change(c) for c in text])


def split_numbers(note: Document, rng: random.Random) -> Written:
    """Put blanks around the separators of numbers in PHI."""
    pieces = list(note.text)
    for span in note.spans:
        for match in re.finditer(r"(?<=\d)[/.-](?=\d)", note.text[span.start : span.end]):
            pieces[span.start + match.start()] = f" {match[0]} "
    return _pieces(pieces)


def parted_numbers(note: Document, rng: random.Random) -> Written:
    """Put blanks inside the numbers of PHI with five digits or more: after each digit, or after two and five."""
    pieces = list(note.text)
    for span in note.spans:
        for match in re.finditer(r"\d{5,}", note.text[span.start : span.end]):
            size = len(match[0])
            for k in range(1, size) if rng.random() < 0.5 else (2, 5):
                if k < size:
                    pieces[span.start + match.start() + k - 1] += " "
    return _pieces(pieces)


FORMS: dict[str, Form] = {
    "plain": each(lambda c: c),
    "HTML numeric entities": each(lambda c: f"&#{ord(c)};" if c.isalnum() else c),
    "HTML named entities, escaped twice": each(lambda c: html.escape(f"&#{ord(c)};") if c.isalnum() else c),
    "letters of PHI one a line": in_phi(between("\n")),
    "letters one a line": each(lambda c: c + "\n"),
    "letter-spaced PHI": in_phi(between(" ")),
    "letter-spaced": each(lambda c: c + " "),
    "PHI reversed by U+202E": reversed_phi,
    "dots between letters of PHI": in_phi(between(".")),
    "mathematical bold": each(_shifted(0x1D400, 0x1D41A, 0x1D7CE)),
    "U+200B inside words": within_words("\u200b"),
    "U+200B between letters of PHI": in_phi(between("\u200b")),
    "U+034F inside words": within_words("\u034f"),
    "%20 for blanks": each(lambda c: "%20" if c == " " else c),
    "percent-encoded": each(lambda c: c if c == "\n" else urllib.parse.quote(c)),
    "full-width": each(lambda c: chr(ord(c) + 0xFEE0) if "!" <= c <= "~" else c),
    "U+3164 inside words": within_words("\u3164"),
    "U+3164 for blanks": each(lambda c: "\u3164" if c == " " else c),
    "acute on every letter": each(lambda c: c + "\u0301" if c.isalpha() else c),
    "stroke through every letter": each(lambda c: c + "\u0336" if c.isalnum() else c),
    "PHI cut at line ends": hyphenated,
    "<br> and &nbsp;": each(lambda c: {"\n": "<br>", " ": "&nbsp;"}.get(c, c)),
    "Cyrillic look-alikes": _mapped("aeopcyxABEKMHOPCTXis", "аеорсухАВЕКМНОРСТХіѕ"),
    "half of them": _mapped("aeopcyxABEKMHOPCTXis", "аеорсухАВЕКМНОРСТХіѕ", 0.5),
    "Greek look-alikes": _mapped("oABEZHIKMNOPTYXv", "οΑΒΕΖΗΙΚΜΝΟΡΤΥΧν"),
    "superscript digits": _numbers(lambda c: "⁰¹²³⁴⁵⁶⁷⁸⁹"[int(c)] if c.isascii() and c.isdigit() else c),
    "tags around words of PHI": tagged,
    "Arabic-Indic digits": each(lambda c: chr(0x660 + int(c)) if c.isascii() and c.isdigit() else c),
    "_ for blanks": each(lambda c: "_" if c == " " else c),
    "| for blanks": each(lambda c: "|" if c == " " else c),
    "fraction slash in PHI": _numbers(lambda c: "\u2044" if c == "/" else c),
    "en dash in PHI": _numbers(lambda c: "\u2013" if c == "-" else c),
    "RTF": rtf,
    "quoted-printable": quoted_printable,
    "base64": encoded_base64,
    "blanks around separators": split_numbers,
    "blanks inside numbers": parted_numbers,
    "one word a line": one_word_a_line,
    "two columns": two_columns,
    "lower case": each(lambda c: c.lower() if len(c.lower()) == 1 else c),
    "capitals": each(lambda c: c.upper() if len(c.upper()) == 1 else c),
    "a tenth misread": noisy,
}


def measure(model: Deidentifier, notes: Sequence[Document], form: Form, *, seed: int) -> tuple[int, int, int, float]:
    """Return the tokens of PHI found, their number, the false positives, and the share of notes with a form."""
    found = total = wrong = seen = 0
    for note in notes:
        written = form(note, random.Random(f"{seed} {note.id}"))
        seen += bool(read(written.text).forms)
        (predicted,) = model.predict([Document(note.id, written.text)])
        covered = _covered(predicted.spans, len(written.text))
        gold = bytearray(len(written.text))
        tokens = tokenize([note])
        for span in note.spans:
            for k in range(span.start, span.end):
                low, high = written.places[k]
                gold[low:high] = b"\1" * (high - low)
            for low, high in zip(tokens.start.tolist(), tokens.end.tolist(), strict=True):
                if low < span.end and span.start < high and any(c.isalnum() for c in note.text[low:high]):
                    total += 1
                    places = [written.places[k] for k in range(low, high) if note.text[k].isalnum()]
                    found += all(any(covered[a:b]) for a, b in places)
        wrong += sum(not any(gold[span.start : span.end]) for span in predicted.spans)
    return found, total, wrong, seen / len(notes)


def _covered(spans: Sequence[Span], length: int) -> bytearray:
    covered = bytearray(length)
    for span in spans:
        covered[span.start : span.end] = b"\1" * (span.end - span.start)
    return covered


@as_script
def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("model")
    parser.add_argument("--notes", type=int, default=30)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--form", action="append", help="only these, after plain")
    options = parser.parse_args()
    model = Deidentifier.load(options.model)
    notes = list(read_corpus("demo:dev"))
    notes = random.Random(options.seed).sample(notes, min(options.notes, len(notes)))
    bar = 0.0
    print("| form | token recall | at the bar | false positives a note | notes in which a form is seen |")
    print("| --- | --- | --- | --- | --- |")
    for name, form in FORMS.items():
        if options.form and name not in ("plain", *options.form):
            continue
        found, total, wrong, seen = measure(model, notes, form, seed=options.seed)
        recall = 100 * found / total
        bar = recall - 1 if name == "plain" else bar
        verdict = "yes" if recall >= bar else "no"
        print(f"| {name} | {recall:.1f} | {verdict} | {wrong / len(notes):.2f} | {100 * seen:.0f}% |", flush=True)


if __name__ == "__main__":
    sys.exit(main())
