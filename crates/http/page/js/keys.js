// Keys of a keyboard, by the names that the server knows. Pure.

/** The names of keys that are not characters. */
const NAMES = new Map(Object.entries({
  Enter: "enter",
  Tab: "tab",
  Escape: "escape",
  Backspace: "backspace",
  Delete: "delete",
  Insert: "insert",
  ArrowUp: "up",
  ArrowDown: "down",
  ArrowLeft: "left",
  ArrowRight: "right",
  Home: "home",
  End: "end",
  PageUp: "page-up",
  PageDown: "page-down",
}));

/**
 * Characters that ctrl turns into the control character of another one, as X11 does; the server knows ctrl with those.
 * @type {Map<string, string>}
 */
const CONTROLS = new Map([["3", "["], ["4", "\\"], ["5", "]"], ["6", "^"], ["`", "@"], ["{", "["], ["|", "\\"], ["}", "]"], ["~", "^"]]);

/**
 * The properties of a pressed key.
 * @typedef {{ key: string, ctrlKey: boolean, altKey: boolean, shiftKey: boolean, metaKey: boolean, isComposing: boolean }} Press
 */

/**
 * Returns the name of a pressed key, if it is one for the terminal. Characters without ctrl or alt are text and have no
 * name.
 * @param {Press} press
 * @returns {string | null}
 */
export function keyName(press) {
  if (press.isComposing || press.metaKey || press.key === "Dead" || press.key === "Process") return null;
  const modifiers = `${press.ctrlKey ? "ctrl-" : ""}${press.altKey ? "alt-" : ""}`;
  const named = NAMES.get(press.key) ?? (/^F([1-9]|1[0-2])$/.test(press.key) ? press.key.toLowerCase() : undefined);
  if (named) return `${modifiers}${press.shiftKey ? "shift-" : ""}${named}`;
  if ([...press.key].length !== 1 || !modifiers) return null;
  // AltGr is ctrl and alt for some systems, and types a character.
  if (press.ctrlKey && press.altKey && !/^[a-z0-9 ]$/i.test(press.key)) return null;
  if (press.key === " ") return `${modifiers}space`;
  // A capital is a letter with shift, also where the shift is locked.
  if (/^[A-Z]$/.test(press.key)) return `${modifiers}shift-${press.key.toLowerCase()}`;
  return `${modifiers}${(press.ctrlKey && CONTROLS.get(press.key)) || press.key}`;
}

/**
 * Returns the character of a pressed key. Text composed of several keys arrives as input instead.
 * @param {Press} press
 * @param {boolean} isAltGraph Whether AltGr is pressed, which some systems report as ctrl and alt.
 * @returns {string | null}
 */
export function keyText(press, isAltGraph) {
  if (press.isComposing || press.metaKey || [...press.key].length !== 1) return null;
  return (press.ctrlKey || press.altKey) && !isAltGraph ? null : press.key;
}

/**
 * Returns whether a pressed key belongs to the page rather than to the terminal.
 * @param {Press} press
 * @param {boolean} hasSelection
 */
export function isForPage(press, hasSelection) {
  const key = press.key.toLowerCase();
  if (press.ctrlKey && press.shiftKey && ["c", "v", "f", "escape"].includes(key)) return true;
  return press.ctrlKey && !press.altKey && !press.shiftKey && key === "c" && hasSelection;
}

/**
 * Removes control characters from a paste, except tab and line ends.
 * @param {string} text
 */
export function cleanPaste(text) {
  return text.replace(/\r\n?/g, "\n").replace(/[\u0000-\u0008\u000b-\u001f\u007f-\u009f]/g, "");
}
