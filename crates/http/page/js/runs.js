// The runs: a list with filters, live.

import { ask } from "./api.js";
import { fill, h, setText } from "./dom.js";
import { listen } from "./store.js";
import { duration } from "./timeline.js";
import { timeAgo, visible } from "./words.js";

export const title = "Runs";

const STATES = ["running", "waiting", "completed", "failed", "cancelled"];

/** How each state of a run looks. @type {Record<string, string>} */
export const TONES = { running: "busy", waiting: "wait", completed: "good", failed: "bad", cancelled: "soft" };

/** @param {HTMLElement} into */
export function show(into) {
  const state = h("select", { "aria-label": "State" }, h("option", { value: "" }, "All states"), STATES.map((word) => h("option", { value: word }, word)));
  const search = h("input", { type: "search", placeholder: "Workflow or id", "aria-label": "Workflow or id" });
  const rows = h("tbody");
  const none = h("p", { class: "hint", hidden: true });
  const older = h("button", { class: "quiet" }, "Show older runs");
  fill(
    into,
    h("header", { class: "head" }, h("h1", {}, title), search, state),
    h("div", { class: "card table" }, h("table", {}, h("thead", {}, h("tr", {}, ["State", "Workflow", "Began", "Took", "Result"].map((name) => h("th", { scope: "col" }, name)))), rows), none, older),
  );
  /** @type {any[]} */
  let newest = [];
  /** Runs beyond the newest, as they were asked for. @type {any[]} */
  let more = [];

  function draw() {
    const wanted = search.value.trim().toLowerCase();
    const known = new Set(newest.map((run) => run.run_id));
    const all = [...newest, ...more.filter((run) => !known.has(run.run_id))];
    const chosen = all.filter((run) => (!state.value || run.state === state.value) && (!wanted || run.workflow_id.toLowerCase().includes(wanted) || run.run_id.startsWith(wanted)));
    fill(rows, chosen.map(row));
    none.hidden = chosen.length > 0;
    setText(none, all.length ? "No run matches." : "No run was started yet. In a terminal: steplatch run FILE");
    older.hidden = all.length < 100;
  }

  state.addEventListener("change", draw);
  search.addEventListener("input", draw);
  older.addEventListener("click", async () => {
    const last = [...newest, ...more].at(-1);
    if (!last) return;
    const { runs } = await ask("GET", "/runs", { before: last.run_id, limit: 200 });
    more = [...more, ...runs];
    draw();
    older.hidden = runs.length === 0;
  });
  const forget = listen(({ runs }) => {
    newest = runs;
    draw();
  });
  return forget;
}

/** @param {any} run */
function row(run) {
  const began = Date.parse(run.started_at);
  const ended = run.completed_at ? Date.parse(run.completed_at) : Date.now();
  const result = run.error ?? (run.pending_gate ? run.pending_gate.prompt : run.result === null || run.result === undefined ? "" : typeof run.result === "string" ? run.result : JSON.stringify(run.result));
  return h(
    "tr",
    {},
    h("td", {}, h("span", { class: "chip", "data-tone": TONES[run.state] ?? "soft" }, run.paused ? "paused" : run.state)),
    h("td", {}, h("a", { href: `#/runs/${encodeURIComponent(run.run_id)}` }, visible(run.workflow_id)), h("span", { class: "hint id" }, run.run_id)),
    h("td", { class: "nowrap" }, h("time", { datetime: run.started_at, title: run.started_at }, timeAgo(run.started_at, Date.now()))),
    h("td", { class: "nowrap" }, duration(ended - began)),
    h("td", { class: `cut${run.error ? " bad" : ""}` }, visible(String(result)).slice(0, 200)),
  );
}
