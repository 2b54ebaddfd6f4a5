// The steps of two runs, beside each other. Pure.

/**
 * @typedef {import("./timeline.js").Step} Step
 */

/**
 * Returns the steps of two runs beside each other: those of the same state and visit, or the same call, in one row. Pure.
 * @param {Step[]} one
 * @param {Step[]} other
 * @returns {{ key: string, one: Step | null, other: Step | null, differs: boolean }[]}
 */
export function beside(one, other) {
  const rest = new Map(other.map((step) => [keyOf(step), step]));
  const rows = one.map((step) => {
    const found = rest.get(keyOf(step)) ?? null;
    rest.delete(keyOf(step));
    return { key: keyOf(step), one: /** @type {Step | null} */ (step), other: found, differs: !found || isOther(step, found) };
  });
  return [...rows, ...[...rest].map(([key, step]) => ({ key, one: null, other: step, differs: true }))];
}

/** Runs and gates have other ids in each run. @param {Step} step */
function keyOf(step) {
  return /^(run|gate) /.test(step.key) ? `${step.kind} ${step.name}` : step.key;
}

/** @param {Step} one @param {Step} other */
function isOther(one, other) {
  const told = (/** @type {Step} */ step) => JSON.stringify([step.outcome, step.input ?? null]);
  return told(one) !== told(other);
}
