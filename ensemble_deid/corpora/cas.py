"""UIMA CAS as XMI, which INCEpTION exports ("UIMA CAS XMI (XML 1.0)") and imports, by dkpro-cassis (extra `cas`).

The annotations are those of INCEpTION's layer "Named entity" (DKPro's NamedEntity), whose feature `value` is the label;
other layers are ignored. A CAS counts UTF-16 code units, which cassis translates. The types come from the
TypeSystem.xml that the export puts beside its notes, else they are DKPro's.
"""

import warnings
from functools import lru_cache
from pathlib import Path
from typing import Any
from xml.parsers import expat

from ensemble_deid.corpora.checks import ReadNote, check_text, checked_span, note_with_spans, read_utf8
from ensemble_deid.corpora.xml_parser import parse_xml, refuse_unwritable
from ensemble_deid.errors import CorpusError, needs_extra
from ensemble_deid.note.document import Document
from ensemble_deid.note.span import Span

TYPE_SYSTEM = "TypeSystem.xml"
_NAMED_ENTITY = "de.tudarmstadt.ukp.dkpro.core.api.ner.type.NamedEntity"


def read_cas_note(path: Path, *, gold: bool = True) -> ReadNote:
    """Read one note.

    Raises CorpusError, naming the file and the line or annotation, and ConfigError where the extra is not installed.
    """
    cassis = _cassis()
    content = _checked_xml(path)
    own = path.with_name(TYPE_SYSTEM)
    types = _types_in(own, own.stat().st_mtime_ns) if own.is_file() else _dkpro_types()
    try:
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            # Without the export's own types those of its other layers are not known, and are not needed.
            cas = cassis.load_cas_from_xmi(content, typesystem=types, lenient=not own.is_file())
            views = [cas.get_view(sofa.sofaID) for sofa in cas.sofas if sofa.sofaString is not None]
            entities = list(views[0].select(_NAMED_ENTITY)) if len(views) == 1 else []
    except Exception as error:  # noqa: BLE001 (the library raises whatever it meets; its messages may quote the note)
        raise CorpusError(
            f"{path}: is no CAS of these types ({type(error).__name__}); is {TYPE_SYSTEM} beside it?"
        ) from None
    if len(views) != 1:
        raise CorpusError(f"{path}: one view with a text is needed, the file has {len(views)}")
    text = views[0].sofa_string
    check_text(text, str(path))
    document = Document(path.stem, text)
    if not gold:
        return note_with_spans(document, ())
    if any("Not mapping external offset" in str(warning.message) for warning in caught):
        raise CorpusError(f"{path}: an annotation's offsets lie outside the text, or inside a character")
    return note_with_spans(document, [_span(entity, text, path) for entity in entities])


def _span(entity: Any, text: str, path: Path) -> Span:
    place = f"{path}: NamedEntity with xmi:id {entity.xmiID}"
    if not isinstance(entity.value, str) or not entity.value:
        raise CorpusError(f"{place}: has no label ('value')")
    if entity.begin is None or entity.end is None:
        raise CorpusError(f"{place}: has no place ('begin' and 'end')")
    return checked_span(entity.begin, entity.end, entity.value, text, place)


def render_cas_note(document: Document) -> str:
    """Return the note as XMI; CorpusError on what XML cannot represent, ConfigError where the extra is missing."""
    cassis = _cassis()
    refuse_unwritable(document.text, document.id)
    types = _dkpro_types()
    kind = types.get_type(_NAMED_ENTITY)
    cas = cassis.Cas(typesystem=types)
    cas.sofa_string, cas.sofa_mime = document.text, "text/plain"
    for span in sorted(document.spans):
        refuse_unwritable(span.label, document.id)
        cas.add(kind(begin=span.start, end=span.end, value=span.label))
    content: str = cas.to_xmi()
    return content


@lru_cache(maxsize=1)
def _dkpro_types() -> Any:
    with warnings.catch_warnings():
        # The library opens its own file by a deprecated function.
        warnings.simplefilter("ignore", DeprecationWarning)
        return _cassis().load_dkpro_core_typesystem()


@lru_cache(maxsize=4)
def _types_in(path: Path, changed: int) -> Any:
    """Return the types of a file; one that has changed is read again."""
    content = _checked_xml(path)
    try:
        return _cassis().load_typesystem(content)
    except Exception as error:  # noqa: BLE001 (whatever the library meets)
        raise CorpusError(f"{path}: is no UIMA type system ({type(error).__name__})") from None


def _checked_xml(path: Path) -> str:
    """Return the content of a file that is safe to give to the library. Raises CorpusError as `parse_xml` does."""
    content = read_utf8(path)
    parse_xml(expat.ParserCreate(), content, str(path))
    return content.removeprefix("\ufeff")


def _cassis() -> Any:
    with needs_extra("cas", "UIMA CAS"):
        import cassis
    return cassis
