// The frame of the page: login, navigation and the view that the address names.

import { ask, whenLoggedOut } from "./api.js";
import { announce, fill, h, icon, setText } from "./dom.js";
import * as live from "./live.js";
import { askOtherTabs, half, logIn, takeTickets, whenLoggedInElsewhere } from "./login.js";
import * as gatesView from "./gates.js";
import * as overview from "./overview.js";
import { openPalette } from "./palette.js";
import * as passkey from "./passkey.js";
import * as recording from "./recording.js";
import * as recordings from "./recordings.js";
import * as run from "./run.js";
import * as runs from "./runs.js";
import * as search from "./search.js";
import { follow, gates, listen } from "./store.js";
import * as terminal from "./terminal.js";
import * as terminals from "./terminals.js";
import { showTitle, showWaiting } from "./title.js";
import * as workflows from "./workflows.js";

/**
 * A view: it fills an element, and returns what ends it.
 * @typedef {{ title: string, show: (into: HTMLElement, parts: string[], query: URLSearchParams) => (() => void) | void }} View
 */

/** The views, by the first part of the address after `#/`. @type {Record<string, View>} */
const VIEWS = {
  "": terminals,
  terminals,
  gates: gatesView,
  runs,
  workflows,
  overview,
  passkey,
  recordings,
  search,
};

/** The views of one thing, at the address of its list with its id. @type {Record<string, View>} */
const SINGLE = { terminals: terminal, recordings: recording, runs: run, workflows, search };

/** The entries of the navigation: address, name and icon. */
const PLACES = [
  ["gates", "Gates", "gate"],
  ["terminals", "Terminals", "terminal"],
  ["runs", "Runs", "run"],
  ["workflows", "Workflows", "workflow"],
  ["search", "Search", "search"],
  ["overview", "Overview", "house"],
];

const app = /** @type {HTMLElement} */ (document.getElementById("app"));

/** Ends the view that is shown. @type {() => void} */
let leave = () => {};

/** End what the frame listens to. @type {(() => void)[]} */
let stops = [];

/** @param {string | null} [problem] */
function showLogin(problem) {
  leave();
  leave = () => {};
  showTitle("Log in");
  const command = h("code", { class: "command" }, "steplatch open");
  const copy = h("button", { class: "quiet", onclick: () => navigator.clipboard.writeText("steplatch open") }, icon("copy"), "Copy");
  fill(
    app,
    h(
      "main",
      { id: "main", class: "login" },
      h("h1", {}, "Steplatch"),
      problem ? h("p", { class: "problem", role: "alert" }, problem) : null,
      h("p", {}, "This browser is not logged in. In a terminal of your own, run:"),
      h("p", { class: "commands" }, command, copy),
      h("p", { class: "hint" }, "It opens this page with a ticket that is valid for a minute and works once. On a machine without a browser, ", h("code", { class: "whole" }, "steplatch open --print"), " shows the address."),
    ),
  );
}

/** @param {string | null} [problem] What is wrong with a ticket that this browser did not need. */
function showFrame(problem) {
  const count = h("span", { class: "count", hidden: true });
  for (const stop of stops) stop();
  const stopCounting = listen((lists) => {
    const waiting = gates(lists).length;
    count.hidden = waiting === 0;
    fill(count, String(waiting), h("span", { class: "unseen" }, " open"));
    showWaiting(waiting);
  });
  const links = PLACES.map(([address, name, picture]) =>
    h("li", {}, h("a", { href: `#/${address}`, "data-place": address }, icon(picture ?? ""), h("span", {}, name ?? ""), address === "gates" ? count : null)),
  );
  const main = h("main", { id: "main", tabindex: "-1" });
  const trouble = h("p", { class: "trouble", role: "status", hidden: true });
  const notice = h("p", { class: "problem notice", role: "alert", hidden: !problem }, problem ?? "");
  const onLeave = () => (notice.hidden = true);
  addEventListener("hashchange", onLeave);
  stops = [stopCounting, live.on("link", ({ now }) => showLink(trouble, now)), () => removeEventListener("hashchange", onLeave)];
  live.connect();
  follow();
  fill(
    app,
    h(
      "div",
      { class: "frame" },
      h(
        "nav",
        { class: "rail", "aria-label": "Views" },
        h("a", { class: "brand", href: "#/" }, "Steplatch"),
        h("ul", {}, links),
        h("button", { class: "quiet go", onclick: openPalette, title: "ctrl-k" }, icon("search"), h("span", {}, "Go to…")),
      ),
      h("div", { class: "content" }, trouble, notice, main),
    ),
  );
  showView(main);
}

/**
 * Says what is wrong with the connection, and what can be done.
 * @param {HTMLElement} trouble
 * @param {live.Link} now
 */
function showLink(trouble, now) {
  trouble.hidden = now === "open";
  if (now === "lost") setText(trouble, "The server does not answer; trying again. If it has ended: steplatch open");
  if (now === "away") {
    const start = h("button", { onclick: () => ask("GET", "/status").catch(() => {}) }, "Start it");
    fill(trouble, "The daemon is not running. Terminals that it kept stay open. ", start);
  }
}

/** @param {HTMLElement} main */
function showView(main) {
  leave();
  const [path, query] = location.hash.replace(/^#\/?/, "").split("?", 2);
  const parts = (path ?? "").split("/").map(decodeURIComponent);
  const view = (parts[1] ? SINGLE[parts[0] ?? ""] : VIEWS[parts[0] ?? ""]) ?? terminals;
  for (const link of app.querySelectorAll("[data-place]")) {
    const isHere = link.getAttribute("data-place") === (parts[0] === "recordings" ? "terminals" : parts[0] || "terminals");
    if (isHere) link.setAttribute("aria-current", "page");
    else link.removeAttribute("aria-current");
  }
  showTitle(view.title);
  fill(main);
  leave = view.show(main, parts.slice(1), new URLSearchParams(query)) ?? (() => {});
  announce(view.title);
}

addEventListener("hashchange", () => {
  const tickets = takeTickets();
  if (tickets) {
    start(tickets);
    return;
  }
  const main = document.getElementById("main");
  if (main && half()) showView(main);
});

/** @param {{ login: string, passkey: string | null } | null} tickets */
async function start(tickets) {
  const problem = tickets ? await logIn(tickets.login) : null;
  if (tickets?.passkey && !problem) {
    passkey.setTicket(tickets.passkey);
    history.replaceState(null, "", "#/passkey");
  }
  // A browser that is logged in already goes on without the ticket.
  if (half() || (await askOtherTabs())) {
    try {
      await ask("GET", "/page/sessions");
    } catch {
      if (!half()) {
        if (problem) showLogin(problem);
        return;
      }
    }
    showFrame(problem);
  } else {
    showLogin(problem);
  }
}

whenLoggedOut(() => {
  live.disconnect();
  showLogin("The session has ended.");
});
whenLoggedInElsewhere(() => showFrame());
start(takeTickets());
