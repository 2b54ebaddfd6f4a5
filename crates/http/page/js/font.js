// Size of a cell, for scaling screens without reading their layout.

import { h } from "./dom.js";

/** The height of a row, in sizes of text; as in the style sheet. */
export const LINE = 1.17;

/** The room on each side of a large screen, in pixels: its margin in the style sheet, and one for rounding. */
export const MARGIN = 4;

let measured = 0;

/** Returns the width of a cell, in sizes of text. */
export function advance() {
  if (!measured) {
    const probe = h("span", { class: "screen probe" }, "0".repeat(100));
    document.body.append(probe);
    measured = probe.getBoundingClientRect().width / 100 / parseFloat(getComputedStyle(probe).fontSize);
    probe.remove();
  }
  return measured;
}
