// The marks of a recording: where runs began and entered states while its terminal was recorded. Pure.

/**
 * A mark: its time since the beginning of the recording in milliseconds, and the run that it is of, if it is of one.
 * @typedef {{ at: number, label: string, kind: "run" | "step" | "marker", run: string | null }} Mark
 */

/**
 * The time and the terminal of a recording.
 * @typedef {{ recording_id: string, session_id: string, title?: string, began: string, changed: string }} Recording
 */

/** The most marks of a recording. */
const MOST = 500;

/**
 * Returns whether a step works in the terminal of a recording, given by its id or its name.
 * @param {import("./timeline.js").Step} step
 * @param {Recording} recording
 */
export function worksIn(step, recording) {
  const output = /** @type {any} */ (step.output);
  const named = [step.terminal, output?.session_id].filter(Boolean);
  return named.includes(recording.session_id) || Boolean(recording.title && named.includes(recording.title));
}

/**
 * Returns the runs that were in progress while a recording was made, the newest first.
 * @param {any[]} runs
 * @param {Recording} recording
 * @param {number} most
 * @returns {any[]}
 */
export function runsDuring(runs, recording, most) {
  const [from, to] = [Date.parse(recording.began), Date.parse(recording.changed)];
  const during = runs.filter((run) => Date.parse(run.started_at) <= to && (!run.completed_at || Date.parse(run.completed_at) >= from));
  return during.sort((one, other) => String(other.started_at).localeCompare(String(one.started_at))).slice(0, most);
}

/**
 * Returns the marks of a recording in the order of time. A run has marks if one of its steps works in the terminal.
 * @param {Recording} recording
 * @param {number} duration In milliseconds.
 * @param {{ run: any, timeline: import("./timeline.js").Timeline }[]} runs
 * @param {{ at_ms: number, label: string }[]} markers Those in the file.
 * @returns {Mark[]}
 */
export function marksOf(recording, duration, runs, markers) {
  const began = Date.parse(recording.began);
  /** @type {Mark[]} */
  const marks = markers.map(({ at_ms, label }) => ({ at: at_ms, label: label || "marker", kind: "marker", run: null }));
  for (const { run, timeline } of runs) {
    const steps = timeline.steps.filter((step) => worksIn(step, recording));
    if (!steps.length) continue;
    if (timeline.began !== null) marks.push({ at: timeline.began - began, label: `${run.workflow_id} began`, kind: "run", run: run.run_id });
    for (const step of steps) marks.push({ at: step.began - began, label: step.name, kind: "step", run: run.run_id });
    if (timeline.ended !== null) {
      const how = timeline.error ? "failed" : "ended";
      marks.push({ at: timeline.ended - began, label: `${run.workflow_id} ${how}`, kind: "run", run: run.run_id });
    }
  }
  return marks.filter(({ at }) => at >= 0 && at <= duration).sort((one, other) => one.at - other.at).slice(0, MOST);
}

/**
 * Returns the recording that shows a step, and the time of the step in it.
 * @param {import("./timeline.js").Step} step
 * @param {Recording[]} recordings
 * @returns {{ recording: Recording, at: number } | null}
 */
export function recordingOf(step, recordings) {
  const shows = recordings.find((recording) => worksIn(step, recording) && Date.parse(recording.began) <= step.began && step.began <= Date.parse(recording.changed));
  return shows ? { recording: shows, at: step.began - Date.parse(shows.began) } : null;
}
