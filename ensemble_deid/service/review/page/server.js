// Requests to the server. Nothing is kept in the browser but the reviewer's name and the token, for this tab.

export class Problem extends Error {
  constructor(status, message) {
    super(message);
    this.status = status;
  }
}

export const session = {
  get reviewer() { return sessionStorage.getItem("reviewer") || ""; },
  set reviewer(name) { sessionStorage.setItem("reviewer", name); },
  get token() { return sessionStorage.getItem("token") || ""; },
  set token(value) { sessionStorage.setItem("token", value); },
};

async function send(method, path, content) {
  const headers = {};
  if (session.token) headers.authorization = `Bearer ${session.token}`;
  if (content !== undefined) headers["content-type"] = "application/json";
  let answer;
  try {
    answer = await fetch(path, { method, headers, body: content === undefined ? undefined : JSON.stringify(content) });
  } catch {
    throw new Problem(0, method === "GET" ? "The server does not answer: start it again."
      : "The server does not answer: your last step was not stored. Start it again, then repeat the step.");
  }
  if (!answer.ok) {
    let said = `status ${answer.status}`;
    try {
      said = (await answer.json()).error || said;
    } catch { /* no JSON: the status is all there is */ }
    throw new Problem(answer.status, said);
  }
  return answer;
}

const query = (more) => `?${new URLSearchParams({ reviewer: session.reviewer, ...more })}`;

export const get = async (path, more = {}) => (await send("GET", `/api/${path}${query(more)}`)).json();
export const state = async () => (await send("GET", "/api/state")).json();
export const post = async (path, content = {}) =>
  (await send("POST", `/api/${path}`, { reviewer: session.reviewer, ...content })).json();
export const download = (format) => send("GET", `/api/export?format=${format}`);
