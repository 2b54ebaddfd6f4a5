// One run: what it did as a timeline of steps, the input and output of each, and what can be done with it.

import { ask } from "./api.js";
import { showBeside } from "./compare.js";
import { diagram, showProgress } from "./diagram.js";
import { fill, h, icon, setText } from "./dom.js";
import { LongList } from "./long_list.js";
import { keep, on } from "./live.js";
import { recordingOf } from "./marks.js";
import { TONES } from "./runs.js";
import { gates, lists, listen } from "./store.js";
import { addEvent, duration, emptyTimeline, layOut } from "./timeline.js";
import { showTitle } from "./title.js";
import { timeAgo, visible } from "./words.js";

export const title = "Run";

/** The longest stretch without a step that is drawn as long as it was, in milliseconds. */
const IDLE = 2000;

/** The most states of a diagram that is open from the beginning. */
const MOST_OPEN = 12;

/** The height of a step, in pixels; as in the style sheet. */
const STEP = 28;

/**
 * @param {HTMLElement} into
 * @param {string[]} parts
 */
export function show(into, parts) {
  const id = parts[0] ?? "";
  if (parts[1] === "with" && parts[2]) return showBeside(into, id, parts[2]);
  let timeline = emptyTimeline();
  let seen = 0;
  /** @type {string | null} */
  let chosen = null;
  let isDue = false;

  const name = h("h1", {});
  const state = h("span", { class: "chip" });
  const when = h("span", { class: "hint grow" });
  const problem = h("p", { class: "problem", role: "alert", hidden: true });
  const error = h("p", { class: "problem", hidden: true });
  const asked = h("p", { class: "trouble", hidden: true });
  const pause = h("button", {}, "Pause");
  const resume = h("button", { hidden: true }, "Resume");
  const cancel = h("button", { class: "bad" }, "Cancel");
  const again = h("a", { class: "button", hidden: true }, "Run again");
  const other = h("select", { "aria-label": "Compare with another run", hidden: true });
  const drawn = h("div", { class: "drawn" });
  const drawnCard = h("details", { class: "card", hidden: true }, h("summary", {}, "Diagram"), drawn);
  const steps = h("ol", { class: "steps long", "aria-label": "Steps", tabindex: "-1" });
  const detail = h("div", { class: "detail" }, h("p", { class: "hint" }, "Choose a step to see its input and output."));
  fill(
    into,
    h("header", { class: "head" }, h("a", { class: "button quiet", href: "#/runs", "aria-label": "All runs" }, icon("back")), name, state, when, other, again, pause, resume, cancel),
    problem,
    error,
    asked,
    drawnCard,
    h("div", { class: "run" }, h("section", { class: "card", "aria-label": "Timeline" }, steps), h("section", { class: "card", "aria-label": "Step" }, detail)),
  );

  /** @param {string} action */
  const does = (action) => async () => {
    problem.hidden = true;
    try {
      await ask("POST", `/runs/${encodeURIComponent(id)}/${action}`, {});
    } catch (refused) {
      problem.textContent = refused instanceof Error ? refused.message : String(refused);
      problem.hidden = false;
    }
  };
  pause.addEventListener("click", does("pause"));
  resume.addEventListener("click", does("resume"));
  cancel.addEventListener("click", does("cancel"));

  /** The cards of the states, once the diagram is drawn. @type {Map<string, SVGElement> | null} */
  let cards = null;
  ask("GET", "/diagram", { run_id: id }).then(({ svg }) => {
    const made = diagram(svg);
    if (!made) return;
    cards = made.cards;
    made.element.setAttribute("aria-label", "Diagram of the states");
    fill(drawn, made.element);
    drawnCard.hidden = false;
    drawnCard.open = cards.size <= MOST_OPEN;
    showProgress(cards, timeline.steps);
    for (const [state, card] of made.cards) {
      card.addEventListener("click", () => {
        const step = timeline.steps.findLast((step) => step.key.startsWith("state ") && step.name === state);
        if (!step) return;
        chosen = step.key;
        shows = step;
        draw();
        describe(step);
      });
    }
    // Functions and remote workflows have none.
  }, () => {});
  other.addEventListener("change", () => {
    if (other.value) location.hash = `#/runs/${encodeURIComponent(id)}/with/${encodeURIComponent(other.value)}`;
  });
  let now = Date.now();
  let layout = layOut(timeline, now, IDLE);
  /** A step to which the list is scrolled once. @type {import("./timeline.js").Step | null} */
  let shows = null;
  const list = new LongList(steps, STEP, stepAt);

  /** @param {number} index */
  function stepAt(index) {
    const step = timeline.steps[index];
    const span = layout.spans[index];
    if (!step || !span) return h("span");
    // Widths are attributes of a drawing.
    const bar = drawing(span.from / layout.whole, Math.max(0.004, (span.to - span.from) / layout.whole), step.outcome);
    const button = h(
      "button",
      { class: "step", "data-outcome": step.outcome, "data-depth": step.depth || null, "aria-pressed": String(chosen === step.key) },
      h("span", { class: "mark", "aria-hidden": "true" }, { ok: "✓", failed: "✗", running: "…", waiting: "?", skipped: "–" }[step.outcome]),
      h("span", { class: "step-name" }, visible(step.name)),
      h("span", { class: "hint" }, step.kind),
      bar,
      h("span", { class: "took" }, duration((step.ended ?? now) - step.began)),
      h("span", { class: "unseen" }, step.outcome),
    );
    button.addEventListener("click", () => {
      chosen = step.key;
      draw();
      describe(step);
    });
    return button;
  }

  function draw() {
    isDue = false;
    if (chosen === null && timeline.ended) {
      // What went wrong comes first.
      const failed = timeline.steps.findLast((step) => step.outcome === "failed");
      if (failed) {
        chosen = failed.key;
        describe(failed);
        shows = failed;
      }
    }
    now = Date.now();
    layout = layOut(timeline, now, IDLE);
    list.draw(timeline.steps.length);
    if (cards) showProgress(cards, timeline.steps);
    if (shows) list.show(timeline.steps.indexOf(shows));
    shows = null;
    error.hidden = !timeline.error;
    setText(error, timeline.error ? visible(timeline.error) : "");
  }

  /** @param {import("./timeline.js").Step} step */
  function describe(step) {
    /** @param {string} label @param {unknown} value */
    const part = (label, value) =>
      value === undefined || value === null
        ? null
        : [h("h3", {}, label), h("pre", { class: "judged", tabindex: "0", "aria-label": label }, visible(text(value)))];
    fill(
      detail,
      h("h2", {}, visible(step.name)),
      h("p", { class: "hint" }, [step.kind, new Date(step.began).toLocaleTimeString(), duration((step.ended ?? Date.now()) - step.began)].filter(Boolean).join(" · ")),
      step.because ? h("p", {}, visible(step.because)) : null,
      step.terminal ? h("p", {}, h("a", { href: `#/terminals/${encodeURIComponent(step.terminal)}` }, `Terminal ${step.terminal}`), step.offset === null ? null : [" · ", h("a", { href: `#/terminals/${encodeURIComponent(step.terminal)}/${step.offset}` }, "its output from there on")]) : null,
      recorded(step),
      step.run ? h("p", {}, h("a", { href: `#/runs/${encodeURIComponent(step.run)}` }, `Run ${step.run}`)) : null,
      ...(part("Input", step.input) ?? []),
      ...(part("Output", step.output) ?? []),
    );
  }

  /** The recordings that there are, once a step of a terminal was looked at. @type {Promise<import("./marks.js").Recording[]> | null} */
  let recordings = null;

  /**
   * Returns a link to the recording that shows a step, which appears if there is one.
   * @param {import("./timeline.js").Step} step
   */
  function recorded(step) {
    if (!step.terminal) return null;
    recordings ??= ask("GET", "/recordings").then((reply) => reply.recordings, () => []);
    const link = h("p", { hidden: true });
    recordings.then((all) => {
      const found = recordingOf(step, all);
      if (!found) return;
      fill(link, h("a", { href: `#/recordings/${encodeURIComponent(found.recording.recording_id)}/${found.at}` }, "Recording, from this step on"));
      link.hidden = false;
    });
    return link;
  }

  const forgets = [
    keep(`follow ${id}`, () => ({ do: "follow", run: id, from: seen + 1 }), { do: "unfollow", run: id }),
    on("event", ({ event }) => {
      if (event.run_id !== id || event.seq <= seen) return;
      seen = event.seq;
      addEvent(timeline, event);
      if (!isDue) {
        isDue = true;
        requestAnimationFrame(draw);
      }
    }),
    on("unfollowed", (message) => {
      if (message["run"] !== id || !message["error"]) return;
      problem.textContent = message["error"];
      problem.hidden = false;
    }),
    listen((lists) => {
      const run = lists.runs.find((run) => run.run_id === id);
      const open = gates(lists).filter((gate) => gate.run_id === id);
      asked.hidden = open.length === 0;
      fill(asked, open.length ? [`It asks: ${visible(open[0].prompt)} `, h("a", { href: "#/gates" }, "Answer")] : []);
      if (run) head(run);
    }),
  ];
  ask("GET", `/runs/${encodeURIComponent(id)}/record`).then(({ run }) => head(run), () => {});

  /** @param {any} run */
  function head(run) {
    const isOver = Boolean(run.completed_at);
    setText(name, visible(run.workflow_id));
    setText(state, run.paused ? "paused" : run.state);
    state.dataset["tone"] = TONES[run.state] ?? "soft";
    const took = duration((isOver ? Date.parse(run.completed_at) : Date.now()) - Date.parse(run.started_at));
    setText(when, `${run.run_id} · began ${timeAgo(run.started_at, Date.now())} · ${took}`);
    pause.hidden = isOver || Boolean(run.paused);
    resume.hidden = !run.paused;
    cancel.hidden = isOver;
    again.hidden = false;
    again.href = `#/workflows/${encodeURIComponent(run.workflow_id)}/${encodeURIComponent(id)}`;
    const others = (lists()?.runs ?? []).filter((one) => one.workflow_id === run.workflow_id && one.run_id !== id);
    other.hidden = others.length === 0;
    if (other.options.length !== others.length + 1) {
      fill(other, h("option", { value: "" }, "Compare with…"), others.map((one) => h("option", { value: one.run_id }, `${one.state}, ${timeAgo(one.started_at, Date.now())} (${one.run_id})`)));
    }
    showTitle(`${run.workflow_id} ${run.state}`);
  }

  return () => {
    list.end();
    for (const forget of forgets) forget();
  };
}

/** @param {unknown} value */
function text(value) {
  return typeof value === "string" ? value : JSON.stringify(value, null, 2);
}

const SVG = "http://www.w3.org/2000/svg";

/**
 * @param {number} from
 * @param {number} width
 * @param {string} outcome
 */
function drawing(from, width, outcome) {
  const picture = document.createElementNS(SVG, "svg");
  picture.setAttribute("class", "bar");
  picture.setAttribute("viewBox", "0 0 1000 10");
  picture.setAttribute("preserveAspectRatio", "none");
  picture.setAttribute("aria-hidden", "true");
  const bar = document.createElementNS(SVG, "rect");
  bar.setAttribute("x", String(Math.min(996, from * 1000)));
  bar.setAttribute("width", String(width * 1000));
  bar.setAttribute("height", "10");
  bar.setAttribute("data-outcome", outcome);
  picture.append(bar);
  return picture;
}
