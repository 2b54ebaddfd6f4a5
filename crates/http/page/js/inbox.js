// The first view: questions that wait for a person, and the terminals below them.

import { ask } from "./api.js";
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
  const passwords = section("passwords", "Passwords", undefined, secretForm);
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
  /** The last lines of terminals that wait for input, and the activity that they are of; no line for a full-screen program. */
  const lines = /** @type {Map<string, { activity: number, line: string | null }>} */ (new Map());
  /** Returns the last line of a terminal, once it was read. @param {any} terminal @returns {string | null} */
  function lineOf({ session_id: id, last_activity: activity }) {
    const known = lines.get(id);
    if (known && known.activity === activity) return known.line;
    lines.set(id, { activity, line: known?.line ?? null });
    ask("GET", `/terminals/${encodeURIComponent(id)}`, { content_mode: "tail", line_count: 1 }).then(({ alternate_screen: isFullScreen, screen_content: text }) => {
      const line = visible(String(text ?? "").trimEnd().split("\n").at(-1) ?? "").trim();
      lines.set(id, { activity, line: isFullScreen ? null : line || null });
      const now = lists();
      if (now) draw(now);
    }, () => {});
    return known?.line ?? null;
  }
  /** @param {import("./store.js").Lists} lists */
  const draw = (lists) => {
    const now = Date.now();
    const questions = askingTerminals(lists).flatMap((terminal) => {
      if (terminal.agent_activity) return [{ terminal, line: visible(terminal.title ?? "") }];
      const line = lineOf(terminal);
      return line ? [{ terminal, line }] : [];
    });
    none.hidden = gates(lists).length + lockedRuns(lists).length + passwordTerminals(lists).length + questions.length > 0;
    asking.update(questions.map(({ terminal, line }) => ({
      id: terminal.session_id,
      address: `#/terminals/${encodeURIComponent(terminal.session_id)}`,
      name: terminalName(terminal),
      tone: terminal.agent_activity ? "wait" : "soft",
      state: terminal.agent_activity ? `${visible(terminal.agent)} asks for a decision` : "waits for input",
      more: line,
    })));
    passwords.update(passwordTerminals(lists).map((terminal) => ({
      id: terminal.session_id,
      address: `#/terminals/${encodeURIComponent(terminal.session_id)}`,
      name: terminalName(terminal),
      tone: "wait",
      state: `${terminal.password_program ? visible(terminal.password_program) : "a program"} asks for a password`,
      more: [lineOf(terminal), terminalPlace(terminal)].filter(Boolean).join(" · "),
      program: terminal.password_program,
      request: terminal.secret_request,
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
 * Returns a form that types a password into a terminal, or refuses the request of an agent for it.
 * @param {string} id
 */
function secretForm(id) {
  const secret = h("input", { type: "password", autocomplete: "off", "aria-label": "Password for the terminal" });
  const refuse = h("button", { type: "button" }, "Refuse");
  const why = h("p", { class: "hint" });
  const problem = h("p", { class: "problem", role: "alert", hidden: true });
  const form = h("form", { class: "line secret", novalidate: true }, secret, h("button", { class: "primary" }, "Enter"), refuse);
  /** The program that the person sees. @type {string | undefined} */
  let program;
  /** @param {Record<string, any>} body */
  const send = async (body) => {
    if (form.inert) return;
    problem.hidden = form.inert = true;
    try {
      await ask("POST", `/terminals/${encodeURIComponent(id)}/secret`, body);
    } catch (error) {
      setText(problem, visible(error instanceof Error ? error.message : String(error)));
      problem.hidden = false;
    } finally {
      form.inert = false;
    }
  };
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    const typed = secret.value;
    secret.value = "";
    if (typed) send({ secret: typed, program });
  });
  refuse.addEventListener("click", () => send({}));
  return {
    element: h("div", {}, why, form, problem),
    /** @param {{ program?: string, request?: { reason?: string, requested_by?: string } | null }} thing */
    update({ program: reader, request }) {
      program = reader;
      refuse.hidden = why.hidden = !request;
      setText(why, request ? `${visible(request.requested_by ?? "An agent")} waits for it${request.reason ? `: ${visible(request.reason)}` : ""}. It goes to the program only, and the agent learns that it was entered.` : "");
    },
  };
}

/**
 * A list of things, a line each, which is hidden while it is empty.
 * @param {string} id
 * @param {string} name
 * @param {HTMLElement} [beside]
 * @param {typeof secretForm} [detail] Returns what is below the line of a thing.
 */
function section(id, name, beside, detail) {
  const rows = h("ul", { class: "lines" });
  const element = h(
    "section",
    { class: "below", "aria-labelledby": id, hidden: true },
    h("header", { class: "head" }, h("h2", { id, class: "grow" }, name), beside ?? null),
    rows,
  );
  /** @type {Map<string, { row: HTMLElement, name: HTMLElement, state: HTMLElement, more: HTMLElement, below?: ReturnType<typeof secretForm> | undefined }>} */
  const known = new Map();
  return {
    element,
    /** @param {{ id: string, address: string, name: string, tone: string, state: string, when?: string, more: string, program?: string, request?: any }[]} things */
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
          const below = detail?.(thing.id);
          line = { row: h("li", {}, h("a", { class: "line", href: thing.address }, name, state, more), below?.element ?? null), name, state, more, below };
          known.set(thing.id, line);
        }
        // A row that stands at its place keeps the focus.
        if (rows.children[place] !== line.row) rows.insertBefore(line.row, rows.children[place] ?? null);
        setText(line.name, thing.name);
        setText(line.state, thing.state);
        line.state.title = thing.when ?? "";
        setText(line.more, thing.more);
        line.below?.update(thing);
      }
    },
  };
}
