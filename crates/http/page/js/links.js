// Addresses in the text of rows. Pure.

import { cells } from "./screen.js";

/** The schemes that a person may open from here. */
const ADDRESS = /\bhttps?:\/\/[^\s<>"'`{}|\\^\u0000-\u001f\u007f-\u00a0\u2500-\u259f]+/g;

/** Characters that end a sentence or a bracket rather than an address. */
const BEHIND = /[.,;:!?)\]]+$/;

/**
 * Returns the addresses in a text, with the place of each.
 * @param {string} text
 * @returns {{ from: number, to: number, address: string }[]} Offsets in UTF-16 units.
 */
export function addresses(text) {
  const found = [];
  for (const match of text.matchAll(ADDRESS)) {
    let address = match[0];
    const behind = BEHIND.exec(address);
    if (behind) {
      let cut = behind.index;
      // A bracket that was opened within the address belongs to it.
      while (cut < address.length && address[cut] === ")" && count(address.slice(0, cut), "(") > count(address.slice(0, cut), ")")) cut += 1;
      address = address.slice(0, cut);
    }
    if (openable(address)) found.push({ from: match.index, to: match.index + address.length, address });
  }
  return found;
}

/** @param {string} text @param {string} character */
function count(text, character) {
  return text.split(character).length - 1;
}

/**
 * Returns an address as a browser understands it, if a person may open it: of the web, and without a name or password in it.
 * @param {string} address
 * @returns {string | null}
 */
export function openable(address) {
  try {
    const url = new URL(address);
    const isOfTheWeb = url.protocol === "http:" || url.protocol === "https:";
    // A program's text leads to no login: only the person's own command prints such an address.
    const isLogin = /^#(ticket|share)=/.test(url.hash);
    return isOfTheWeb && !url.username && !url.password && !isLogin ? url.href : null;
  } catch {
    return null;
  }
}

/** How many rows an address may be continued on. */
const MOST_ROWS = 20;

/**
 * Returns the address at a cell of a screen: the one that the program gave it, or one in the text. The latter may go on in the next
 * row, where it fills one to its end.
 * @param {{ cols: number, lines: import("./screen.js").Run[][] }} screen
 * @param {{ row: number, col: number }} cell
 * @returns {string | null}
 */
export function addressAt({ cols, lines }, { row, col }) {
  const given = (lines[row] ?? []).find(([from, width]) => col >= from && col < from + width)?.[4];
  if (given) return given;
  const rows = new Map();
  /** @param {number} index @returns {string[]} */
  const cellsOf = (index) => {
    if (!rows.has(index)) rows.set(index, rowCells(lines[index] ?? [], cols));
    return rows.get(index);
  };
  /** @param {number} index */
  const isFull = (index) => index >= 0 && index < lines.length && (cellsOf(index)[cols - 1] ?? " ").trim() !== "";
  let first = row;
  while (row - first < MOST_ROWS && isFull(first - 1)) first -= 1;
  let last = row;
  while (last - row < MOST_ROWS && isFull(last) && last + 1 < lines.length) last += 1;
  let text = "";
  let at = -1;
  for (let index = first; index <= last; index += 1) {
    for (const [column, shown] of cellsOf(index).entries()) {
      if (index === row && column === col) at = text.length;
      text += shown;
    }
  }
  return addresses(text).find(({ from, to }) => at >= from && at < to)?.address ?? null;
}

/**
 * Returns the text of each cell of a row; the second one of a wide character has none.
 * @param {import("./screen.js").Run[]} runs
 * @param {number} cols
 */
function rowCells(runs, cols) {
  const found = Array.from({ length: cols }, () => " ");
  for (const run of runs) {
    for (const cell of cells(run)) {
      found[cell.col] = cell.text;
      if (cell.cols === 2) found[cell.col + 1] = "";
    }
  }
  return found.slice(0, cols);
}
