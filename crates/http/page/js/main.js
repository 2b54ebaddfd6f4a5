// The frame of the page: login, navigation and the view that the address names.

import { ask, whenLoggedOut } from "./api.js";
import { announce, fill, h, icon } from "./dom.js";
import { askOtherTabs, half, logIn, takeTicket, whenLoggedInElsewhere } from "./login.js";
import * as overview from "./overview.js";

/**
 * A view: it fills an element, and returns what ends it.
 * @typedef {{ title: string, show: (into: HTMLElement, parts: string[]) => (() => void) | void }} View
 */

/** The views, by the first part of the address after `#/`. @type {Record<string, View>} */
const VIEWS = {
  "": overview,
};

/** The entries of the navigation: address, name and icon. */
const PLACES = [["", "Overview", "house"]];

const app = /** @type {HTMLElement} */ (document.getElementById("app"));

/** Ends the view that is shown. @type {() => void} */
let leave = () => {};

/** @param {string} [problem] */
function showLogin(problem) {
  leave();
  leave = () => {};
  document.title = "Log in – Steplatch";
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

function showFrame() {
  const links = PLACES.map(([address, name, picture]) =>
    h("li", {}, h("a", { href: `#/${address}`, "data-place": address }, icon(picture ?? ""), h("span", {}, name ?? ""))),
  );
  const main = h("main", { id: "main", tabindex: "-1" });
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
      ),
      main,
    ),
  );
  showView(main);
}

/** @param {HTMLElement} main */
function showView(main) {
  leave();
  const parts = location.hash.replace(/^#\/?/, "").split("/").map(decodeURIComponent);
  const view = VIEWS[parts[0] ?? ""] ?? overview;
  for (const link of app.querySelectorAll("[data-place]")) {
    const isHere = link.getAttribute("data-place") === (parts[0] ?? "");
    if (isHere) link.setAttribute("aria-current", "page");
    else link.removeAttribute("aria-current");
  }
  document.title = `${view.title} – Steplatch`;
  fill(main);
  leave = view.show(main, parts.slice(1)) ?? (() => {});
  announce(view.title);
}

addEventListener("hashchange", () => {
  const ticket = takeTicket();
  if (ticket) {
    start(ticket);
    return;
  }
  const main = document.getElementById("main");
  if (main && half()) showView(main);
});

/** @param {string | null} ticket */
async function start(ticket) {
  if (ticket) {
    const problem = await logIn(ticket);
    if (problem) {
      showLogin(problem);
      return;
    }
  }
  if (half() || (await askOtherTabs())) {
    try {
      await ask("GET", "/page/sessions");
    } catch {
      if (!half()) return;
    }
    showFrame();
  } else {
    showLogin();
  }
}

whenLoggedOut(() => showLogin("The session has ended."));
whenLoggedInElsewhere(() => showFrame());
start(takeTicket());
