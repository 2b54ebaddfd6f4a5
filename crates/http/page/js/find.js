// Finding text in rows, and the newest lines of an output. Pure.

/** The most places that are found. */
export const MOST_PLACES = 5000;

/**
 * Returns the places of a text in rows, in order. Letters are compared without their case, unless the text has capitals.
 * @param {string[]} rows
 * @param {string} wanted
 * @returns {{ row: number, from: number, to: number }[]}
 */
export function places(rows, wanted) {
  if (!wanted) return [];
  const isExact = wanted !== wanted.toLowerCase();
  /** @param {string} text */
  const same = (text) => {
    const lower = text.toLowerCase();
    // Few letters have another length in lower case, where offsets would be wrong.
    return isExact || lower.length !== text.length ? text : lower;
  };
  const found = [];
  for (const [row, text] of rows.entries()) {
    const compared = same(text);
    for (let from = compared.indexOf(wanted); from >= 0; from = compared.indexOf(wanted, from + wanted.length)) {
      found.push({ row, from, to: from + wanted.length });
      if (found.length === MOST_PLACES) return found;
    }
  }
  return found;
}

/** Characters that have a meaning in a pattern. */
const SPECIAL = /[\\^$.*+?()[\]{}|]/g;

/** Returns the pattern with which the server finds a text. Letters are compared as in `places`. @param {string} wanted */
export function patternOf(wanted) {
  return `${wanted === wanted.toLowerCase() ? "(?i)" : ""}${wanted.replace(SPECIAL, "\\$&")}`;
}

/**
 * A line that the server found, at its position in the output.
 * @typedef {{ offset: number, text: string }} Line
 */

/** The first distance from the end of an output, in bytes, and by how much it grows. */
const DISTANCE = { first: 4096, factor: 8 };

/** The most requests of a search: halving the output of a terminal needs fewer. */
const MOST_REQUESTS = 60;

/**
 * Returns the newest lines of an output before a position, the newest first.
 *
 * The server finds lines from a position on, the oldest first, and a page at a time. The position is moved back from the end until
 * enough lines are behind it, and forth again where there are more than a page.
 * @param {(from: number) => Promise<{ lines: Line[], next: number | null }>} search Finds a page of lines from a position on, and where
 *   the next page begins.
 * @param {number} end
 * @param {number} count Fewer than a page has.
 * @returns {Promise<Line[]>}
 */
export async function newestBefore(search, end, count) {
  /** @type {Line[]} */
  let newest = [];
  // More than a page is behind `crowded`, and fewer lines than are wanted behind `sparse`.
  let crowded = -1;
  let sparse = end;
  let distance = DISTANCE.first;
  for (let requests = 0; requests < MOST_REQUESTS && sparse - crowded > 1; requests += 1) {
    const from = crowded < 0 ? Math.max(0, end - distance) : Math.floor((crowded + sparse) / 2);
    const { lines, next } = await search(from);
    // A position within a line cuts it.
    const whole = lines.filter(({ offset }) => offset < end && (offset > from || from === 0));
    if (next !== null && next < end) {
      crowded = from;
      continue;
    }
    newest = whole;
    if (whole.length >= count || from === 0) break;
    sparse = from;
    distance *= DISTANCE.factor;
  }
  return newest.slice(-count).reverse();
}
