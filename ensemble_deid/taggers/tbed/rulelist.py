"""A rule list as a text file: a version, a header, and one rule a line.

    ensemble-deid rule list, version 1
    corpus: "demo, 180 notes"
    templates: "default"
    initial tagger: "regex"

    change O to B-DOCTOR if the lower 1 before is "dr" (fixed 120, broken 3)

The header follows the first line and ends at the first empty line or remark. Lines that begin with `#` and
empty lines may stand anywhere below it; they are kept, so a reviewer's remarks survive a round trip.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from ensemble_deid.atomic import write_text_atomically
from ensemble_deid.errors import RuleError
from ensemble_deid.taggers.tbed.rule_text import LineReader, parse_rule, quote, write_rule
from ensemble_deid.taggers.tbed.templates import Rule

VERSION = 1
_FIRST_LINE = re.compile(r"ensemble-deid rule list, version ([0-9]{1,9})")
_KEY = re.compile(r"[a-z]+(?: [a-z]+)*")
_HEADER_LINE = re.compile(rf"[ \t]*{_KEY.pattern}[ \t]*:")
INITIAL_KEY = "initial tagger"
REQUIRED_KEYS = ("corpus", "templates", INITIAL_KEY)


@dataclass(frozen=True, slots=True)
class RuleList:
    """An ordered list of rules and where it came from.

    `header` says at least the corpus, the templates and the initial tagger. `remarks[i]` are the comment and
    empty lines before rule i, and `remarks[len(rules)]` those after the last; left out, one empty line parts the
    header from the rules. Raises RuleError when the header cannot be written.
    """

    rules: tuple[Rule, ...]
    header: Mapping[str, str]
    remarks: Mapping[int, tuple[str, ...]] = field(default_factory=lambda: {0: ("",)}, repr=False)

    def __post_init__(self) -> None:
        for key in REQUIRED_KEYS:
            if key not in self.header:
                raise RuleError(f"the header of a rule list must say {key!r}")
        if any(_KEY.fullmatch(key) is None for key in self.header):
            raise RuleError("the keys of a rule list's header are words of small letters")

    def __len__(self) -> int:
        return len(self.rules)

    def __iter__(self) -> Iterator[Rule]:
        return iter(self.rules)

    def with_rules(self, rules: Sequence[Rule]) -> "RuleList":
        """Return the list with other rules and no remarks."""
        return replace(self, rules=tuple(rules), remarks={0: ("",)})

    def text(self) -> str:
        """Return the text of the file; reading it gives an equal list, and its text is the same byte for byte."""
        lines = [f"ensemble-deid rule list, version {VERSION}"]
        lines += [f"{key}: {quote(value)}" for key, value in self.header.items()]
        for index, rule in enumerate(self.rules):
            lines += [*self.remarks.get(index, ()), write_rule(rule)]
        lines += self.remarks.get(len(self.rules), ())
        return "\n".join(lines) + "\n"

    def save(self, path: Path) -> None:
        """Write the file whole or not at all."""
        write_text_atomically(path, self.text())

    @classmethod
    def parse(cls, text: str, *, name: str = "rules") -> "RuleList":
        """Read the text of a rule list. A RuleError begins with `name:line:column`, counted from 1."""
        lines = text.split("\n")
        if lines[-1] == "":
            lines.pop()
        _check_first_line(lines[0] if lines else "", name)
        header: dict[str, str] = {}
        rules: list[Rule] = []
        remarks: dict[int, tuple[str, ...]] = {}
        for number, line in enumerate(lines[1:], 2):
            place = f"{name}:{number}"
            bare = line.removesuffix("\r")
            if not bare.strip() or bare.lstrip().startswith("#"):
                remarks[len(rules)] = (*remarks.get(len(rules), ()), bare)
            elif not rules and not remarks and _HEADER_LINE.match(bare):
                _read_header_line(bare, place, header)
            else:
                rules.append(parse_rule(bare, place=place))
        for key in REQUIRED_KEYS:
            if key not in header:
                raise RuleError(f"{name}:2:1: the header does not say {key!r}")
        return cls(tuple(rules), header, remarks)

    @classmethod
    def load(cls, path: Path) -> "RuleList":
        """Read a file of rules. Raises RuleError with file, line and column."""
        try:
            # Bytes first: reading as text would turn a lone carriage return into a line end.
            text = path.read_bytes().decode("utf-8")
        except FileNotFoundError:
            raise RuleError(f"{path}: there is no such file") from None
        except UnicodeDecodeError as error:
            raise RuleError(f"{path}: byte {error.start} is not UTF-8") from None
        return cls.parse(text, name=str(path))


def _check_first_line(line: str, name: str) -> None:
    match = _FIRST_LINE.fullmatch(line.rstrip())
    if match is None:
        raise RuleError(f"{name}:1:1: expected 'ensemble-deid rule list, version {VERSION}'")
    if int(match[1]) != VERSION:
        raise RuleError(f"{name}:1:{match.start(1) + 1}: this program reads version {VERSION} of rule lists")


def _read_header_line(line: str, place: str, header: dict[str, str]) -> None:
    reader = LineReader(line, place)
    start = reader.at
    key = reader.match(_KEY, "a key")
    if key in header:
        raise RuleError(f"{place}:{start + 1}: the header says {key!r} twice")
    reader.word(":")
    header[key] = reader.quoted()
    reader.end()
