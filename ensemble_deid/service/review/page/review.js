// The review page: what is chosen, and what buttons and keys do. The server holds all else.

import { dialogs } from "./dialogs.js";
import { NoteList } from "./list.js";
import { NoteText, words } from "./note.js";
import { askToFinish, byId, element, fillLabels, showExplanation, showGuideline, showKeys, showSpans } from "./panels.js";
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
  showSpans(text, note.spans, { chosen, labels: review.labels, act: choose });
  byId("note-name").textContent = note.name + (note.finished ? " (finished)" : "");
  const target = current || place;
  byId("chosen-text").textContent = target ? text.slice(target.start, target.end) : "Nothing is chosen.";
  byId("chosen-facts").textContent = current ? `${current.label}, ${words(current)}` : "";
  byId("both-tools").hidden = !target;
  if (current) byId("label").value = current.label;
  offer(current);
}

// Offer what can be done with the note and with what is chosen, and nothing else.
function offer(current) {
  for (const id of ["span-tools", "edge-tools"]) byId(id).hidden = !current || fixed();
  byId("place-tools").hidden = !place || fixed();
  byId("label-field").hidden = fixed();
  for (const [id, status] of [["accept", "accepted"], ["reject", "rejected"], ["open-again", "undecided"]]) {
    byId(id).disabled = current?.status === status;
  }
  byId("explain").hidden = !review.explains;
  byId("next").disabled = fixed() || !note.spans.some((one) => one.status === "undecided");
  byId("finish").hidden = note.locked;
  byId("finish").firstChild.data = note.finished ? "Reopen " : "Finish note ";
  byId("undo").disabled = !note.undo;
  byId("redo").disabled = !note.redo;
  if (note.locked) say("This note is being adjudicated: change it there.");
}

function choose(id, before = "") {
  chosen = id;
  place = null;
  byId("explanation").replaceChildren();
  draw();
  byId("text").querySelector(".chosen")?.scrollIntoView({ block: "center" });
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
  if (!current || fixed()) return;
  const goOn = current.status === "undecided" && status !== "undecided";
  await decide(`spans/${current.id}/status`, { status }, status, () => {
    if (goOn) nextUndecided(`${status}. Stored. Next: `);
  });
});

const alter = (change, said) => act(async () => {
  const current = span();
  if (!current || fixed()) return;
  const content = Object.fromEntries(Object.entries(change).map(([key, by]) =>
    [key, typeof by === "number" ? current[key] + by : by]));
  await decide(`spans/${current.id}`, content, said);
});

const add = () => act(async () => {
  if (!place || fixed()) return;
  const wanted = { ...place, label: byId("label").value };
  place = null;
  await decide("spans", wanted, `marked as ${wanted.label}`);
});

const fixed = () => note.locked || note.finished;

// Finish the note, or open it again. What is undecided is asked for, and decided only where the reviewer says so.
const finish = (settle = false) => act(async () => {
  const finished = !note.finished;
  const undecided = note.spans.filter((one) => one.status === "undecided");
  if (finished && undecided.length && !settle) {
    askToFinish(undecided);
    return;
  }
  await decide("finished", { finished, settle }, finished ? "note finished" : "note reopened");
  const next = list.page.first_open;
  if (finished && next !== null) await openNote(next, "Note finished. Stored. Next: ");
});

const replay = (what) => act(async () => {
  const { note: id } = await post(what);
  if (id === null) {
    say(`Nothing to ${what}.`);
    return;
  }
  const kept = chosen;
  show(await get(`notes/${id}`));
  if (note.spans.some((one) => one.id === kept)) choose(kept);
  await refreshNotes();
  say(what === "undo" ? "Undone. Stored." : "Redone. Stored.");
});

const explain = () => act(async () => {
  const target = span() || place;
  if (!target || !review.explains) return;
  say("Loading the explanation.");
  showExplanation(await post(`notes/${note.id}/explain`, { start: target.start, end: target.end }), text);
  byId("chosen").scrollIntoView({ block: "nearest" });
  say("The explanation is beside the text.");
});

// The guideline as it is now: another may have written a version since.
const openGuideline = () => act(async () => {
  showGuideline(await get("guideline"), review.owner);
  byId("guideline").open = true;
  byId("guideline").scrollIntoView({ block: "nearest" });
});

const storeGuideline = () => act(async () => {
  const content = { text: byId("guideline-edit").value, after: Number(byId("guideline").dataset.version) };
  showGuideline(await post("guideline", content), review.owner);
  say("The guideline has a new version. Stored.");
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
  l: () => byId("label").focus(), a: add, e: explain, f: () => finish(), z: () => replay("undo"), Z: () => replay("redo"),
  "[": () => alter({ start: -1 }, "stretched"), "{": () => alter({ start: 1 }, "shrunk"),
  "}": () => alter({ end: -1 }, "shrunk"), "]": () => alter({ end: 1 }, "stretched"),
  s: () => openSearch(chosenText()), "/": () => openSearch(""), g: openGuideline, "?": openHelp, Escape: () => choosePlace(null),
};
const BUTTONS = {
  accept: "y", reject: "x", "open-again": "u", "start-left": "[", "start-right": "{", "end-left": "}", "end-right": "]",
  add: "a", explain: "e", "search-chosen": "s", next: "n", finish: "f", undo: "z", redo: "Z", "open-search": "/",
  "open-help": "?", "open-guideline": "g",
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
  byId("finish-look").addEventListener("click", () => { byId("finish-dialog").close(); nextUndecided(); });
  byId("finish-anyway").addEventListener("click", () => { byId("finish-dialog").close(); finish(true); });
  byId("guideline").querySelector("summary").addEventListener("click", (event) => {
    if (byId("guideline").open) return;
    event.preventDefault();
    openGuideline();
  });
  byId("guideline-form").addEventListener("submit", (event) => { event.preventDefault(); storeGuideline(); });
  listenToTouch();
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
  byId("adjudicate").addEventListener("click", () => begin("", true));
}

// A finger selects by handles, and no event says when it is done: what stays selected for a moment is chosen.
function listenToTouch() {
  let touched = false, waiting = 0;
  document.addEventListener("pointerdown", (event) => { touched = event.pointerType === "touch"; });
  document.addEventListener("selectionchange", () => {
    clearTimeout(waiting);
    if (!touched || !note) return;
    waiting = setTimeout(() => {
      const found = text.selected();
      if (found) choosePlace(found);
    }, 700);
  });
}

function showStart() {
  byId("work").hidden = true;
  byId("start").hidden = false;
  byId("token-field").hidden = false;
}

async function begin(wanted, adjudicates = false) {
  let name = wanted;
  try {
    if (byId("token").value) session.token = byId("token").value;
    review = await readState();
    name = adjudicates ? review.adjudication : review.account || wanted;
    if (!name) throw new Problem(0, "Enter your name: your decisions are stored under it.");
    session.reviewer = name;
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
  byId("who").textContent = [adjudicates ? "Adjudication" : name, adjudicates && review.account].filter(Boolean).join(", ");
  byId("export").hidden = !review.owner;
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
    byId("adjudicate").hidden = !review.to_settle;
  } catch (error) {
    if (error.status === 401) byId("token-field").hidden = false;
    else byId("start-problem").textContent = error.message;
    return;
  }
  byId("known-reviewers").replaceChildren(...review.reviewers.map((name) => element("option", "", { value: name })));
}

load();
