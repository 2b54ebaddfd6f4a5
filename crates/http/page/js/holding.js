// The keys of the terminals that this tab holds. They survive a reload, so that the hold does, too.
//
// A tab that is duplicated has a copy of the keys. A lock of the browser names the tab that uses a key: the copy holds
// nothing.

const KEY = "steplatch-held";

/** Time for which the document before a reload may still use a key, in milliseconds. */
const CLAIM_TIMEOUT_MS = 1000;

/**
 * The stored data of a hold: its key, and the size of the terminal before this tab changed it.
 * @typedef {{ key: string, size?: { cols: number, rows: number } | undefined }} Hold
 */

/** Functions that release the locks of this tab, by their keys. @type {Map<string, () => void>} */
const locks = new Map();

/** @returns {Record<string, Hold>} */
function readHolds() {
  try {
    return JSON.parse(sessionStorage.getItem(KEY) ?? "{}");
  } catch {
    return {};
  }
}

/** @param {Record<string, Hold>} holds */
function writeHolds(holds) {
  sessionStorage.setItem(KEY, JSON.stringify(holds));
}

/**
 * Returns the hold of this tab on a terminal, if it has one.
 * @param {string} terminal
 * @returns {Hold | null}
 */
export function holdOf(terminal) {
  const holds = readHolds();
  return Object.hasOwn(holds, terminal) ? (holds[terminal] ?? null) : null;
}

/**
 * Creates a random key for a terminal.
 * @param {string} terminal
 * @returns {Hold}
 */
export function drawKey(terminal) {
  const key = Array.from(crypto.getRandomValues(new Uint8Array(16)), (byte) => byte.toString(16).padStart(2, "0")).join("");
  writeHolds({ ...readHolds(), [terminal]: { key } });
  claimKey(key);
  return { key };
}

/**
 * Claims a key for this tab.
 * @param {string} key
 * @returns {Promise<boolean>} Whether no other tab uses it.
 */
export function claimKey(key) {
  if (locks.has(key)) return Promise.resolve(true);
  return new Promise((resolve) => {
    const claimed = () => {
      resolve(true);
      return new Promise((/** @type {(_: void) => void} */ release) => locks.set(key, release));
    };
    navigator.locks.request(`steplatch-hold-${key}`, { signal: AbortSignal.timeout(CLAIM_TIMEOUT_MS) }, claimed).catch(() => resolve(false));
  });
}

/**
 * Stores the size of a terminal before this tab changes it.
 * @param {string} terminal
 * @param {{ cols: number, rows: number }} size
 */
export function keepSize(terminal, size) {
  const hold = holdOf(terminal);
  if (hold) writeHolds({ ...readHolds(), [terminal]: { ...hold, size } });
}

/** @param {string} terminal */
export function forgetKey(terminal) {
  const hold = holdOf(terminal);
  if (!hold) return;
  writeHolds(Object.fromEntries(Object.entries(readHolds()).filter(([held]) => held !== terminal)));
  locks.get(hold.key)?.();
  locks.delete(hold.key);
}
