// Notifications of the browser: a new question, password or failed run, a bell, and the end of a long command, while no tab of the page
// has the focus.

import { choice } from "./choices.js";
import { h, setText } from "./dom.js";
import { failedRuns, gates, listen, lockedRuns, passwordTerminals } from "./store.js";
import { terminalName, visible } from "./words.js";

/** The key of the choice in the storage of the browser. */
const CHOICE = "steplatch.notify";

/** The maximum length of the text of a notification, in characters. */
const MAX_TEXT_CHARS = 160;

/** The maximum time to wait for another tab that has the focus, in milliseconds. */
const FOCUS_TIME = 150;

/** The occasions of the last lists, by the key of each. @type {Set<string> | null} */
let before = null;

/** Asks the other tabs of this browser for the focus, and answers them. */
const tabs = new BroadcastChannel("steplatch.focus");
tabs.addEventListener("message", ({ data }) => {
  if (data === "asks" && hasFocus()) tabs.postMessage("has");
});

function hasFocus() {
  return !document.hidden && document.hasFocus();
}

/** Returns whether a tab of the page has the focus. @returns {Promise<boolean>} */
function isLookedAt() {
  if (hasFocus()) return Promise.resolve(true);
  return new Promise((found) => {
    /** @param {MessageEvent} message */
    const take = ({ data }) => {
      if (data === "has") end(true);
    };
    /** @param {boolean} is */
    const end = (is) => {
      tabs.removeEventListener("message", take);
      found(is);
    };
    tabs.addEventListener("message", take);
    tabs.postMessage("asks");
    setTimeout(() => end(false), FOCUS_TIME);
  });
}

/** Returns whether the person wants notifications and the browser shows them. */
function isOn() {
  return "Notification" in window && Notification.permission === "granted" && localStorage.getItem(CHOICE) !== "off";
}

/**
 * Returns the occasions of notifications, each with its address.
 * @param {import("./store.js").Lists} lists
 */
function occasions(lists) {
  const locked = lockedRuns(lists).map((run) => ({ key: `locked ${run.run_id}`, title: "A question is locked", text: visible(String(run.workflow_id)), address: "#/inbox" }));
  const asked = gates(lists)
    .filter((gate) => gate.answered_by !== "agent")
    .map((gate) => ({ key: `gate ${gate.gate_id}`, title: `A question of ${visible(String(gate.workflow))}`, text: visible(String(gate.prompt)), address: "#/inbox" }));
  const passwords = passwordTerminals(lists).map((terminal) => ({
    key: `password ${terminal.session_id}`,
    title: "A terminal asks for a password",
    text: terminalName(terminal),
    address: `#/terminals/${encodeURIComponent(terminal.session_id)}`,
  }));
  const agents = lists.terminals.filter((terminal) => terminal.agent_activity === "asks").map((terminal) => ({
    key: `agent ${terminal.session_id}`,
    title: `${visible(terminal.agent)} asks for a decision`,
    text: terminalName(terminal),
    address: `#/terminals/${encodeURIComponent(terminal.session_id)}`,
  }));
  const failed = failedRuns(lists, Date.now(), Infinity).map((run) => ({
    key: `failed ${run.run_id}`,
    title: `${visible(String(run.workflow_id))} failed`,
    text: visible(String(run.error ?? "")),
    address: `#/runs/${encodeURIComponent(run.run_id)}`,
  }));
  return [...locked, ...asked, ...passwords, ...agents, ...failed];
}

/** Times at which terminals became busy, in milliseconds since the Unix epoch. @type {Map<string, number>} */
const busySince = new Map();

/**
 * Returns the occasions of commands that have ended since the last lists and took as long as the person has chosen.
 * @param {import("./store.js").Lists} lists
 * @param {number} now In milliseconds since the Unix epoch.
 */
function endedCommands(lists, now) {
  const minimum = 1000 * Number(choice("commands"));
  const ended = [];
  const open = new Set(lists.terminals.map((terminal) => terminal.session_id));
  for (const id of busySince.keys()) if (!open.has(id)) busySince.delete(id);
  for (const terminal of lists.terminals) {
    const since = busySince.get(terminal.session_id);
    if (terminal.busy) {
      if (since === undefined) busySince.set(terminal.session_id, now);
      continue;
    }
    busySince.delete(terminal.session_id);
    // Only a shell reports the end of a command.
    if (terminal.busy !== false || since === undefined || !(now - since >= minimum)) continue;
    ended.push({ key: `command ${terminal.session_id} ${now}`, title: "A command ended", text: terminalName(terminal), address: `#/terminals/${encodeURIComponent(terminal.session_id)}` });
  }
  return ended;
}

/** Numbers of bells of the terminals in the last lists. @type {Map<string, number> | null} */
let bells = null;

/**
 * Returns the occasions of bells that were rung since the last lists.
 * @param {import("./store.js").Lists} lists
 */
function rungBells(lists) {
  const known = bells;
  bells = new Map(lists.terminals.map((terminal) => [terminal.session_id, terminal.bell_count ?? 0]));
  if (!known || choice("bells") === "off") return [];
  return lists.terminals
    .filter((terminal) => (terminal.bell_count ?? 0) > (known.get(terminal.session_id) ?? 0))
    .map((terminal) => ({ key: `bell ${terminal.session_id} ${terminal.bell_count}`, title: "The bell of a terminal rang", text: terminalName(terminal), address: `#/terminals/${encodeURIComponent(terminal.session_id)}` }));
}

/** Begins to notify. Returns a function that ends it. */
export function followOccasions() {
  return listen((lists) => {
    const now = occasions(lists);
    const fresh = [...now.filter(({ key }) => before && !before.has(key)), ...rungBells(lists), ...endedCommands(lists, Date.now())];
    before = new Set(now.map(({ key }) => key));
    if (fresh.length && isOn()) notify(fresh);
  });
}

/** Shows notifications, unless a person looks at the page. @param {ReturnType<typeof occasions>} fresh */
async function notify(fresh) {
  if (await isLookedAt()) return;
  for (const { key, title, text, address } of fresh) {
    try {
      // The tag makes those of several tabs one.
      const shown = new Notification(title, { body: text.slice(0, MAX_TEXT_CHARS), tag: key });
      shown.addEventListener("click", () => {
        window.focus();
        location.hash = address;
        shown.close();
      });
    } catch {
      // A browser that shows notifications of service workers only, such as Chrome on Android.
      return;
    }
  }
}

/** Returns the button that turns notifications on or off; the browser asks for its permission at a click only. */
export function notifyButton() {
  const button = h("button", { class: "quiet", title: "Questions, passwords, failed runs and bells, while you look at something else" });
  const paint = () => {
    button.hidden = !("Notification" in window);
    if (button.hidden) return;
    button.setAttribute("aria-pressed", String(isOn()));
    setText(button, Notification.permission === "denied" ? "Notifications are blocked by the browser" : isOn() ? "Notifications are on" : "Notify me");
    button.disabled = Notification.permission === "denied";
  };
  button.addEventListener("click", async () => {
    if (isOn()) {
      localStorage.setItem(CHOICE, "off");
    } else {
      localStorage.setItem(CHOICE, "on");
      if (Notification.permission === "default") await Notification.requestPermission();
    }
    paint();
  });
  paint();
  return button;
}
