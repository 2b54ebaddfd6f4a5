// What differs between two texts, line by line. Pure.

/** The longest texts that are compared line by line, in lines. */
const MOST_LINES = 2000;

/**
 * A line of a comparison: in both, only in the first, or only in the second.
 * @typedef {{ is: "same" | "gone" | "new", text: string }} Line
 */

/**
 * Compares two texts. Of longer ones, only whether they are the same is known.
 * @param {string} first
 * @param {string} second
 * @returns {Line[]}
 */
export function differences(first, second) {
  const [one, other] = [first.split("\n"), second.split("\n")];
  let begin = 0;
  while (begin < one.length && begin < other.length && one[begin] === other[begin]) begin += 1;
  let end = 0;
  while (end < one.length - begin && end < other.length - begin && one.at(-1 - end) === other.at(-1 - end)) end += 1;
  const [gone, added] = [one.slice(begin, one.length - end), other.slice(begin, other.length - end)];
  /** @param {string} text @returns {Line} */
  const same = (text) => ({ is: "same", text });
  return [...one.slice(0, begin).map(same), ...between(gone, added), ...one.slice(one.length - end).map(same)];
}

/** @param {string[]} one @param {string[]} other @returns {Line[]} */
function between(one, other) {
  /** @type {Line[]} */
  const lines = [];
  if (one.length > MOST_LINES || other.length > MOST_LINES) {
    for (const text of one) lines.push({ is: "gone", text });
    for (const text of other) lines.push({ is: "new", text });
    return lines;
  }
  // The lengths of the longest common parts from each pair of lines on.
  const width = other.length + 1;
  const common = new Uint16Array((one.length + 1) * width);
  for (let i = one.length - 1; i >= 0; i -= 1) {
    for (let j = other.length - 1; j >= 0; j -= 1) {
      const below = common[(i + 1) * width + j] ?? 0;
      const right = common[i * width + j + 1] ?? 0;
      common[i * width + j] = one[i] === other[j] ? (common[(i + 1) * width + j + 1] ?? 0) + 1 : Math.max(below, right);
    }
  }
  let [i, j] = [0, 0];
  while (i < one.length || j < other.length) {
    if (i < one.length && j < other.length && one[i] === other[j]) {
      lines.push({ is: "same", text: one[i] ?? "" });
      i += 1;
      j += 1;
    } else if (j >= other.length || (i < one.length && (common[(i + 1) * width + j] ?? 0) >= (common[i * width + j + 1] ?? 0))) {
      lines.push({ is: "gone", text: one[i] ?? "" });
      i += 1;
    } else {
      lines.push({ is: "new", text: other[j] ?? "" });
      j += 1;
    }
  }
  return lines;
}

/**
 * Reads a difference in the unified format, whose marks are part of its lines. `left` is what stands between its parts.
 * @param {string} text
 * @returns {{ is: Line["is"] | "left", text: string }[] | null} Its lines; nothing if the text is none.
 */
export function unified(text) {
  if (!/^--- .*\n\+\+\+ .*\n@@ /.test(text)) return null;
  return text.replace(/\n$/, "").split("\n").map((line, index) => ({ is: index < 2 || line.startsWith("@@ ") ? "left" : line.startsWith("+") ? "new" : line.startsWith("-") ? "gone" : "same", text: line }));
}

/**
 * Leaves out lines that are the same and not near one that differs. `null` stands for those that are left out.
 * @param {Line[]} lines
 * @param {number} near
 * @returns {(Line | null)[]}
 */
export function nearby(lines, near) {
  /** @type {(Line | null)[]} */
  const kept = [];
  for (const [index, line] of lines.entries()) {
    const isNear = lines.slice(Math.max(0, index - near), index + near + 1).some(({ is }) => is !== "same");
    if (isNear) kept.push(line);
    else if (kept.at(-1) !== null) kept.push(null);
  }
  return kept;
}
