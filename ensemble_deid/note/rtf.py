r"""Text in RTF: what a word processor would show of it, and anything else that may be PHI.

Only known control words, fonts and styles are left out. Anything else stays as text, so an unfinished group or an
unknown word cannot hide a name.
"""

import re
import unicodedata
from collections.abc import Iterator

from ensemble_deid.note.markup import Change, is_control

_TOKEN = re.compile(
    r"\\'([0-9a-fA-F]{2})|\\u(-?\d{1,6}) ?|\\([a-zA-Z]{1,32})(-?\d{1,10})? ?|\\([^a-zA-Z'])|([{}])|([\r\n]+)"
    r"|([^\\{}\r\n]+)|(\\)"
)
_SHOWN = {
    "par": "\n", "line": "\n", "row": "\n", "sect": "\n", "page": "\n", "pard": "", "tab": "\t", "cell": " ",
    "nestcell": " ", "nestrow": "\n", "emdash": "\u2014", "endash": "\u2013", "lquote": "'", "rquote": "'",
    "ldblquote": '"', "rdblquote": '"', "bullet": "\u2022", "emspace": " ", "enspace": " ", "qmspace": " ",
    "column": "\n", "softline": "\n", "softpage": "\n", "lbr": "\n", "yr": "", "mo": "-", "dy": "-",
}  # fmt: skip
_KNOWN = frozenset(
    """
    ab adeff adeflang af afs ai alang animtext annotation ansi ansicpg aspalpha aspnum atnauthor atnid atrfend atrfstart
    author b background bgdkhoriz bin bkmkend bkmkstart blipdpi bliptag blipuid blue box brdrb brdrbar brdrbtw brdrcf
    brdrdash brdrdb brdrdot brdrhair brdrl brdrnil brdrnone brdrr brdrs brdrsh brdrt brdrtbl brdrth brdrw brsp buptim
    cardtext category cb cbpat cf cfpat cgrid chatn chbrdr chcbpat chcfpat chdate chftn chpgn chshdng chtime clbrdrb
    clbrdrl clbrdrr clbrdrt clcbpat clcfpat clftswidth clmgf clmrg clshdng cltxlrtb clvertalb clvertalc clvertalt
    clvmgf clvmrg clwwidth colno cols colsr colsx colw colortbl colorschememapping comment company contextualspace
    creatim cs ctint cshade datafield datastore dbch deff deflang deflangfe deftab defchp defpap dibitmap doccomm
    dttm emfblip enddoc endnhere expnd expndtw f facingp faauto fbidi fcharset fdecor fet field fi fldalt flddirty
    fldedit fldinst fldlock fldpriv fldrslt fmodern fnil fonttbl footer footerf footerl footerr footery footnote
    formfield formshade froman fprq fs fscript fswiss ftech ftnbj ftnsep ftnsepc generator green gutter hdrdist header
    headerf headerl headerr headery hich highlight hr htmautsp htmlrtf htmltag fromhtml fromtext hyphauto hyphhotz
    hyphpar i ilvl info insrsid intbl irow irowband itap jpegblip keep keepn keywords landscape lang langfe langfenp
    langnp lastrow latentstyles leveljc leveljcn levelfollow levelindent levellegal levelnfc levelnfcn levelnorestart
    levelnumbers levelspace levelstartat leveltemplateid leveltext li lin linebetcol linex listhybrid listid list
    listlevel listname listoverride listoverridecount listoverridetable listpicture listrestarthdn listsimple
    listtable listtemplateid listtext linkself loch ls lsdlocked lsdlockeddef lsdlockedexcept lsdpriority
    lsdprioritydef lsdqformat lsdqformatdef lsdsemihidden lsdsemihiddendef lsdstimax lsdunhideused lsdunhideuseddef
    ltrch ltrdoc ltrmark ltrpar ltrrow ltrsect lytprtmet mac macpict manager margb margbsxn margl marglsxn margr
    margrsxn margt margtsxn min mnor mac moth nobrkwrptbl nofchars nofcharsws nofpages nofwords nolnhtadjtbl
    nonshppict noproof nosupersub nosectexpand nowidctlpar nowrap objattph objclass objdata object objemb objh objlink
    objname objscalex objscaley objw oldlinewrap operator outlinelevel outl ol panose paperh paperw pararsid pc pca
    pg pgnstart pgnx pgny pgnrestart pgndec pgwsxn pghsxn pict piccropb piccropl piccropr piccropt pich pichgoal
    picprop picscalex picscaley picw picwgoal plain pmmetafile pn pnf pnfs pnindent pnlvl pnlvlblt pnlvlbody pnlvlcont
    pnseclvl pnstart pntext pntxta pntxtb pnucltr pnlcltr pndec pngblip printim private privat proptype protusertbl
    qc qd qj ql qr qt red result revised revtbl revtim rhtmltag ri rin rquote rsid rsidroot rsidtbl rtf rtlch rtlmark
    rtlpar rtlrow s sa saauto sb sbasedon sbauto sbkcol sbknone sbkpage scaps sec sectd sectdefaultcl sectlinegrid
    sectrsid sectunlocked shad shading shp shpbottom shpbxcolumn shpbxignore shpbxmargin shpbxpage shpbypara shpbyignore
    shpfblwtxt shpfhdr shpinst shpleft shplid shppict shpright shprslt shptop shptxt shpwr shpwrk shpz sl slink slmult
    snext sn softlheight sp spriority sqformat ssemihidden staticval strike striked stylesheet styrsid sub subject
    sunhideused super sv sxe tb tbldef tblind tblindtype tblrsid tc tcl themedata title titlepg tldot tlhyph tqc tqdec
    tqr trautofit trbrdrb trbrdrh trbrdrl trbrdrr trbrdrt trbrdrv trftswidth trftswidtha trftswidthb trgaph trhdr trkeep
    trleft trowd trpaddb trpaddfb trpaddfl trpaddfr trpaddft trpaddl trpaddr trpaddt trql trqc trqr trrh trwwidth
    trwwidtha trwwidthb ts tsrowd tx uc ud ul uld uldash uldb ulnone ulth ulw ulwave up upr userprops uld v vern
    version vertalb vertalc vertalj vertalt viewkind viewscale viewzk webhidden widctlpar widowctrl widctrl wmetafile
    wbitmap wbmbitspixel wbmplanes wbmwidthbytes wrapdefault xe xef xmlattrname xmlattrvalue xmlclose xmlname xmlns
    xmlnstbl xmlopen zwbo zwj zwnbo zwnj cellx clpadb clpadfb clpadfl clpadfr clpadft clpadl clpadr clpadt cvmme dn
    edmins fbias fname falt hres charrsid delrsid deleted deltamp impr caps embo engr kerning charscalex nestcell
    nesttableprops nonesttables adjustright absh absw phmrg phpg pvmrg pvpara pvpg posx posy posxc posxl posxr dxfrtext
    dfrmtxtx dfrmtxty overlay stshfbi stshfdbch stshfhich stshfloch themelang themelangcs themelangfe
    """.split()
) | frozenset(_SHOWN)
_NAMES = frozenset(
    "fonttbl colortbl stylesheet listtable listoverridetable rsidtbl generator latentstyles xmlnstbl".split()
)
"""Groups with names of fonts and styles."""
_NAME = re.compile(
    r"(?:times(?: new roman)?|arial(?: black| narrow| unicode ms)?|ms (?:sans serif|shell dlg)|microsoft sans serif"
    r"|calibri(?: light)?|cambria(?: math)?|courier(?: new)?|symbol|wingdings|tahoma|verdana|segoe ui|georgia|helvetica"
    r"|lucida console|consolas|normal(?: \(web\)| table)?|(?:table|no|default) ?(?:normal|list|grid)|heading \d|toc \d"
    r"|default paragraph font|body text|title|subtitle|header|footer|page number|list paragraph|balloon text|hyperlink"
    r"|strong|emphasis|plain text|footnote text|caption"
    r"|(?:riched20|msftedit|microsoft word) \d{1,2}(?:\.\d{1,5}){1,3})?",
    re.I,
)
_ABOUT = frozenset(
    "title subject author manager company operator category keywords comment doccomm creatim revtim printim "
    "buptim".split()
)
_MARKS = {"~": " ", "_": "-", "-": "", "\n": "\n", "\r": "\n", "{": "{", "}": "}", "\\": "\\"}
_ESCAPE = re.compile(r"\\'[0-9a-fA-F]{2}")
_LONGEST_NUMBER = 5
_LONG_NUMBERS = re.compile(r"\w*rsid\w*|bliptag|list\w*id|leveltemplateid|dttm")
_MOST_SKIPPED = 2
# One character as a reader without Unicode shows it, after line ends, which show nothing.
_FALLBACK = re.compile(r"[\r\n]*(?:\\'[0-9a-fA-F]{2}|\\([^a-zA-Z'\r\n])|([^\\{}\r\n]))")
# Pictures and objects, in hexadecimal.
_OBJECT = re.compile(r"(?<![0-9A-Za-z\\'])[0-9a-fA-F](?:(?:\r?\n)?[0-9a-fA-F]){59,}+")


DATA = "RTF-DATA"
"""The label of data that word processors keep in a note and nobody reads: the output leaves it out."""
_DATA = re.compile(r"\{\\\*\\(?:themedata|colorschememapping|datastore|blipuid)\s[0-9a-fA-F\s]*+\}")


_HEAD = "{\\rtf"
# Three of these show RTF: a path of folders or an escaped apostrophe has hardly one.
_CONTROL = re.compile(
    r"\\(?:pard?|tab|[bi]0|fs?\d{1,3}|cf\d{1,2})(?![A-Za-z0-9])|(?<=[A-Za-z])\\'[89a-fA-F][0-9a-fA-F]"
)
_LEAST_CONTROLS = 3


def _begin(text: str) -> int | None:
    """Return where RTF begins in a text: at its head, after plain lines, or at once in a part of RTF without head.

    None for other texts. Such parts come from exports that cut a note into rows.
    """
    if "\\" not in text:
        return None
    head = text.find(_HEAD)
    before = _CONTROL.findall(text, 0, len(text) if head < 0 else head)
    return 0 if len(before) >= _LEAST_CONTROLS else head if head >= 0 else None


def rtf_data(text: str) -> list[Change]:
    """Return the changes that leave out themes and the like: whole groups with nothing but hexadecimal."""
    return _without(_DATA, text)


def rtf_objects(text: str) -> list[Change]:
    """Return the changes that leave out pictures and objects, which nobody reads."""
    return _without(_OBJECT, text)


def _without(pattern: re.Pattern[str], text: str) -> list[Change]:
    begin = _begin(text)
    return [] if begin is None else [(match.start(), match.end(), "") for match in pattern.finditer(text, begin)]


def rtf(text: str) -> list[Change]:
    r"""Return the changes that leave the words of a text in RTF, from its `{\rtf` on."""
    begin = _begin(text)
    return [] if begin is None else _Rtf(text).changes(begin)


class _Rtf:
    """A reader of one RTF text: the group's depth, and the depth from which on there are names of fonts and styles."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.depth = 0
        self.names_from: int | None = None
        self.begins_group = False
        self.fallback = [1]
        self.before = ""
        self.about: set[int] = set()

    def changes(self, at: int) -> list[Change]:
        changes: list[Change] = []
        while match := _TOKEN.match(self.text, at):
            found = list(self._change(match))
            changes += found
            # A character's change has its fallback in it.
            at = max(match.end(), found[-1][1] if found else 0)
        return changes

    def _change(self, match: re.Match[str]) -> Iterator[Change]:
        code, point, word, number, mark, brace, _, plain, _ = match.groups()
        start, end = match.span()
        begins_group, self.begins_group = self.begins_group, brace == "{" or (self.begins_group and mark == "*")
        if brace:
            yield start, end, self._brace(brace)
        elif plain:
            if self.names_from is not None and all(_NAME.fullmatch(name.strip()) for name in plain.split(";")):
                yield start, end, ""
        elif point:
            yield from self._point(start, end, int(point))
        elif code or mark:
            value = self._mark(code, mark)
            # No writer escapes a single letter or digit: `\'4821377`.
            beside = any(place >= 0 and _ESCAPE.match(self.text, place) for place in (start - 4, end))
            if beside or not (code and value.isascii() and value.isalnum()):
                yield start, end, value
        elif word:
            if word in _KNOWN:
                yield from self._word(match, word, number, begins_group=begins_group)
        else:
            yield start, end, ""

    def _brace(self, brace: str) -> str:
        if brace == "{":
            self.depth += 1
            self.fallback.append(self.fallback[-1])
            return ""
        if self.names_from == self.depth:
            self.names_from = None
        after = "\n" if self.depth in self.about else ""
        self.about.discard(self.depth)
        self.depth -= 1
        if len(self.fallback) > 1:
            self.fallback.pop()
        return after

    def _point(self, start: int, end: int, point: int) -> Iterator[Change]:
        if abs(point) > 0xFFFF:
            return
        unit = point % 0x10000
        high = ord(self.before) if self.before else 0
        self.before = chr(unit)
        if 0xDC00 <= unit < 0xE000 and 0xD800 <= high < 0xDC00:
            self.before = chr(0x10000 + (high - 0xD800) * 0x400 + unit - 0xDC00)
        end = self._after_fallback(end)
        if 0xD800 <= unit < 0xDC00:
            yield start, end, ""
            return
        yield start, end, "\ufffd" if unit == 0 or 0xD800 <= ord(self.before) < 0xE000 else self.before

    def _after_fallback(self, at: int) -> int:
        """Return where what stands for a character, for a reader without Unicode, ends: no letter but its own."""
        for _ in range(self.fallback[-1]):
            match = _FALLBACK.match(self.text, at)
            if match is None or not self._is_fallback(match[1] or match[2] or ""):
                break
            at = match.end()
        return at

    def _is_fallback(self, character: str) -> bool:
        return not character.isalnum() or unicodedata.normalize("NFKD", self.before)[:1] == character

    def _mark(self, code: str | None, mark: str) -> str:
        if code:
            value = bytes([int(code, 16)]).decode("cp1252", "replace")
            return "" if is_control(value) else value
        return _MARKS.get(mark, mark if mark.isalnum() else "")

    def _word(self, match: re.Match[str], word: str, number: str | None, *, begins_group: bool) -> Iterator[Change]:
        if begins_group and word in _NAMES and self.names_from is None:
            self.names_from = self.depth
        elif word in _ABOUT:
            self.about.add(self.depth)
        elif word == "uc" and number is not None:
            self.fallback[-1] = max(0, min(int(number), _MOST_SKIPPED))
        start, end = match.span()
        digits = (number or "").lstrip("-")
        # A number where none belongs, or that is too long to be a measure, was written after the word without a blank.
        if digits and (word in _SHOWN or (len(digits) > _LONGEST_NUMBER and not _LONG_NUMBERS.fullmatch(word))):
            yield start, match.end(4) - len(digits), _SHOWN.get(word) or ("" if word == "yr" else " ")
            if match.end(4) < end:
                yield match.end(4), end, ""
        else:
            yield start, end, _SHOWN.get(word, "")
