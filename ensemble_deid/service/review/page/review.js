// The review page: what is chosen, and what buttons and keys do. The server holds all else.

import { dialogs } from "./dialogs.js";
import { NoteList } from "./list.js";
import { NoteText, words } from "./note.js";
import { byId, fillLabels, showExplanation, showKeys, showSpans } from "./panels.js";
import { Problem, get, post, session, state as readState } from "./server.js";

const text = new NoteText(byId("text"));
let review = null; // labels, threshold, reviewers, agreement, commands
const list = new NoteList((id) => act(() => openNote(id)), (offset) => act(() => list.refresh(note?.id, offset)));
let note = null; // the open note with its spans
let chosen = null; // the id of a span
let place = null; // or a place in the text, {start, end}
let queue = Promise.resolve(); // one request after the other, in the order of the keys

const span = () => note?.spans.find((one) => one.id === chosen) || null;
const say = (message) => { byId("said").textContent = message; };

// Run one action after those before it; a failure is shown, and what is on the page stays as the server has it.
function act(action) {
  queue = queue.then(async () => {
    try {
      await action();
      byId("problem").textContent = "";
    } catch (error) {
      if (!(error instanceof Problem)) throw error;
      if (error.status === 401) showStart();
      byId("problem").textContent = error.message;
    }
  });
  return queue;
}

function draw() {
  const current = span();
  if (chosen !== null && !current) chosen = null;
  text.draw(note.spans, { chosen, place, labels: review.labels });
  showSpans(text, note.spans, chosen, choose);
  byId("note-name").textContent = note.name + (note.finished ? " (finished)" : "");
  byId("finish").firstChild.data = note.finished ? "Open again " : "Finish note ";
  const target = current || place;
  byId("chosen-text").textContent = target ? text.slice(target.start, target.end) : "Nothing is chosen.";
  byId("chosen-facts").textContent = current ? `${current.label}, ${words(current)}` : "";
  byId("span-tools").hidden = !current;
  byId("place-tools").hidden = !place;
  byId("both-tools").hidden = !target;
  if (current) byId("label").value = current.label;
  for (const control of document.querySelectorAll("#span-tools button, #add, #finish")) control.disabled = note.locked;
  if (note.locked) say("This note is being adjudicated: it can be changed there only.");
}

function choose(id, before = "") {
  chosen = id;
  place = null;
  byId("explanation").replaceChildren();
  draw();
  byId("text").querySelector(".chosen")?.scrollIntoView({ block: "nearest" });
  if (span()) say(`${before}${span().label}: ${text.slice(span().start, span().end)}, ${words(span())}`);
}

function choosePlace(found) {
  place = found;
  chosen = null;
  byId("explanation").replaceChildren();
  draw();
  if (place) say(text.slice(place.start, place.end));
}

function show(shown) {
  if (!note || note.id !== shown.id) {
    text.setText(shown.text);
    chosen = null;
  }
  note = shown;
  draw();
}

const refreshNotes = () => list.refresh(note?.id);

async function openNote(id, before = "") {
  place = null;
  show(await get(`notes/${id}`));
  // Before the list is fetched: what the reviewer chooses meanwhile stays chosen.
  nextUndecided(before);
  await refreshNotes();
}

// Store a decision about the open note and show what the server has then; `after` may choose the next span.
async function decide(path, content, said, after = () => {}) {
  const shown = await post(`notes/${note.id}/${path}`, content);
  show(shown);
  if (shown.selected) choose(shown.selected);
  say(`${said}. Stored.`);
  after();
  await refreshNotes();
}

function nextUndecided(before = "") {
  const open = note.spans.filter((one) => one.status === "undecided" && one.id !== chosen);
  const first = list.order === "score" ? "uncertainty" : "disagreement";
  open.sort((a, b) => b[first] - a[first] || b.uncertainty - a.uncertainty || a.start - b.start);
  if (open.length) choose(open[0].id, before);
  else if (!span() || span().status !== "undecided") {
    choose(null);
    say(`${before}No span is undecided: finish the note.`);
  }
}

const setStatus = (status) => act(async () => {
  const current = span();
  if (!current) return;
  const goOn = current.status === "undecided" && status !== "undecided";
  await decide(`spans/${current.id}/status`, { status }, status, () => {
    if (goOn) nextUndecided(`${status}. Stored. Next: `);
  });
});

const alter = (change, said) => act(async () => {
  const current = span();
  if (!current) return;
  const content = Object.fromEntries(Object.entries(change).map(([key, by]) =>
    [key, typeof by === "number" ? current[key] + by : by]));
  await decide(`spans/${current.id}`, content, said);
});

const add = () => act(async () => {
  if (!place) return;
  const wanted = { ...place, label: byId("label").value };
  place = null;
  await decide("spans", wanted, `marked as ${wanted.label}`);
});

const finish = () => act(async () => {
  const finished = !note.finished;
  await decide("finished", { finished }, finished ? "note finished" : "note open again");
  const next = list.page.first_open;
  if (finished && next !== null) await openNote(next, "Note finished. Stored. Next: ");
});

const replay = (what) => act(async () => {
  const { note: id } = await post(what);
  if (id === null) {
    say(`There is nothing to ${what}.`);
    return;
  }
  const kept = chosen;
  show(await get(`notes/${id}`));
  if (note.spans.some((one) => one.id === kept)) choose(kept);
  await refreshNotes();
  say(what === "undo" ? "Undone. Stored." : "Done again. Stored.");
});

const explain = () => act(async () => {
  const target = span() || place;
  if (!target) return;
  say("The model explains.");
  showExplanation(await post(`notes/${note.id}/explain`, { start: target.start, end: target.end }), text);
  say("The explanation is below the chosen text.");
});

function step(direction) {
  const spans = note.spans;
  if (!spans.length) return;
  const at = spans.findIndex((one) => one.id === chosen);
  choose(spans[at < 0 ? (direction > 0 ? 0 : spans.length - 1) : Math.min(Math.max(at + direction, 0), spans.length - 1)].id);
}

function stepNote(direction) {
  act(async () => {
    const next = direction > 0 ? list.page.next : list.page.previous;
    if (next !== null) await openNote(next);
  });
}

const { openHelp, openSearch } = dialogs({
  act,
  async openAt(id, found) {
    await openNote(id);
    choosePlace(found);
    byId("text").focus();
  },
  async reload() {
    if (note) show(await get(`notes/${note.id}`));
    await refreshNotes();
  },
});
const chosenText = () => { const target = span() || place; return target ? text.slice(target.start, target.end) : ""; };

const ACTIONS = {
  n: () => nextUndecided(), j: () => step(1), k: () => step(-1), J: () => stepNote(1), K: () => stepNote(-1),
  y: () => setStatus("accepted"), x: () => setStatus("rejected"), u: () => setStatus("undecided"),
  l: () => byId("label").focus(), a: add, e: explain, f: finish, z: () => replay("undo"), Z: () => replay("redo"),
  "[": () => alter({ start: -1 }, "stretched"), "{": () => alter({ start: 1 }, "shrunk"),
  "}": () => alter({ end: -1 }, "shrunk"), "]": () => alter({ end: 1 }, "stretched"),
  s: () => openSearch(chosenText()), "/": () => openSearch(""), "?": openHelp, Escape: () => choosePlace(null),
};
const BUTTONS = {
  accept: "y", reject: "x", "open-again": "u", "start-left": "[", "start-right": "{", "end-left": "}", "end-right": "]",
  add: "a", explain: "e", "search-chosen": "s", next: "n", finish: "f", undo: "z", redo: "Z", "open-search": "/",
  "open-help": "?",
};

function key(event) {
  if (event.ctrlKey || event.metaKey || event.altKey || !note || document.querySelector("dialog[open]")) return;
  if (event.target.matches("input, select, textarea")) {
    if (event.key === "Escape") byId("text").focus();
    return;
  }
  if (event.target === byId("text") && (event.key === "ArrowRight" || event.key === "ArrowLeft")) {
    event.preventDefault();
    const direction = event.key === "ArrowRight" ? 1 : -1;
    const from = place || span();
    choosePlace(event.shiftKey ? text.extended(from, direction) : text.word(from, direction));
    return;
  }
  const single = byId("shortcuts").checked || event.key === "Escape";
  if (single && Object.hasOwn(ACTIONS, event.key)) {
    event.preventDefault();
    ACTIONS[event.key]();
  }
}

function listen() {
  document.addEventListener("keydown", key);
  for (const [id, name] of Object.entries(BUTTONS)) byId(id).addEventListener("click", () => ACTIONS[name]());
  byId("label").addEventListener("change", () => { if (span()) alter({ label: byId("label").value }, "relabelled"); });
  let dragged = false;
  byId("text").addEventListener("mouseup", () => {
    const found = text.selected();
    dragged = found !== null;
    if (!dragged) return;
    getSelection().removeAllRanges();
    choosePlace(found);
  });
  byId("text").addEventListener("click", (event) => {
    // The click that ends a selection with the mouse chooses no span.
    if (dragged) return;
    const ids = event.target.closest("mark")?.dataset.spans?.split(" ").map(Number);
    // A second click chooses the next of several spans at one place.
    if (ids) choose(ids[(ids.indexOf(chosen) + 1) % ids.length]);
  });
  byId("order").addEventListener("change", () => act(() => list.refresh(note?.id, 0)));
  byId("start-form").addEventListener("submit", (event) => { event.preventDefault(); begin(byId("reviewer").value.trim()); });
  byId("adjudicate").addEventListener("click", () => begin(review?.adjudication || "adjudication"));
}

function showStart() {
  byId("work").hidden = true;
  byId("start").hidden = false;
  byId("token-field").hidden = false;
}

async function begin(name) {
  try {
    if (byId("token").value) session.token = byId("token").value;
    if (!name) throw new Problem(0, "Enter your name: decisions are kept under it.");
    session.reviewer = name;
    review = await readState();
    await list.refresh();
    if (!list.page.total) {
      throw new Problem(0, name === review.adjudication ? "No note has been finished by two reviewers." : "There are no notes.");
    }
  } catch (error) {
    byId("start-problem").textContent = error.message;
    if (error.status === 401) byId("token-field").hidden = false;
    return;
  }
  fillLabels(review.labels);
  byId("who").textContent = name === review.adjudication ? "Adjudication" : name;
  byId("start").hidden = true;
  byId("work").hidden = false;
  byId("notes-details").open = innerWidth > 700;
  await act(() => openNote(list.page.lines[0].id));
  byId("text").focus();
}

async function load() {
  showKeys();
  listen();
  byId("reviewer").value = session.reviewer;
  try {
    review = await readState();
  } catch (error) {
    if (error.status === 401) byId("token-field").hidden = false;
    else byId("start-problem").textContent = error.message;
    return;
  }
  const names = review.reviewers.map((name) => { const option = document.createElement("option"); option.value = name; return option; });
  byId("known-reviewers").replaceChildren(...names);
}

load();
