// The timeline of a run: its events as steps. Pure.

/**
 * A step: something that began and, unless it is in progress, ended.
 * @typedef {{
 *   key: string, name: string, kind: string, began: number, ended: number | null, outcome: "running" | "ok" | "failed" | "waiting" | "cancelled",
 *   input: unknown, output: unknown, because: string, depth: number, terminal: string | null, offset: number | null, run: string | null,
 * }} Step
 */

/**
 * @typedef {{ steps: Step[], open: Map<string, Step>, began: number | null, ended: number | null, error: string | null }} Timeline
 */

/** How a step ends by an event. @type {Record<string, Step["outcome"]>} */
const ENDS = {
  nested_workflow_completed: "ok",
  nested_workflow_cancelled: "cancelled",
  gate_answered: "ok",
  gate_cancelled: "cancelled",
};

/** @returns {Timeline} */
export function emptyTimeline() {
  return { steps: [], open: new Map(), began: null, ended: null, error: null };
}

/**
 * Adds an event of the run to its timeline. Events come in order.
 * @param {Timeline} timeline
 * @param {any} event
 */
export function addEvent(timeline, event) {
  const { data } = event;
  const at = Date.parse(event.timestamp);
  timeline.began ??= at;
  /** @param {string} key @param {string} name @param {string} kind @param {Partial<Step>} more */
  const begin = (key, name, kind, more) => {
    /** @type {Step} */
    const step = { key, name, kind, began: at, ended: null, outcome: "running", input: undefined, output: undefined, because: "", depth: 0, terminal: null, offset: null, run: null, ...more };
    timeline.steps.push(step);
    timeline.open.set(key, step);
  };
  /** @param {string} key @param {Step["outcome"]} outcome @param {unknown} output */
  const end = (key, outcome, output) => {
    const step = timeline.open.get(key);
    if (!step) return;
    timeline.open.delete(key);
    Object.assign(step, { ended: at, outcome, output });
    step.terminal ??= terminalOf(output);
    step.offset ??= offsetOf(output);
  };
  switch (event.event_type) {
    case "state_entered":
      begin(`state ${data.state} ${data.visit}`, data.state, data.tool ?? "", { input: data.params, terminal: data.params?.session_id ?? null, run: data.child_run_id ?? null });
      break;
    case "state_completed":
      end(`state ${data.state} ${data.visit}`, data.outcome === "finished" && data.result?.success !== false ? "ok" : "failed", data.result ?? data.outcome);
      break;
    case "transition": {
      const step = timeline.steps.findLast((step) => step.key.startsWith(`state ${data.from} `));
      if (step) step.because = `→ ${data.to}: ${data.because ?? ""}`;
      break;
    }
    case "node_started":
    case "graph_started":
      begin(`call ${data.call}`, data.node_id ?? data.graph_id ?? "", event.event_type === "graph_started" ? "graph" : "node", { input: data.input, depth: data.within ? 1 : 0 });
      break;
    case "node_completed":
    case "graph_completed":
    case "graph_failed":
    case "node_error":
    case "node_timeout":
      end(`call ${data.call}`, data.success === false || !event.event_type.endsWith("completed") ? "failed" : "ok", data.result ?? data.error ?? data);
      break;
    case "nested_workflow_started":
      // The state or the branch that started it is a step already.
      if (data.child_run_id && [...timeline.open.values()].some((step) => step.run === data.child_run_id)) break;
      begin(`run ${data.child_run_id}`, data.workflow_id ?? "", "run", { input: data.input, run: data.child_run_id ?? null });
      break;
    case "branch_began":
      begin(`branch ${data.state} ${data.child_run_id}`, data.name ?? `branch ${data.branch}`, "branch", { run: data.child_run_id ?? null, depth: 1 });
      break;
    case "branch_ended":
      end(`branch ${data.state} ${data.child_run_id}`, data.result?.success === false ? "failed" : "ok", data.result);
      break;
    case "nested_workflow_completed":
    case "nested_workflow_failed":
    case "nested_workflow_cancelled":
      end(`run ${data.child_run_id}`, ENDS[event.event_type] ?? "failed", data.result ?? data.error ?? data);
      break;
    case "gate_waiting":
      begin(`gate ${data.gate_id}`, data.prompt ?? "question", "gate", { input: data.context, outcome: "waiting", depth: timeline.steps.at(-1)?.ended === null ? 1 : 0 });
      break;
    case "gate_answered":
    case "gate_timeout":
    case "gate_cancelled":
      end(`gate ${data.gate_id}`, ENDS[event.event_type] ?? "failed", data);
      break;
    case "workflow_completed":
    case "workflow_failed":
    case "workflow_cancelled":
      timeline.ended = at;
      timeline.error = data.error ?? (event.event_type === "workflow_cancelled" ? "cancelled" : null);
      for (const step of timeline.open.values()) Object.assign(step, { ended: at, outcome: event.event_type === "workflow_cancelled" ? "cancelled" : "failed" });
  }
}

/** Returns the position in the output of a terminal at which a step was. @param {any} output @returns {number | null} */
function offsetOf(output) {
  return Number.isSafeInteger(output?.offset) ? output.offset : null;
}

/** @param {any} output @returns {string | null} */
function terminalOf(output) {
  return typeof output?.session_id === "string" ? output.session_id : null;
}

/**
 * Lays steps on a line of time on which stretches without any step are short.
 * @param {Timeline} timeline
 * @param {number} now
 * @param {number} idle The longest stretch that is drawn as it is, in milliseconds.
 * @returns {{ whole: number, spans: { from: number, to: number }[] }} Positions in drawn milliseconds.
 */
export function layOut(timeline, now, idle) {
  const times = timeline.steps.map((step) => ({ from: step.began, to: step.ended ?? now }));
  const busy = [...times].sort((one, other) => one.from - other.from);
  /** The stretches that are left out: where they end, and how much is left out up to there. @type {{ at: number, cut: number }[]} */
  const cuts = [];
  let reached = timeline.began ?? 0;
  for (const { from, to } of busy) {
    if (from - reached > idle) cuts.push({ at: from, cut: (cuts.at(-1)?.cut ?? 0) + from - reached - idle });
    reached = Math.max(reached, to);
  }
  /** @param {number} time */
  const drawn = (time) => {
    let [first, last] = [0, cuts.length];
    while (first < last) {
      const middle = (first + last) >> 1;
      if ((cuts[middle]?.at ?? 0) <= time) first = middle + 1;
      else last = middle;
    }
    return time - (timeline.began ?? 0) - (cuts[first - 1]?.cut ?? 0);
  };
  const spans = times.map(({ from, to }) => ({ from: drawn(from), to: drawn(to) }));
  return { whole: spans.reduce((whole, { to }) => Math.max(whole, to), 1), spans };
}

/**
 * Tells a duration.
 * @param {number} milliseconds
 */
export function duration(milliseconds) {
  if (milliseconds < 1000) return `${Math.round(milliseconds)} ms`;
  const seconds = milliseconds / 1000;
  if (seconds < 60) return `${seconds.toFixed(1)} s`;
  if (seconds < 3600) return `${Math.floor(seconds / 60)} min ${Math.round(seconds % 60)} s`;
  return `${Math.floor(seconds / 3600)} h ${Math.floor((seconds % 3600) / 60)} min`;
}

/**
 * Returns the steps of a run, and behind each that is open those of the run that it started.
 * @param {Timeline} timeline
 * @param {Map<string, Timeline>} open The timelines of the runs that are open, by their ids.
 * @param {number} [depth]
 * @returns {Step[]}
 */
export function flatten(timeline, open, depth = 0) {
  if (depth === 0 && open.size === 0) return timeline.steps;
  return timeline.steps.flatMap((step) => {
    const shown = depth ? { ...step, depth: step.depth + depth } : step;
    const child = step.run === null ? undefined : open.get(step.run);
    // A run can not start itself, but a bound costs nothing.
    if (!child || depth > DEEPEST) return [shown];
    return [shown, ...flatten(child, open, shown.depth + 1).map((inner) => ({ ...inner, key: `${step.run} ${inner.key}` }))];
  });
}

/** How deep runs are shown within each other. */
const DEEPEST = 16;

/**
 * Returns the lane of each span, so that no two in a lane are at the same time: the first one that is free.
 * @param {{ from: number, to: number }[]} spans In the order of their beginnings.
 * @returns {number[]}
 */
export function lanes(spans) {
  /** When each lane is free again. @type {number[]} */
  const free = [];
  return spans.map(({ from, to }) => {
    const found = free.findIndex((until) => until <= from);
    const lane = found < 0 ? free.length : found;
    free[lane] = Math.max(to, from);
    return lane;
  });
}
