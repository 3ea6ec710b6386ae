"""The text of RTF and PDF, which is written as plain text."""

import logging
import re
from io import BytesIO
from typing import Any

from ensemble_deid.corpora.checks import check_text, decode_utf8
from ensemble_deid.corpora.edits import Edit, edited
from ensemble_deid.errors import ConfigError, CorpusError, needs_extra
from ensemble_deid.note.rtf import rtf, rtf_objects

_MOST_PAGES = 2000
_OTHER_CODE_PAGE = re.compile(r"\\ansicpg(?!1252\b)[0-9]|\\fcharset(?![012]\b)[0-9]|\\(?:mac|pc|pca)\b")
_LEFT = re.compile(r"\\'[0-9a-fA-F]{2}|\\(?:bin|pict|objdata)\b")


def text_of_rtf(data: bytes, place: str) -> str:
    """Return what a word processor shows. CorpusError on pictures and objects, in which text may be."""
    written = decode_utf8(data, place).removeprefix("\ufeff")
    if not written.lstrip().startswith("{\\rtf"):
        raise CorpusError(f"{place}: not RTF")
    if rtf_objects(written):
        raise CorpusError(f"{place}: holds a picture or an object, which is not read")
    if _OTHER_CODE_PAGE.search(written):
        raise CorpusError(f"{place}: is written in another code page than 1252, which is not read")
    text = edited(written, (Edit(start, end, plain) for start, end, plain in rtf(written)))
    if _LEFT.search(text):
        raise CorpusError(f"{place}: holds escapes or pictures that are not read")
    check_text(text, place)
    return text


def text_of_pdf(data: bytes, place: str) -> str:
    """Return the text layer of a PDF. CorpusError where a page has none, such as one that was scanned."""
    # Its messages may quote the note.
    logging.getLogger("pypdf").setLevel(logging.CRITICAL)
    try:
        pages = [page.extract_text() for page in _pages(data, place)]
    except (CorpusError, ConfigError):
        raise
    except Exception as error:  # noqa: BLE001 (whatever a broken PDF leads to, its note is withheld)
        raise CorpusError(f"{place}: cannot be read as PDF ({type(error).__name__})") from None
    for number, page in enumerate(pages, start=1):
        if not page.strip():
            raise CorpusError(f"{place}: page {number} has no text layer; recognise its characters (OCR) first")
    text = "\n".join(pages) + "\n"
    check_text(text, place)
    return text


def _pages(data: bytes, place: str) -> Any:
    with needs_extra("pdf", "PDF"):
        import pypdf
    reader = pypdf.PdfReader(BytesIO(data))
    if reader.is_encrypted:
        raise CorpusError(f"{place}: is encrypted")
    if not 0 < len(reader.pages) <= _MOST_PAGES:
        raise CorpusError(f"{place}: has no page, or more than {_MOST_PAGES}")
    return reader.pages
