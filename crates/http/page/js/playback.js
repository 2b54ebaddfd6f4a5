// The clock of a replay, and the frames that it has received. Pure.

/** How fast a recording can be replayed: from half its speed to sixteen times. */
export const SPEEDS = [0.5, 1, 2, 4, 8, 16];

/** The longest pause of a replay that skips pauses, in milliseconds, unless the recording names one. */
export const IDLE = 2000;

/** Below this length, in milliseconds, a recording is short. */
const SHORT = 60_000;

/**
 * A frame: its time since the beginning in milliseconds, and the change of the screen.
 * @typedef {{ at_ms: number, [field: string]: any }} RecordedFrame
 */

/**
 * Returns the time of a replay after a step of it. Where nothing is shown for longer than the cap, the time jumps to the next
 * frame once the cap has passed.
 * @param {number} at
 * @param {number} step
 * @param {{ last: number, next: number | null, cap: number | null }} frames The times of the last frame and of the next one.
 * @returns {number}
 */
export function advance(at, step, { last, next, cap }) {
  const now = at + step;
  const skips = cap !== null && next !== null && next - last > cap && now - last >= cap;
  return skips ? Math.max(now, next) : now;
}

/**
 * Takes the frames that are due out of a list of frames, in order.
 * @param {RecordedFrame[]} frames
 * @param {number} at
 * @returns {RecordedFrame[]}
 */
export function takeDue(frames, at) {
  const after = frames.findIndex((frame) => frame.at_ms > at);
  return frames.splice(0, after < 0 ? frames.length : after);
}

/**
 * Formats a time of a recording, as 1:02 or 1:00:02; with tenths of a second in a short recording, as 0:01.5.
 * @param {number} milliseconds
 * @param {number} [whole] The length of the recording in milliseconds.
 * @returns {string}
 */
export function clockTime(milliseconds, whole = Infinity) {
  const seconds = Math.floor(Math.max(0, milliseconds) / 1000);
  const parts = [Math.floor(seconds / 60) % 60, seconds % 60].map((part) => String(part).padStart(2, "0"));
  const hours = Math.floor(seconds / 3600);
  const tenths = whole < SHORT ? `.${Math.floor((Math.max(0, milliseconds) % 1000) / 100)}` : "";
  return hours ? `${hours}:${parts.join(":")}` : `${Number(parts[0])}:${parts[1]}${tenths}`;
}
