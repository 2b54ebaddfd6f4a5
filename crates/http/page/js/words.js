// Words for values: times and names. Pure.

/**
 * Formats the age of a time.
 * @param {string} iso
 * @param {number} now In milliseconds since the Unix epoch.
 * @returns {string}
 */
export function timeAgo(iso, now) {
  const seconds = Math.floor((now - Date.parse(iso)) / 1000);
  if (Number.isNaN(seconds)) return "";
  if (seconds < 5) return "just now";
  if (seconds < 60) return `${seconds} s ago`;
  if (seconds < 3600) return `${Math.floor(seconds / 60)} min ago`;
  if (seconds < 86400) return `${Math.floor(seconds / 3600)} h ago`;
  const days = Math.floor(seconds / 86400);
  return days === 1 ? "1 day ago" : `${days} days ago`;
}

/**
 * Formats a time with its day: today, 15:05.
 * @param {string | number} time In ISO 8601, or in milliseconds since the Unix epoch.
 * @param {number} now In milliseconds since the Unix epoch.
 * @param {"local" | "utc"} [zone] The time zone of the browser, or UTC, which is named.
 * @returns {string}
 */
export function dayTime(time, now, zone = "local") {
  const [then, today] = [new Date(time), new Date(now)];
  if (Number.isNaN(then.getTime())) return "";
  const days = dayNumber(then, zone) - dayNumber(today, zone);
  const timeZone = zone === "utc" ? { timeZone: "UTC" } : {};
  const isThisYear = yearOf(then, zone) === yearOf(today, zone);
  const day = NEAR_DAYS.get(days) ?? then.toLocaleDateString(undefined, { ...timeZone, weekday: "short", day: "numeric", month: "short", ...(isThisYear ? {} : { year: "numeric" }) });
  return `${day}, ${then.toLocaleTimeString(undefined, { ...timeZone, hour: "numeric", minute: "2-digit" })}${zone === "utc" ? " UTC" : ""}`;
}

/** The days that have a name of their own, by their distance from today. @type {Map<number, string>} */
const NEAR_DAYS = new Map([[-1, "yesterday"], [0, "today"], [1, "tomorrow"]]);

/** @param {Date} time @param {"local" | "utc"} zone */
function yearOf(time, zone) {
  return zone === "utc" ? time.getUTCFullYear() : time.getFullYear();
}

/** Returns the number of a day. @param {Date} time @param {"local" | "utc"} zone */
function dayNumber(time, zone) {
  if (zone === "utc") return Math.floor(time.getTime() / 86_400_000);
  return Date.UTC(time.getFullYear(), time.getMonth(), time.getDate()) / 86_400_000;
}

/**
 * Formats a number of bytes.
 * @param {number} bytes
 * @returns {string}
 */
export function size(bytes) {
  if (bytes < 1000) return `${bytes} B`;
  const kilobytes = bytes / 1000;
  return kilobytes < 1000 ? `${kilobytes.toFixed(kilobytes < 10 ? 1 : 0)} kB` : `${(kilobytes / 1000).toFixed(1)} MB`;
}

/**
 * Shortens the user agent of a browser to its name and system.
 * @param {string} agent
 * @returns {string}
 */
export function browserName(agent) {
  const names = [["Edg/", "Edge"], ["Firefox/", "Firefox"], ["HeadlessChrome/", "Chromium, headless"], ["Chrome/", "Chromium"], ["Safari/", "Safari"]];
  const name = names.find(([mark]) => agent.includes(mark ?? ""))?.[1];
  const systems = ["Android", "iPhone", "iPad", "Linux", "Mac OS X", "Windows"];
  const system = systems.find((system) => agent.includes(system));
  if (!name) return agent.slice(0, 40) || "Unknown browser";
  return system ? `${name} on ${system}` : name;
}

/**
 * Characters that work, hide or change how others are shown: controls, formats, and letters that are drawn as nothing. A variation
 * selector stays behind the picture that it gives its colours.
 */
const HIDDEN =
  /(?!(?<=\p{Extended_Pictographic})[\ufe0e\ufe0f])(?:[^\P{C}\n\t]|\p{Default_Ignorable_Code_Point}|[\u2028\u2029\u2800\u2d7f\u{1107f}\u{16fe4}\u{1d159}])/u;

/** Marks that strike through or enclose the character before them, as in `visible` of the crate `protocol`. */
const OVERLAYS =
  /\p{Me}|[\u0334-\u0338\u1cd4\u1ce2-\u1ce8\u20d2\u20d3\u20d8-\u20da\u20e5\u20e6\u20ea\u20eb\u{10a39}\u{16af0}-\u{16af4}\u{1bc9e}\u{1d167}-\u{1d169}]/u;

const NAMED = new RegExp(`${HIDDEN.source}|${OVERLAYS.source}`, "gu");

/**
 * Makes control characters, and format characters that change the direction or the look of text, visible as `⟨U+202E⟩`; so are marks
 * that strike through or enclose other characters, and those beyond three on one character, which would cover other lines.
 * Line ends and tabs stay.
 * @param {string} text
 * @returns {string}
 */
export function visible(text) {
  /** @param {string} characters */
  const named = (characters) => Array.from(characters, (character) => {
    const code = character.codePointAt(0) ?? 0;
    return `⟨U+${code.toString(16).toUpperCase().padStart(4, "0")}⟩`;
  }).join("");
  return text
    .replace(NAMED, named)
    .replace(/(?<=\p{Mn}{3})\p{Mn}+/gu, named);
}

/**
 * Describes the state of a terminal, with its importance. The state is unknown while the machine is not connected.
 * Only a password needs a person; an idle editor or interpreter always reads input.
 * @param {any} terminal Its `alternate_screen` is whether a full-screen program has the screen.
 * @param {number} now In milliseconds since the Unix epoch.
 * @returns {{ word: string, tone: "wait" | "busy" | "idle" | "bad" | "soft" }}
 */
export function terminalState(terminal, now) {
  if (terminal.host_lost_since) return { word: `host lost ${timeAgo(terminal.host_lost_since, now)}`, tone: "bad" };
  if (terminal.state === "exited") {
    const code = terminal.exit_code ?? null;
    return { word: code === null ? "ended" : `ended with ${code}`, tone: code ? "bad" : "soft" };
  }
  if (terminal.password) return { word: "asks for a password", tone: "wait" };
  if (terminal.agent_activity) {
    const tone = /** @type {const} */ ({ working: "busy", asks: "wait", idle: "idle" })[/** @type {"working" | "asks" | "idle"} */ (terminal.agent_activity)];
    return { word: `${terminal.agent_activity} (${visible(terminal.agent)})`, tone };
  }
  if (terminal.busy === false) return { word: "at its prompt", tone: "idle" };
  if (terminal.alternate_screen) return { word: "running", tone: "busy" };
  if (terminal.awaiting_input) return { word: "waits for input", tone: "idle" };
  if (terminal.busy) return { word: "busy", tone: "busy" };
  return { word: "running", tone: "busy" };
}

/**
 * Returns the directory of a terminal, behind the name of its machine as scp(1) writes it. Nothing in it hides or turns around.
 * @param {any} terminal
 * @returns {string}
 */
export function terminalPlace(terminal) {
  const folder = visible(terminal.cwd ?? "");
  return terminal.host ? `${visible(terminal.host)}:${folder}` : folder;
}

/**
 * Returns the name of a terminal, without hidden or reordering characters.
 * @param {any} terminal
 * @returns {string}
 */
export function terminalName(terminal) {
  return visible(String(terminal.name || terminal.title || terminal.command || terminal.session_id));
}
