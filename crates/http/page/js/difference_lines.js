// The lines of a comparison of two texts, as elements.

import { h } from "./dom.js";

/** What precedes a line. */
const MARKS = { same: "  ", gone: "− ", new: "+ " };

/**
 * Returns the lines with their marks. `null` stands for lines that are left out.
 * @param {(import("./differences.js").Line | null)[]} lines
 * @returns {HTMLElement[]}
 */
export function differenceLines(lines) {
  return lines.map((line) => textLine(line?.is ?? "left", `${MARKS[line?.is ?? "same"]}${line?.text ?? "…"}`));
}

/**
 * @param {string} is What the line is: `same`, `gone`, `new` or `left`.
 * @param {string} text
 * @returns {HTMLElement}
 */
export function textLine(is, text) {
  return h("span", { class: "text-line", "data-is": is }, `${text}\n`);
}
