// The approver's passphrase in the memory of this tab, for the minutes of the setting gates.remember_minutes.
//
// A person turns it on for each passphrase. It is stored nowhere: other tabs do not have it, and a reload removes it.

/** @type {{ passphrase: string, until: number, timer: ReturnType<typeof setTimeout> } | null} */
let current = null;

/** @type {Set<() => void>} */
const listeners = new Set();

/** Returns the passphrase, and the time of its removal in milliseconds since the Unix epoch. */
export function remembered() {
  return current;
}

/** Stores a passphrase. Its use does not extend the time. @param {string} passphrase @param {number} minutes */
export function rememberPassphrase(passphrase, minutes) {
  const time = minutes * 60_000;
  replace({ passphrase, until: Date.now() + time, timer: setTimeout(forgetPassphrase, time) });
}

/** Removes the passphrase. */
export function forgetPassphrase() {
  if (current) replace(null);
}

/** @param {typeof current} next */
function replace(next) {
  clearTimeout(current?.timer);
  current = next;
  for (const changed of listeners) changed();
}

/**
 * Calls a listener when a passphrase is stored or removed.
 * @param {() => void} listener
 * @returns {() => void} Ends it.
 */
export function listenToPassphrase(listener) {
  listeners.add(listener);
  return () => listeners.delete(listener);
}
