// Choices of a person for this browser: how the page looks. They are in its storage only.

import { dayTime } from "./words.js";

/** Where the browser keeps the choices. */
const KEY = "steplatch.choices";

/**
 * The values of each choice, the usual one first: the look; the size of all text, in percent; the largest size of text in a terminal, in
 * pixels; the time zone of times; the time, in seconds, after which the end of a command is an occasion of a notification; and whether a
 * bell is one.
 */
export const VALUES = {
  theme: ["system", "light", "dark"],
  text: ["100", "90", "115", "130", "150"],
  terminalText: ["15", "10", "12", "18", "22", "28"],
  times: ["local", "utc"],
  commands: ["off", "5", "30", "120"],
  bells: ["on", "off"],
};

/** @typedef {keyof typeof VALUES} Choice */

/** @type {Set<() => void>} */
const listeners = new Set();

/**
 * Returns the choices in a stored text. A value that is not one of `VALUES` counts as the usual one. Pure.
 * @param {string | null} stored
 * @returns {Record<Choice, string>}
 */
export function choicesIn(stored) {
  /** @type {any} */
  let known = null;
  try {
    known = JSON.parse(stored ?? "null");
  } catch {
    // Another program of the origin has written it.
  }
  const entries = Object.entries(VALUES).map(([name, values]) => [name, values.includes(known?.[name]) ? known[name] : values[0]]);
  return Object.fromEntries(entries);
}

/** Returns the value of a choice. @param {Choice} name */
export function choice(name) {
  return choicesIn(localStorage.getItem(KEY))[name];
}

/** Stores a choice and applies it, here and in the other tabs. @param {Choice} name @param {string} value */
export function choose(name, value) {
  localStorage.setItem(KEY, JSON.stringify({ ...choicesIn(localStorage.getItem(KEY)), [name]: value }));
  applyChoices();
}

/**
 * Returns the next larger or smaller value of a choice that has a size, or null at its end. Pure.
 * @param {"text" | "terminalText"} name
 * @param {string} value
 * @param {1 | -1} direction
 */
export function nextSize(name, value, direction) {
  const sizes = [...VALUES[name]].sort((one, other) => Number(one) - Number(other));
  return sizes[sizes.indexOf(value) + direction] ?? null;
}

/** Formats a time with its day, in the chosen time zone. @param {string | number} time In ISO 8601, or in milliseconds. @param {number} now */
export function shownTime(time, now) {
  return dayTime(time, now, choice("times") === "utc" ? "utc" : "local");
}

/** Applies the choices to the document. */
export function applyChoices() {
  const { theme, text } = choicesIn(localStorage.getItem(KEY));
  const root = document.documentElement;
  if (theme === "system") root.removeAttribute("data-theme");
  else root.setAttribute("data-theme", theme);
  root.style.setProperty("--text", `${Number(text) / 100}`);
  for (const listener of listeners) listener();
}

/** Calls a function after each change of a choice. Returns a function that ends it. @param {() => void} listener */
export function onChoice(listener) {
  listeners.add(listener);
  return () => {
    listeners.delete(listener);
  };
}

/** Follows the changes of other tabs. */
export function followChoices() {
  applyChoices();
  addEventListener("storage", ({ key }) => {
    if (key === KEY) applyChoices();
  });
}
