// The search: output of terminals, runs and workflows. The server redacts secrets before the search.

import { ask } from "./api.js";
import { fill, h, setText } from "./dom.js";
import { newestBefore, patternOf } from "./find.js";
import { TONES } from "./runs.js";
import { lists } from "./store.js";
import { terminalName, timeAgo, visible } from "./words.js";

export const title = "Search";

/**
 * The most terminals and runs that are searched, the lines of a terminal that are shown at first and with each "more", and how many
 * terminals are searched at once.
 */
const MOST = { terminals: 100, runs: 1000, lines: 5, more: 15, atOnce: 4 };

/** How long the input rests before it is searched, in milliseconds. */
const REST = 250;

/**
 * Returns the words of a run in which it is found. Pure.
 * @param {any} run
 */
export function wordsOf(run) {
  const told = (/** @type {unknown} */ value) => (value === null || value === undefined ? "" : typeof value === "string" ? value : JSON.stringify(value));
  const gates = (run.pending_gates ?? []).map((/** @type {any} */ gate) => gate.prompt);
  return [run.workflow_id, run.run_id, run.state, told(run.error), told(run.result), told(run.input), told(run.params), ...gates].filter((word) => word && word !== "{}");
}

/**
 * Returns the part of a text around a place. Pure.
 * @param {string} text
 * @param {string} wanted In lower case.
 * @returns {string | null} None if it is not there.
 */
export function around(text, wanted) {
  const at = text.toLowerCase().indexOf(wanted);
  if (at < 0) return null;
  const from = Math.max(0, at - 40);
  const to = Math.min(text.length, at + wanted.length + 80);
  return `${from ? "…" : ""}${text.slice(from, to)}${to < text.length ? "…" : ""}`;
}

/**
 * @param {HTMLElement} into
 * @param {string[]} parts
 */
export function show(into, parts) {
  const input = h("input", { type: "search", class: "grow", placeholder: "Output of terminals, runs, workflows", "aria-label": "Search", autocomplete: "off", spellcheck: "false" });
  const said = h("p", { class: "hint", role: "status" }, "");
  const terminals = h("section", { class: "card", hidden: true, "aria-labelledby": "in-terminals" });
  const runs = h("section", { class: "card", hidden: true, "aria-labelledby": "in-runs" });
  const workflows = h("section", { class: "card", hidden: true, "aria-labelledby": "in-workflows" });
  fill(into, h("header", { class: "head" }, h("h1", {}, title), input), said, terminals, runs, workflows);
  /** @type {ReturnType<typeof setTimeout> | undefined} */
  let timer;
  /** The number of the search: answers of an earlier one come too late. */
  let number = 0;

  /** @param {string} id @param {string} name @param {HTMLElement} section @param {HTMLElement[]} found */
  function group(id, name, section, found) {
    section.hidden = found.length === 0;
    fill(section, h("h2", { id }, `${name} (${found.length})`), h("ul", { class: "results" }, found));
  }

  async function search() {
    const wanted = input.value.trim();
    const own = (number += 1);
    for (const section of [terminals, runs, workflows]) section.hidden = true;
    setText(said, wanted ? "Searching…" : "");
    if (wanted.length < 2) {
      setText(said, wanted ? "Two characters are the least." : "");
      return;
    }
    const lower = wanted.toLowerCase();
    let found = 0;
    /** @param {HTMLElement[]} items */
    const tell = (items) => {
      found += items.length;
      return own === number;
    };
    await Promise.all([
      inTerminals(wanted, () => own === number).then((items) => tell(items) && group("in-terminals", "Terminals", terminals, items)),
      inRuns(lower).then((items) => tell(items) && group("in-runs", "Runs", runs, items)),
      inWorkflows(lower).then((items) => tell(items) && group("in-workflows", "Workflows", workflows, items)),
    ]).then(() => {
      if (own === number) setText(said, found ? "" : "Nothing was found.");
    }, (error) => {
      if (own === number) setText(said, error.message);
    });
  }

  input.addEventListener("input", () => {
    clearTimeout(timer);
    timer = setTimeout(search, REST);
  });
  input.value = parts[0] ?? "";
  input.focus();
  if (input.value) search();
  return () => {
    clearTimeout(timer);
    number += 1;
  };
}

/**
 * @param {string} wanted
 * @param {() => boolean} isWanted
 * @returns {Promise<HTMLElement[]>}
 */
async function inTerminals(wanted, isWanted) {
  const all = (lists()?.terminals ?? (await ask("GET", "/terminals")).sessions).slice(0, MOST.terminals);
  const pattern = patternOf(wanted.toLowerCase());
  /** @type {HTMLElement[]} */
  const found = [];
  const left = [...all];
  const work = async () => {
    for (let terminal = left.shift(); terminal && isWanted(); terminal = left.shift()) {
      const item = await inTerminal(terminal, pattern).catch(() => null);
      if (item) found.push(item);
    }
  };
  await Promise.all(Array.from({ length: MOST.atOnce }, work));
  return found;
}

/**
 * Searches one terminal, and shows the newest lines first.
 * @param {any} terminal
 * @param {string} pattern
 * @returns {Promise<HTMLElement | null>} None if nothing is found.
 */
async function inTerminal(terminal, pattern) {
  const path = `/terminals/${encodeURIComponent(terminal.session_id)}`;
  /** @param {number} offset */
  const page = async (offset) => {
    const { matches, next_offset: next } = await ask("GET", path, { search: pattern, context: 0, offset });
    return { lines: matches ?? [], next: next ?? null };
  };
  const oldest = await page(0);
  if (!oldest.lines.length) return null;
  const rows = h("ul", { class: "judged lines-found" });
  const more = h("button", { type: "button", class: "quiet" }, "More, older lines");
  /** The lines that are not shown yet, the newest first; none if only the server has them. @type {any[] | null} */
  let known = oldest.next === null ? oldest.lines.reverse() : null;
  let end = 0;

  /** @param {number} count */
  async function show(count) {
    const lines = known ? known.splice(0, count) : await newestBefore(page, end, count);
    rows.append(...lines.map((/** @type {any} */ match) => h("li", {}, h("a", { href: `#/terminals/${encodeURIComponent(terminal.session_id)}/${match.offset}` }, visible(String(match.text)).trimEnd().slice(0, 300)))));
    end = lines.at(-1)?.offset ?? 0;
    more.hidden = known ? known.length === 0 : lines.length < count;
  }

  if (!known) {
    const { next_offset: last } = await ask("GET", path, { content_mode: "tail", line_count: 1 });
    end = Number(last);
  }
  await show(MOST.lines);
  more.addEventListener("click", async () => {
    const shown = rows.children.length;
    await show(MOST.more).catch(() => {});
    rows.children[shown]?.querySelector("a")?.focus();
  });
  return h("li", {}, h("a", { href: `#/terminals/${encodeURIComponent(terminal.session_id)}` }, terminalName(terminal)), h("span", { class: "hint" }, " the newest lines first"), rows, more);
}

/** @param {string} lower @returns {Promise<HTMLElement[]>} */
async function inRuns(lower) {
  const { runs } = await ask("GET", "/runs", { limit: MOST.runs });
  return runs.flatMap((/** @type {any} */ run) => {
    const part = wordsOf(run).map((word) => around(word, lower)).find((part) => part !== null);
    if (!part) return [];
    return [
      h("li", {}, h("a", { href: `#/runs/${encodeURIComponent(run.run_id)}` }, visible(run.workflow_id)), " ", h("span", { class: "chip", "data-tone": TONES[run.state] ?? "soft" }, run.state), h("span", { class: "hint" }, ` ${timeAgo(run.started_at, Date.now())}`), h("span", { class: "hint block" }, visible(part))),
    ];
  }).slice(0, 100);
}

/** @param {string} lower @returns {Promise<HTMLElement[]>} */
async function inWorkflows(lower) {
  const { workflows } = await ask("GET", "/workflows");
  return workflows.flatMap((/** @type {any} */ workflow) => {
    const part = [workflow.name, workflow.description ?? "", ...Object.keys(workflow.arguments ?? {})].map((word) => around(String(word), lower)).find((part) => part !== null);
    return part ? [h("li", {}, h("a", { href: `#/workflows/${encodeURIComponent(workflow.name)}` }, visible(workflow.name)), h("span", { class: "hint block" }, visible(workflow.description ?? "")))] : [];
  });
}
