"""Medicine in a note, not PHI: doses, scores, drugs, eponyms. Nobody would see that a surrogate dose was invented."""

import re
from functools import cache

from ensemble_deid.note.labels import CATEGORY_OF_TYPE
from ensemble_deid.surrogates.lists import plain_list
from ensemble_deid.word_tables import is_listed

AROUND = 120
"""Characters on either side that tell what a span is."""
_UNIT = (
    r"(?:mcg|[uµμ]g|[mkn]?g|pg|[mdu]?L|[md]l|cc|[mµnp]?mol|m?Eq|meq|mOsm|mm ?Hg|[mc]m|[mk]?IU|[uU]nits?|k?Hz|c?Gy|kcal|"
    r"METs?|bpm|lbs?|oz|puffs?|tab(?:let)?s?|cap(?:sule)?s?|drops?|gtts?|sprays?|patch(?:es)?|vials?|amps?)"
)
_UNIT_AFTER = re.compile(rf"[\s-]{{0,2}}(?:%|{_UNIT}(?![^\W_]))")
_DOSE_BEFORE = re.compile(rf"[0-9]\s?-?(?:%|{_UNIT})\s*\Z")
_QUANTITY = re.compile(rf"[0-9]+(?:[.,/][0-9]+)?[\s-]?(?:%|{_UNIT})(?:/\w+)?")
_LONE_UNIT = re.compile(rf"(?:{_UNIT}|y/?o|yrs?|[a-z]+/[mdu]?[lL])")
_RATIO = re.compile(r"[0-9]{1,2} ?/ ?[0-9]{1,3}")
_ORDINAL = re.compile(r"[0-9]{1,2}(?:st|nd|rd|th)", re.IGNORECASE)
_COUNTED = re.compile(
    r"\s+(?:grade|rib|digit|toe|finger|metatarsal|metacarpal|[MPD][TCI]P|cranial|intercostal|nerve|percentile|degree|"
    r"trimester|quarter|dose|ray|floor|generation)(?![^\W_])",
    re.IGNORECASE,
)
# After these a ratio is a score, or days, weeks and months as British notes count them.
_SCORED = re.compile(
    r"\b(?:pain|score[ds]?|scale|rate[sd]?|apgars?|grips?|pinch|gross|grasp|power|motor|strength|reflexes|pulses|vision|"
    r"acuity|tone|murmur|grade|teach-?back|page|session|stage)\b\W{0,3}(?:\w+\W{1,2}){0,4}\Z",
    re.IGNORECASE,
)
_IN_BRITISH = re.compile(r"\b(?:in|for|x|every|next|over|after|at)\s+\Z", re.IGNORECASE)
_SPAN_OF_TIME = re.compile(r"[0-9]{1,2} ?/ ?(?:7|12|52)")
_RESULT = re.compile(
    r"\b(?:a1c|hba1c|bp|hr|pulse|rr|sp?o2|sats?|saturation|inr|e?gfr|lvef|ef|hgb|hct|wbc|plt|platelets|glucose|sugars?|"
    r"sodium|potassium|creatinine|bun|ck|ldl|hdl|tsh|crp|esr|temp|temperature|weight|bmi|score|gcs|moca|mmse|systolic|"
    r"diastolic|lvedp|qtc)\b\W{0,3}(?:(?:is|was|of|at|to|up|down|elevated|peaked|around|about|level|count|rate)\W+){0,4}\Z",
    re.IGNORECASE,
)
_AGED = re.compile(
    r"\s*-?\s*(?:y\b|y/?o|yrs?|years?|months?|mo\b|weeks?|days?|m\b|f\b|male|female|man|woman)", re.IGNORECASE
)
_CODE = re.compile(
    r"[CTLS][0-9]{1,2}\s?[-/]\s?[CTLS]?[0-9]{1,2}|G[0-9]+P[0-9]+(?:A[0-9])?|p?T[0-4][a-d]?N[0-3x][a-c]?(?:M[01x])?|"
    r"q[0-9]{1,2}h?|(?:Hb)?A1[cC]|CA[- ]?(?:125|15-3|19-9|27[.-]29)|CD[0-9]{1,3}|[A-TV-Z][0-9][0-9AB]\.[0-9A-Z]{1,4}|"
    r"SARS-CoV-2|COVID(?:-?19)?"
)
_STEM = re.compile(
    r"[a-z]{2,}(?:[aeo]pril|sartan|olol|v?astatin|[lrtxz][iu]mab|cillin|cycline|oxacin|mycin|azole|prazole|setron|"
    r"gliptin|gliflozin|glutide|parin|tidine|dronate|triptan|azepam|azolam|barbital|caine|tinib|ciclib|vir|xaban|"
    r"lukast|terol|sone|solone|oxetine|thiazide|profen|zosin|codone|morphone)"
)
_NAMED_AFTER = re.compile(
    r"(?:['’]s?\s+|\s+|-)(?:disease|syndrome|lymphomas?|sign|criteria|palsy|score|scale|formula|classification|ulcers?|"
    r"contractures?|catheter|drain|retractor|clamps?|forceps|manoeuvre|maneuver|protocol|classes|rings?)(?![^\W_])",
    re.IGNORECASE,
)
_TITLE_BEFORE = re.compile(
    r"\b(?:mr|mrs|ms|mx|miss|dr|prof|sr|sra|dra|nurse|doctor|sister|brother|aunt|uncle|mother|father|daughter|son|wife|"
    r"husband|patient|name)\b[.:,]?\s*\Z",
    re.IGNORECASE,
)
_CREDENTIAL_AFTER = re.compile(r",?\s+(?:MD|M\.D\.|DO|RN|NP|PA(?:-C)?|PhD|LPN|CNA|RPh|DPT|PT|OT|MSW|LCSW)(?![^\W_])")
_SIGNED = re.compile(r"(?:[/–—(:-]|\b(?:by|per|signed|initials?|from|RN|MD|NP))\s*\Z", re.IGNORECASE)
_COMMA = re.compile(r",\s*\Z")
_WORD = re.compile(r"[^\W\d_]+(?:['’][^\W\d_]+)*")
_LONGEST_INITIALS = 3
_BY_COUNT = ("DATE", "AGE", "ZIP", "PHONE", "FAX")
_PEOPLE = ("PATIENT", "DOCTOR")


def reads_as_medicine(surface: str, kind: str, *, before: str, after: str, spanish: bool = False) -> bool:
    """Whether a string of an i2b2 type reads as medicine; in Spanish by numbers, units and abbreviations alone."""
    text = surface.strip()
    category = CATEGORY_OF_TYPE.get(kind, "")
    if kind in _BY_COUNT or category == "ID":
        return _is_quantity(text, kind, before, after) or (category == "ID" and _is_code(text))
    if category in ("NAME", "LOCATION"):
        if _TITLE_BEFORE.search(before) or _CREDENTIAL_AFTER.match(after):
            return False
        return (
            _is_code(text)
            or _is_short_form(text, kind, before, after)
            or (not spanish and (_is_named(text, before, after) or _is_plain(text, kind, before + after)))
        )
    return category == "PROFESSION" and (text in _listed("ABBREVIATION") or is_drug(text))


def is_drug(word: str) -> bool:
    """Whether a word is a drug of the list, or ends as the names of a class of drugs do."""
    return word.casefold() in _listed("DRUG") or _STEM.fullmatch(word.casefold()) is not None


def _is_quantity(text: str, kind: str, before: str, after: str) -> bool:
    if not any(map(str.isdecimal, text)):
        return False
    unit = _UNIT_AFTER.match(after)
    # One letter apart from the number may be anything: `10/12 L knee`.
    apart = unit is not None and unit.group()[0].isspace() and len(unit.group().strip()) == 1
    if _QUANTITY.fullmatch(text) or (unit and not apart and not _AGED.match(after)):
        return True
    if kind == "AGE":
        shown = _RESULT.search(before) is not None or after[:1] == "%" or re.match(r"\s?/\s?[0-9]", after) is not None
        return shown and not _AGED.match(after)
    if kind != "DATE":
        return kind != "PHONE" and _RESULT.search(before) is not None
    if _ORDINAL.fullmatch(text):
        return _COUNTED.match(after) is not None
    british = _SPAN_OF_TIME.fullmatch(text) and (_IN_BRITISH.search(before) or text.endswith("52"))
    return _RATIO.fullmatch(text) is not None and bool(british or _SCORED.search(before))


def _is_code(text: str) -> bool:
    return _CODE.fullmatch(text) is not None or text in _listed("GENE")


def _is_short_form(text: str, kind: str, before: str, after: str) -> bool:
    """Whether this is a unit or an abbreviation; two letters where initials stand are initials."""
    if _LONE_UNIT.fullmatch(text):
        # `ng/mL`, `91yo`, `5 mg`; but `Dr. Ng`, and a line that ends in `g`.
        beside = re.search(r"[0-9/]\s?\Z", before) or after[:1] == "/"
        return bool(beside) or (len(text) > 1 and not text.istitle())
    plain = text.strip(".")
    if plain not in _listed("ABBREVIATION"):
        return False
    if len(plain) > 2 or _DOSE_BEFORE.search(before):
        return True
    return not _SIGNED.search(before) and not (kind not in _PEOPLE and _COMMA.search(before))


def _is_named(text: str, before: str, after: str) -> bool:
    """Whether all words are drugs, or signs, scores and devices that have a person's name."""
    words = [word.group() for word in _WORD.finditer(text)]
    if not words:
        return False
    if len(words) == 1 and words[0] == text and _NAMED_AFTER.match(after):
        return True
    if text in _listed("EPONYM"):
        return True
    folded = [word.casefold() for word in words]
    if is_drug(text) or all(map(is_drug, words)):
        return not any(map(_is_name, folded)) or re.match(r"\s*[0-9.,]+\s*(?:m?c?g|units?)\b", after) is not None
    return False


def _is_plain(text: str, kind: str, around: str) -> bool:
    """Whether this is nothing but ordinary words, in small letters among capitals, or that are no names."""
    words = [word.group() for word in _WORD.finditer(text)]
    initials = text.isupper() and max(map(len, words), default=0) <= _LONGEST_INITIALS
    if not words or initials or any(map(str.isdecimal, text)):
        return False
    folded = [word.casefold() for word in words]
    ordinary = all(is_listed(word, "english", "medical") for word in folded)
    if ordinary and text.islower() and any(map(str.isupper, around)):
        return True
    if ordinary and kind in _PEOPLE:
        return not any(map(_is_name, folded))
    # A place is named by ordinary words, too (`Lakeside`): here medical vocabulary alone tells.
    medical = all(is_listed(word, "medical") and not is_listed(word, "english") for word in folded)
    return medical and not any(map(_is_name, folded))


def _is_name(word: str) -> bool:
    return is_listed(word, "given", "surname")


@cache
def _listed(kind: str) -> frozenset[str]:
    """Return the words of a kind: DRUG in small letters, ABBREVIATION, GENE and EPONYM as they are written."""
    lines = (line.split(" ") for line in plain_list("medicine-en"))
    return frozenset(word for head, *words in lines if head == kind for word in words)
