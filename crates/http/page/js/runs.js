// The runs: a list with filters, live.

import { ask } from "./api.js";
import { shownTime } from "./choices.js";
import { fill, h, setText } from "./dom.js";
import { askedOf, filterOf, isOf, keepFilter, PERIODS, queryOf, savedFilters } from "./run_filter.js";
import { runSelection } from "./run_selection.js";
import { listen } from "./store.js";
import { duration, isEmpty } from "./timeline.js";
import { timeAgo, visible } from "./words.js";

export const title = "Runs";

const STATES = ["running", "waiting", "completed", "failed", "cancelled"];

/** How each state of a run looks. @type {Record<string, string>} */
export const TONES = { running: "busy", waiting: "wait", completed: "good", failed: "bad", cancelled: "soft" };

/** How many runs are read at once, how many of them are shown before a person asks for more, and how many a text is searched in. */
const READ = { page: 200, enough: 50, most: 2000 };

/**
 * @param {HTMLElement} into
 * @param {string[]} _parts
 * @param {URLSearchParams} query
 */
export function show(into, _parts, query) {
  let filter = filterOf(query);
  const state = h("select", { "aria-label": "State" }, h("option", { value: "" }, "All states"), STATES.map((word) => h("option", { value: word }, word)));
  const since = h("select", { "aria-label": "Since" }, [["", "At any time"], ["1h", "Last hour"], ["24h", "Last day"], ["7d", "Last 7 days"]].map(([value, label]) => h("option", { value }, label ?? "")));
  const names = h("datalist", { id: "workflow-names" });
  const workflow = h("input", { type: "search", list: "workflow-names", placeholder: "Workflow", "aria-label": "Workflow", autocomplete: "off" });
  const search = h("input", { type: "search", placeholder: "Text or id", "aria-label": "Text or id", autocomplete: "off" });
  const rows = h("tbody");
  const none = h("p", { class: "hint", hidden: true });
  const all = h("input", { type: "checkbox", "aria-label": "Select all runs that are shown" });
  const selection = runSelection(() => draw(), (id) => {
    [newest, found] = [newest, found].map((runs) => runs.filter((run) => run.run_id !== id));
  });
  const saved = h("p", { class: "line saved" });
  const problem = h("p", { class: "problem", role: "alert", hidden: true });
  const older = h("button", { class: "quiet", hidden: true }, "Show older runs");
  fill(
    into,
    h("header", { class: "head" }, h("h1", { class: "grow" }, title), search, workflow, state, since, names),
    saved,
    problem,
    h("div", { class: "card table" }, h("table", {}, h("thead", {}, h("tr", {}, h("td", { class: "select" }, all), ["State", "Workflow", "Began", "Took", "Result"].map((name) => h("th", { scope: "col" }, name)))), rows), none, older),
    selection.bar,
  );
  if (filter.since && !Object.hasOwn(PERIODS, filter.since)) since.append(h("option", { value: filter.since }, `Since ${filter.since}`));
  [state.value, since.value, workflow.value, search.value] = [filter.state, filter.since, filter.workflow, filter.text];

  /** The newest runs, live. @type {any[]} */
  let newest = [];
  /** What the server was asked for. @type {any[]} */
  let found = [];
  /** The last run of what was read, if there may be more behind it. @type {string | null} */
  let last = null;
  let hasRead = false;
  let isReading = false;
  /** The runs that are shown. @type {any[]} */
  let shown = [];
  /** Counts the filters: what is read for an earlier one is not shown. */
  let filters = 0;

  function draw() {
    const now = Date.now();
    const known = new Set(newest.map((run) => run.run_id));
    const listed = [...newest, ...found.filter((run) => !known.has(run.run_id))];
    const chosen = listed.filter((run) => isOf(run, filter, now));
    chosen.sort((one, other) => String(other.started_at).localeCompare(String(one.started_at)));
    shown = chosen;
    // Also of selected runs that the filter leaves out by now.
    selection.update(listed);
    // A box that has the focus keeps it.
    const focused = document.activeElement instanceof HTMLInputElement && rows.contains(document.activeElement) ? document.activeElement.value : null;
    fill(rows, chosen.map((run) => row(run, selection.has(run.run_id), (is) => select([run], is))));
    if (focused) /** @type {HTMLInputElement | null} */ (rows.querySelector(`input[value="${CSS.escape(focused)}"]`))?.focus({ preventScroll: true });
    showAll();
    none.hidden = chosen.length > 0 || isReading;
    setText(none, askedOf(filter, now) ? "No run matches." : "No run was started yet. In a terminal: steplatch run FILE");
    older.hidden = hasRead ? last === null : newest.length < 100;
    return chosen.length;
  }

  /** @param {any[]} runs @param {boolean} is */
  function select(runs, is) {
    for (const run of runs) selection.set(run, is);
    showAll();
  }

  function showAll() {
    const count = shown.filter((run) => selection.has(run.run_id)).length;
    all.checked = count > 0 && count === shown.length;
    all.indeterminate = count > 0 && count < shown.length;
    all.disabled = shown.length === 0;
  }

  /** Shows the kept filters, and the button that keeps the current one. */
  function showSaved() {
    const now = queryOf(filter);
    const kept = savedFilters();
    const links = kept.map((query) => h("a", { class: "chip", href: `#/runs?${query}`, "aria-current": query === now ? "true" : null }, describe(filterOf(new URLSearchParams(query)))));
    const isKept = kept.includes(now);
    const keep = h("button", { class: "quiet", onclick: () => { keepFilter(now, !isKept); showSaved(); } }, isKept ? "Forget this filter" : "Keep this filter");
    fill(saved, links, now ? keep : null);
    saved.hidden = !now && kept.length === 0;
  }

  /** Reads runs from the server, until there are enough of the filter. @param {number} enough */
  async function read(enough) {
    const mine = filters;
    isReading = true;
    let count = 0;
    try {
      do {
        const before = hasRead ? (last ?? undefined) : askedOf(filter, Date.now()) ? undefined : newest.at(-1)?.run_id;
        const { runs } = await ask("GET", "/runs", { ...askedOf(filter, Date.now()), before, limit: READ.page });
        if (mine !== filters) return;
        found = [...found, ...runs];
        last = runs.length === READ.page ? runs.at(-1).run_id : null;
        hasRead = true;
        count += runs.length;
        isReading = last !== null && draw() < enough && count < READ.most;
      } while (isReading);
    } catch (error) {
      if (mine !== filters) return;
      isReading = false;
      problem.textContent = error instanceof Error ? error.message : String(error);
      problem.hidden = false;
    }
    draw();
  }

  function change() {
    filter = { state: state.value, workflow: workflow.value.trim(), since: since.value, text: search.value.trim() };
    const written = queryOf(filter);
    history.replaceState(null, "", `#/runs${written ? `?${written}` : ""}`);
    start();
  }

  function start() {
    filters += 1;
    [found, last, hasRead, isReading] = [[], null, false, false];
    problem.hidden = true;
    if (askedOf(filter, Date.now())) read(READ.enough);
    draw();
    showSaved();
  }

  all.addEventListener("change", () => {
    select(shown, all.checked);
    draw();
  });
  for (const field of [state, since]) field.addEventListener("change", change);
  /** @type {number | undefined} */
  let pause;
  for (const field of [workflow, search]) {
    field.addEventListener("input", () => {
      clearTimeout(pause);
      pause = setTimeout(change, 150);
    });
  }
  older.addEventListener("click", () => read(draw() + READ.enough));
  ask("GET", "/workflows").then(({ workflows }) => fill(names, workflows.map((/** @type {any} */ one) => h("option", { value: one.name }))), () => {});
  const forget = listen(({ runs }) => {
    newest = runs;
    draw();
  });
  start();
  return () => {
    filters += 1;
    clearTimeout(pause);
    forget();
  };
}

/** Describes a filter in a few words. @param {import("./run_filter.js").RunFilter} filter */
function describe({ state, workflow, since, text }) {
  const period = Object.hasOwn(PERIODS, since) ? `last ${since}` : since && `since ${since}`;
  return [workflow, state, text && `"${text}"`, period].filter(Boolean).join(", ");
}

/** @param {any} run @param {boolean} isSelected @param {(is: boolean) => void} select */
function row(run, isSelected, select) {
  const began = Date.parse(run.started_at);
  const ended = run.completed_at ? Date.parse(run.completed_at) : Date.now();
  const result = run.error ?? (run.pending_gate ? run.pending_gate.prompt : isEmpty(run.result) ? "" : typeof run.result === "string" ? run.result : JSON.stringify(run.result));
  return h(
    "tr",
    { "data-selected": isSelected },
    h("td", { class: "select" }, selectBox(run, isSelected, select)),
    h("td", {}, h("span", { class: "chip", "data-tone": TONES[run.state] ?? "soft" }, run.paused ? "paused" : run.state), run.repairs?.length ? h("span", { class: "chip", "data-tone": "soft", title: run.repairs.map((/** @type {any} */ one) => one.reason).join("; ") }, "repaired") : null),
    h("td", {}, h("a", { href: `#/runs/${encodeURIComponent(run.run_id)}` }, visible(run.workflow_id)), h("span", { class: "hint id" }, run.run_id)),
    h("td", { class: "nowrap" }, h("time", { datetime: run.started_at, title: shownTime(run.started_at, Date.now()) }, timeAgo(run.started_at, Date.now()))),
    h("td", { class: "nowrap" }, duration(ended - began)),
    h("td", { class: `cut${run.state === "failed" ? " bad" : ""}` }, visible(String(result)).slice(0, 200)),
  );
}

/** @param {any} run @param {boolean} isSelected @param {(is: boolean) => void} select */
function selectBox(run, isSelected, select) {
  const box = h("input", { type: "checkbox", value: run.run_id, "aria-label": visible(`Select ${run.workflow_id} ${run.run_id}`) });
  box.checked = isSelected;
  box.addEventListener("change", () => {
    select(box.checked);
    box.closest("tr")?.toggleAttribute("data-selected", box.checked);
  });
  return box;
}
