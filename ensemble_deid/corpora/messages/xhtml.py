"""The text of a fragment of XHTML, such as a FHIR narrative; tags stay where they are."""

import re
from collections.abc import Sequence
from html.entities import html5
from xml.parsers import expat

from ensemble_deid.corpora.messages.encoded import EncodedText
from ensemble_deid.errors import CorpusError

_TOKEN = re.compile(r"""<(?:[^<>"']|"[^"]*"|'[^']*')*>|&[^;&<\s]{1,40};|[^<&]""", re.DOTALL)
_REFERENCE = re.compile(r"&([A-Za-z][A-Za-z0-9]{1,31});")
_TAG_NAME = re.compile(r"</?\s*(?:[\w.-]+:)?([\w.-]+)")
_ATTRIBUTE = re.compile(r"""([\w:.-]+)\s*=\s*(?:"[^"]*"|'[^']*')""")
_OF_XML = {"amp", "lt", "gt", "quot", "apos"}
_INLINE = set("a abbr acronym b big cite code dfn em i img q s samp small span strong sub sup tt u var".split())
_CELLS = {"td", "th"}
_HARMLESS = set(
    "class style id xmlns lang xml:lang dir align valign width height border cellpadding cellspacing colspan rowspan "
    "scope span start".split()
)


def add_xhtml(encoded: EncodedText, value: str, pieces: Sequence[str], place: str) -> list[str]:
    """Add the text of an XHTML fragment whose character i is written as `pieces[i]`.

    Return the names of attributes that may say something (`title`, `alt`, `href`, ...) and are kept. Raises CorpusError
    where the fragment is not well-formed, or has comments, CDATA sections or the like.
    """
    if re.search(r"<[!?]", value):
        raise CorpusError(
            f"{place}: has a comment, a CDATA section, a declaration or an instruction, which are not read"
        )
    _check_well_formed(value, place)
    kept: list[str] = []
    position = 0
    while position < len(value):
        token = _TOKEN.match(value, position)
        if token is None:
            raise CorpusError(f"{place}: character {position} of the XHTML begins no tag and no entity")
        end = token.end()
        written = "".join(pieces[position:end])
        if token[0][0] == "<":
            encoded.mark(written)
            name = _TAG_NAME.match(token[0])
            element = name.group(1).lower() if name else ""
            if element not in _INLINE:
                encoded.separate(" " if element in _CELLS else "\n")
            kept += [name.lower() for name in _ATTRIBUTE.findall(token[0]) if name.lower() not in _HARMLESS]
        elif token[0][0] == "&":
            encoded.add(_referred(token[0]), written)
        else:
            encoded.add(token[0], written)
        position = end
    return kept


def _check_well_formed(value: str, place: str) -> None:
    def numbered(match: re.Match[str]) -> str:
        # HTML's named characters, which FHIR permits, are unknown to XML.
        if match[1] in _OF_XML or f"{match[1]};" not in html5:
            return match[0]
        return "".join(f"&#{ord(character)};" for character in html5[f"{match[1]};"])

    try:
        expat.ParserCreate().Parse(_REFERENCE.sub(numbered, value).encode("utf-8"), True)
    except expat.ExpatError as error:
        message = expat.ErrorString(error.code)
        raise CorpusError(f"{place}: is no well-formed XHTML (line {error.lineno}: {message})") from None


def _referred(reference: str) -> str:
    name = reference[1:-1]
    if name.startswith("#"):
        return chr(int(name[2:], 16) if name[1] in "xX" else int(name[1:]))
    return html5[f"{name};"]
