// The library: saved workflows, and one of them with a form to start it.

import { ApiError, ask } from "./api.js";
import { shownTime } from "./choices.js";
import { diagram } from "./diagram.js";
import { differenceLines } from "./difference_lines.js";
import { differences, nearby } from "./differences.js";
import { fill, h, icon } from "./dom.js";
import { editor } from "./edit.js";
import { checkFields, formFields, formValue, markRefused } from "./form.js";
import { jsonLines, placed } from "./json_lines.js";
import { chooseProject, knownProjects, project } from "./project.js";
import { TONES } from "./runs.js";
import { timeAgo, visible } from "./words.js";

export const title = "Workflows";

/**
 * @param {HTMLElement} into
 * @param {string[]} parts
 */
export function show(into, parts) {
  if (parts[0]) return showOne(into, parts[0], parts[1]);
  const search = h("input", { type: "search", placeholder: "Name or words", "aria-label": "Name or words" });
  const rows = h("tbody");
  const none = h("p", { class: "hint", hidden: true });
  const places = h("select", { "aria-label": "Project" }, h("option", { value: "" }, "Without a project"), knownProjects().map((path) => h("option", { value: path }, projectLabel(path))));
  places.value = project();
  places.hidden = knownProjects().length === 0;
  fill(
    into,
    h("header", { class: "head" }, h("h1", {}, title), places, search),
    h("div", { class: "card table" }, h("table", {}, h("thead", {}, h("tr", {}, ["Workflow", "Kind", "Runs", "Last run"].map((name) => h("th", { scope: "col" }, name)))), rows), none),
  );
  /** @type {any[]} */
  let all = [];

  function draw() {
    const wanted = search.value.trim().toLowerCase();
    const chosen = all.filter((one) => `${one.name} ${one.description}`.toLowerCase().includes(wanted));
    fill(rows, chosen.map(row));
    none.hidden = chosen.length > 0;
    none.textContent = all.length ? "No workflow matches." : `No workflow is saved${project() ? " in this project, nor in your library" : " in your library; 'steplatch open' in a project shows its own"}. Save one in a terminal: steplatch workflow load FILE`;
  }

  function load() {
    const asked = project();
    ask("GET", "/workflows").then(
      (reply) => {
        // Another project may be chosen by now.
        if (asked !== project()) return;
        all = reply.workflows;
        draw();
      },
      (error) => {
        all = [];
        draw();
        none.textContent = error.message;
      },
    );
  }

  search.addEventListener("input", draw);
  places.addEventListener("change", () => {
    chooseProject(places.value);
    load();
  });
  load();
}

/** Returns the name of a project's directory, and the directory. @param {string} path */
function projectLabel(path) {
  const name = path.split("/").filter(Boolean).at(-1) ?? path;
  return visible(`${name} (${path})`);
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
 * @param {string} [from] A run whose input is filled in.
 */
function showOne(into, name, from) {
  const problem = h("p", { class: "problem", role: "alert", hidden: true });
  const saved = h("p", { class: "hint", role: "status", hidden: true });
  const body = h("div", { class: "run" });
  const drawn = h("div", { class: "drawn", tabindex: "0", role: "group", "aria-label": "Diagram" });
  const drawnCard = h("section", { class: "card", hidden: true, "aria-labelledby": "diagram" }, h("h2", { id: "diagram" }, "Diagram"), drawn);
  const changed = h("section", { class: "card", hidden: true, "aria-labelledby": "changed" });
  fill(into, h("header", { class: "head" }, h("a", { class: "button quiet", href: "#/workflows", "aria-label": "All workflows" }, icon("back")), h("h1", {}, visible(name))), problem, saved, body, drawnCard, changed);

  /** @param {string} words @param {HTMLElement} [at] Where it is said; above, unless the form says it. */
  const tell = (words, at = problem) => {
    at.textContent = visible(words);
    at.hidden = false;
  };

  load().catch((error) => tell(error instanceof ApiError && error.status === 404 ? `No workflow is saved as ${name}. The arrow above leads to those that are.` : wordsOf(error)));

  async function load() {
    const earlier = from ? (await ask("GET", `/runs/${encodeURIComponent(from)}/record`)).run : null;
    let workflow;
    try {
      workflow = await ask("GET", `/workflows/${encodeURIComponent(name)}`);
    } catch (error) {
      if (!earlier) throw error;
      // The definition of the run is not saved, so that the new run uses the same definition.
      const { definition } = await ask("GET", "/diagram", { run_id: earlier.run_id });
      workflow = { kind: "machine", definition, input_schema: textSchema(earlier.input), isUnsaved: true };
    }
    showWorkflow(workflow, earlier);
    if (workflow.kind !== "machine") return;
    const picture = await ask("GET", "/diagram", workflow.isUnsaved ? { run_id: earlier.run_id } : { name }).catch(() => null);
    const made = picture && diagram(picture.svg);
    if (!made) return;
    made.element.setAttribute("aria-label", "Diagram of the states");
    fill(drawn, made.element);
    drawnCard.hidden = false;
  }

  /** @param {any} workflow @param {any} earlier */
  function showWorkflow(workflow, earlier) {
    const isFunction = workflow.kind === "function";
    const schema = isFunction ? inputSchema(workflow.input_schema) : (workflow.input_schema ?? {});
    const fields = formFields(earlier ? withValues(schema, { ...earlier.params, ...(isFunction ? { input: earlier.input } : earlier.input) }) : schema);
    const start = h("button", { class: "primary" }, earlier ? "Start again" : "Start");
    const refused = h("p", { class: "problem", role: "alert", hidden: true });
    const form = h(
      "form",
      { novalidate: true },
      earlier ? h("p", { class: "hint" }, "Filled in from ", h("a", { href: `#/runs/${encodeURIComponent(earlier.run_id)}` }, earlier.run_id), ". Secrets are not: they are shown as dots, and have to be typed.") : null,
      fields.length ? fields.map(({ element }) => element) : h("p", { class: "hint" }, "It takes no arguments."),
      h("p", {}, start),
      refused,
    );
    let isStarting = false;
    form.addEventListener("submit", async (event) => {
      event.preventDefault();
      if (isStarting) return;
      refused.hidden = true;
      if (!checkFields(fields)) {
        tell("Not started: see the fields that are marked.", refused);
        return;
      }
      isStarting = true;
      const { input, ...rest } = formValue(fields);
      try {
        const reply = workflow.isUnsaved
          ? await ask("POST", "/runs", { workflow_definition: workflow.definition, initial_variables: texts({ ...rest, ...(input === undefined ? {} : { input }) }), wait_seconds: 0, save_on_success: false })
          : await ask("POST", `/workflows/${encodeURIComponent(name)}/runs`, { input, params: rest });
        location.hash = `#/runs/${encodeURIComponent(reply.run_id)}`;
      } catch (error) {
        tell(wordsOf(error), refused);
        markRefused(fields, wordsOf(error));
      } finally {
        isStarting = false;
      }
    });
    fill(
      body,
      h("div", {}, h("section", { class: "card", "aria-labelledby": "start" }, h("h2", { id: "start" }, "Start"), workflow.description ? h("p", {}, visible(workflow.description)) : null, form), lastRuns(workflow)),
      definitionCard(workflow),
    );
  }

  /** @param {any} workflow */
  function definitionCard(workflow) {
    const text = source(workflow);
    const edit = h("button", { class: "quiet" }, "Edit");
    // A function is in a file, and an unsaved definition belongs to its run.
    edit.hidden = workflow.kind !== "machine" || workflow.isUnsaved === true;
    const card = h("section", { class: "card", "aria-labelledby": "source" }, h("header", { class: "head" }, h("h2", { id: "source", class: "grow" }, "Definition"), edit), h("p", { class: "hint" }, workflow.file ?? ""), text);
    edit.addEventListener("click", () => {
      edit.hidden = true;
      const form = editor(name, workflow.definition, (outcome) => {
        load().then(() => outcome && tell(outcome, saved), (error) => tell(wordsOf(error)));
      });
      text.replaceWith(form);
      form.querySelector("textarea")?.focus();
    });
    return card;
  }

  /** @param {any} workflow */
  function lastRuns(workflow) {
    const rows = h("tbody");
    const card = h("section", { class: "card", "aria-labelledby": "last" }, h("h2", { id: "last" }, "Last runs"), h("table", {}, rows));
    card.hidden = true;
    ask("GET", "/runs", { workflow_id: name, limit: 8 }).then(async ({ runs }) => {
      card.hidden = runs.length === 0;
      fill(
        rows,
        runs.map((/** @type {any} */ run) =>
          h("tr", {}, h("td", {}, h("span", { class: "chip", "data-tone": TONES[run.state] ?? "soft" }, run.state)), h("td", {}, h("a", { href: `#/runs/${encodeURIComponent(run.run_id)}` }, run.run_id)), h("td", { class: "nowrap" }, timeAgo(run.started_at, Date.now()))),
        ),
      );
      if (workflow.definition && !workflow.isUnsaved) await showChanges(runs[0] ?? null, workflow);
    }, () => {});
    return card;
  }

  /**
   * Shows the versions, and the difference of the definition from one of them; from the previous one by default.
   * @param {any} run The last run, if there is one.
   * @param {any} workflow
   */
  async function showChanges(run, workflow) {
    const { versions } = await ask("GET", `/workflows/${encodeURIComponent(name)}/versions`).catch(() => ({ versions: [] }));
    /** @type {{ name: string, definition: () => Promise<any> }[]} */
    const others = versions
      .filter((/** @type {any} */ one) => !one.is_current)
      .map((/** @type {any} */ one) => ({ name: `version ${one.version}`, definition: () => ask("GET", `/workflows/${encodeURIComponent(`${name}@${one.version}`)}`).then((reply) => reply.definition) }));
    if (run) others.push({ name: "its last run", definition: () => ask("GET", "/diagram", { run_id: run.run_id }).then((reply) => reply.definition) });
    const [first] = others;
    if (!first) return;
    const lines = h("pre", { class: "judged difference", tabindex: "0", "aria-label": "What changed" });
    const title = h("h2", { id: "changed" });
    const choice = h("select", {}, others.map((one) => h("option", { value: one.name }, one.name)));
    /** @param {{ name: string, definition: () => Promise<any> }} other */
    const compare = async (other) => {
      const before = await other.definition().catch(() => null);
      const [one, now] = [before, workflow.definition].map((value) => visible(JSON.stringify(value, null, 2) ?? ""));
      const found = before && one !== undefined && now !== undefined ? nearby(differences(one, now), 3) : [];
      title.textContent = `Changed since ${other.name}`;
      fill(lines, found.length === 0 || one === now ? "Nothing differs." : differenceLines(found));
      return one !== now;
    };
    choice.addEventListener("change", () => compare(others.find((one) => one.name === choice.value) ?? first));
    if (!(await compare(first)) && others.length === 1) return;
    changed.hidden = false;
    const rows = versions.map((/** @type {any} */ one) =>
      h(
        "tr",
        {},
        h("td", { class: "nowrap" }, `version ${one.version}`, one.is_current ? h("span", { class: "chip" }, "now") : null),
        h("td", { class: "nowrap" }, one.saved_at ? h("time", { datetime: one.saved_at, title: shownTime(one.saved_at, Date.now()) }, timeAgo(one.saved_at, Date.now())) : "edited by hand, or older"),
        h("td", {}, visible([one.by, one.through].filter(Boolean).join(" by "))),
        h("td", {}, visible(one.reason ?? "")),
      ),
    );
    fill(
      changed,
      title,
      others.length > 1 ? h("p", {}, h("label", { class: "field" }, h("span", { class: "field-name" }, "Compared with"), choice)) : null,
      lines,
      versions.length > 1 ? h("table", { class: "versions", "aria-label": "Versions" }, h("tbody", {}, rows)) : null,
    );
  }
}

/**
 * Returns the source of a workflow, with its problems at their places.
 * @param {any} workflow
 */
function source(workflow) {
  /** @type {string[]} */
  const problems = workflow.problems ?? [];
  const text = workflow.source?.text;
  const lines = text === undefined ? jsonLines(workflow.definition ?? {}) : String(text).split("\n").map((line) => ({ pointer: "", text: line }));
  const found = text === undefined ? placed(lines, problems) : problems.map((words) => ({ line: Number(/\bline (\d+)/.exec(words)?.[1] ?? 1) - 1, words }));
  return h(
    "pre",
    { class: "judged source", tabindex: "0", "aria-label": "Definition" },
    lines.flatMap((line, index) => [
      h("span", { class: "text-line numbered", "data-line": index + 1 }, `${visible(line.text)}\n`),
      ...found.filter((one) => one.line === index).map(({ words }) => h("span", { class: "text-line mistake" }, `${visible(words)}\n`)),
    ]),
  );
}

/** Returns what an error says, and all that is wrong with the workflow or its input. @param {unknown} error */
function wordsOf(error) {
  const reply = error instanceof ApiError ? error.reply : {};
  const more = (reply.validation_errors ?? reply.problems ?? []).map((/** @type {any} */ one) => (typeof one === "string" ? one : (one.message ?? JSON.stringify(one))));
  return [error instanceof Error ? error.message : String(error), ...more].join("\n");
}

/**
 * Returns a schema whose fields begin with values. Pure.
 * @param {any} schema
 * @param {Record<string, unknown>} values
 */
export function withValues(schema, values) {
  const properties = Object.entries(schema.properties ?? {}).map(([name, property]) => {
    const value = Object.hasOwn(values, name) ? values[name] : undefined;
    const isHidden = (JSON.stringify(value) ?? "").includes("•");
    return [name, value === undefined || value === null || isHidden ? property : { .../** @type {any} */ (property), default: value }];
  });
  return { ...schema, properties: Object.fromEntries(properties) };
}

/** Returns the schema of variables of a definition that says nothing of them. @param {any} input */
function textSchema(input) {
  return { properties: Object.fromEntries(Object.keys(input ?? {}).map((name) => [name, { type: "string" }])) };
}

/** @param {Record<string, unknown>} values */
function texts(values) {
  return Object.fromEntries(Object.entries(values).map(([name, value]) => [name, typeof value === "string" ? value : JSON.stringify(value)]));
}

/** Returns the schema of a function's input, of which only its presence is known. @param {any} schema */
function inputSchema(schema) {
  const { input, ...others } = schema?.properties ?? {};
  return { ...schema, properties: { ...others, ...(input ? { input: { type: "object", ...input, title: "Input, as JSON" } } : {}) } };
}
