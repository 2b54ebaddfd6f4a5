// The lists that every view shares: terminals, gates and runs, as the server sends them.

import { keep, on } from "./live.js";

/**
 * @typedef {{ terminals: any[], waiting: any[], runs: any[] }} Lists
 */

/** @type {Lists | null} */
let current = null;

/** @type {Set<(lists: Lists) => void>} */
const listeners = new Set();

/** Begins to receive the lists. */
export function follow() {
  keep("lists", () => ({ do: "lists" }));
}

on("lists", (message) => {
  current = { terminals: message["terminals"], waiting: message["waiting"], runs: message["runs"] };
  for (const listener of listeners) listener(current);
});

/** Returns the lists, once they were received. @returns {Lists | null} */
export function lists() {
  return current;
}

/**
 * Calls a listener now, if there are lists, and whenever they change.
 * @param {(lists: Lists) => void} listener
 * @returns {() => void} Ends it.
 */
export function listen(listener) {
  listeners.add(listener);
  if (current) listener(current);
  return () => listeners.delete(listener);
}

/**
 * Returns the open gates for people, the oldest first.
 * @param {Lists} lists
 * @returns {any[]}
 */
export function gates(lists) {
  /** @type {any[]} */
  const all = lists.waiting.flatMap((run) => (run.pending_gates ?? []).map((/** @type {any} */ gate) => ({ ...gate, workflow: run.workflow_id })));
  return all.sort((one, other) => String(one.created_at).localeCompare(String(other.created_at)));
}
