// A screen: rows of runs, and the state of the display. Pure.

/**
 * A run of cells that look alike: first column, columns, text, style, and the address that the program gave it, if it did.
 * @typedef {[number, number, string, string, string?]} Run
 */

/**
 * @typedef {{
 *   cols: number, rows: number, lines: Run[][],
 *   state: { cursor?: { row: number, col: number, shape: string }, foreground: string, background: string,
 *     palette?: [number, string][], title?: string, alternate?: boolean, bracketed_paste?: boolean, mouse?: string, exit_code?: number },
 * }} Screen
 */

/** @returns {Screen} */
export function blank() {
  return { cols: 0, rows: 0, lines: [], state: { foreground: "", background: "" } };
}

/**
 * Returns the runs of a row as the server sends it, with their addresses.
 * @param {{ runs: Run[], links?: [number, string][] }} row
 * @returns {Run[]}
 */
export function runsOf({ runs, links }) {
  for (const [index, address] of links ?? []) {
    const run = runs[index];
    if (run) run[4] = address;
  }
  return runs;
}

/**
 * Applies a change. Returns the numbers of the rows that differ.
 * @param {Screen} screen
 * @param {any} change
 * @returns {number[]}
 */
export function apply(screen, change) {
  if (change.whole || change.cols !== screen.cols || change.rows !== screen.rows) {
    screen.cols = change.cols;
    screen.rows = change.rows;
    screen.lines = Array.from({ length: change.rows }, () => []);
    for (const row of change.changed) screen.lines[row.row] = runsOf(row);
    screen.state = change.state;
    return screen.lines.map((_, row) => row);
  }
  for (const row of change.changed) screen.lines[row.row] = runsOf(row);
  screen.state = change.state;
  return change.changed.map((/** @type {{ row: number }} */ { row }) => row);
}

/**
 * Returns the cells of a run, each with its column and its columns.
 * @param {Run} run
 * @returns {{ col: number, cols: number, text: string }[]}
 */
export function cells([col, cols, text, style]) {
  const step = style.split(",").includes("W") ? 2 : 1;
  if (cols === step) return [{ col, cols, text }];
  return [...text].map((character, index) => ({ col: col + index * step, cols: step, text: character }));
}

/**
 * Returns the text of a row, with blanks for cells that show nothing, and without those at its end.
 * @param {Run[]} runs
 */
export function rowText(runs) {
  let text = "";
  let column = 0;
  for (const [col, cols, part] of runs) {
    text += " ".repeat(Math.max(0, col - column)) + part;
    column = col + cols;
  }
  return text.trimEnd();
}

/**
 * Returns the number of the last row that shows something, or has the cursor.
 * @param {Screen} screen
 */
export function lastUsed(screen) {
  const last = screen.lines.findLastIndex((runs) => runs.length > 0);
  return Math.max(last, screen.state.cursor?.row ?? 0);
}
