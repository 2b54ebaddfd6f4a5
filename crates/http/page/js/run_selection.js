// Selected runs of the list: to cancel them, to run them again, or to delete their records.

import { ask } from "./api.js";
import { fill, h, setText } from "./dom.js";
import { project } from "./project.js";
import { visible } from "./words.js";

/** How long a button waits for the second click, in milliseconds. */
const SURE_TIME = 4000;

/** The states of a run that has not ended. */
const ONGOING = new Set(["running", "waiting"]);

/**
 * The selected runs with the actions on them.
 * @param {() => void} changed Called when the selection has changed.
 * @param {(id: string) => void} deleted Called for each run whose record was deleted.
 */
export function runSelection(changed, deleted) {
  /** The selected runs, by id. @type {Map<string, any>} */
  const selected = new Map();
  const count = h("span", { class: "grow", role: "status" });
  const cancel = h("button", { class: "bad" });
  const again = h("button", {});
  const remove = h("button", { class: "bad" });
  const report = h("p", { class: "problem", role: "alert", hidden: true });
  const clear = h("button", { class: "quiet", onclick: () => empty() }, "Clear");
  const bar = h("div", { class: "card selection", hidden: true }, h("div", { class: "line" }, count, again, cancel, remove, clear), report);

  const ongoing = () => [...selected.values()].filter((run) => ONGOING.has(run.state));
  const ended = () => [...selected.values()].filter((run) => !ONGOING.has(run.state));

  function draw() {
    const isBusy = bar.getAttribute("aria-busy") === "true";
    bar.hidden = selected.size === 0 && report.hidden;
    setText(count, selected.size === 1 ? "1 run selected" : `${selected.size} runs selected`);
    for (const [button, runs, word] of /** @type {[HTMLButtonElement, any[], string][]} */ ([[cancel, ongoing(), "Cancel"], [again, ended(), "Run again"], [remove, ended(), "Delete"]])) {
      button.hidden = runs.length === 0;
      button.disabled = isBusy;
      if (!button.dataset["sure"]) fill(button, runs.length === selected.size ? word : `${word} ${runs.length} of them`);
    }
  }

  function empty() {
    selected.clear();
    report.hidden = true;
    draw();
    changed();
  }

  /**
   * Has a button act at the second click, on each run in turn. What was not done stays selected, with the reason.
   * @param {HTMLButtonElement} button
   * @param {() => any[]} runs
   * @param {(count: string) => string} question
   * @param {(run: any) => Promise<any>} act
   */
  function acts(button, runs, question, act) {
    /** The runs that the question counts: others may be selected before the second click. @type {Set<string>} */
    let asked = new Set();
    button.addEventListener("click", async () => {
      const isSure = Boolean(button.dataset["sure"]);
      const chosen = runs().filter((run) => !isSure || asked.has(run.run_id));
      if (!isSure) {
        asked = new Set(chosen.map((run) => run.run_id));
        button.dataset["sure"] = "asked";
        fill(button, question(chosen.length === 1 ? "1 run" : `${chosen.length} runs`));
        setTimeout(() => {
          delete button.dataset["sure"];
          draw();
        }, SURE_TIME);
        return;
      }
      delete button.dataset["sure"];
      bar.setAttribute("aria-busy", "true");
      report.hidden = true;
      draw();
      /** @type {string[]} */
      const refusals = [];
      for (const run of chosen) {
        try {
          await act(run);
          selected.delete(run.run_id);
        } catch (error) {
          refusals.push(visible(`${run.workflow_id} ${run.run_id}: ${error instanceof Error ? error.message : error}`));
        }
      }
      bar.removeAttribute("aria-busy");
      report.hidden = refusals.length === 0;
      fill(report, `${refusals.length} of ${chosen.length} not done. `, refusals.map((refusal) => h("span", { class: "row" }, refusal)));
      draw();
      changed();
    });
  }

  acts(cancel, ongoing, (runs) => `Cancel ${runs}?`, (run) => ask("POST", `/runs/${encodeURIComponent(run.run_id)}/cancel`));
  acts(again, ended, (runs) => `Run ${runs} again${project() ? ` in ${visible(project())}` : ""}, with the same input?`, (run) => ask("POST", "/runs", { again: { run_id: run.run_id }, wait_seconds: 0 }));
  acts(remove, ended, (runs) => `Delete the record of ${runs}?`, async (run) => {
    await ask("DELETE", `/runs/${encodeURIComponent(run.run_id)}`);
    deleted(run.run_id);
  });

  return {
    bar,
    /** Returns whether a run is selected. @param {string} id */
    has: (id) => selected.has(id),
    /** Selects a run, or does not. @param {any} run @param {boolean} is */
    set: (run, is) => {
      if (is) selected.set(run.run_id, run);
      else selected.delete(run.run_id);
      draw();
    },
    /** Takes over the states of the runs that are listed now. @param {any[]} runs */
    update: (runs) => {
      for (const run of runs) if (selected.has(run.run_id)) selected.set(run.run_id, run);
      draw();
    },
  };
}
