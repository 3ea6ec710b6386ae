// The rules of a model as cards, grouped by what they are for. Everything is put in as text, never as HTML.

import { byId, element } from "./panels.js";
import { get, post, session } from "./server.js";

let sha256 = "";

async function act(action, place = "rules-problem") {
  byId(place).textContent = "";
  try {
    show(await action());
  } catch (error) {
    byId(place).textContent = error.message;
    byId("token-field").hidden = error.status !== 401;
  }
}

function button(text, action) {
  const made = element("button", text, { type: "button" });
  made.addEventListener("click", action);
  return made;
}

function editor(card) {
  const form = element("form");
  const field = element("textarea", card.text, { rows: 3, maxlength: 2000, "aria-label": `Rule ${card.number} as text` });
  form.append(field, element("button", "Store", { type: "submit" }));
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    act(() => post(`rules/${card.number}/text`, { sha256, text: field.value }));
  });
  return form;
}

function example({ effect, note, quoted: [before, place, after] }) {
  const line = element("p", `${effect}, in ${note}: `);
  line.append(before, element("mark", place), after);
  return line;
}

function shown(card) {
  const made = element("article", "", { id: `rule-${card.number}` });
  made.append(element("h3", `${card.number}. ${card.words}`));
  if (card.effect) made.append(element("p", card.effect + (card.verdict ? ` (${card.verdict})` : "")));
  made.append(...card.examples.map(example));
  const said = card.decisions.map(({ by, date, rejected }) => `${rejected ? "rejected" : "approved"} by ${by}, ${date}`);
  made.append(element("p", said.join("; ") || "not decided yet", { class: "soft" }));
  const tools = element("p", "", { class: "tools" });
  const decide = (rejected) => () => act(() => post(`rules/${card.number}/decision`, { sha256, rejected }));
  const edit = button("Edit", () => edit.replaceWith(editor(card)));
  tools.append(button("Approve", decide(false)), button("Reject", decide(true)), edit);
  made.append(tools);
  return made;
}

function show(state) {
  sha256 = state.sha256;
  byId("start").hidden = true;
  byId("rules").hidden = false;
  byId("summary").textContent = `Approved: ${state.summary}. Rules apply in the order of their numbers.`;
  byId("notes").textContent = state.notes === null ? "" : `Checked on ${state.notes} notes, each rule after those before it.`;
  const groups = new Map();
  for (const card of state.cards) groups.set(card.purpose, [...(groups.get(card.purpose) || []), card]);
  const parts = [...groups.keys()].sort().flatMap((purpose) => [element("h2", purpose), ...groups.get(purpose).map(shown)]);
  byId("cards").replaceChildren(...parts);
}

byId("reviewer").value = session.reviewer;
byId("start-form").addEventListener("submit", (event) => {
  event.preventDefault();
  session.reviewer = byId("reviewer").value.trim();
  session.token = byId("token").value.trim();
  act(() => get("rules"), "problem");
});
