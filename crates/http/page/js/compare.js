// Comparison of two runs: their common steps, the outcome of each, and the differences.

import { ask } from "./api.js";
import { beside, isAction } from "./beside.js";
import { differenceLines } from "./difference_lines.js";
import { areAlike, differences, nearby, steadyText } from "./differences.js";
import { fill, h, icon, setText } from "./dom.js";
import { keep, on } from "./live.js";
import { TONES } from "./runs.js";
import { lists, listen } from "./store.js";
import { addEvent, brief, duration, emptyTimeline, isNext } from "./timeline.js";
import { visible } from "./words.js";

/** The most steps that are compared. */
const MOST = 1000;

/** @typedef {import("./timeline.js").Step} Step */

/**
 * @param {HTMLElement} into
 * @param {string} first
 * @param {string} second
 */
export function showBeside(into, first, second) {
  const ids = [first, second];
  const timelines = ids.map(() => emptyTimeline());
  const seen = [0, 0];
  /** @type {any[]} */
  const records = [null, null];
  const only = h("input", { type: "checkbox" });
  const heads = h("tr", {});
  const rows = h("tbody");
  const none = h("p", { class: "hint", hidden: true });
  const parts = h("div", { class: "both" });
  const detail = h("div", { class: "card both", hidden: true });
  fill(
    into,
    h("header", { class: "head" }, h("a", { class: "button quiet", href: `#/runs/${encodeURIComponent(first)}`, "aria-label": "The run" }, icon("back")), h("h1", {}, "Two runs"), h("span", { class: "grow" }), h("label", { class: "line" }, only, "Only what differs")),
    h("div", { class: "card table" }, h("table", {}, h("thead", {}, heads), rows), none),
    detail,
    parts,
  );
  let isDue = false;

  /** @param {unknown} value */
  const text = (value) => (typeof value === "string" ? value : JSON.stringify(value ?? null, null, 2));

  /**
   * Shows two values: that they are the same, or the lines that differ. Identifiers, times and the like are the same.
   * @param {"h2" | "h3"} level
   * @param {string} label
   * @param {unknown} one
   * @param {unknown} other
   * @param {boolean} [areResults]
   */
  function difference(level, label, one, other, areResults = false) {
    const texts = [text(one), text(other)];
    const isSame = areAlike(one, other, areResults);
    return h(
      "section",
      { "aria-label": label },
      h(level, {}, label),
      isSame
        ? h("p", { class: "hint" }, texts[0] === texts[1] ? "The same in both." : "The same in both, apart from ids, times and screens.")
        : h("pre", { class: "judged difference", tabindex: "0", "aria-label": label }, differenceLines(nearby(differences(visible(texts[0] ?? ""), visible(texts[1] ?? ""), steadyText), 3))),
    );
  }

  /** @param {Step | null} step @param {number} index That of its run. */
  const cell = (step, index) =>
    step?.outcome === "event" ? h("span", { class: "hint" }, visible(brief(step.output ?? step.input))) : step ? h("span", { class: "chip", "data-tone": { ok: "good", failed: "bad", running: "busy", waiting: "wait", cancelled: "soft", event: "soft" }[step.outcome] }, step.outcome, h("span", { class: "hint" }, duration((step.ended ?? Date.now()) - step.began))) : h("span", { class: "hint" }, isOver(index) ? "not executed" : "not yet");

  /** Returns whether no more events of a run arrive. @param {number} index */
  function isOver(index) {
    const timeline = timelines[index];
    return Boolean(timeline && (timeline.ended !== null || timeline.error !== null));
  }

  /** Returns the result or the error of a run. @param {number} index */
  function resultOf(index) {
    const [timeline, record] = [timelines[index], records[index]];
    return timeline && timeline.ended !== null ? (timeline.error ?? timeline.reason ?? timeline.result) : (record.error ?? record.result);
  }

  /** Returns the state of a run; the record is that of the beginning. @param {number} index @returns {string | undefined} */
  const stateOf = (index) => (lists()?.runs.find((run) => run.run_id === ids[index]) ?? records[index])?.state;

  /** @type {(string | undefined)[]} */
  let shownStates = [];

  function draw() {
    isDue = false;
    shownStates = ids.map((_, index) => stateOf(index));
    fill(
      heads,
      h("th", { scope: "col" }, "Step"),
      ids.map((id, index) => {
        const state = shownStates[index];
        return h("th", { scope: "col" }, h("a", { href: `#/runs/${encodeURIComponent(id)}` }, visible(records[index]?.workflow_id ?? id)), h("span", { class: "hint id" }, id), state ? h("span", { class: "chip", "data-tone": TONES[state] ?? "soft" }, state) : null);
      }),
    );
    const all = beside(timelines[0]?.steps ?? [], timelines[1]?.steps ?? []);
    const over = ids.map((_, index) => isOver(index));
    // A step that has not begun or ended yet does not count as a difference.
    const compared = all.map((row) => ({ ...row, differs: row.differs && [row.one, row.other].every((step, index) => over[index] || (step && step.ended !== null)) }));
    const chosen = compared.filter(({ differs }) => differs || !only.checked);
    none.hidden = chosen.length > 0 || all.length === 0;
    setText(none, over.every(Boolean) ? "Both did the same." : "No difference so far.");
    fill(
      rows,
      chosen.slice(0, MOST).map(({ one, other, differs }) => {
        const step = one ?? other;
        const look = h("button", { class: "quiet" }, visible(step?.name ?? ""));
        look.addEventListener("click", () => {
          detail.hidden = false;
          fill(detail, h("h2", {}, visible(step?.name ?? "")), difference("h3", "Input of the step", one?.input, other?.input), difference("h3", "Output of the step", one?.output, other?.output, step !== null && isAction(step)));
        });
        return h("tr", { "data-differs": differs || null }, h("td", {}, look, h("span", { class: "hint" }, ` ${step?.kind ?? ""}`), differs ? h("span", { class: "tag" }, "differs") : null), h("td", {}, cell(one, 0)), h("td", {}, cell(other, 1)));
      }),
    );
    if (records[0] && records[1]) {
      // A machine has one input, whichever way it came.
      const given = [0, 1].map((index) => timelines[index]?.given ?? { input: records[index].input, params: records[index].params });
      /** @param {import("./timeline.js").Given | undefined} one */
      const value = (one) => (one && Object.keys(one.params).length ? one : one?.input);
      fill(parts, h("div", { class: "card" }, difference("h2", "Input", value(given[0]), value(given[1])), difference("h2", "Result", resultOf(0), resultOf(1))));
    }
  }

  function soon() {
    if (isDue) return;
    isDue = true;
    requestAnimationFrame(draw);
  }

  only.addEventListener("change", draw);
  const forgets = [
    ...ids.map((id, index) => keep(`follow ${id}`, () => ({ do: "follow", run: id, from: (seen[index] ?? 0) + 1 }), { do: "unfollow", run: id })),
    on("event", ({ event }) => {
      for (const [index, id] of ids.entries()) {
        const timeline = timelines[index];
        if (event.run_id !== id || !isNext(event, seen[index] ?? 0) || !timeline) continue;
        seen[index] = event.seq;
        const wasOver = timeline.ended !== null;
        addEvent(timeline, event);
        if (!wasOver && timeline.ended !== null) readRecord(index);
        soon();
      }
    }),
    // A redrawn table loses the focus.
    listen(() => {
      if (ids.some((_, index) => stateOf(index) !== shownStates[index])) soon();
    }),
  ];

  /** @param {number} index */
  function readRecord(index) {
    ask("GET", `/runs/${encodeURIComponent(ids[index] ?? "")}/record`).then(({ run }) => {
      records[index] = run;
      soon();
    }, () => {});
  }

  for (const index of ids.keys()) readRecord(index);
  draw();
  return () => {
    for (const forget of forgets) forget();
  };
}
