"""Hostile texts, ids, labels and bytes, from which the fuzz tests put their input together."""

from hypothesis import strategies as st

MARKER = "Zyxwvutsr"
"""Stands in notes, and nowhere else: a message with it has quoted a note."""

_PIECES = (
    f"Patient: {MARKER}\n",
    f"{MARKER} on 03/04/2019. ",
    "Seen by Dr. Kemp for chest pain.\n",
    "MRN: 1234567",
    "a.",
    "aA",
    "1-",
    " ",
    "\t",
    "\r\n",
    "\r",
    "\u2028",
    "\x85",
    "\x0b",
    "\ufeff",
    "\u0301",
    "\u200d",
    "\u202e",
    "😀",
    "ß",
    "ŉ",
    "İ",
    "漢",
    "[DATE]",
    "]]>",
    "<TEXT>",
    "&#0;",
    "&amp;",
    '"',
    "\\u0000",
    "{}",
)
_CHARACTERS = st.characters(exclude_categories=["Cs"], exclude_characters="\0")
texts = st.lists(
    st.one_of(
        st.sampled_from(_PIECES),
        st.text(_CHARACTERS, max_size=20),
        st.tuples(st.sampled_from(_PIECES), st.integers(2, 400)).map(lambda pair: pair[0] * pair[1]),
    ),
    max_size=8,
).map("".join)
"""Texts that a note may have."""

ids = st.one_of(
    st.sampled_from(
        ["a", "101-01", "", ".", "..", "../up", "/etc/passwd", "a/b", "a\\b", "a\nb", "\u202ea", "x" * 300, "é"]
    ),
    st.text(max_size=8),
)

_INSERTED = (
    b"\0",
    b"\xff",
    b"\xc3",
    b"\r",
    b"<",
    b"&",
    b'"',
    b"\\ud800",
    b"\\u0000",
    b"&#1;",
    b"</TEXT>",
    b"<TEXT>",
    b"<d>" * 120,
    b'","',
    b"\t-5 ",
    b"99999999999999999999",
    b"1e999",
    b"NaN",
    b"[" * 2000,
    b"{}",
    MARKER.encode(),
    b"\n",
    b"T1\tX 0 1\t",
    b'<NAME id="P1" start="0" end="1" TYPE="X"/>',
)


@st.composite
def damaged(draw: st.DrawFn, data: bytes) -> bytes:
    """The bytes with up to three things wrong: parts gone, repeated, cut off, changed, or put in."""
    for _ in range(draw(st.integers(1, 3))):
        a, b = sorted((draw(st.integers(0, len(data))), draw(st.integers(0, len(data)))))
        match draw(st.integers(0, 4)):
            case 0:
                data = data[:a] + data[b:]
            case 1:
                data = data[:b] + data[a:]
            case 2:
                data = data[:a]
            case 3:
                data = data[:a] + draw(st.binary(min_size=1, max_size=4)) + data[a + 1 :]
            case _:
                data = data[:a] + draw(st.sampled_from(_INSERTED)) + data[a:]
    return data
