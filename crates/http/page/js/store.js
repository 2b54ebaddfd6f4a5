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
 * Returns the open gates, the oldest first. Those of a locked run are not known.
 * @param {Lists} lists
 * @returns {any[]}
 */
export function gates(lists) {
  /** @type {any[]} */
  const all = lists.waiting.flatMap((run) => (run.locked ? [] : (run.pending_gates ?? []).map((/** @type {any} */ gate) => ({ ...gate, workflow: run.workflow_id }))));
  return all.sort((one, other) => String(one.created_at).localeCompare(String(other.created_at)));
}

/**
 * Returns the runs whose questions are locked since the daemon was restarted. A run above such a run is locked with it, and asks nothing.
 * @param {Lists} lists
 * @returns {any[]}
 */
export function lockedRuns(lists) {
  const locked = lists.waiting.filter((run) => run.locked);
  const above = new Set(locked.map((run) => run.parent_run_id));
  return locked.filter((run) => !above.has(run.run_id));
}

/**
 * Returns the number of questions that wait for a person, including locked ones, those for a password and those of AI agents.
 * @param {Lists} lists
 */
export function waitingForPeople(lists) {
  return gates(lists).filter((gate) => gate.answered_by !== "agent").length + lockedRuns(lists).length + passwordTerminals(lists).length + askingAgents(lists).length;
}

/** The time that a failed run stays in the inbox, in milliseconds. */
const FAILED_TIME = 24 * 3600 * 1000;

/**
 * Returns the runs that failed in the last day and that no other run started, the newest first.
 * @param {Lists} lists
 * @param {number} now
 * @param {number} count The maximum number of them.
 * @returns {any[]}
 */
export function failedRuns(lists, now, count) {
  const failed = lists.runs.filter((run) => run.state === "failed" && !run.parent_run_id && now - Date.parse(run.completed_at) < FAILED_TIME);
  return failed.sort((one, other) => String(other.completed_at).localeCompare(String(one.completed_at))).slice(0, count);
}

/**
 * Returns the terminals that ask for a password, or for which an agent does.
 * @param {Lists} lists
 * @returns {any[]}
 */
export function passwordTerminals(lists) {
  return lists.terminals.filter((terminal) => (terminal.password || terminal.secret_request) && terminal.state !== "exited");
}

/** Returns the terminals with an AI agent that asks for a decision. @param {Lists} lists */
export function askingAgents(lists) {
  return askingTerminals(lists).filter((terminal) => terminal.agent_activity);
}

/**
 * Returns the terminals whose program waits for a line of input: it asks something, or is an interpreter at its prompt. A shell at its
 * prompt and a full-screen program are none, except for an agent that asks for a decision.
 * @param {Lists} lists
 */
export function askingTerminals(lists) {
  return lists.terminals.filter((terminal) => {
    if (terminal.state === "exited" || terminal.password || terminal.secret_request) return false;
    if (terminal.agent_activity) return terminal.agent_activity === "asks";
    return terminal.awaiting_input && terminal.busy !== false && !terminal.alternate_screen;
  });
}
