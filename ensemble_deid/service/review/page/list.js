// The list of notes, a page of it at a time: a review may have ten thousand.

import { byId, element, item } from "./panels.js";
import { get } from "./server.js";

export class NoteList {
  // `open` is what a click on a note does, `turned` what a click on a page's button does.
  constructor(open, turned) {
    this.open = open;
    this.page = null; // as the server answers: total, finished, size, offset, lines, previous, next, first_open
    byId("earlier").addEventListener("click", () => turned(Math.max(this.page.offset - this.page.size, 0)));
    byId("later").addEventListener("click", () => turned(this.page.offset + this.page.size));
  }

  get order() { return byId("order").value; }

  // Fetch the page at an offset, else the one with the current note, and show it.
  async refresh(current, offset) {
    const asked = { order: this.order };
    if (current !== undefined) asked.around = current;
    if (offset !== undefined) asked.offset = offset;
    this.page = await get("notes", asked);
    this.show(current);
  }

  show(current) {
    const { total, finished, size, offset, lines } = this.page;
    const entries = [];
    lines.forEach((line, at) => {
      if (line.patient !== null && line.patient !== lines[at - 1]?.patient) {
        entries.push(element("li", `Patient ${line.patient}`, { class: "patient" }));
      }
      entries.push(item(line.name, line.finished ? "finished" : `${line.open} undecided`,
        { current: line.id === current, act: () => this.open(line.id) }));
    });
    byId("notes").replaceChildren(...entries);
    byId("progress").max = Math.max(total, 1);
    byId("progress").value = finished;
    byId("progress-text").textContent = `${finished} of ${total} notes finished`;
    byId("pages").hidden = total <= size;
    byId("page-text").textContent = `${offset + 1} to ${offset + lines.length} of ${total}`;
    byId("earlier").disabled = offset === 0;
    byId("later").disabled = offset + lines.length >= total;
  }
}
