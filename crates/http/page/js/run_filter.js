// Filters: of the list of runs, in the address of the page, asked of the server and compared with live runs, and kept by the browser; and of the steps of a run.

/** The periods that a list can be limited to: their name, and their length in milliseconds. @type {Record<string, number>} */
export const PERIODS = { "1h": 3_600_000, "24h": 86_400_000, "7d": 604_800_000 };

/**
 * A filter: each part is empty where it does not matter. `since` is a period, or a time (ISO 8601).
 * @typedef {{ state: string, workflow: string, since: string, text: string }} RunFilter
 */

/**
 * Reads a filter from the query of an address.
 * @param {URLSearchParams} query
 * @returns {RunFilter}
 */
export function filterOf(query) {
  /** @param {string} name */
  const part = (name) => (query.get(name) ?? "").trim().slice(0, 200);
  const since = part("since");
  return { state: part("state"), workflow: part("workflow"), since: Object.hasOwn(PERIODS, since) || !Number.isNaN(Date.parse(since)) ? since : "", text: part("text") };
}

/**
 * Writes a filter as the query of an address, without a question mark.
 * @param {RunFilter} filter
 * @returns {string}
 */
export function queryOf(filter) {
  return new URLSearchParams(Object.entries(filter).filter(([, value]) => value)).toString();
}

/**
 * Returns the earliest start time of the runs of a filter.
 * @param {RunFilter} filter
 * @param {number} now
 * @returns {string | undefined}
 */
export function sinceOf({ since }, now) {
  const period = PERIODS[since];
  return period ? new Date(now - period).toISOString() : since || undefined;
}

/**
 * Returns the parameters of the server for a filter.
 * @param {RunFilter} filter
 * @param {number} now
 * @returns {{ state?: string, workflow_id?: string, since?: string } | null} Nothing where it need not filter.
 */
export function askedOf(filter, now) {
  const since = sinceOf(filter, now);
  if (!filter.state && !filter.workflow && !since && !filter.text) return null;
  return { ...(filter.state && { state: filter.state }), ...(filter.workflow && { workflow_id: filter.workflow }), ...(since && { since }) };
}

/**
 * Returns whether a run matches a filter.
 * @param {any} run
 * @param {RunFilter} filter
 * @param {number} now
 */
export function isOf(run, filter, now) {
  const since = sinceOf(filter, now);
  if (filter.state && run.state !== filter.state) return false;
  if (filter.workflow && run.workflow_id !== filter.workflow) return false;
  if (since && Date.parse(run.started_at) < Date.parse(since)) return false;
  const wanted = filter.text.toLowerCase();
  const texts = [run.run_id, run.workflow_id, run.error, run.pending_gate?.prompt, textOf(run.result)];
  return !wanted || texts.some((text) => text?.toLowerCase().includes(wanted));
}

/**
 * Returns whether a step of a run has a text: in its name, its kind, its outcome, its input or its output.
 * @param {import("./timeline.js").Step} step
 * @param {string} wanted
 */
export function hasText(step, wanted) {
  const lower = wanted.trim().toLowerCase();
  return !lower || [step.name, step.kind, step.outcome, step.because, textOf(step.input), textOf(step.output)].some((text) => text.toLowerCase().includes(lower));
}

/** Where the browser keeps filters, as queries of addresses, the last one first; and how many. */
const [KEPT, MAX_KEPT] = ["steplatch.run_filters", 12];

/** Returns the filters that this browser keeps, as queries. @returns {string[]} */
export function savedFilters() {
  try {
    const kept = JSON.parse(localStorage.getItem(KEPT) ?? "[]");
    return Array.isArray(kept) ? kept.filter((query) => typeof query === "string" && queryOf(filterOf(new URLSearchParams(query))) === query) : [];
  } catch {
    return [];
  }
}

/** Keeps a filter, or forgets it. @param {string} query @param {boolean} is */
export function keepFilter(query, is) {
  const others = savedFilters().filter((kept) => kept !== query);
  localStorage.setItem(KEPT, JSON.stringify((is ? [query, ...others] : others).slice(0, MAX_KEPT)));
}

/** @param {unknown} value @returns {string} */
function textOf(value) {
  if (value === null || value === undefined) return "";
  return typeof value === "string" ? value : JSON.stringify(value);
}
