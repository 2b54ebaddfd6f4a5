// One run: its result or error and its input, a timeline of its steps with the input and output of each, and what can be done with it.

import { ApiError, ask, readEvents } from "./api.js";
import { shownTime } from "./choices.js";
import { showBeside } from "./compare.js";
import { showProgress } from "./diagram.js";
import { diagramView } from "./diagram_view.js";
import { fill, h, icon, setText } from "./dom.js";
import { LongList } from "./long_list.js";
import { keep, on } from "./live.js";
import { recordingOf } from "./marks.js";
import { hasText } from "./run_filter.js";
import { TONES } from "./runs.js";
import { gates, lists, listen } from "./store.js";
import { addEvent, duration, emptyTimeline, flatten, gist, grouped, isEmpty, isNext, lanes, layOut, readableParts, stepTime, telling } from "./timeline.js";
import { showTitle } from "./title.js";
import { timeAgo, visible } from "./words.js";

export const title = "Run";

/** The longest stretch without a step that is drawn as long as it was, in milliseconds. */
const IDLE = 2000;

/** The most runs that are open within a run: a tab follows few. */
const MOST_NESTED = 24;

/** The most lanes of steps at the same time, and the most steps that are drawn in them. */
const LANES = { most: 12, steps: 1000 };

/** The most steps that need no filter. */
const FEW = 8;

/** The sign of each outcome. */
const MARKS = { ok: "✓", failed: "✗", running: "…", waiting: "?", cancelled: "–", event: "·" };

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
  /** The runs that are open within this one. @type {Map<string, import("./timeline.js").Timeline>} */
  const open = new Map();
  /** What ends each of them, and its last event. @type {Map<string, { close: () => void, seen: number }>} */
  const nested = new Map();
  /** The steps in the list. */
  let shownSteps = grouped(timeline.steps, new Set());
  /** The groups of equal steps that are shown one by one, by the keys of their first steps. @type {Set<string>} */
  const ungrouped = new Set();
  /** The key of the step that is shown in detail. @type {string | null} */
  let chosen = parts[1] === "step" ? (parts[2] ?? null) : null;
  /** True once a person chose a step, here or by an address. */
  let isPicked = chosen !== null;
  /** The key of the step of the address, until the list was scrolled to it. */
  let linked = chosen;
  /** The state of the chosen step that is shown. */
  let described = "";
  /** The record of the run. @type {any} */
  let record = null;
  /** True while the lists have the run. They are newer than a record that was requested before. */
  let isListed = false;
  /** The values at the top of the page. @type {unknown[]} */
  let shownEnds = [];
  let isDue = false;

  const name = h("h1", {});
  const state = h("span", { class: "chip" });
  const when = h("span", { class: "hint grow" });
  const problem = h("p", { class: "problem", role: "alert", hidden: true });
  const error = h("p", { class: "problem", hidden: true });
  const reason = h("p", { class: "hint", hidden: true });
  const ends = h("section", { class: "card ends", "aria-label": "Result and input", hidden: true });
  const asked = h("p", { class: "trouble", hidden: true });
  const repaired = h("p", { class: "hint", hidden: true });
  const earlier = h("p", { class: "hint", hidden: true });
  const pause = h("button", { hidden: true }, "Pause");
  const resume = h("button", { hidden: true }, "Resume");
  const cancel = h("button", { class: "bad", hidden: true }, "Cancel");
  const again = h("a", { class: "button", hidden: true }, "Run again");
  const other = h("select", { "aria-label": "Compare with another run", hidden: true });
  const save = h("button", { class: "quiet", hidden: true, title: "The record and all events, as JSON" }, "Download");
  const drawnCard = h("section", { class: "card", "aria-label": "Diagram", hidden: true });
  const viewTabs = h("div", { class: "line views", role: "group", "aria-label": "View", hidden: true });
  const steps = h("ol", { class: "steps long", "aria-label": "Steps", tabindex: "-1" });
  const abreast = h("div", { class: "abreast", "aria-hidden": "true", hidden: true });
  const filter = h("input", { type: "search", class: "grow", placeholder: "Filter by text or outcome", "aria-label": "Filter steps", autocomplete: "off", spellcheck: "false" });
  const count = h("span", { class: "hint", role: "status" });
  const filterLine = h("div", { class: "line step-filter", hidden: true }, filter, count);
  const none = h("p", { class: "hint", hidden: true });
  const detail = h("div", { class: "detail" });
  const detailCard = h("section", { class: "card", "aria-label": "Step", hidden: true }, detail);
  const stepsCard = h("section", { class: "card", "aria-label": "Timeline" }, filterLine, abreast, none, steps);
  const body = h("div", { class: "run" }, stepsCard, drawnCard, detailCard);
  fill(
    into,
    h("header", { class: "head" }, h("a", { class: "button quiet", href: "#/runs", "aria-label": "All runs" }, icon("back")), name, state, when, save, other, again, pause, resume, cancel),
    problem,
    error,
    reason,
    asked,
    repaired,
    earlier,
    ends,
    viewTabs,
    body,
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

  /** The diagram, once it is drawn. @type {ReturnType<typeof diagramView> | null} */
  let picture = null;
  /** Shows the steps or the diagram; the chosen step is beside both. @param {boolean} isDiagram */
  const view = (isDiagram) => {
    const isFirst = isDiagram && drawnCard.hidden && !drawnCard.dataset["seen"];
    stepsCard.hidden = isDiagram;
    drawnCard.hidden = !isDiagram;
    for (const [index, button] of [...viewTabs.children].entries()) button.setAttribute("aria-pressed", String(isDiagram === (index === 1)));
    if (isFirst) {
      drawnCard.dataset["seen"] = "yes";
      picture?.begin();
    }
    if (!isDiagram) draw();
  };
  fill(viewTabs, h("button", { "aria-pressed": "true", onclick: () => view(false) }, "Steps"), h("button", { "aria-pressed": "false", onclick: () => view(true) }, "Diagram"));
  ask("GET", "/diagram", { run_id: id }).then((reply) => {
    picture = diagramView(
      reply,
      (state) => {
        const step = timeline.steps.findLast((step) => step.key.startsWith("state ") && step.name === state);
        if (!step) return;
        shows = step;
        choose(step);
        detailCard.scrollIntoView({ block: "nearest" });
      },
      () => picture && showProgress(picture.cards(), timeline.steps),
    );
    fill(drawnCard, picture.element);
    viewTabs.hidden = false;
    showProgress(picture.cards(), timeline.steps);
    // Functions and remote workflows have none.
  }, () => {});
  save.addEventListener("click", async () => {
    problem.hidden = true;
    save.disabled = true;
    try {
      const [{ run }, events] = await Promise.all([ask("GET", `/runs/${encodeURIComponent(id)}/record`), readEvents(id, seen)]);
      const file = new Blob([JSON.stringify({ run, events }, null, 2), "\n"], { type: "application/json" });
      const link = h("a", { href: URL.createObjectURL(file), download: `${id}.json` });
      link.click();
      URL.revokeObjectURL(link.href);
    } catch (refused) {
      problem.textContent = refused instanceof Error ? refused.message : String(refused);
      problem.hidden = false;
    }
    save.disabled = false;
  });
  other.addEventListener("change", () => {
    if (other.value) location.hash = `#/runs/${encodeURIComponent(id)}/with/${encodeURIComponent(other.value)}`;
  });
  let now = Date.now();
  let layout = layOut(timeline, now, IDLE);
  /** A step to which the list is scrolled once. @type {import("./timeline.js").Step | null} */
  let shows = null;
  const list = new LongList(steps, STEP, stepAt);
  filter.addEventListener("input", draw);

  /** @param {number} index */
  function stepAt(index) {
    const step = shownSteps[index];
    const span = layout.spans[index];
    if (!step || !span) return h("span");
    const isGroup = (step.members?.length ?? 0) > 1;
    // Widths are attributes of a drawing.
    const bar = drawing(span.from / layout.whole, Math.max(0.004, (span.to - span.from) / layout.whole), step.outcome);
    const button = h(
      "button",
      { class: "step", "data-outcome": step.outcome, "aria-pressed": String(chosen === step.key || (step.members ?? []).includes(chosen ?? "")) },
      h("span", { class: "mark", "aria-hidden": "true" }, MARKS[step.outcome]),
      h("span", { class: "step-name" }, visible(step.name), isGroup ? ` × ${step.members?.length}` : null),
      h("span", { class: "hint" }, visible(step.kind)),
      h("span", { class: "gist" }, visible(gist(step))),
      bar,
      h("span", { class: "took" }, stepTime(step, now)),
      h("span", { class: "unseen" }, step.outcome),
    );
    button.addEventListener("click", () => choose(step));
    button.style.setProperty("--depth", String(step.depth));
    if (step.members) {
      const toggle = h("button", { class: "quiet toggle", "aria-expanded": String(!isGroup), "aria-label": isGroup ? `${step.members.length} equal steps ${visible(step.name)}` : `Equal steps ${visible(step.name)}`, onclick: () => regroup(step.key) }, icon(isGroup ? "down" : "up"));
      return h("div", { class: "step-line" }, button, toggle);
    }
    const child = step.run;
    if (child === null) return h("div", { class: "step-line" }, button);
    const isOpen = open.has(child);
    const toggle = h("button", { class: "quiet toggle", "aria-expanded": String(isOpen), "aria-label": `Steps of ${visible(step.name)}, run ${child}`, onclick: () => unfold(child) }, icon(isOpen ? "up" : "down"));
    return h("div", { class: "step-line" }, button, toggle);
  }

  /** @param {import("./timeline.js").Step} step */
  function choose(step) {
    chosen = step.key;
    isPicked = true;
    draw();
  }

  /** Shows equal steps one by one, or as one. @param {string} key */
  function regroup(key) {
    if (!ungrouped.delete(key)) ungrouped.add(key);
    draw();
  }

  /** Shows the steps of a run that a step started, or hides them. @param {string} child */
  function unfold(child) {
    const known = nested.get(child);
    if (known) {
      known.close();
      nested.delete(child);
      open.delete(child);
    } else if (nested.size < MOST_NESTED) {
      const mine = { seen: 0, close: () => {} };
      nested.set(child, mine);
      open.set(child, emptyTimeline());
      mine.close = keep(`follow ${child}`, () => ({ do: "follow", run: child, from: mine.seen + 1 }), { do: "unfollow", run: child });
    }
    draw();
  }

  /** Draws steps that were at the same time side by side, if there are any. */
  function drawLanes() {
    const inner = shownSteps.map((step, index) => ({ step, span: layout.spans[index] })).filter(({ step, span }) => span && step.outcome !== "event" && !containers.has(step.kind) && !(step.run && open.has(step.run))).slice(-LANES.steps);
    inner.sort((one, other) => (one.span?.from ?? 0) - (other.span?.from ?? 0));
    const places = lanes(inner.map(({ span }) => span ?? { from: 0, to: 0 }));
    const count = Math.min(LANES.most, Math.max(0, ...places) + 1);
    abreast.hidden = count < 2;
    if (count < 2) return;
    const picture = document.createElementNS(SVG, "svg");
    picture.setAttribute("viewBox", `0 0 1000 ${count * 10}`);
    picture.setAttribute("preserveAspectRatio", "none");
    abreast.style.setProperty("--lanes", String(count));
    for (const [index, { step, span }] of inner.entries()) {
      const lane = places[index] ?? 0;
      if (!span || lane >= count) continue;
      const bar = rectangle(span.from / layout.whole, Math.max(0.002, (span.to - span.from) / layout.whole), step.outcome);
      bar.setAttribute("y", String(lane * 10 + 1));
      bar.setAttribute("height", "8");
      bar.addEventListener("click", () => {
        shows = step;
        choose(step);
      });
      const name = document.createElementNS(SVG, "title");
      name.textContent = visible(step.name);
      bar.append(name);
      picture.append(bar);
    }
    fill(abreast, picture);
  }

  function draw() {
    isDue = false;
    const isFollowed = timeline.ended !== null || list.isAtEnd();
    // A step that a person reads stays.
    if (!isPicked && !detail.contains(document.activeElement)) {
      const first = timeline.steps[telling(timeline.steps)];
      if (first && first.key !== chosen) {
        chosen = first.key;
        if (isFollowed) shows = first;
      }
    }
    now = Date.now();
    const all = flatten(timeline, open);
    const wanted = filter.value.trim();
    const matching = wanted ? all.filter((step) => hasText(step, wanted)) : all;
    shownSteps = grouped(matching, ungrouped);
    filterLine.hidden = all.length <= FEW && !wanted;
    setText(count, wanted ? `${matching.length} of ${all.length}` : "");
    none.hidden = shownSteps.length > 0 || seen === 0;
    setText(none, wanted ? "No step matches." : timeline.ended === null ? "No step has begun yet." : "This run has no steps.");
    layout = layOut({ ...timeline, steps: shownSteps }, now, IDLE);
    steps.classList.toggle("unfolds", shownSteps.some((step) => step.run !== null || step.members));
    list.draw(shownSteps.length);
    drawLanes();
    if (picture) showProgress(picture.cards(), timeline.steps);
    const sought = shows?.key ?? (linked === null ? undefined : linked);
    const index = sought === undefined ? -1 : shownSteps.findIndex((step) => step.key === sought || step.members?.includes(sought));
    if (index >= 0) {
      list.show(index);
      linked = null;
    }
    shows = null;
    const step = all.find((step) => step.key === chosen);
    if (step) describe(step);
    detailCard.hidden = described === "";
    drawEnds();
  }

  /** Shows the input, and the result or the error. */
  function drawEnds() {
    const isOver = timeline.ended !== null;
    const told = isOver ? timeline.error : (timeline.error ?? (record?.state === "failed" ? record.error : null));
    const why = isOver ? timeline.reason : record?.state === "cancelled" ? record.error : null;
    error.hidden = !told;
    setText(error, visible(told ?? ""));
    reason.hidden = !why;
    setText(reason, visible(why ?? ""));
    const given = timeline.given ?? { input: record?.input, params: record?.params ?? {} };
    const values = [isOver ? timeline.result : record?.result, given.input, given.params, isOver ? timeline.traceback : record?.traceback];
    // Unchanged values keep a selection.
    if (values.every((value, index) => value === shownEnds[index])) return;
    shownEnds = values;
    const [result, input, params, traceback] = values;
    const parts = [part("h2", "Result", result), part("h2", "Input", input), part("h2", "Parameters", params), part("h2", "Traceback", traceback)].filter((one) => one !== null);
    fill(ends, parts);
    ends.hidden = parts.length === 0;
  }

  /** @param {import("./timeline.js").Step} step */
  function describe(step) {
    const state = [step.key, step.outcome, step.because, step.ended].join(" ");
    if (state === described) return;
    described = state;
    fill(
      detail,
      h("h2", {}, visible(step.name)),
      h("p", { class: "hint" }, [visible(step.kind), shownTime(step.began, Date.now()), stepTime(step, Date.now())].filter(Boolean).join(" · "), timeline.steps.includes(step) ? [" · ", h("a", { href: `#/runs/${encodeURIComponent(id)}/step/${encodeURIComponent(step.key)}` }, "link to this step")] : null),
      step.because ? h("p", {}, visible(step.because)) : null,
      inTerminal(step),
      recorded(step),
      step.run ? h("p", {}, h("a", { href: `#/runs/${encodeURIComponent(step.run)}` }, `Run ${step.run}`)) : null,
      beginHere(step),
      pieces("Input", step.input),
      pieces("Output", step.output),
    );
  }

  /**
   * Returns a button that runs an ended run again from the state of a step on.
   * @param {import("./timeline.js").Step} step
   */
  function beginHere(step) {
    const entered = /^state (.*) (\d+)$/s.exec(step.key);
    if (!entered || timeline.ended === null) return null;
    const [, state, visit] = entered;
    const refusal = h("p", { class: "problem", role: "alert", hidden: true });
    const anyway = h("button", { class: "bad", hidden: true }, "Do it again all the same");
    const begin = h("button", {}, "Run again from here");
    /** @param {boolean} isRepeated */
    const start = async (isRepeated) => {
      refusal.hidden = true;
      anyway.hidden = true;
      begin.disabled = true;
      try {
        const { run_id } = await ask("POST", "/runs", { again: { run_id: id, from_state: `${state}/${visit}`, repeat_irreversible: isRepeated || undefined }, wait_seconds: 0 });
        location.hash = `#/runs/${encodeURIComponent(run_id)}`;
      } catch (refused) {
        const reason = refused instanceof Error ? refused.message : String(refused);
        /** @type {string[]} */
        const irreversible = (refused instanceof ApiError && refused.reply?.irreversible) || [];
        const repeats = `The run has done this before, and it would happen again: ${irreversible.join("; ")}`;
        setText(refusal, visible(irreversible.length > 0 ? repeats : reason));
        refusal.hidden = false;
        anyway.hidden = irreversible.length === 0;
        begin.disabled = false;
      }
    };
    begin.addEventListener("click", () => start(false));
    anyway.addEventListener("click", () => start(true));
    return h("div", { class: "part" }, h("p", { class: "line" }, begin, anyway), refusal);
  }

  /** Returns links to the terminal of a step while it is open. @param {import("./timeline.js").Step} step */
  function inTerminal(step) {
    if (!step.terminal) return null;
    const isOpen = lists()?.terminals.some((terminal) => terminal.session_id === step.terminal) ?? true;
    if (!isOpen) return h("p", { class: "hint" }, `Terminal ${step.terminal} is closed.`);
    const address = `#/terminals/${encodeURIComponent(step.terminal)}`;
    return h("p", {}, h("a", { href: address }, `Terminal ${step.terminal}`), step.offset === null ? null : [" · ", h("a", { href: `${address}/${step.offset}` }, "its output from there on")]);
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
      const inner = nested.get(event.run_id);
      if (inner) {
        if (!isNext(event, inner.seen)) return;
        inner.seen = event.seq;
        addEvent(open.get(event.run_id) ?? emptyTimeline(), event);
      } else {
        if (event.run_id !== id || !isNext(event, seen)) return;
        seen = event.seq;
        const wasOver = timeline.ended !== null;
        addEvent(timeline, event);
        // The lists have the newest runs only.
        if (!wasOver && timeline.ended !== null && !isListed) readRecord();
      }
      if (!isDue) {
        isDue = true;
        requestAnimationFrame(draw);
      }
    }),
    on("unfollowed", (message) => {
      if (message["run"] !== id || !message["error"]) return;
      problem.textContent = message["error"];
      problem.hidden = false;
      // The run does not exist.
      if (seen === 0) {
        setText(name, visible(id));
        for (const card of [body, ends, viewTabs]) card.hidden = true;
      }
    }),
    listen((lists) => {
      const run = lists.runs.find((run) => run.run_id === id);
      const open = gates(lists).filter((gate) => gate.run_id === id);
      asked.hidden = open.length === 0 && !run?.locked;
      if (run?.locked) fill(asked, "Its question is locked since the daemon was restarted. ", h("a", { href: "#/inbox" }, "Unlock it"));
      else fill(asked, open.length ? [`It asks: ${visible(open[0].prompt)} `, h("a", { href: "#/inbox" }, "Answer")] : []);
      isListed = run !== undefined;
      if (run) head(run);
    }),
  ];

  function readRecord() {
    ask("GET", `/runs/${encodeURIComponent(id)}/record`).then(({ run }) => {
      record = run;
      if (!isListed) head(run);
      drawEnds();
    }, () => {});
  }

  readRecord();
  draw();

  /** @param {any} run */
  function head(run) {
    const isOver = Boolean(run.completed_at);
    setText(name, visible(run.workflow_id));
    setText(state, run.paused ? "paused" : run.state);
    state.dataset["tone"] = TONES[run.state] ?? "soft";
    const time = duration((isOver ? Date.parse(run.completed_at) : Date.now()) - Date.parse(run.started_at));
    setText(when, `${run.run_id} · began ${timeAgo(run.started_at, Date.now())} · ${time}`);
    earlier.hidden = !run.again;
    if (run.again) fill(earlier, "Runs ", h("a", { href: `#/runs/${encodeURIComponent(run.again.run_id)}` }, run.again.run_id), ` again${run.again.from_state ? ` from ${visible(run.again.from_state)}` : ""}`);
    repaired.hidden = !run.repairs?.length;
    setText(repaired, `Repaired: ${(run.repairs ?? []).map((/** @type {any} */ one) => visible(one.reason)).join("; ")}`);
    pause.hidden = isOver || Boolean(run.paused);
    resume.hidden = !run.paused;
    cancel.hidden = isOver;
    again.hidden = false;
    save.hidden = false;
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
    for (const { close } of nested.values()) close();
    for (const forget of forgets) forget();
  };
}

/**
 * Returns a value below its name; nothing for an empty value.
 * @param {"h2" | "h3"} level
 * @param {string} label
 * @param {unknown} value
 */
function part(level, label, value) {
  return isEmpty(value) ? null : h("div", { class: "part" }, h(level, {}, label), h("pre", { class: "judged", tabindex: "0", "aria-label": label }, visible(text(value))));
}

/** Returns a value below its name, its texts of several lines each for itself. @param {string} label @param {unknown} value */
function pieces(label, value) {
  return readableParts(label, value).map(({ name, text }) => part("h3", name.toLowerCase() === label.toLowerCase() ? label : `${label}: ${visible(name)}`, text));
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
  picture.append(rectangle(from, width, outcome));
  return picture;
}

/** The kinds of steps that have others within them. */
const containers = new Set(["graph", "run", "run_workflow", "parallel"]);

/**
 * @param {number} from
 * @param {number} width
 * @param {string} outcome
 */
function rectangle(from, width, outcome) {
  const bar = document.createElementNS(SVG, "rect");
  bar.setAttribute("x", String(Math.min(996, from * 1000)));
  bar.setAttribute("width", String(width * 1000));
  bar.setAttribute("height", "10");
  bar.setAttribute("data-outcome", outcome);
  return bar;
}
