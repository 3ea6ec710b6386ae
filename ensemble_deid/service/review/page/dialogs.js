// The dialogs: searching all notes and marking all, results with the export, help.

import { byId, showHits, showResults } from "./panels.js";
import { download, get, post, state as readState } from "./server.js";

const fields = () => ({
  words: byId("words").value, whole_words: byId("whole-words").checked, match_case: byId("match-case").checked,
});

// `page` is what the dialogs need of the page: act, openAt(note, place), reload().
export function dialogs(page) {
  const inDialog = (action) => page.act(async () => {
    try {
      await action();
    } catch (error) {
      byId("search-said").textContent = error.message;
      throw error;
    }
  });

  const search = () => inDialog(async () => {
    showHits(await post("search", fields()), (hit) => page.act(async () => {
      byId("search-dialog").close();
      await page.openAt(hit.note, { start: hit.start, end: hit.end });
    }));
  });

  const markAll = () => inDialog(async () => {
    const { marked, skipped } = await post("mark-all", { ...fields(), label: byId("mark-label").value });
    await page.reload();
    byId("search-said").textContent = `${marked} marked, ${skipped} left as they are (in other spans or finished notes). Stored.`;
  });

  const exportAs = (format) => page.act(async () => {
    const answer = await download(format);
    const link = document.createElement("a");
    link.href = URL.createObjectURL(await answer.blob());
    link.download = format === "jsonl" ? "reviewed.jsonl" : "reviewed-brat.zip";
    link.click();
    setTimeout(() => URL.revokeObjectURL(link.href), 10000);
    const [notes, unfinished, disputed] = ["x-notes", "x-unfinished", "x-disputed"].map((name) => answer.headers.get(name));
    byId("export-said").textContent = `${notes} notes exported; ${unfinished} not finished, ${disputed} on which reviewers differ.`;
  });

  const openResults = () => page.act(async () => {
    showResults(await readState(), await get("agreement"));
    byId("results-dialog").showModal();
  });

  byId("search-form").addEventListener("submit", (event) => { event.preventDefault(); search(); });
  byId("mark-all").addEventListener("click", markAll);
  byId("open-results").addEventListener("click", openResults);
  byId("export-jsonl").addEventListener("click", () => exportAs("jsonl"));
  byId("export-brat").addEventListener("click", () => exportAs("brat"));
  for (const button of document.querySelectorAll("dialog .close")) {
    button.addEventListener("click", () => button.closest("dialog").close());
  }

  return {
    openHelp: () => byId("help-dialog").showModal(),
    openSearch(words) {
      byId("hits").replaceChildren();
      byId("search-said").textContent = "";
      if (words) byId("words").value = words;
      byId("mark-label").value = byId("label").value;
      byId("search-dialog").showModal();
      byId("words").focus();
      if (words) search();
    },
  };
}
