// Two runs side by side: which steps they have in common, how each ended, and what differs.

import { ask } from "./api.js";
import { beside } from "./beside.js";
import { differenceLines } from "./difference_lines.js";
import { differences, nearby } from "./differences.js";
import { fill, h, icon } from "./dom.js";
import { keep, on } from "./live.js";
import { TONES } from "./runs.js";
import { addEvent, duration, emptyTimeline } from "./timeline.js";
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
  const parts = h("div", { class: "both" });
  const detail = h("div", { class: "card both", hidden: true });
  fill(
    into,
    h("header", { class: "head" }, h("a", { class: "button quiet", href: `#/runs/${encodeURIComponent(first)}`, "aria-label": "The run" }, icon("back")), h("h1", {}, "Two runs"), h("span", { class: "grow" }), h("label", { class: "line" }, only, "Only what differs")),
    h("div", { class: "card table" }, h("table", {}, h("thead", {}, heads), rows)),
    detail,
    parts,
  );
  let isDue = false;

  /** @param {unknown} value */
  const text = (value) => (typeof value === "string" ? value : JSON.stringify(value ?? null, null, 2));

  /** @param {"h2" | "h3"} level @param {string} label @param {unknown} one @param {unknown} other */
  function difference(level, label, one, other) {
    const lines = nearby(differences(visible(text(one)), visible(text(other))), 3);
    const isSame = lines.every((line) => line === null);
    return h(
      "section",
      { "aria-label": label },
      h(level, {}, label),
      isSame
        ? h("p", { class: "hint" }, "The same in both.")
        : h("pre", { class: "judged difference", tabindex: "0", "aria-label": label }, differenceLines(lines)),
    );
  }

  /** @param {Step | null} step */
  const cell = (step) =>
    step ? h("span", { class: "chip", "data-tone": { ok: "good", failed: "bad", running: "busy", waiting: "wait", cancelled: "soft" }[step.outcome] }, step.outcome, h("span", { class: "hint" }, duration((step.ended ?? Date.now()) - step.began))) : h("span", { class: "hint" }, "not executed");

  function draw() {
    isDue = false;
    fill(
      heads,
      h("th", { scope: "col" }, "Step"),
      ids.map((id, index) => h("th", { scope: "col" }, h("a", { href: `#/runs/${encodeURIComponent(id)}` }, visible(records[index]?.workflow_id ?? id)), h("span", { class: "hint id" }, id), records[index] ? h("span", { class: "chip", "data-tone": TONES[records[index].state] ?? "soft" }, records[index].state) : null)),
    );
    const all = beside(timelines[0]?.steps ?? [], timelines[1]?.steps ?? []);
    fill(
      rows,
      all.filter(({ differs }) => differs || !only.checked).slice(0, MOST).map(({ one, other, differs }) => {
        const step = one ?? other;
        const look = h("button", { class: "quiet" }, visible(step?.name ?? ""));
        look.addEventListener("click", () => {
          detail.hidden = false;
          fill(detail, h("h2", {}, visible(step?.name ?? "")), difference("h3", "Input of the step", one?.input, other?.input), difference("h3", "Output of the step", one?.output, other?.output));
        });
        return h("tr", { "data-differs": differs || null }, h("td", {}, look, h("span", { class: "hint" }, ` ${step?.kind ?? ""}`), differs ? h("span", { class: "tag" }, "differs") : null), h("td", {}, cell(one)), h("td", {}, cell(other)));
      }),
    );
    if (records[0] && records[1]) {
      const given = (/** @type {any} */ run) => ({ input: run.input, params: run.params });
      fill(parts, h("div", { class: "card" }, difference("h2", "Input", given(records[0]), given(records[1])), difference("h2", "Result", records[0].error ?? records[0].result, records[1].error ?? records[1].result)));
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
        if (event.run_id !== id || event.seq <= (seen[index] ?? 0) || !timeline) continue;
        seen[index] = event.seq;
        addEvent(timeline, event);
        soon();
      }
    }),
  ];
  for (const [index, id] of ids.entries()) {
    ask("GET", `/runs/${encodeURIComponent(id)}/record`).then(({ run }) => {
      records[index] = run;
      soon();
    }, () => {});
  }
  draw();
  return () => {
    for (const forget of forgets) forget();
  };
}
