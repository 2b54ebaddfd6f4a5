// The frame of the page: login, navigation and the view that the address names.

import { ask, whenLoggedOut } from "./api.js";
import { announce, fill, h, icon, setText } from "./dom.js";
import * as live from "./live.js";
import { half, logIn, ownSession, takeShare, takeTickets, whenLoggedInElsewhere } from "./login.js";
import { followChoices } from "./choices.js";
import * as inbox from "./inbox.js";
import * as overview from "./overview.js";
import { openPalette } from "./palette.js";
import { followOccasions } from "./notify.js";
import * as passkey from "./passkey.js";
import { forgetPassphrase } from "./remembered.js";
import { chooseProject, knownProjects } from "./project.js";
import { visible } from "./words.js";
import * as recording from "./recording.js";
import * as recordings from "./recordings.js";
import * as run from "./run.js";
import * as runs from "./runs.js";
import * as search from "./search.js";
import * as settings from "./settings.js";
import { follow, listen, waitingForPeople } from "./store.js";
import * as terminal from "./terminal.js";
import * as terminals from "./terminals.js";
import { showTitle, showWaiting } from "./title.js";
import * as workflows from "./workflows.js";

/**
 * A view: it fills an element, and returns a function that ends it.
 * @typedef {{ title: string, show: (into: HTMLElement, parts: string[], query: URLSearchParams) => (() => void) | void }} View
 */

/** The views, by the first part of the address after `#/`. @type {Map<string, View>} */
const VIEWS = new Map(Object.entries({
  "": inbox,
  inbox,
  gates: inbox,
  terminals,
  runs,
  workflows,
  overview,
  passkey,
  recordings,
  search,
  settings,
}));

/** The views of one thing, at the address of its list with its id. @type {Map<string, View>} */
const SINGLE = new Map(Object.entries({ terminals: terminal, recordings: recording, runs: run, workflows, search }));

/** The view at an address that names nothing. @type {View} */
const NO_PAGE = {
  title: "No such page",
  show: (into) => fill(into, h("h1", {}, NO_PAGE.title), h("p", {}, "Nothing is at this address."), h("p", {}, h("a", { href: "#/" }, "To the inbox"))),
};

/** The entries of the navigation: address, name and icon. */
const PLACES = [
  ["inbox", "Inbox", "gate"],
  ["terminals", "Terminals", "terminal"],
  ["runs", "Runs", "run"],
  ["workflows", "Workflows", "workflow"],
  ["search", "Search", "search"],
  ["overview", "Overview", "house"],
];

/** The entries of the navigation that other addresses belong to. @type {Map<string, string>} */
const PLACE_OF = new Map(Object.entries({ "": "inbox", gates: "inbox", recordings: "terminals" }));

const app = /** @type {HTMLElement} */ (document.getElementById("app"));

/** Ends the view that is shown. @type {() => void} */
let leave = () => {};

/** End what the frame listens to. @type {(() => void)[]} */
let stops = [];

/** Whether the tab shows, or showed last, the terminal of a read-only link. */
let isLink = false;

/** @param {string | null} [problem] */
function showLogin(problem) {
  leave();
  leave = () => {};
  if (isLink) {
    showTitle("Link");
    fill(app, h("main", { id: "main", class: "login" }, h("h1", {}, "Steplatch"), h("p", { class: "problem", role: "alert" }, LINK_ENDED)));
    return;
  }
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

/** Shows the terminal of a read-only link, and nothing else. @param {string} id */
function showShared(id) {
  isLink = true;
  for (const stop of stops) stop();
  leave();
  const main = h("main", { id: "main", tabindex: "-1" });
  const trouble = h("p", { class: "trouble", role: "status", hidden: true });
  stops = [live.on("link", ({ now }) => showLink(trouble, now))];
  live.connect();
  follow();
  fill(app, h("div", { class: "content" }, trouble, main));
  leave = terminal.show(main, [id], true);
}

function showFrame() {
  const shared = half()?.terminal;
  if (shared) {
    showShared(shared);
    return;
  }
  isLink = false;
  const count = h("span", { class: "count", hidden: true });
  for (const stop of stops) stop();
  const stopCounting = listen((lists) => {
    const waiting = waitingForPeople(lists);
    count.hidden = waiting === 0;
    fill(count, String(waiting), h("span", { class: "unseen" }, " open"));
    showWaiting(waiting);
  });
  const links = PLACES.map(([address, name, picture]) =>
    h("li", {}, h("a", { href: `#/${address}`, "data-place": address }, icon(picture ?? ""), h("span", {}, name ?? ""), address === "inbox" ? count : null)),
  );
  const main = h("main", { id: "main", tabindex: "-1" });
  const trouble = h("p", { class: "trouble", role: "status", hidden: true });
  stops = [stopCounting, followOccasions(), live.on("link", ({ now }) => showLink(trouble, now))];
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
        h("a", { class: "settings-link", href: "#/settings", "data-place": "settings" }, icon("settings"), h("span", {}, "Settings")),
        h("button", { class: "quiet go", onclick: openPalette, title: "ctrl-k" }, icon("search"), h("span", {}, "Go to…")),
      ),
      h("div", { class: "content" }, trouble, main),
    ),
  );
  showView(main);
}

/**
 * Shows the problem of the connection, and its remedy.
 * @param {HTMLElement} trouble
 * @param {live.Link} now
 */
function showLink(trouble, now) {
  trouble.hidden = now === "open";
  if (now === "lost") setText(trouble, "The server does not answer; trying again. If it has ended: steplatch open");
  if (now === "away") {
    const start = h("button", { onclick: () => ask("GET", "/status").catch(() => {}) }, "Start it");
    fill(trouble, "The daemon is not running. Its terminals are open only if it was stopped with --keep-terminals, or was killed. ", start);
  }
}

/** Returns the parts of an address, or null if it is malformed. @param {string} path */
function partsOf(path) {
  try {
    return path.split("/").map(decodeURIComponent);
  } catch {
    return null;
  }
}

/** @param {HTMLElement} main */
function showView(main) {
  leave();
  const [path, query] = location.hash.replace(/^#\/?/, "").split("?", 2);
  const [place = "", ...parts] = partsOf(path ?? "") ?? ["?"];
  const view = (parts[0] ? SINGLE : VIEWS).get(place) ?? NO_PAGE;
  for (const link of app.querySelectorAll("[data-place]")) {
    const isHere = view !== NO_PAGE && link.getAttribute("data-place") === (PLACE_OF.get(place) ?? place);
    if (isHere) link.setAttribute("aria-current", "page");
    else link.removeAttribute("aria-current");
  }
  showTitle(view.title);
  fill(main);
  leave = view.show(main, parts, new URLSearchParams(query)) ?? (() => {});
  announce(view.title);
}

// The address names the view, so that the link to the content leaves it as it is.
document.querySelector(".skip")?.addEventListener("click", (event) => {
  event.preventDefault();
  document.getElementById("main")?.focus();
});

addEventListener("hashchange", () => {
  const tickets = takeTickets();
  if (tickets || location.hash.startsWith("#share=")) {
    start(tickets);
    return;
  }
  const main = document.getElementById("main");
  if (main && half() && !half()?.terminal) showView(main);
});

/**
 * Shows the page, or the login. A ticket is used only where there is no session: one that comes again, as from the browser's history,
 * would end the session that it began.
 * @param {{ login: string, passkey: string | null, project: string } | null} tickets
 */
async function start(tickets) {
  const share = takeShare();
  const session = await ownSession();
  let problem = session === "ended" ? ENDED : null;
  // The server will close the socket of the ended session, which does not affect the next one.
  if (problem) live.disconnect();
  const isWhole = session === "valid" && !half()?.terminal;
  // The socket belongs to the session of an earlier link.
  if ((tickets || share) && !isWhole) live.disconnect();
  if (tickets && !isWhole) problem = await logIn(tickets.login);
  // Any page may lead here. A ticket that was accepted shows that the person called `steplatch open` in the directory.
  const hasLoggedIn = Boolean(tickets) && !isWhole && !problem;
  if (tickets?.project && (hasLoggedIn || (isWhole && (await isWantedProject(tickets.project))))) chooseProject(tickets.project);
  // A link in the tab of a whole session would take it away.
  if (share && !isWhole && (await logIn(share))) problem = LINK_ENDED;
  if (tickets?.passkey && half()) {
    passkey.setTicket(tickets.passkey);
    history.replaceState(null, "", "#/passkey");
  }
  if (half()) showFrame();
  else showLogin(problem);
}

/**
 * Returns whether the person wants the project of an address whose ticket proves nothing: asks, unless this browser knows it.
 * @param {string} path
 * @returns {Promise<boolean>}
 */
function isWantedProject(path) {
  if (knownProjects().includes(path)) return Promise.resolve(true);
  return new Promise((answer) => {
    const dialog = h("dialog", { "aria-labelledby": "project-question" });
    const end = (/** @type {boolean} */ isWanted) => {
      dialog.remove();
      answer(isWanted);
    };
    fill(
      dialog,
      h("h2", { id: "project-question" }, "Show another project?"),
      h("p", {}, "A link leads to ", h("code", { class: "whole" }, visible(path)), ". Its workflows run with your rights; show it if you called ", h("code", {}, "steplatch open"), " there."),
      h("p", { class: "line" }, h("button", { class: "primary", onclick: () => end(true) }, "Show it"), h("button", { onclick: () => end(false) }, "Stay here")),
    );
    dialog.addEventListener("cancel", () => end(false));
    document.body.append(dialog);
    dialog.showModal();
  });
}

/** The words for a link that leads nowhere. */
const LINK_ENDED = "This link has expired or was ended; ask for another one.";

/** The words for a session that was ended, or not used for long. */
const ENDED = "The session has ended.";

followChoices();
whenLoggedOut(() => {
  live.disconnect();
  forgetPassphrase();
  showLogin(ENDED);
});
whenLoggedInElsewhere(() => showFrame());
start(takeTickets());
