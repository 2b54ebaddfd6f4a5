// The first view: what waits for a person, and the terminals below it.

import { fill, h, setText } from "./dom.js";
import { gatesList } from "./gates.js";
import { notifyButton } from "./notify.js";
import { failedRuns, gates, listen, lockedRuns, passwordTerminals } from "./store.js";
import { wallOfTerminals } from "./terminals.js";
import { dayTime, terminalName, terminalPlace, timeAgo, visible } from "./words.js";

export const title = "Inbox";

/** @param {HTMLElement} into */
export function show(into) {
  const none = h("p", { class: "hint", hidden: true }, "Nothing waits for you.");
  const questions = gatesList();
  const passwords = section("passwords", "Passwords");
  const failed = section("failed", "Failed runs", h("a", { class: "hint", href: "#/runs?state=failed" }, "All of them"));
  const terminals = wallOfTerminals();
  fill(
    into,
    h("header", { class: "head" }, h("h1", { class: "grow" }, title), notifyButton()),
    none,
    questions.element,
    passwords.element,
    failed.element,
    h(
      "section",
      { class: "below", "aria-labelledby": "terminals" },
      h("header", { class: "head" }, h("h2", { id: "terminals", class: "grow" }, "Terminals"), terminals.open),
      terminals.parts,
    ),
  );
  const forget = listen((lists) => {
    const now = Date.now();
    none.hidden = gates(lists).length + lockedRuns(lists).length > 0 || passwordTerminals(lists).length > 0;
    passwords.update(passwordTerminals(lists).map((terminal) => ({
      id: terminal.session_id,
      address: `#/terminals/${encodeURIComponent(terminal.session_id)}`,
      name: terminalName(terminal),
      tone: "wait",
      state: "asks for a password",
      more: terminalPlace(terminal),
    })));
    failed.update(failedRuns(lists, now).map((run) => ({
      id: run.run_id,
      address: `#/runs/${encodeURIComponent(run.run_id)}`,
      name: visible(String(run.workflow_id)),
      tone: "bad",
      state: `failed ${timeAgo(run.completed_at, now)}`,
      when: dayTime(run.completed_at, now),
      more: visible(String(run.error ?? "")),
    })));
  });
  return () => {
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
  /** @type {Map<string, { row: HTMLElement, state: HTMLElement, more: HTMLElement }>} */
  const known = new Map();
  return {
    element,
    /** @param {{ id: string, address: string, name: string, tone: string, state: string, when?: string, more: string }[]} things */
    update(things) {
      element.hidden = things.length === 0;
      const here = new Set(things.map((thing) => thing.id));
      for (const [id, { row }] of known) {
        if (here.has(id)) continue;
        row.remove();
        known.delete(id);
      }
      for (const thing of things) {
        let line = known.get(thing.id);
        if (!line) {
          const state = h("span", { class: "chip", "data-tone": thing.tone });
          const more = h("span", { class: "more" });
          line = { row: h("li", {}, h("a", { class: "line", href: thing.address }, h("span", { class: "name" }, thing.name), state, more)), state, more };
          known.set(thing.id, line);
          rows.append(line.row);
        }
        setText(line.state, thing.state);
        line.state.title = thing.when ?? "";
        setText(line.more, thing.more);
      }
    },
  };
}
