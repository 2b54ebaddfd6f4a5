// The login of this browser: the exchange of a ticket, and the half of the session that belongs to the origin.
//
// The half is in `sessionStorage`, which no other port of the host can read. A new tab has none, and asks the other tabs
// of the origin for theirs.

import { projectPath } from "./project.js";

/**
 * The half of a session that the page keeps.
 * @typedef {{ session_id: string, half: string, terminal?: string | null }} Half The only terminal that it may see, of a read-only link.
 */

const KEY = "steplatch";

/** How long other tabs may take to answer, in milliseconds. */
const ANSWER_TIME = 300;

const tabs = new BroadcastChannel("steplatch");

/** @type {Half | null} */
let current = stored();

/** @returns {Half | null} */
function stored() {
  try {
    const found = JSON.parse(sessionStorage.getItem(KEY) ?? "null");
    return typeof found?.half === "string" ? found : null;
  } catch {
    return null;
  }
}

/** @param {Half | null} half */
function keep(half) {
  current = half;
  if (half) sessionStorage.setItem(KEY, JSON.stringify(half));
  else sessionStorage.removeItem(KEY);
}

/** Returns the half, if this browser is logged in. @returns {Half | null} */
export function half() {
  return current;
}

/** Forgets the half: the session has ended. */
export function forget() {
  keep(null);
}

/**
 * Takes the tickets out of the address, that of the login and that of a passkey, and the project. The browser's history keeps an address that was
 * visited, so that a ticket may come again.
 * @returns {{ login: string, passkey: string | null, project: string } | null}
 */
export function takeTickets() {
  const found = /^#ticket=([\w-]+)(?:&passkey=([\w-]+))?(?:&project=([\w-]+))?$/.exec(location.hash);
  if (!found) return null;
  history.replaceState(null, "", location.pathname);
  return { login: found[1] ?? "", passkey: found[2] ?? null, project: projectPath(found[3] ?? "") };
}

/** Takes the ticket of a read-only link out of the address. @returns {string | null} */
export function takeShare() {
  const found = /^#share=([\w-]+)$/.exec(location.hash);
  if (!found) return null;
  history.replaceState(null, "", location.pathname);
  return found[1] ?? null;
}

/**
 * Exchanges a ticket for a session.
 * @param {string} ticket
 * @returns {Promise<string | null>} What is wrong, if anything is.
 */
export async function logIn(ticket) {
  let response;
  try {
    response = await fetch("/page/session", {
      method: "POST",
      headers: { "content-type": "application/json" },
      body: JSON.stringify({ ticket }),
    });
  } catch {
    return "The server does not answer. Start it with: steplatch open";
  }
  const reply = await response.json().catch(() => ({}));
  if (!response.ok) return String(reply.error ?? "The login failed.");
  keep({ session_id: String(reply.session_id), half: String(reply.half), terminal: reply.terminal ?? null });
  // A read-only link belongs to its tab: others may have or get a whole session.
  if (!current?.terminal) tabs.postMessage({ half: current });
  return null;
}

/**
 * Finds a session of this browser, also in its other tabs. A server that does not answer ends no session.
 * @returns {Promise<"none" | "valid" | "ended">}
 */
export async function ownSession() {
  if (!current && !(await askOtherTabs())) return "none";
  const response = await fetch("/api/v1/page/sessions", { headers: { "steplatch-half": current?.half ?? "" } }).catch(() => null);
  if (response?.status !== 401) return "valid";
  forget();
  return "ended";
}

/** Asks the other tabs for the half. @returns {Promise<Half | null>} */
export async function askOtherTabs() {
  tabs.postMessage({ wanted: true });
  return new Promise((resolve) => {
    const giveUp = setTimeout(() => resolve(null), ANSWER_TIME);
    received = (half) => {
      clearTimeout(giveUp);
      resolve(half);
    };
  });
}

/** @type {(half: Half) => void} */
let received = () => {};

/** Called when another tab has logged in. @type {() => void} */
let onLogin = () => {};

/** @param {() => void} listener */
export function whenLoggedInElsewhere(listener) {
  onLogin = listener;
}

tabs.addEventListener("message", ({ data }) => {
  if (data?.wanted && current && !current.terminal) tabs.postMessage({ half: current });
  if (typeof data?.half?.half === "string" && !current) {
    keep(data.half);
    received(data.half);
    onLogin();
  }
});
