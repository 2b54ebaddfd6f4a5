// Mouse actions over a screen, in the format of the server. Pure.

/**
 * @typedef {{ action: "press" | "release" | "drag" | "move" | "wheel_up" | "wheel_down", button: number, col: number, row: number,
 *   shift: boolean, alt: boolean, ctrl: boolean }} MouseInput
 */

/**
 * Returns the cell at a point of a screen.
 * @param {{ x: number, y: number }} point Relative to the screen, in pixels.
 * @param {{ width: number, height: number }} size Of the screen, in pixels.
 * @param {{ cols: number, rows: number }} cells
 * @returns {{ col: number, row: number }}
 */
export function cellAt(point, size, { cols, rows }) {
  /** @param {number} part @param {number} count */
  const within = (part, count) => Math.max(0, Math.min(count - 1, Math.floor(part * count)));
  return { col: within(point.x / size.width, cols), row: within(point.y / size.height, rows) };
}

/** The height of a step of the wheel, in pixels: devices without steps send many small movements. */
const STEP = 40;

/** The most steps of one movement. */
const MOST_STEPS = 5;

/**
 * Gathers movements of a wheel into steps.
 * @param {number} rest What was left of the last movement, in pixels.
 * @param {number} delta
 * @param {number} mode The unit of `delta`: 0 pixels, 1 lines, 2 pages.
 * @returns {{ steps: number, rest: number }} Steps are negative where they show what is above.
 */
export function wheelSteps(rest, delta, mode) {
  const pixels = mode === 0 ? delta : delta * STEP;
  // A change of direction resets the remainder.
  const whole = (Math.sign(rest) === Math.sign(pixels) ? rest : 0) + pixels;
  const steps = Math.trunc(whole / STEP);
  return { steps: Math.max(-MOST_STEPS, Math.min(MOST_STEPS, steps)), rest: whole - steps * STEP };
}

/**
 * Returns whether a program that requested `reports` receives an action.
 * @param {string | undefined} reports
 * @param {MouseInput["action"]} action
 */
export function isReported(reports, action) {
  if (!reports) return false;
  if (action === "move") return reports === "moves";
  return action !== "drag" || reports !== "buttons";
}
