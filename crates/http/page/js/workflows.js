// The library: saved workflows, and one of them with a form to start it.

import { ApiError, ask } from "./api.js";
import { fill, h, icon } from "./dom.js";
import { formFields, formValue } from "./form.js";
import { timeAgo, visible } from "./words.js";

export const title = "Workflows";

/**
 * @param {HTMLElement} into
 * @param {string[]} parts
 */
export function show(into, parts) {
  if (parts[0]) return showOne(into, parts[0]);
  const search = h("input", { type: "search", placeholder: "Name or words", "aria-label": "Name or words" });
  const rows = h("tbody");
  const none = h("p", { class: "hint", hidden: true });
  fill(
    into,
    h("header", { class: "head" }, h("h1", {}, title), search),
    h("div", { class: "card table" }, h("table", {}, h("thead", {}, h("tr", {}, ["Workflow", "Kind", "Runs", "Last run"].map((name) => h("th", { scope: "col" }, name)))), rows), none),
  );
  /** @type {any[]} */
  let all = [];

  function draw() {
    const wanted = search.value.trim().toLowerCase();
    const chosen = all.filter((one) => `${one.name} ${one.description}`.toLowerCase().includes(wanted));
    fill(rows, chosen.map(row));
    none.hidden = chosen.length > 0;
    none.textContent = all.length ? "No workflow matches." : "No workflow is saved. In a terminal: steplatch workflow load FILE";
  }

  search.addEventListener("input", draw);
  ask("GET", "/workflows").then(
    (reply) => {
      all = reply.workflows;
      draw();
    },
    (error) => {
      none.hidden = false;
      none.textContent = error.message;
    },
  );
}

/** @param {any} workflow */
function row(workflow) {
  const last = workflow.last_run ? timeAgo(workflow.last_run, Date.now()) : "never";
  return h(
    "tr",
    {},
    h("td", {}, h("a", { href: `#/workflows/${encodeURIComponent(workflow.name)}` }, visible(workflow.name)), h("span", { class: "hint block" }, visible(workflow.description ?? ""))),
    h("td", {}, workflow.kind),
    h("td", {}, workflow.run_count ? `${workflow.run_count}, ${workflow.success_count} completed` : "0"),
    h("td", { class: "nowrap" }, last),
  );
}

/**
 * @param {HTMLElement} into
 * @param {string} name
 */
function showOne(into, name) {
  const problem = h("p", { class: "problem", role: "alert", hidden: true });
  const body = h("div", { class: "run" });
  fill(into, h("header", { class: "head" }, h("a", { class: "button quiet", href: "#/workflows", "aria-label": "All workflows" }, icon("back")), h("h1", {}, visible(name))), problem, body);

  /** @param {unknown} error */
  const tell = (error) => {
    const reply = error instanceof ApiError ? error.reply : {};
    const more = (reply.validation_errors ?? reply.problems ?? []).map((/** @type {any} */ one) => (typeof one === "string" ? one : (one.message ?? JSON.stringify(one))));
    problem.textContent = [error instanceof Error ? error.message : String(error), ...more].join("\n");
    problem.hidden = false;
  };

  ask("GET", `/workflows/${encodeURIComponent(name)}`).then((workflow) => {
    const isFunction = workflow.kind === "function";
    const fields = formFields(isFunction ? inputSchema(workflow.input_schema) : workflow.input_schema);
    const start = h("button", { class: "primary" }, "Start");
    const form = h("form", {}, fields.length ? fields.map(({ element }) => element) : h("p", { class: "hint" }, "It takes no arguments."), start);
    form.addEventListener("submit", async (event) => {
      event.preventDefault();
      problem.hidden = true;
      start.disabled = true;
      const { input, ...rest } = formValue(fields);
      try {
        const reply = await ask("POST", `/workflows/${encodeURIComponent(name)}/runs`, { input, params: rest });
        location.hash = `#/runs/${encodeURIComponent(reply.run_id)}`;
      } catch (error) {
        tell(error);
        start.disabled = false;
      }
    });
    const source = workflow.source?.text ?? JSON.stringify(workflow.definition, null, 2);
    const problems = (workflow.problems ?? []).map((/** @type {any} */ one) => h("p", { class: "problem" }, visible(typeof one === "string" ? one : `${one.path ?? ""} ${one.message ?? JSON.stringify(one)}`)));
    fill(
      body,
      h("section", { class: "card", "aria-labelledby": "start" }, h("h2", { id: "start" }, "Start"), workflow.description ? h("p", {}, visible(workflow.description)) : null, form),
      h("section", { class: "card", "aria-labelledby": "source" }, h("h2", { id: "source" }, "Definition"), problems, h("p", { class: "hint" }, workflow.file ?? ""), h("pre", { class: "judged source", tabindex: "0", "aria-label": "Definition" }, visible(source ?? ""))),
    );
  }, tell);
}

/** Returns the schema of a function's input, of which only its presence is known. @param {any} schema */
function inputSchema(schema) {
  const { input, ...others } = schema?.properties ?? {};
  return { ...schema, properties: { ...others, ...(input ? { input: { type: "object", ...input, title: "Input, as JSON" } } : {}) } };
}
