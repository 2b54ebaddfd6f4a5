// The search: output of terminals, runs and workflows. What is secret is hidden by the server before it is searched here.

import { ask } from "./api.js";
import { fill, h, setText } from "./dom.js";
import { TONES } from "./runs.js";
import { lists } from "./store.js";
import { terminalName, timeAgo, visible } from "./words.js";

export const title = "Search";

/** The most terminals and runs that are searched, the most lines of a terminal that are shown, and how many are searched at once. */
const MOST = { terminals: 100, runs: 1000, lines: 5, atOnce: 4 };

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

/** Characters that have a meaning in a pattern. */
const SPECIAL = /[\\^$.*+?()[\]{}|]/g;

/**
 * @param {string} wanted
 * @param {() => boolean} isWanted
 * @returns {Promise<HTMLElement[]>}
 */
async function inTerminals(wanted, isWanted) {
  const all = (lists()?.terminals ?? (await ask("GET", "/terminals")).sessions).slice(0, MOST.terminals);
  const pattern = `(?i)${wanted.replace(SPECIAL, "\\$&")}`;
  /** @type {HTMLElement[]} */
  const found = [];
  const left = [...all];
  const work = async () => {
    for (let terminal = left.shift(); terminal && isWanted(); terminal = left.shift()) {
      const reply = await ask("GET", `/terminals/${encodeURIComponent(terminal.session_id)}`, { search: pattern, context: 0 }).catch(() => null);
      const matches = reply?.matches ?? [];
      if (!matches.length) continue;
      const last = matches.slice(-MOST.lines);
      found.push(
        h(
          "li",
          {},
          h("a", { href: `#/terminals/${encodeURIComponent(terminal.session_id)}` }, visible(terminalName(terminal))),
          h("span", { class: "hint" }, matches.length > last.length ? ` the last ${last.length} lines of ${matches.length}` : ""),
          h("ul", { class: "judged lines-found" }, last.map((/** @type {any} */ match) => h("li", {}, h("a", { href: `#/terminals/${encodeURIComponent(terminal.session_id)}/${match.offset}` }, visible(String(match.text)).trimEnd().slice(0, 300))))),
        ),
      );
    }
  };
  await Promise.all(Array.from({ length: MOST.atOnce }, work));
  return found;
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
