// The recordings of terminals: a list.

import { ask } from "./api.js";
import { fill, h, icon } from "./dom.js";
import { duration } from "./timeline.js";
import { size, timeAgo, visible } from "./words.js";

export const title = "Recordings";

/** @param {HTMLElement} into */
export function show(into) {
  const rows = h("tbody");
  const table = h("table", { hidden: true }, h("thead", {}, h("tr", {}, ["Terminal", "Began", "Length", "Screen", "File"].map((name) => h("th", { scope: "col" }, name)))), rows);
  const none = h("p", { class: "hint", hidden: true }, "There is no recording. In a terminal: ", h("code", { class: "whole" }, "steplatch terminal record TERMINAL"));
  const problem = h("p", { class: "problem", role: "alert", hidden: true });
  fill(
    into,
    h("header", { class: "head" }, h("a", { class: "button quiet", href: "#/terminals", "aria-label": "All terminals" }, icon("back")), h("h1", { class: "grow" }, title)),
    problem,
    h("div", { class: "card table" }, none, table),
  );
  ask("GET", "/recordings").then(
    ({ recordings }) => {
      fill(rows, recordings.map(row));
      table.hidden = recordings.length === 0;
      none.hidden = recordings.length > 0;
    },
    (error) => {
      problem.textContent = error instanceof Error ? error.message : String(error);
      problem.hidden = false;
    },
  );
}

/** @param {any} recording */
function row(recording) {
  const name = visible(recording.title ?? recording.session_id);
  return h(
    "tr",
    {},
    h("td", {}, recording.cols ? h("a", { href: `#/recordings/${encodeURIComponent(recording.recording_id)}` }, name) : name, h("span", { class: "hint id" }, recording.session_id)),
    h("td", { class: "nowrap" }, h("time", { datetime: recording.began, title: recording.began }, timeAgo(recording.began, Date.now()))),
    h("td", { class: "nowrap" }, duration(Math.max(0, Date.parse(recording.changed) - Date.parse(recording.began)))),
    h("td", { class: "nowrap" }, recording.cols ? `${recording.cols} × ${recording.rows}` : "not readable"),
    h("td", { class: "cut", title: recording.file }, `${visible(recording.file)} (${size(recording.bytes)})`),
  );
}
