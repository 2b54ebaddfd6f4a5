// The timeline of a run: its events as steps. Pure.

/**
 * A step: something that began and, unless it is in progress, ended. Of an `event`, such as a printed text, there is one time. An
 * earlier run performed a step that is taken over.
 * @typedef {{
 *   key: string, name: string, kind: string, began: number, ended: number | null, outcome: "running" | "ok" | "failed" | "waiting" | "cancelled" | "event",
 *   input: unknown, output: unknown, because: string, isTakenOver: boolean, depth: number, terminal: string | null, offset: number | null, run: string | null,
 * }} Step
 */

/**
 * The input of a run: a machine has its variables as `input`, a function has `params` besides.
 * @typedef {{ input: unknown, params: Record<string, unknown> }} Given
 */

/**
 * A run so far. `error`, `traceback` and `reason` are of one that failed or was cancelled; `events` counts those of a type.
 * @typedef {{
 *   steps: Step[], open: Map<string, Step>, began: number | null, ended: number | null, given: Given | null, result: unknown,
 *   error: string | null, traceback: string | null, reason: string | null, events: Map<string, number>,
 * }} Timeline
 */

/** Beginnings of the types of events that a run has itself, and their whole names; as in `RunEvent::is_own`. Authors emit all others. */
const OWN = /^(workflow_|nested_workflow_|node_|gate_|state_|graph_|contract_|branch_|items_|transition$|question_answered$|log$|history_unreadable$)/;

/** How a step ends by an event. @type {Record<string, Step["outcome"]>} */
const ENDS = {
  nested_workflow_completed: "ok",
  nested_workflow_cancelled: "cancelled",
  gate_answered: "ok",
  gate_cancelled: "cancelled",
};

/**
 * Formats the duration of a step, until now if it is in progress.
 * @param {Step} step
 * @param {number} now In milliseconds since the Unix epoch.
 */
export function stepTime(step, now) {
  if (step.outcome === "event") return "";
  return step.isTakenOver ? "taken over" : duration((step.ended ?? now) - step.began);
}

/** @returns {Timeline} */
export function emptyTimeline() {
  return { steps: [], open: new Map(), began: null, ended: null, given: null, result: undefined, error: null, traceback: null, reason: null, events: new Map() };
}

/**
 * Returns whether an event is the next one of a follower. Events of a run that another view followed may still arrive; those of a new
 * follower begin with the first.
 * @param {any} event
 * @param {number} seen The number of the last event; 0 before the first.
 */
export function isNext(event, seen) {
  return seen === 0 ? event.seq === 1 : event.seq > seen;
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
    const step = { key, name, kind, began: at, ended: null, outcome: "running", input: undefined, output: undefined, because: "", isTakenOver: data.taken_over === true, depth: 0, terminal: null, offset: null, run: null, ...more };
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
  /** Adds a row for what happened at once. @param {string} name @param {string} kind @param {Partial<Step>} more */
  const note = (name, kind, more) => {
    const count = (timeline.events.get(event.event_type) ?? 0) + 1;
    timeline.events.set(event.event_type, count);
    const key = `event ${event.event_type} ${count}`;
    begin(key, name, kind, { ended: at, outcome: "event", ...more });
    timeline.open.delete(key);
  };
  switch (event.event_type) {
    case "workflow_started":
      timeline.given = givenOf(data);
      break;
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
      begin(`call ${data.call}`, data.step_id ?? data.node_id ?? "", "node", { input: data.input, depth: data.within ? 1 : 0 });
      break;
    case "node_completed":
    case "node_error":
    case "node_timeout": {
      const step = timeline.open.get(`call ${data.call}`);
      if (step?.kind === "node") step.kind = data.result?.node_type ?? step.kind;
      end(`call ${data.call}`, data.success === false || event.event_type !== "node_completed" ? "failed" : "ok", data.result ?? data.error ?? data);
      break;
    }
    case "graph_started": {
      // The call of a graph is a step already, which its result ends.
      const call = timeline.open.get(`call ${data.call}`);
      if (call) call.kind = "graph";
      else begin(`graph ${data.call}`, data.graph_id ?? "graph", "graph", { input: data.input });
      break;
    }
    case "graph_completed":
    case "graph_failed":
      end(`graph ${data.call}`, event.event_type === "graph_completed" ? "ok" : "failed", data.result ?? data.error);
      break;
    case "graph_step_skipped":
      note(data.step_id ?? "", "skipped", { output: data.value, depth: 1 });
      break;
    case "graph_step_not_run":
      note(data.step_id ?? "", "not run", { because: `'${data.because}' failed`, depth: 1 });
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
      begin(`gate ${data.gate_id}`, data.prompt ?? "question", "gate", { input: data.context, outcome: "waiting", depth: timeline.steps.findLast((step) => step.outcome !== "event")?.ended === null ? 1 : 0 });
      break;
    case "gate_answered":
    case "gate_timeout":
    case "gate_cancelled":
      end(`gate ${data.gate_id}`, ENDS[event.event_type] ?? "failed", data);
      break;
    case "log":
      note("print", "event", { output: data.text });
      break;
    case "question_answered":
      note(data.match_text ?? "question", "answer", { output: data.input_text === undefined && data.keys === undefined ? "a secret" : [data.input_text ?? "", ...(data.keys ?? []).map((/** @type {string} */ key) => `<${key}>`)].join(""), depth: 1 });
      break;
    case "items_began":
      note(data.state ?? "", "items", { input: data.items });
      break;
    case "contract_checked":
      note(String(data.side ?? "").replaceAll("_", " "), "contract", { input: data.variables, output: data.error ?? undefined, outcome: data.success === false ? "failed" : "event" });
      break;
    case "workflow_paused":
      note("Paused", "pause", { output: data.by ? `by ${data.by}` : undefined });
      break;
    case "workflow_resumed":
      note("Resumed", "pause", { output: data.by ? `by ${data.by}` : undefined });
      break;
    case "workflow_completed":
    case "workflow_failed":
    case "workflow_cancelled": {
      const isCancelled = event.event_type === "workflow_cancelled";
      timeline.ended = at;
      timeline.result = data.result;
      timeline.traceback = data.traceback ?? null;
      timeline.reason = isCancelled ? (data.reason ?? "cancelled") : null;
      timeline.error = event.event_type !== "workflow_failed" ? null : (data.error ?? "failed");
      for (const step of timeline.open.values()) Object.assign(step, { ended: at, outcome: isCancelled ? "cancelled" : "failed" });
      timeline.open.clear();
      break;
    }
    case "history_unreadable":
      timeline.error = data.error ?? "the history cannot be read";
      break;
    default:
      if (!OWN.test(event.event_type)) note(event.event_type, "event", { output: Object.keys(data).join() === "data" ? data.data : data });
  }
}

/**
 * Returns the input of a run. A parameter `input` of a function is its input, too.
 * @param {any} data Those of its first event.
 * @returns {Given}
 */
function givenOf(data) {
  const input = isEmpty(data.input) ? undefined : data.input;
  const params = Object.entries(data.params ?? {}).filter(([name, value]) => name !== "input" || JSON.stringify(value) !== JSON.stringify(input));
  return { input, params: Object.fromEntries(params) };
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
 * Formats a duration.
 * @param {number} milliseconds
 */
export function duration(milliseconds) {
  if (milliseconds < 1000) return `${Math.round(milliseconds)} ms`;
  const seconds = milliseconds / 1000;
  if (seconds < 60) return `${seconds.toFixed(1)} s`;
  if (seconds < 3600) return `${Math.floor(seconds / 60)} min ${Math.floor(seconds % 60)} s`;
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
    // A run cannot start itself, but a bound costs nothing.
    if (!child || depth > DEEPEST) return [shown];
    return [shown, ...flatten(child, open, shown.depth + 1).map((inner) => ({ ...inner, key: `${step.run} ${inner.key}` }))];
  });
}

/** The fewest equal steps that are one row. */
const FEWEST_EQUAL = 3;

/**
 * Returns the steps with equal ones behind each other as one, which has the members. Steps are equal if they have the same name, kind,
 * outcome, input and output, and have ended without a failure.
 * @param {Step[]} steps
 * @param {Set<string>} opened The keys of the first steps of groups that are shown one by one.
 * @returns {(Step & { members?: string[] })[]}
 */
export function grouped(steps, opened) {
  /** @type {(Step & { members?: string[] })[]} */
  const rows = [];
  for (let first = 0; first < steps.length; ) {
    const step = /** @type {Step} */ (steps[first]);
    let end = first + 1;
    const isGroupable = (step.outcome === "ok" || step.outcome === "event") && step.run === null;
    const same = isGroupable ? sameness(step) : "";
    while (isGroupable && end < steps.length && sameness(/** @type {Step} */ (steps[end])) === same) end += 1;
    const members = steps.slice(first, end);
    const last = members.at(-1) ?? step;
    if (members.length < FEWEST_EQUAL) rows.push(...members);
    else if (opened.has(step.key)) rows.push({ ...step, members: [step.key] }, ...members.slice(1));
    else rows.push({ ...step, ended: last.ended, members: members.map((member) => member.key) });
    first = end;
  }
  return rows;
}

/** The texts of `sameness`, which are long to make. @type {WeakMap<Step, string>} */
const samenesses = new WeakMap();

/** Returns a text that is the same for equal steps that have ended. @param {Step} step */
function sameness(step) {
  const known = samenesses.get(step);
  if (known !== undefined) return known;
  const { name, kind, outcome, because, depth, run, isTakenOver, terminal, input, output } = step;
  const text = run === null ? JSON.stringify([name, kind, outcome, because, depth, isTakenOver, terminal, input, output]) : step.key;
  if (outcome === "ok" || outcome === "event") samenesses.set(step, text);
  return text;
}

/**
 * Returns a value in parts that a person can read: its texts of several lines each for itself, then what else there is. Pure.
 * @param {string} label The name of the value.
 * @param {unknown} value
 * @returns {{ name: string, text: string }[]}
 */
export function readableParts(label, value) {
  if (isEmpty(value)) return [];
  if (typeof value === "string") return [{ name: label, text: value }];
  if (typeof value !== "object" || value === null || Array.isArray(value)) return [{ name: label, text: JSON.stringify(value, null, 2) }];
  const isLong = (/** @type {unknown} */ field) => typeof field === "string" && field.trimEnd().includes("\n");
  const long = Object.entries(value).filter(([, field]) => isLong(field));
  const rest = Object.fromEntries(Object.entries(value).filter(([, field]) => !isLong(field)));
  const parts = long.map(([name, field]) => ({ name, text: String(field) }));
  return isEmpty(rest) ? parts : [...parts, { name: long.length > 0 ? "other fields" : label, text: JSON.stringify(rest, null, 2) }];
}

/** How deep runs are shown within each other. */
const DEEPEST = 16;

/**
 * Returns the lane of each span: the first free one, so that spans in a lane do not overlap.
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

/**
 * Returns the index of the step that a person looks for first: the one that failed first, else one that waits, else the last.
 * @param {Step[]} steps
 * @returns {number} -1 without steps.
 */
export function telling(steps) {
  let found = -1;
  for (const [index, step] of steps.entries()) {
    if (step.outcome !== "failed") continue;
    // A nested step ends with its outer step, or before it.
    if (found < 0 || (step.ended ?? Infinity) <= (steps[found]?.ended ?? Infinity)) found = index;
  }
  if (found >= 0) return found;
  const waiting = steps.findIndex((step) => step.outcome === "waiting");
  return waiting >= 0 ? waiting : steps.length - 1;
}

/** Returns whether there is nothing to show of a value. @param {unknown} value */
export function isEmpty(value) {
  return value === null || value === undefined || value === "" || (typeof value === "object" && Object.keys(value).length === 0);
}

/** The longest value of a field, and the longest text of a line, in characters. */
const BRIEF = { field: 40, line: 200 };

/**
 * Returns a value as a part of a line: the first line of a text, and the fields of an object that are short.
 * @param {unknown} value
 * @returns {string}
 */
export function brief(value) {
  if (isEmpty(value)) return "";
  if (typeof value !== "object" || value === null) return String(value).trim().split("\n", 1)[0]?.slice(0, BRIEF.line) ?? "";
  /** @param {unknown} inner */
  const short = (inner) => {
    if (typeof inner === "string") return brief(inner);
    const text = JSON.stringify(inner) ?? "";
    return text.length <= BRIEF.field ? text : Array.isArray(inner) ? `[${inner.length}]` : "{…}";
  };
  const parts = Array.isArray(value) ? value.slice(0, BRIEF.field).map(short) : Object.entries(value).filter(([, inner]) => !isEmpty(inner)).map(([name, inner]) => `${name}=${short(inner)}`);
  return parts.join(Array.isArray(value) ? ", " : " ").slice(0, BRIEF.line);
}

/** Fields of an action's input that name what it does; the first that it has stands for all. */
const SUBJECTS = ["command", "input_text", "pattern", "prompt", "workflow_name", "message"];

/**
 * Returns the input and the output of a step in one line.
 * @param {Step} step
 * @returns {string}
 */
export function gist(step) {
  const [input, output] = [/** @type {any} */ (step.input), /** @type {any} */ (step.output)];
  const subject = step.key.startsWith("state ") ? SUBJECTS.find((name) => !isEmpty(input?.[name])) : undefined;
  const { session_id: _terminal, ...rest } = typeof input === "object" && !Array.isArray(input) ? (input ?? {}) : {};
  const isObject = typeof input === "object" && !Array.isArray(input);
  const given = subject ? brief(input[subject]) : brief(isObject ? rest : input);
  const said = step.outcome === "failed" ? (output?.error ?? output) : (output?.output ?? output?.answer ?? output?.match_text ?? (isPlain(step) ? output : undefined));
  const told = step.key.startsWith("gate ") && output?.answer !== undefined ? brief(output.answer) : brief(said);
  return [given, told !== given ? told : ""].filter(Boolean).join(" → ");
}

/** Returns whether the output of a step is a value of its own, and not the reply of an action. @param {Step} step */
function isPlain(step) {
  return !/^(state|gate|branch) /.test(step.key);
}
