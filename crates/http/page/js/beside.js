// Pairs of the steps of two runs. Pure.

import { steady } from "./differences.js";

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
  const unmatched = new Map(other.map((step) => [keyOf(step), step]));
  const rows = one.map((step) => {
    const match = unmatched.get(keyOf(step)) ?? null;
    unmatched.delete(keyOf(step));
    return { key: keyOf(step), one: /** @type {Step | null} */ (step), other: match, differs: !match || hasDifferences(step, match) };
  });
  return [...rows, ...[...unmatched].map(([key, step]) => ({ key, one: null, other: step, differs: true }))];
}

/** Runs and gates have other ids in each run. @param {Step} step */
function keyOf(step) {
  return /^(run|gate) /.test(step.key) ? `${step.kind} ${step.name}` : step.key;
}

/** Cached texts of ended steps, for comparison. @type {WeakMap<Step, string>} */
const compared = new WeakMap();

/** Returns whether two steps ended differently, or had other inputs or outputs. @param {Step} one @param {Step} other */
function hasDifferences(one, other) {
  return textOf(one) !== textOf(other);
}

/** @param {Step} step */
function textOf(step) {
  const known = compared.get(step);
  if (known !== undefined) return known;
  const text = JSON.stringify([step.outcome, steady(step.input), steady(step.output, isAction(step))]);
  // A step in progress still changes.
  if (step.ended !== null) compared.set(step, text);
  return text;
}

/** Returns whether the output of a step is the result of an action, whose fields are known. @param {Step} step */
export function isAction(step) {
  return step.key.startsWith("state ");
}
