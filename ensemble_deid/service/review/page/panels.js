// Lists, dialogs and tables beside the note. Everything is put in as text, never as HTML.

import { colour, words } from "./note.js";

export const byId = (id) => document.getElementById(id);

export function element(name, text = "", attributes = {}) {
  const made = document.createElement(name);
  made.textContent = text;
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  return made;
}

export function item(title, detail, { current, act, fill = null }) {
  const entry = document.createElement("li");
  const button = element("button", title, { type: "button" });
  if (fill) {
    const chip = element("span", "", { class: "chip", "aria-hidden": "true" });
    chip.style.setProperty("--fill", fill);
    button.prepend(chip, " ");
  }
  if (current) button.setAttribute("aria-current", "true");
  button.append(element("small", detail));
  button.addEventListener("click", act);
  entry.append(button);
  return entry;
}

export function showSpans(text, spans, { chosen, labels, act }) {
  const entries = spans.map((span) => item(`${span.label}: ${text.slice(span.start, span.end)}`, words(span),
    { current: span.id === chosen, act: () => act(span.id), fill: colour(labels, span.label) }));
  byId("spans").replaceChildren(...entries);
  byId("spans").querySelector("[aria-current]")?.scrollIntoView({ block: "nearest" });
}

export function fillLabels(labels) {
  for (const id of ["label", "mark-label"]) {
    byId(id).replaceChildren(...labels.map((label) => element("option", label, { value: label })));
  }
}

export function showExplanation(explanation, text) {
  const parts = [];
  for (const candidate of explanation.candidates) {
    const quoted = text.slice(candidate.start, candidate.end);
    parts.push(element("p", `${candidate.label} “${quoted}”: ${candidate.outcome}`));
    const list = document.createElement("ul");
    for (const { submodel, confidence, answer } of candidate.proposals) {
      list.append(element("li", `${submodel} ${Number(confidence.toPrecision(4))}${answer ? ", its answer" : ""}`));
    }
    parts.push(list);
  }
  if (!explanation.candidates.length) parts.push(element("p", "No submodel proposed anything here."));
  for (const match of explanation.patterns) {
    parts.push(element("p", `Pattern ${match.pattern}: ${match.label}${match.used ? "" : " (not used)"}`));
  }
  for (const rule of explanation.rules) parts.push(element("p", `Rule ${rule.number}: ${rule.words}`));
  byId("explanation").replaceChildren(...parts);
}

export function showHits(found, act) {
  byId("search-said").textContent = `${found.total} occurrences in ${found.notes} notes` +
    (found.total > found.hits.length ? `; the first ${found.hits.length} are listed` : "");
  const entries = found.hits.map((hit) => item(`${hit.before}⟦${hit.found}⟧${hit.after}`.replace(/\s+/g, " "), hit.name,
    { current: false, act: () => act(hit) }));
  byId("hits").replaceChildren(...entries);
}

export function showResults(state, agreement) {
  byId("results-progress").textContent = byId("progress-text").textContent;
  [byId("then").textContent, byId("then-command").textContent] = state.then;
  if (!agreement.length) {
    byId("agreement").replaceChildren(element("p", "No note has been finished by two reviewers."));
    return;
  }
  const table = document.createElement("table");
  const head = table.createTHead().insertRow();
  for (const title of ["Reviewers", "Notes", "Both", "First only", "Second only", "F1", "Kappa"]) {
    head.append(element("th", title, { scope: "col" }));
  }
  const body = table.createTBody();
  for (const pair of agreement) {
    const row = body.insertRow();
    row.append(element("th", `${pair.first}, ${pair.second}`, { scope: "row" }));
    const [f1, kappa] = [pair.f1, pair.kappa].map((value) => value === null ? "undefined" : (100 * value).toFixed(1));
    for (const value of [pair.notes, pair.both, pair.first_only, pair.second_only, f1, kappa]) row.append(element("td", value));
  }
  byId("agreement").replaceChildren(table);
}

export function showGuideline({ text, version, author, time }, mayEdit) {
  byId("guideline").dataset.version = version;
  byId("guideline-text").textContent = text || "No guideline yet.";
  byId("guideline-version").textContent = version ? `version ${version}, ${[author, time].filter(Boolean).join(", ")}` : "";
  byId("guideline-edit").value = text;
  byId("guideline-form").hidden = !mayEdit;
}

// What finishing the note would decide, and whether it may: differences of reviewers have to be decided one by one.
export function askToFinish(undecided) {
  const count = (kind) => undecided.filter((span) => kind.includes(span.kind)).length;
  const [found, suggested, disputed] = [count(["found", "added"]), count(["suggested"]), count(["disputed"])];
  byId("finish-text").textContent = disputed ? `${disputed} differences are undecided: decide about each.`
    : `${found} found (PHI, unless you reject them) and ${suggested} suggested (not PHI, unless you accept them).`;
  byId("finish-anyway").hidden = disputed > 0;
  byId("finish-dialog").showModal();
}

const KEYS = [
  ["n", "next undecided span, in the order chosen above the notes"], ["j, k", "next, previous span"],
  ["y, x, u", "accept, reject, undecided again"], ["l", "choose a label; it relabels the chosen span"],
  ["[, ]", "stretch the start to the left, the end to the right"], ["{, }", "shrink the start, the end"],
  ["arrows left, right", "in the text: previous, next word; with Shift: a word less, more"],
  ["a", "mark the chosen words, with the label shown"], ["e", "why it was found, or was not"],
  ["s, /", "find the chosen text, or another string, in all notes"], ["f", "finish the note and open the next"],
  ["J, K", "next, previous note"], ["z, Z", "undo, redo"], ["g", "the guideline"], ["Escape", "choose nothing"], ["?", "this list"],
];

export function showKeys() {
  const parts = KEYS.flatMap(([key, what]) => {
    const term = document.createElement("dt");
    term.append(element("kbd", key));
    return [term, element("dd", what)];
  });
  byId("keys").replaceChildren(...parts);
}
