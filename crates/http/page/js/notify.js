// Notifications of the browser: a question or a password that begins to wait, a run that failed, while no tab of the page is looked at.

import { h, setText } from "./dom.js";
import { failedRuns, gates, listen, lockedRuns, passwordTerminals } from "./store.js";
import { terminalName, visible } from "./words.js";

/** The key of the choice in the storage of the browser. */
const CHOICE = "steplatch.notify";

/** How long the text of a notification is at most, in characters. */
const LONGEST_TEXT = 160;

/** What was there when the lists came last, by the key of each. @type {Set<string> | null} */
let before = null;

/** Returns whether the person wants notifications and the browser shows them. */
function isOn() {
  return "Notification" in window && Notification.permission === "granted" && localStorage.getItem(CHOICE) !== "off";
}

/**
 * Returns what a person may be told of, with the address of each.
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
  const failed = failedRuns(lists, Date.now()).map((run) => ({
    key: `failed ${run.run_id}`,
    title: `${visible(String(run.workflow_id))} failed`,
    text: visible(String(run.error ?? "")),
    address: `#/runs/${encodeURIComponent(run.run_id)}`,
  }));
  return [...locked, ...asked, ...passwords, ...failed];
}

/** Begins to notify. Returns what ends it. */
export function followOccasions() {
  return listen((lists) => {
    const now = occasions(lists);
    const fresh = now.filter(({ key }) => before && !before.has(key));
    before = new Set(now.map(({ key }) => key));
    // A person who looks at the page sees it there.
    if (!isOn() || (!document.hidden && document.hasFocus())) return;
    for (const { key, title, text, address } of fresh) {
      // Several tabs show one notification: the tag makes it the same.
      const shown = new Notification(title, { body: text.slice(0, LONGEST_TEXT), tag: key });
      shown.addEventListener("click", () => {
        window.focus();
        location.hash = address;
        shown.close();
      });
    }
  });
}

/** Returns the button that turns notifications on or off; the browser asks for its permission at a click only. */
export function notifyButton() {
  const button = h("button", { class: "quiet", title: "Questions, passwords and failed runs, while you look at something else" });
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
