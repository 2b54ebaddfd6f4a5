// Finding text in rows. Pure.

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
