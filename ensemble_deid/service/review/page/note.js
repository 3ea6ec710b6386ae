// The text of a note and its spans. The server counts code points, the browser UTF-16 units: here one becomes the other.

const LABEL_COLOURS = 32;
export const colour = (labels, label) => `var(--c${labels.indexOf(label) % LABEL_COLOURS})`;
const WORD = /[\p{L}\p{N}\p{M}_]+|[^\s\p{L}\p{N}\p{M}_]/gu;

export class NoteText {
  constructor(element) {
    this.element = element;
    this.characters = [];
    this.words = [];
  }

  setText(text) {
    this.characters = Array.from(text);
    // units[i]: where code point i begins, in UTF-16 units
    this.units = [0];
    for (const character of this.characters) this.units.push(this.units.at(-1) + character.length);
    this.words = [];
    for (const match of text.matchAll(WORD)) {
      this.words.push([this.codePoint(match.index), this.codePoint(match.index + match[0].length)]);
    }
  }

  // The code point at or before a UTF-16 position.
  codePoint(unit) {
    let low = 0, high = this.units.length - 1;
    while (low < high) {
      const middle = (low + high + 1) >> 1;
      if (this.units[middle] <= unit) low = middle; else high = middle - 1;
    }
    return low;
  }

  slice(start, end) {
    return this.characters.slice(start, end).join("");
  }

  // Draw the text in pieces that end wherever a span or the chosen place does. Only text nodes hold text of the note.
  draw(spans, { chosen, place, labels }) {
    const cuts = new Set([0, this.characters.length]);
    for (const { start, end } of place ? [...spans, place] : spans) cuts.add(start).add(end);
    const places = [...cuts].sort((a, b) => a - b);
    const pieces = [];
    for (let i = 0; i + 1 < places.length; i++) {
      const [start, end] = [places[i], places[i + 1]];
      const here = spans.filter((span) => span.start < end && start < span.end);
      const text = this.slice(start, end);
      const inPlace = place && place.start < end && start < place.end;
      if (!here.length && !inPlace) {
        pieces.push(document.createTextNode(text));
        continue;
      }
      const piece = document.createElement("mark");
      piece.textContent = text;
      const top = here.find((span) => span.id === chosen) || here.sort(byRank)[0];
      if (top) {
        piece.style.setProperty("--fill", colour(labels, top.label));
        piece.classList.add(top.status, top.kind);
        // Said once, at the end of the span, and by the style sheet: it is no text of the note.
        if (top.end === end && top.status !== "rejected") piece.dataset.label = top.label;
        piece.dataset.spans = here.map((span) => span.id).join(" ");
        if (top.id === chosen) piece.classList.add("chosen");
        piece.title = `${top.label}, ${words(top)}`;
      }
      if (inPlace) piece.classList.add("place");
      pieces.push(piece);
    }
    this.element.replaceChildren(...pieces);
  }

  // What is selected with the mouse, in code points and without white space at its ends; null where that is nothing.
  selected() {
    const selection = getSelection();
    if (!selection.rangeCount || selection.isCollapsed) return null;
    const range = selection.getRangeAt(0);
    if (!this.element.contains(range.commonAncestorContainer)) return null;
    const before = document.createRange();
    before.setStart(this.element, 0);
    before.setEnd(range.startContainer, range.startOffset);
    const from = before.toString().length;
    const place = { start: this.codePoint(from), end: this.codePoint(from + range.toString().length) };
    while (place.start < place.end && !this.characters[place.start].trim()) place.start++;
    while (place.start < place.end && !this.characters[place.end - 1].trim()) place.end--;
    return place.start < place.end ? place : null;
  }

  // The word after (1) or before (-1) a place; the first one where there is none.
  word(place, direction) {
    if (!this.words.length) return null;
    let found;
    if (!place) found = this.words[0];
    else if (direction > 0) found = this.words.find(([start]) => start >= place.end) || this.words.at(-1);
    else found = this.words.findLast(([, end]) => end <= place.start) || this.words[0];
    return { start: found[0], end: found[1] };
  }

  // The place with a word more (1) or less (-1) at its end.
  extended(place, direction) {
    if (!place) return this.word(null, 1);
    if (direction > 0) return { start: place.start, end: this.word(place, 1).end > place.end ? this.word(place, 1).end : place.end };
    const inside = this.words.filter(([start, end]) => start >= place.start && end < place.end);
    return inside.length ? { start: place.start, end: inside.at(-1)[1] } : place;
  }
}

const rank = (span) => ["rejected", "undecided", "accepted"].indexOf(span.status);
const byRank = (a, b) => rank(b) - rank(a) || a.end - a.start - (b.end - b.start) || a.id - b.id;

export function words(span) {
  const kinds = { found: "found", suggested: "suggested (below the threshold)", added: "added", disputed: "disputed" };
  const score = span.score === null ? "" : `, score ${Number(span.score.toPrecision(4))}`;
  const origin = span.origin ? `, marked by ${span.origin}` : "";
  return `${kinds[span.kind]}, ${span.status}${score}${origin}`;
}
