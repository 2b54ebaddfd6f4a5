// The first view: questions that wait for a person, and the terminals below them.

import { shownTime } from "./choices.js";
import { fill, h, setText } from "./dom.js";
import { gatesList } from "./gates.js";
import { notifyButton } from "./notify.js";
import { askingTerminals, failedRuns, gates, listen, lists, lockedRuns, passwordTerminals } from "./store.js";
import { wallOfTerminals } from "./terminals.js";
import { terminalName, terminalPlace, timeAgo, visible } from "./words.js";

export const title = "Inbox";

/** The maximum number of failed runs in the inbox. */
const MAX_FAILED = 5;

/** The interval at which the times grow older, in milliseconds. */
const MINUTE = 60_000;

/** @param {HTMLElement} into */
export function show(into) {
  const none = h("p", { class: "hint", hidden: true }, "Nothing waits for you.");
  const questions = gatesList();
  const passwords = section("passwords", "Passwords");
  const asking = section("asking", "Programs that wait for input");
  const failed = section("failed", "Failed runs", h("a", { class: "hint", href: "#/runs?state=failed" }, "All of them"));
  const terminals = wallOfTerminals();
  fill(
    into,
    h("header", { class: "head" }, h("h1", { class: "grow" }, title), notifyButton()),
    none,
    questions.element,
    passwords.element,
    asking.element,
    failed.element,
    h(
      "section",
      { class: "below", "aria-labelledby": "terminals" },
      h("header", { class: "head" }, h("h2", { id: "terminals", class: "grow" }, "Terminals"), terminals.open),
      terminals.parts,
    ),
  );
  /** @param {import("./store.js").Lists} lists */
  const draw = (lists) => {
    const now = Date.now();
    none.hidden = gates(lists).length + lockedRuns(lists).length + passwordTerminals(lists).length + askingTerminals(lists).length > 0;
    asking.update(askingTerminals(lists).map((terminal) => ({
      id: terminal.session_id,
      address: `#/terminals/${encodeURIComponent(terminal.session_id)}`,
      name: terminalName(terminal),
      tone: "soft",
      state: "waits for input",
      more: terminalPlace(terminal),
    })));
    passwords.update(passwordTerminals(lists).map((terminal) => ({
      id: terminal.session_id,
      address: `#/terminals/${encodeURIComponent(terminal.session_id)}`,
      name: terminalName(terminal),
      tone: "wait",
      state: "asks for a password",
      more: terminalPlace(terminal),
    })));
    failed.update(failedRuns(lists, now, MAX_FAILED).map((run) => ({
      id: run.run_id,
      address: `#/runs/${encodeURIComponent(run.run_id)}`,
      name: visible(String(run.workflow_id)),
      tone: "bad",
      state: `failed ${timeAgo(run.completed_at, now)}`,
      when: shownTime(run.completed_at, now),
      more: visible(String(run.error ?? "")),
    })));
  };
  const forget = listen(draw);
  const clock = setInterval(() => {
    const known = lists();
    if (known) draw(known);
  }, MINUTE);
  return () => {
    clearInterval(clock);
    forget();
    questions.end();
    terminals.end();
  };
}

/**
 * A list of things, a line each, which is hidden while it is empty.
 * @param {string} id
 * @param {string} name
 * @param {HTMLElement} [beside]
 */
function section(id, name, beside) {
  const rows = h("ul", { class: "lines" });
  const element = h(
    "section",
    { class: "below", "aria-labelledby": id, hidden: true },
    h("header", { class: "head" }, h("h2", { id, class: "grow" }, name), beside ?? null),
    rows,
  );
  /** @type {Map<string, { row: HTMLElement, name: HTMLElement, state: HTMLElement, more: HTMLElement }>} */
  const known = new Map();
  return {
    element,
    /** @param {{ id: string, address: string, name: string, tone: string, state: string, when?: string, more: string }[]} things */
    update(things) {
      element.hidden = things.length === 0;
      const currentIds = new Set(things.map((thing) => thing.id));
      for (const [id, { row }] of known) {
        if (currentIds.has(id)) continue;
        row.remove();
        known.delete(id);
      }
      for (const [place, thing] of things.entries()) {
        let line = known.get(thing.id);
        if (!line) {
          const name = h("span", { class: "name" });
          const state = h("span", { class: "chip", "data-tone": thing.tone });
          const more = h("span", { class: "more" });
          line = { row: h("li", {}, h("a", { class: "line", href: thing.address }, name, state, more)), name, state, more };
          known.set(thing.id, line);
        }
        // A row that stands at its place keeps the focus.
        if (rows.children[place] !== line.row) rows.insertBefore(line.row, rows.children[place] ?? null);
        setText(line.name, thing.name);
        setText(line.state, thing.state);
        line.state.title = thing.when ?? "";
        setText(line.more, thing.more);
      }
    },
  };
}
