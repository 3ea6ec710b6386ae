"""The pattern files hold what they promise, and no text makes a pattern slow."""

import re
import time
from collections.abc import Sequence
from pathlib import Path

import pytest
import regex
from bounded_work import no_hang
from hypothesis import given, settings
from hypothesis import strategies as st

from ensemble_deid.corpora.read import read_corpus
from ensemble_deid.errors import CorpusError, RuleError
from ensemble_deid.features import patterns as patterns_module
from ensemble_deid.features.compiled_patterns import cache_directory, read_compiled
from ensemble_deid.features.pattern_starts import StartTable, beginnings
from ensemble_deid.features.pattern_text import failed_examples
from ensemble_deid.features.patterns import Pattern, PatternSet, TimeLimit, find_all, parse_patterns, read_patterns
from ensemble_deid.note.document import Document
from ensemble_deid.note.labels import known_labels
from ensemble_deid.note.overlaps import keep_first
from ensemble_deid.note.span import Span

FILES = sorted((Path(__file__).parents[1] / "rules" / "patterns").glob("*.toml"))
SETS = {path.stem: read_patterns(path) for path in FILES}
RUNS = ("a", "A", "Aa ", "1", "1 ", " ", ".", "-", ", ", "\n")


def _file(*tables: str, words: str = "") -> PatternSet:
    head = f"[words]\n{words}\n" if words else ""
    return parse_patterns(head + "".join(f"[[pattern]]\n{table}\n" for table in tables), path="x.toml")


def test_files_are_there() -> None:
    assert {"en-i2b2", "es-meddocan"} <= set(SETS)


@pytest.mark.parametrize("name", SETS)
def test_every_pattern_keeps_its_examples(name: str) -> None:
    problems = [problem for pattern in SETS[name].patterns for problem in failed_examples(pattern)]
    assert problems == []


@pytest.mark.parametrize("name", SETS)
def test_every_pattern_has_examples_and_a_known_label(name: str) -> None:
    for pattern in SETS[name].patterns:
        assert pattern.positive, pattern.name
        assert pattern.negative, pattern.name
        assert pattern.label in known_labels(), pattern.name
    names = [pattern.name for pattern in SETS[name].patterns]
    assert len(names) == len(set(names))


def _hostile_texts(pattern: Pattern, length: int) -> list[str]:
    """Long runs of one piece, alone and after what leads the pattern in, by its own first example."""
    lead = pattern.positive[0].split("«")[0]
    return [start + (run * length)[:length] for run in RUNS for start in ("", lead)]


def _seconds(pattern: Pattern, text: str) -> float:
    """CPU seconds of this thread: other work on the machine does not count."""
    begin = time.thread_time()
    pattern.matches(text)
    return time.thread_time() - begin


def _is_steep(pattern: Pattern, number: int) -> bool:
    """True where eight times the text takes more than 24 times the time, in the best of three tries."""
    long = _hostile_texts(pattern, 2000)[number]
    if _seconds(pattern, long) < 0.01:  # a quadratic scan of 2000 characters takes longer
        return False
    short = _hostile_texts(pattern, 250)[number]
    best = [min(_seconds(pattern, text) for _ in range(3)) for text in (short, long)]
    return best[1] > max(24 * best[0], 0.01)


@pytest.mark.parametrize("name", SETS)
def test_time_grows_with_the_length_of_the_text_and_not_faster(name: str) -> None:
    for pattern in SETS[name].patterns:
        for length in (30, 500):  # an exponential pattern is caught while it still comes back
            slowest = max(_seconds(pattern, text) for text in _hostile_texts(pattern, length))
            assert slowest < 1.0, f"{pattern.name} takes {slowest:.2f} s on {length} characters"
        steep = [number for number in range(2 * len(RUNS)) if _is_steep(pattern, number)]
        assert not steep, f"{pattern.name} is slow on {[RUNS[number // 2] for number in steep]}"


@pytest.mark.parametrize("name", SETS)
def test_long_runs_are_read_quickly(name: str) -> None:
    for run in ("Aa ", "1", " "):
        begin = time.thread_time()
        find_all(SETS[name], Document("d", (run * 10_000)[:10_000]))
        assert time.thread_time() - begin < 10.0


def test_group_and_flags() -> None:
    patterns = _file(
        "name='a'\nlabel='AGE'\nregex='age (?P<n>\\d+)'\ngroup='n'\nflags=['IGNORECASE']",
        "name='b'\nlabel='DATE'\nregex='(x)?\\d'\ngroup=1",
    )
    assert patterns.patterns[0].matches("AGE 41, age 5") == [(4, 6), (12, 13)]
    assert patterns.patterns[1].matches("1 x2") == [(2, 3)]  # a match without the group is none
    assert patterns.labels == {"AGE", "DATE"}
    assert [p.name for p in patterns.restricted_to(["DATE", "ZIP"]).patterns] == ["b"]


def test_words_stand_for_pieces() -> None:
    words = "day = ['mon', 'monday', 'm.']\npart = '(?&day)(?: am)?'"
    patterns = _file("name='a'\nlabel='DATE'\nregex='on ((?&part))\\b'\ngroup=1", words=words)
    assert patterns.patterns[0].matches("on monday am, on mon.") == [(3, 12), (17, 20)]


def test_a_verbose_piece_means_the_same_in_every_regex() -> None:
    words = """
day = ['ash wednesday', 'mon # 2']
late = 'late (?&day)'
when = { verbose = '''
    on [ ] (?: (?&day)   # a comment may contain ) or ( or [ or a call: (?&nothing)
             | (?&late) )
    (?: [ ] [ #]\\# )?   # neither a class nor an escaped character is a comment
''' }
"""
    plain = "name='a'\nlabel='DATE'\nregex='so ((?&when)) (?&day)'\ngroup=1"
    verbose = "name='b'\nlabel='DATE'\nflags=['VERBOSE']\nregex='''so[ ] ((?&when)) [ ] # (\n(?&day)'''\ngroup=1"
    for pattern in _file(plain, verbose, words=words).patterns:
        assert pattern.matches("so on late mon # 2 ash wednesday") == [(3, 18)]
        assert pattern.matches("so on mon # 2 ## ash wednesday") == [(3, 16)]
        assert pattern.matches("so onmon # 2 ash wednesday") == []
        assert pattern.matches("so on latemon # 2 ash wednesday") == []


@settings(max_examples=50)
@given(st.lists(st.text("ab.|", min_size=1, max_size=4), min_size=1, max_size=6), st.text("ab.|", max_size=12))
def test_a_list_of_words_matches_the_longest(words: list[str], text: str) -> None:
    quoted = ", ".join(f"'{word}'" for word in words)
    patterns = _file("name='a'\nlabel='DATE'\nregex='(?&w)'", words=f"w = [{quoted}]")
    naive = re.compile("|".join(re.escape(word) for word in sorted(words, key=len, reverse=True)))
    assert patterns.patterns[0].matches(text) == [match.span() for match in naive.finditer(text)]


@pytest.mark.parametrize(
    ("source", "message"),
    [
        ("name = 'x'", "x.toml: there is no [[pattern]] table"),
        ("[[pattern]", "x.toml: "),
        ("[[pattern]]\nname='a'\nlabel='AGE'", "x.toml: pattern 1 (a): 'regex' must be given"),
        ("[[pattern]]\nname='a'\nlabel='AGE'\nregex='('", "x.toml: pattern 1 (a): the regex does not compile"),
        ("[[pattern]]\nname='a'\nlabel='AGE'\nregex='b'\nrank=1", "x.toml: pattern 1 (a): unknown key 'rank'"),
        ("[[pattern]]\nname='a'\nlabel='AGE'\nregex='b'\nflags=['X']", "unknown flag 'X'"),
        ("[[pattern]]\nname='a'\nlabel='AGE'\nregex='b'\ngroup=1", "the regex has no group 1"),
        ("[[pattern]]\nname='a'\nlabel='AGE'\nregex='(?&w)'", "x.toml: pattern 1 (a): no piece 'w'"),
        ("[words]\nw={}\n[[pattern]]\nname='a'\nlabel='AGE'\nregex='b'", "x.toml: [words] w: expected"),
        ("[words]\nw={verbose='(?&v)'}\n[[pattern]]\nname='a'\nlabel='AGE'\nregex='b'", "[words] w: no piece 'v'"),
        ("[words]\nw=1\n[[pattern]]\nname='a'\nlabel='AGE'\nregex='b'", "x.toml: [words] w: expected"),
        ("[words]\nv='(?&w)'\nw='b'\n[[pattern]]\nname='a'\nlabel='AGE'\nregex='b'", "[words] v: no piece 'w'"),
        ("pattern = [1]", "x.toml: pattern 1: must be a table"),
        ("[[pattern]]\nname='a'\nlabel='AGE'\nregex='b'\npositive='«b»'", "pattern 1 (a): 'positive' must be a list"),
        ("[[pattern]]\nname='a'\nlabel='AGE'\nregex='b'\nnegative=[1]", "pattern 1 (a): 'negative' must be a list"),
        ("[[pattern]]\nname='a'\nlabel='AGE'\nregex='b'\nflags=5", "pattern 1 (a): 'flags' must be a list of texts"),
        ("[[pattern]]\nname='a'\nlabel='AGE'\nregex='b'\nflags=[['a']]", "pattern 1 (a): 'flags' must be a list"),
        ("[[pattern]]\nname='a'\nlabel='AGE'\nregex='(b)'\ngroup=1.0", "the regex has no group 1.0"),
        ("[[pattern]]\nname='a'\nlabel='AGE'\nregex='(b)'\ngroup=[1]", "the regex has no group [1]"),
        (2 * "[[pattern]]\nname='a'\nlabel='AGE'\nregex='b'\n", "x.toml: pattern 2 (a): the name is used twice"),
    ],
)
def test_errors_name_file_and_pattern(source: str, message: str) -> None:
    with pytest.raises(RuleError) as caught:
        parse_patterns(source, path="x.toml")
    assert message in str(caught.value)


def test_file_errors_name_the_file(tmp_path: Path) -> None:
    with pytest.raises(RuleError, match=r"gone\.toml: no such pattern file"):
        read_patterns(tmp_path / "gone.toml")
    (tmp_path / "latin.toml").write_bytes(b"name = '\xe9'")
    with pytest.raises(RuleError, match=r"latin\.toml: not UTF-8 at byte 8"):
        read_patterns(tmp_path / "latin.toml")


def test_a_mark_of_an_example_that_is_not_opened_is_told() -> None:
    wrong = Pattern("a", "AGE", regex.compile(r"\d+"), positive=("4»",))
    assert failed_examples(wrong)[0] == "a: positive example 1: » without «"


def test_failed_examples_are_told() -> None:
    wrong = Pattern("a", "AGE", regex.compile(r"\d+"), positive=("«4» and 5", "no mark"), negative=("6",))
    assert [problem.split(" example")[0] for problem in failed_examples(wrong)] == [
        "a: positive",
        "a: positive",
        "a: negative",
    ]


@pytest.mark.parametrize("name", SETS)
def test_matches_are_those_of_the_standard_library(name: str) -> None:
    """Patterns are written for `re`, and matched by a library that can be stopped."""
    texts = [note.text for note in read_corpus("demo:dev").documents[:12]]
    found = 0
    for pattern in SETS[name].patterns:
        standard = re.compile(pattern.regex.pattern, pattern.regex.flags & (re.I | re.M | re.S | re.X | re.A))
        for text in [*texts, *(re.sub("[«»]", "", example) for example in (*pattern.positive, *pattern.negative))]:
            expected = [match.span(pattern.group) for match in standard.finditer(text)]
            assert pattern.matches(text) == [(start, end) for start, end in expected if start < end], pattern.name
            found += len(expected)
    assert found > 100


@pytest.mark.parametrize(
    ("endless", "text"),
    [
        ("(?:a|a)*$", "a" * 40 + "b"),
        ("(?:a|aa)+$", "a" * 60 + "b"),
        # Never long at one match: time is counted over all of them.
        ("(?:(?:a|a){18}c|a)", "a" * 20_000),
    ],
)
def test_a_regex_without_end_is_stopped(monkeypatch: pytest.MonkeyPatch, endless: str, text: str) -> None:
    monkeypatch.setattr(patterns_module, "_SECONDS", 0.2)
    monkeypatch.setattr(patterns_module, "_SECONDS_PER_CHARACTER", 1e-5)
    patterns = _file("name='good'\nlabel='AGE'\nregex='[0-9]+'", f"name='endless'\nlabel='AGE'\nregex='{endless}'")
    assert [span.source for span in find_all(patterns, Document("d", "1 a"))][:1] == ["good"]
    said = "note 7: the pattern endless takes too long on this note"
    with no_hang(), pytest.raises(CorpusError, match=said):
        find_all(patterns, Document("note 7", text))


def test_pieces_that_double_are_refused_before_they_fill_the_memory() -> None:
    doubling = "\n".join(f"w{k}='(?&w{k - 1})(?&w{k - 1})'" for k in range(1, 31))
    with no_hang(), pytest.raises(RuleError, match=r"\[words\] w\d+: longer than 1,000,000 characters"):
        _file("name='a'\nlabel='AGE'\nregex='(?&w30)'", words=f"w0='a'\n{doubling}")


def test_many_long_regexes_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(patterns_module, "_LONGEST_OF_ALL", 100)
    with pytest.raises(RuleError, match=r"pattern 2 \(b\): the regexes up to here are longer than 100 characters"):
        _file(*(f"name='{name}'\nlabel='AGE'\nregex='{'x' * 60}'" for name in "abc"))


@pytest.mark.parametrize("regex_text", ["(" * 5_000 + ")" * 5_000, "[", "(?P<a>x)(?P<a>", "a{2,1}", "(?&no"])
def test_a_regex_that_cannot_be_compiled_is_told(regex_text: str) -> None:
    with pytest.raises(RuleError, match=r"x\.toml: pattern 1 \(a\): (the regex does not compile|no piece)"):
        _file(f"name='a'\nlabel='AGE'\nregex='{regex_text}'")


def test_earlier_pattern_wins() -> None:
    patterns = _file("name='a'\nlabel='AGE'\nregex='b+'", "name='c'\nlabel='DATE'\nregex='[bd]'")
    spans = find_all(patterns, Document("d", "bbd"))
    assert [span.source for span in spans] == ["a", "c", "c", "c"]
    assert keep_first(spans) == (Span(0, 2, "AGE", 1.0, "a"), Span(2, 3, "DATE", 1.0, "c"))


def _keep_first_slowly(spans: Sequence[Span]) -> tuple[Span, ...]:
    kept: list[Span] = []
    for span in spans:
        if not any(span.overlaps(other) for other in kept):
            kept.append(span)
    return tuple(sorted(kept))


@given(st.lists(st.tuples(st.integers(0, 30), st.integers(1, 6)), max_size=12))
def test_keep_first_is_what_it_says(places: list[tuple[int, int]]) -> None:
    spans = [Span(start, start + length, "AGE") for start, length in places]
    assert keep_first(spans) == _keep_first_slowly(spans)


def test_a_limit_ends_when_the_processor_has_worked_so_long(monkeypatch: pytest.MonkeyPatch) -> None:
    worked, clock = [0.0], [0.0]
    monkeypatch.setattr(time, "process_time", lambda: worked[0])
    monkeypatch.setattr(time, "monotonic", lambda: clock[0])
    limit = TimeLimit(5)
    clock[0], worked[0] = 60, 2
    assert limit.left() == 3
    clock[0], worked[0] = 61, 5.5
    with pytest.raises(TimeoutError):
        limit.left()
    with pytest.raises(TimeoutError):
        Pattern("p", "DATE", regex.compile("a")).matches("a", limit=limit)


def test_kept_regexes_match_as_compiled_ones_and_a_changed_file_is_not_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    source = """[words]
month = ["mayo", "marzo"]
[[pattern]]
name = "date"
label = "DATE"
regex = '(?<day>\\d+) de (?&month)\\b(?! que viene)'
flags = ["IGNORECASE"]
group = "day"
"""
    text = "12 de Mayo, 3 de mayor, 4 de marzo que viene, 5 DE MARZO"
    (expected,) = parse_patterns(source).patterns
    assert not list(tmp_path.iterdir())
    parse_patterns(source, keep=True)
    (path,) = cache_directory().iterdir()
    monkeypatch.setattr(regex, "compile", lambda *_: pytest.fail("compiled again"))
    (again,) = parse_patterns(source, keep=True).patterns
    assert again.matches(text) == expected.matches(text) == [(0, 2), (46, 47)]
    assert again == expected
    monkeypatch.undo()
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    whole = path.read_bytes()
    for damaged in (b"", whole[:-1], whole.replace(b"date", b"data"), whole[:3] + b"x" + whole[4:]):
        path.write_bytes(damaged)
        assert damaged == whole or read_compiled(source) == {}
    path.write_bytes(whole)
    assert len(read_compiled(source)) == 1
    path.chmod(0o666)
    assert read_compiled(source) == {}
    path.chmod(0o600)
    assert len(read_compiled(source)) == 1
    assert read_compiled(source + "# another") == {}
    monkeypatch.setattr("ensemble_deid.features.compiled_patterns._CODE", ("patterns.py",))
    assert read_compiled(source) == {}, "it was made by other code"


_STARTS = (
    r"(?<![\w-])(?:in|of)\b[ ]?\d{2,}",
    r"(?<=, )[^a]\b(?i:k+)",
    r"(?m:^)\s*(?:ab|b){2}",
    r"(?=[A-Z])(?!x).[a-z]*\W",
    r"(a)?(?(1)b|\S)[^\s\d]",
    r"(?<!\S)(?<!in )(?>a|b)++(?-i:ß|.)",
    r"\b(\w)\1(?:\w|\B.)+?$",
    r"(?:[a-k]|x(?=b*-))+(?:,|k?1)",
    r"(?=[^,]{1,9}1)a(?:\Bb| (?<!i)i|)*(?i:n)",
)


@given(
    text=st.text(st.sampled_from("aAbkK\u212axß1é٣ \n\x1c,-in"), max_size=40), flags=st.sampled_from((0, 2, 8, 64, 128))
)
@settings(max_examples=200, deadline=None)
def test_a_pattern_is_tried_wherever_it_can_begin(text: str, flags: int) -> None:
    for source in _STARTS:
        known = beginnings(source, flags)
        assert known
        (starts,) = StartTable([known]).starts(text)
        found = [match.start() for match in regex.compile(source, flags).finditer(text, overlapped=True)]
        assert starts is not None
        assert set(found) <= set(starts), source
        # A text this long is not worth searching from end to end.
        texts = (text, text + " " * 40 * (len(text) + 1))
        pattern = Pattern("p", "DATE", regex.compile(source, flags))
        for each in texts:
            assert pattern.matches(each, starts=StartTable([known]).starts(each)[0]) == pattern.matches(each), source


@pytest.mark.parametrize(
    "source",
    [
        *(r"(?:ab){e<=1}", r"[[:alpha:]]b", r"\p{Lu}b", r"a*", r"(?=a)", r"a\Kb"),
        *(r"x[a[:script=greek:]]", r"x[a[:L&:]]", r"\0 1b", "ID\u2028\\d+", "ID\x1c\\d+", "ID\x85\\d+"),
    ],
)
def test_a_pattern_that_only_its_own_library_reads_is_tried_everywhere(source: str) -> None:
    assert beginnings(source, 0) == beginnings(source, regex.VERBOSE) == b""
    assert StartTable([b"", beginnings("ab", 0)]).starts("cab") == [None, [1]]


def test_reading_a_pattern_prints_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    assert beginnings("ab", regex.ASCII)
    assert capsys.readouterr().out == ""
