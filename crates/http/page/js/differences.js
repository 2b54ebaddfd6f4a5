// Differences between two texts, by lines, and between two runs of the same workflow. Pure.

/** The longest texts that are compared line by line, in lines. */
const MOST_LINES = 2000;

/**
 * A line of a comparison: in both, only in the first, or only in the second.
 * @typedef {{ is: "same" | "gone" | "new", text: string }} Line
 */

/**
 * Compares two texts. Longer ones are only compared for equality.
 * @param {string} first
 * @param {string} second
 * @param {(line: string) => string} [key] What of a line is compared.
 * @returns {Line[]}
 */
export function differences(first, second, key = (line) => line) {
  const shown = [first.split("\n"), second.split("\n")];
  const [one, other] = [first.split("\n").map(key), second.split("\n").map(key)];
  let begin = 0;
  while (begin < one.length && begin < other.length && one[begin] === other[begin]) begin += 1;
  let end = 0;
  while (end < one.length - begin && end < other.length - begin && one.at(-1 - end) === other.at(-1 - end)) end += 1;
  const [gone, added] = [one.slice(begin, one.length - end), other.slice(begin, other.length - end)];
  /** @param {string} text @returns {Line} */
  const same = (text) => ({ is: "same", text });
  const lines = [...one.slice(0, begin).map(same), ...between(gone, added), ...one.slice(one.length - end).map(same)];
  // The lines as they are: those of both as in the first.
  let [i, j] = [0, 0];
  return lines.map(({ is }) => {
    const text = (is === "new" ? shown[1]?.[j] : shown[0]?.[i]) ?? "";
    if (is !== "new") i += 1;
    if (is !== "gone") j += 1;
    return { is, text };
  });
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
 * Reads a difference in the unified format, whose marks are part of its lines. `left` holds the lines between its parts.
 * @param {string} text
 * @returns {{ is: Line["is"] | "left", text: string }[] | null} Its lines; nothing if the text is none.
 */
export function unified(text) {
  if (!/^--- .*\n\+\+\+ .*\n@@ /.test(text)) return null;
  return text.replace(/\n$/, "").split("\n").map((line, index) => ({ is: index < 2 || line.startsWith("@@ ") ? "left" : line.startsWith("+") ? "new" : line.startsWith("-") ? "gone" : "same", text: line }));
}

/**
 * Omits equal lines that are not near a different one. `null` stands for omitted lines.
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

/** Fields of the result of an action that may have other values in each run: times, places in the output, how a wait ended, and the look of the screen. */
const VARYING = new Set([
  "elapsed_time", "total_elapsed_time", "duration", "duration_ms", "offset", "next_offset", "since", "timestamp", "pid", "gate_id", "run_id", "session_id", "web_url", "digest",
  "expires_at", "created_at", "started_at", "completed_at", "last_activity", "cursor", "screen", "screen_part", "screen_content", "match_context", "groups", "reason", "busy",
  "awaiting_input", "process_running", "highlighted",
]);

/**
 * Returns a value without what differs between two runs that did the same, by the rules of `workflow prove`: identifiers, times and the like
 * in texts; and of the result of an action, fields such as its time.
 * @param {unknown} value
 * @param {boolean} [isResult]
 * @returns {unknown}
 */
export function steady(value, isResult = false) {
  if (typeof value === "string") return steadyText(value);
  if (Array.isArray(value)) return value.map((one) => steady(one));
  if (typeof value !== "object" || value === null) return value ?? null;
  // In the order of their names. A command whose output is not read may or may not have ended.
  const isRead = "output" in value;
  const fields = Object.entries(value).filter(([name, inner]) => !isResult || (!VARYING.has(name) && (isRead || name !== "exit_code" || inner)));
  fields.sort(([one], [other]) => (one < other ? -1 : 1));
  return Object.fromEntries(fields.map(([name, inner]) => [name, isResult && name === "match_text" && typeof inner === "string" ? steadyText(inner).replace(/\d+/g, "0") : steady(inner)]));
}

/**
 * Returns whether two values are equal, except for parts that differ in every run.
 * @param {unknown} one
 * @param {unknown} other
 * @param {boolean} [areResults]
 */
export function areAlike(one, other, areResults = false) {
  return JSON.stringify(steady(one, areResults)) === JSON.stringify(steady(other, areResults));
}

/** A placeholder of a part that differs from run to run. */
const ANY = "…";

/** The longest word that is examined, in characters. */
const LONGEST_WORD = 400;

/** The signs around a word, and the word. */
const AROUND = /^([^\p{L}\p{N}/%#…]*)(.*?)([^\p{L}\p{N}/%#…]*)$/su;

/** Units of time, sizes and speeds, behind a number. */
const UNIT = "(?:[nuµμm]?s|secs?|seconds?|mins?|minutes?|hours?|(?:k|K|M|G)B(?:/s)?|kb|[KMGT]iB(?:/s)?|TB|B/s|[kMG]?bps|[kMG]bit/s|(?:it|req|ops)/s|millis|(?:milli|micro|nano)seconds|msec)";
const IS_UNIT = new RegExp(`^${UNIT}$`);
const IS_NUMBER = /^\d[\d.,]*$/;
/** A number with its unit, or a duration of several. */
const IS_QUANTITY = new RegExp(`^\\d[\\d.,]*(?:${UNIT}|[kMGK]/s)$|^(?:\\d[\\d.,]*(?:d|h|ms|min|m|s)){2,}$`);
const IS_AGE = /^(?:day|week|month|year)s?$/;
/** The short name of a month or a day of the week, as `date` and `ls -l` write it. */
const IS_DAY = /^(?:Jan|Feb|Mar|Apr|May|Jun|Jul|Aug|Sep|Oct|Nov|Dec|Mon|Tue|Wed|Thu|Fri|Sat|Sun)$/;
const DATE = "(?:\\d{4}([-/.])\\d\\d\\1\\d\\d|\\d\\d([-/.])\\d\\d\\2\\d{4})";
const CLOCK = "\\d{1,2}(?::\\d\\d){1,2}(?:[.,]\\d+)?(?:[A-Za-z]+|[+-][\\d:]+)?";
/** A word that differs from run to run, whatever stands beside it: a UUID, a temporary path, a date, a time. */
const VARIES = new RegExp(`^[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}$|/tmp/|/var/tmp/|/run/|/dev/shm/|^${DATE}(?:T${CLOCK})?$|^${CLOCK}$`, "i");
/** Words behind which git prints the short hash of a commit, and those behind which a number is an identifier. */
const IS_COMMIT_LABEL = /^(?:commit|at|HEAD|apply|onto)$/;
const IS_LABEL = /^(?:pid|ppid|port|process|pids|uuid)$/i;
/** A host with a port. */
const PORT = /^((?:\d+\.\d+\.\d+\.\d+|.*localhost|.*\]|.*\/\/.*):)\d{2,5}(\/.*|)$/;

/**
 * Returns a text without what differs from one run to the next: identifiers, temporary paths, dates, times, durations, sizes with a unit and
 * speeds; and blanks. Any other number is a result. The rules are those of `normalised` in crates/capture/src/variation.rs.
 * @param {string} text
 * @returns {string}
 */
export function steadyText(text) {
  return text.trim().split("\n").map((line) => {
    const words = line.split(/\s+/).filter(Boolean);
    return words.map((_, at) => steadyWord(words, at)).join(" ").replaceAll("( …", "(…").replaceAll("[ …", "[…");
  }).join("\n");
}

/** Returns the word without the signs around it. @param {string | undefined} word */
function coreOf(word) {
  return word === undefined || word.length > LONGEST_WORD ? (word ?? "") : (AROUND.exec(word)?.[2] ?? "");
}

/** @param {string[]} words @param {number} at @returns {string} */
function steadyWord(words, at) {
  const whole = words[at] ?? "";
  if (whole.length > LONGEST_WORD) return whole;
  const [, open = "", core = "", close = ""] = AROUND.exec(whole) ?? [];
  if (!core) return whole;
  const [before, after] = [words[at - 1] ?? "", coreOf(words[at + 1])];
  const value = core.slice(Math.max(core.lastIndexOf("="), core.lastIndexOf(":")) + 1);
  const rest = core.slice(0, core.length - value.length);
  const isCounter = (open.endsWith("[") || (!open && before.endsWith("["))) && close.startsWith("]") && /^\d[\d.,]*%$/.test(core);
  const isCommit = /^[0-9a-fA-F]{7,40}$/.test(core) && (IS_COMMIT_LABEL.test(before) || (before.startsWith("[") && close.startsWith("]")));
  const isLabelled = /^\d+$/.test(value) && IS_LABEL.test(rest ? coreOf(rest.slice(0, -1)) : coreOf(before));
  const isJob = at === 1 && words.length === 2 && /^\[\d+\]$/.test(words[0] ?? "") && /^\d+$/.test(whole);
  const previous = coreOf(before);
  const isUnitBehind = IS_UNIT.test(core) && IS_NUMBER.test(previous.slice(Math.max(previous.lastIndexOf("="), previous.lastIndexOf(":")) + 1));
  if (VARIES.test(core) || isOfDate(words, at, core) || isCounter || isCommit || isLabelled || isJob || isUnitBehind) return `${open}${ANY}${close}`;
  const isAmount = IS_NUMBER.test(value) && (IS_UNIT.test(after) || (IS_AGE.test(after) && coreOf(words[at + 2]) === "ago"));
  if (IS_QUANTITY.test(value) || isAmount) return `${open}${rest}${ANY}${close}`;
  const port = PORT.exec(core);
  return `${open}${port ? `${port[1]}${ANY}${withoutIdentifiers(port[2] ?? "")}` : withoutIdentifiers(core)}${close}`;
}

/** Returns whether a word is of a date: a month or a day beside a number or another one, a day of the month, a year in such a line. @param {string[]} words @param {number} at @param {string} core */
function isOfDate(words, at, core) {
  const beside = [coreOf(words[at - 1]), coreOf(words[at + 1])];
  if (!/^\d+$/.test(core)) return IS_DAY.test(core) && beside.some((word) => IS_DAY.test(word) || /^\d+$/.test(word));
  const number = Number(core);
  if (number >= 1 && number <= 31) return beside.some((word) => IS_DAY.test(word));
  return number >= 1970 && number < 2200 && words.some((word) => IS_DAY.test(coreOf(word)));
}

/**
 * Returns a word without its parts that are identifiers: hashes, addresses in memory, random endings of names, moments as seconds, and long
 * numbers of names such as `job-48213`.
 * @param {string} word
 */
function withoutIdentifiers(word) {
  return word.replace(/[\p{L}\p{N}]+/gu, (part, /** @type {number} */ at) => {
    const [before, behind] = [word.slice(0, at), word.slice(at + part.length)];
    const isDigits = /^\d+$/.test(part);
    const isHash = /^0x[0-9a-f]{6,}$/i.test(part) || (/^[0-9a-f]{7,}$/i.test(part) && /\d/.test(part) && !isDigits);
    const isMoment = /^1(?:\d{9}|\d{12})$/.test(part);
    const isNumbered = isDigits && part.length >= 4 && /#$|[a-z][-_]$/i.test(before);
    const isProcess = isDigits && /[\p{L}\p{N}]\[$/u.test(before) && (behind === "" || behind.startsWith("]:"));
    const isOfName = before.endsWith("_") && /^(?=.*\d)[\x21-\x7e]{10,}$/.test(part) && !isDigits;
    return isHash || isMoment || isNumbered || isProcess || isOfName || isRandom(part) || isOwnId(before, part) ? ANY : part;
  });
}

/** Returns whether letters and digits take turns, as in identifiers and the endings of temporary names. @param {string} part */
function isRandom(part) {
  return part.length >= 8 && /^[0-9a-z]+$/i.test(part) && (part.match(/\d(?=\D)|\D(?=\d)/g) ?? []).length >= 3;
}

/** Returns whether it is an id of steplatch, of which few have no digit. @param {string} before @param {string} part */
function isOwnId(before, part) {
  return (/(?:^|[^\p{L}\p{N}])run_$/u.test(before) && /^[0-9a-z]{16}$/.test(part)) || (/(?:^|[^\p{L}\p{N}])term_$/u.test(before) && /^[0-9a-z]{10}$/.test(part));
}
