// A value as lines of JSON, each with its place in the value. Pure.

/**
 * @typedef {{ pointer: string, text: string }} JsonLine
 */

/**
 * Writes a value as JSON, a line for each of its parts.
 * @param {unknown} value
 * @returns {JsonLine[]} With the JSON pointer (RFC 6901) of the part that begins in each line.
 */
export function jsonLines(value) {
  /** @type {JsonLine[]} */
  const lines = [];
  /** @param {unknown} part @param {string} pointer @param {string} indent @param {string} before @param {string} after */
  const write = (part, pointer, indent, before, after) => {
    const isList = Array.isArray(part);
    const entries = part !== null && typeof part === "object" ? Object.entries(part) : [];
    if (!entries.length) {
      lines.push({ pointer, text: `${indent}${before}${JSON.stringify(part) ?? "null"}${after}` });
      return;
    }
    lines.push({ pointer, text: `${indent}${before}${isList ? "[" : "{"}` });
    for (const [index, [name, inner]] of entries.entries()) {
      const escaped = name.replaceAll("~", "~0").replaceAll("/", "~1");
      write(inner, `${pointer}/${escaped}`, `${indent}  `, isList ? "" : `${JSON.stringify(name)}: `, index + 1 < entries.length ? "," : "");
    }
    lines.push({ pointer: "", text: `${indent}${isList ? "]" : "}"}${after}` });
  };
  write(value, "", "", "", "");
  if (lines[0]) lines[0].pointer = "";
  return lines;
}

/**
 * Finds the line of each problem: where its place begins, or the nearest part around it that has a line.
 * @param {JsonLine[]} lines
 * @param {string[]} problems Each with a JSON pointer before its words, or without one.
 * @returns {{ line: number, words: string }[]} Lines count from 0.
 */
export function placed(lines, problems) {
  /** @type {Map<string, number>} */
  const at = new Map();
  for (const [index, { pointer }] of lines.entries()) if (!at.has(pointer)) at.set(pointer, index);
  return problems.map((problem) => {
    const found = /^(\/\S*?): (.*)$/s.exec(problem);
    let pointer = found?.[1] ?? "";
    while (pointer && !at.has(pointer)) pointer = pointer.slice(0, pointer.lastIndexOf("/"));
    return { line: pointer ? Number(at.get(pointer)) : 0, words: found?.[2] ?? problem };
  });
}

/**
 * Returns the line and the words of a text that is not JSON; nothing if it is. Browsers name the place in different ways. Pure.
 * @param {string} text
 * @returns {{ line: number, words: string } | null} The line counts from 0.
 */
export function syntaxProblem(text) {
  try {
    JSON.parse(text);
    return null;
  } catch (error) {
    const words = error instanceof Error ? error.message : String(error);
    const line = /\bline (\d+)/.exec(words)?.[1];
    const position = /\bposition (\d+)/.exec(words)?.[1];
    if (line) return { line: Number(line) - 1, words };
    // Without a place, the text ends too early.
    return { line: text.slice(0, position ? Number(position) : text.length).split("\n").length - 1, words };
  }
}
