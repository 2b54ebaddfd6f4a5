// The keys of the terminals that this tab holds. They survive a reload, so that the hold does, too.

const KEY = "steplatch-holds";

/** @returns {Record<string, string>} */
function all() {
  try {
    return JSON.parse(sessionStorage.getItem(KEY) ?? "{}");
  } catch {
    return {};
  }
}

/** @param {Record<string, string>} holds */
function store(holds) {
  sessionStorage.setItem(KEY, JSON.stringify(holds));
}

/**
 * Returns the key with which this tab holds a terminal, if it does.
 * @param {string} terminal
 * @returns {string | null}
 */
export function keyOf(terminal) {
  return all()[terminal] ?? null;
}

/**
 * Draws a key for a terminal.
 * @param {string} terminal
 * @returns {string}
 */
export function drawKey(terminal) {
  const key = Array.from(crypto.getRandomValues(new Uint8Array(16)), (byte) => byte.toString(16).padStart(2, "0")).join("");
  store({ ...all(), [terminal]: key });
  return key;
}

/** @param {string} terminal */
export function forgetKey(terminal) {
  const { [terminal]: _, ...others } = all();
  store(others);
}

/** Returns whether this tab holds a terminal. */
export function holdsAny() {
  return Object.keys(all()).length > 0;
}
