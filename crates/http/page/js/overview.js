// The overview: the runs of the last day, the daemon, and the browsers that are logged in.

import { ask } from "./api.js";
import { fill, h, icon } from "./dom.js";
import { forget, half } from "./login.js";
import { PERIODS } from "./run_filter.js";
import { browserName, timeAgo, visible } from "./words.js";

export const title = "Overview";

/** The states that are counted, with their labels. Runs that wait are counted at any age. */
const STATES = [["failed", "Failed"], ["completed", "Completed"], ["cancelled", "Cancelled"], ["waiting", "Waiting for an answer"]];

/** The maximum number of runs that are counted. */
const MAX_RUNS = 200;

/** @param {HTMLElement} into */
export function show(into) {
  const day = h("dl", { class: "facts" });
  const status = h("dl", { class: "facts" });
  const machines = h("tbody");
  const machineCard = h("section", { class: "card", "aria-labelledby": "machines", hidden: true }, h("h2", { id: "machines" }, "Machines"), h("table", {}, h("thead", {}, h("tr", {}, ["Machine", "State", "Terminals"].map((name) => h("th", { scope: "col" }, name)))), machines));
  const sessions = h("tbody");
  const problem = h("p", { class: "problem", role: "alert", hidden: true });
  fill(
    into,
    h("header", { class: "head" }, h("h1", { class: "grow" }, title), h("a", { class: "button quiet", href: "#/settings" }, icon("settings"), "Settings")),
    problem,
    h("section", { class: "card", "aria-labelledby": "day" }, h("h2", { id: "day" }, "Last day"), day),
    h("section", { class: "card", "aria-labelledby": "daemon" }, h("h2", { id: "daemon" }, "Daemon"), status),
    machineCard,
    h(
      "section",
      { class: "card", "aria-labelledby": "browsers" },
      h("h2", { id: "browsers" }, "Browsers that are logged in"),
      h(
        "table",
        {},
        h("thead", {}, h("tr", {}, ["Browser", "Logged in", "Last used"].map((name) => h("th", { scope: "col" }, name)), h("td"))),
        sessions,
      ),
    ),
  );
  let over = false;

  async function load() {
    try {
      const since = new Date(Date.now() - Number(PERIODS["24h"])).toISOString();
      const runs = (/** @type {string} */ state) => ask("GET", "/runs", { state, limit: MAX_RUNS, ...(state === "waiting" ? {} : { since }) });
      const [daemon, page, others, ...counted] = await Promise.all([ask("GET", "/status"), ask("GET", "/page/sessions"), ask("GET", "/hosts"), ...STATES.map(([state]) => runs(state ?? ""))]);
      if (over) return;
      problem.hidden = true;
      showDaemon(daemon);
      fill(day, STATES.flatMap(([state, label], at) => [h("dt", {}, label ?? ""), h("dd", {}, count(state ?? "", counted[at].runs.length))]));
      fill(sessions, page.sessions.map(row));
      fill(machines, (others.hosts ?? []).map(machine));
      machineCard.hidden = !others.hosts?.length;
    } catch (error) {
      if (over) return;
      problem.textContent = error instanceof Error ? error.message : String(error);
      problem.hidden = false;
    }
  }

  /** Shows a number of runs, as the link to them. @param {string} state @param {number} runs */
  function count(state, runs) {
    const period = state === "waiting" ? "" : "&since=24h";
    return runs === 0 ? "none" : h("a", { href: `#/runs?state=${state}${period}` }, runs < MAX_RUNS ? String(runs) : `${runs} or more`);
  }

  /** @param {any} daemon */
  function showDaemon(daemon) {
    const facts = [
      ["Version", daemon.version],
      ["State directory", daemon.state_dir],
      ["Terminals", daemon.terminals],
      ["Runs in progress", daemon.runs],
      ...(daemon.hosts ?? []).filter((/** @type {any} */ host) => host.advice).map(hostFact),
    ];
    fill(status, facts.flatMap(([name, value]) => [h("dt", {}, name), h("dd", {}, String(value))]));
  }

  /** A terminal host that is not as this daemon, with what to do. @param {any} host */
  function hostFact(host) {
    const version = host.version ? `version ${host.version}, ` : "";
    const open = host.terminals === 1 ? "1 terminal" : `${host.terminals} terminals`;
    return ["Terminal host", `${version}pid ${host.pid}, ${open}; ${host.advice}`];
  }

  /** @param {any} host */
  function machine(host) {
    const tone = { connected: "good", connecting: "busy", lost: "bad" }[String(host.state)] ?? "soft";
    return h("tr", {}, h("td", {}, visible(host.name)), h("td", {}, h("span", { class: "chip", "data-tone": tone }, host.state), host.error ? h("span", { class: "hint block" }, visible(host.error)) : null), h("td", {}, String(host.terminals ?? 0)));
  }

  /** @param {any} session */
  function row(session) {
    const own = session.session_id === half()?.session_id;
    const end = async () => {
      try {
        await ask("DELETE", "/page/sessions", { session_id: session.session_id });
        if (own) forget();
        await load();
      } catch (error) {
        problem.textContent = error instanceof Error ? error.message : String(error);
        problem.hidden = false;
      }
    };
    return h(
      "tr",
      {},
      h("td", { title: session.browser }, browserName(session.browser), own ? h("span", { class: "tag" }, "this one") : null),
      h("td", {}, h("time", { datetime: session.began }, timeAgo(session.began, Date.now()))),
      h("td", {}, h("time", { datetime: session.used }, timeAgo(session.used, Date.now()))),
      h("td", { class: "actions" }, h("button", { onclick: end, title: `Ends the session ${session.session_id}` }, own ? "Log out" : "End")),
    );
  }

  load();
  return () => {
    over = true;
  };
}
