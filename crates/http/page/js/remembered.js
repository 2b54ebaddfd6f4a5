// The approver's passphrase, in the memory of this tab for some minutes: where the setting gates.remember_minutes allows
// it and the person asks for it. It is stored nowhere, and other tabs and a reload do not have it.

/** @type {{ passphrase: string, until: number, timer: ReturnType<typeof setTimeout> } | null} */
let kept = null;

/** @type {Set<() => void>} */
const listeners = new Set();

/** Returns the kept passphrase. */
export function rememberedPassphrase() {
  return kept?.passphrase;
}

/** Returns the time at which it is forgotten, in milliseconds since 1970. */
export function rememberedUntil() {
  return kept?.until;
}

/** Keeps a passphrase. Its time does not begin anew with its use. @param {string} passphrase @param {number} minutes */
export function rememberPassphrase(passphrase, minutes) {
  forgetPassphrase();
  const time = minutes * 60_000;
  kept = { passphrase, until: Date.now() + time, timer: setTimeout(forgetPassphrase, time) };
  for (const changed of listeners) changed();
}

export function forgetPassphrase() {
  if (!kept) return;
  clearTimeout(kept.timer);
  kept = null;
  for (const changed of listeners) changed();
}

/** Calls `changed` when a passphrase is kept or forgotten. Returns the function that ends this. @param {() => void} changed */
export function whenRemembered(changed) {
  listeners.add(changed);
  return () => void listeners.delete(changed);
}
