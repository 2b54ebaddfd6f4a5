// Requests to the server.

import { forget, half } from "./login.js";
import { project, projectName } from "./project.js";

/** A request that was not carried out. */
export class ApiError extends Error {
  /**
   * @param {number} status The HTTP status; 0 if the server did not answer.
   * @param {any} reply The reply of the server.
   */
  constructor(status, reply) {
    super(String(reply?.error ?? reply?.message ?? "The server does not answer."));
    this.status = status;
    this.reply = reply;
  }
}

/** Called when the session has ended. @type {() => void} */
let onLoggedOut = () => {};

/** @param {() => void} listener */
export function whenLoggedOut(listener) {
  onLoggedOut = listener;
}

/** Ends the use of a session that the server refuses. */
export function loggedOut() {
  forget();
  onLoggedOut();
}

/**
 * Sends a request to the API.
 *
 * @param {"GET" | "POST" | "PUT" | "DELETE"} method
 * @param {string} path The address below `/api/v1`.
 * @param {Record<string, any>} [parameters] Parameters: in the query of GET and DELETE, in the body of the others.
 *   Those that are undefined are left out.
 * @returns {Promise<any>}
 * @throws {ApiError}
 */
export async function ask(method, path, parameters = {}) {
  const given = Object.entries(parameters).filter(([, value]) => value !== undefined);
  const inQuery = method === "GET" || method === "DELETE";
  const query = inQuery && given.length ? `?${new URLSearchParams(given.map(([k, v]) => [k, String(v)]))}` : "";
  /** @type {Record<string, string>} */
  const headers = { "steplatch-half": half()?.half ?? "" };
  const isOfProject = path.startsWith("/workflows") || path === "/diagram" || (method === "POST" && (path === "/terminals" || path === "/runs"));
  if (isOfProject && project()) headers["steplatch-project"] = projectName(project());
  if (!inQuery) headers["content-type"] = "application/json";
  let response;
  try {
    response = await fetch(`/api/v1${path}${query}`, {
      method,
      headers,
      body: inQuery ? null : JSON.stringify(Object.fromEntries(given)),
    });
  } catch {
    throw new ApiError(0, { error: "The server does not answer. Start it with: steplatch open" });
  }
  const reply = await response.json().catch(() => ({}));
  if (response.status === 401) loggedOut();
  if (!response.ok) throw new ApiError(response.status, reply);
  return reply;
}

/**
 * Returns the events of a run so far.
 *
 * @param {string} run
 * @param {number} last The number of the last event that is known to exist.
 * @returns {Promise<any[]>}
 * @throws {ApiError}
 */
export async function readEvents(run, last) {
  const response = await fetch(`/api/v1/runs/${encodeURIComponent(run)}/events`, { headers: { "steplatch-half": half()?.half ?? "" } });
  if (response.status === 401) loggedOut();
  if (!response.ok || !response.body) throw new ApiError(response.status, await response.json().catch(() => ({})));
  const events = [];
  let text = "";
  const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
  // The stream of a run that has not ended stays open.
  while (events.length < last) {
    const { value, done } = await reader.read();
    if (done) break;
    text += value;
    const lines = text.split("\n");
    text = lines.pop() ?? "";
    for (const line of lines) if (line.startsWith("data:")) events.push(JSON.parse(line.slice(5)));
  }
  await reader.cancel();
  if (events.length < last) throw new ApiError(0, { error: `Only ${events.length} of ${last} events could be read.` });
  return events;
}

/** The requests of `askShared` that are under way, by path. @type {Map<string, Promise<any>>} */
const shared = new Map();

/**
 * As a GET of `ask`; those who request the same address at once share one request.
 *
 * @param {string} path
 * @returns {Promise<any>}
 */
export function askShared(path) {
  const known = shared.get(path);
  if (known) return known;
  const reply = ask("GET", path).finally(() => shared.delete(path));
  shared.set(path, reply);
  return reply;
}
