// One recording: its screen at any time, played at a speed, with the marks of the runs that worked in its terminal.

import { ask } from "./api.js";
import { fill, h, icon, setText } from "./dom.js";
import { advance as cellWidth, MARGIN } from "./font.js";
import { keep, on } from "./live.js";
import { marksOf, runsDuring } from "./marks.js";
import { Painter } from "./paint.js";
import { advance, clockTime, IDLE, SPEEDS, takeDue } from "./playback.js";
import { apply, blank } from "./screen.js";
import { addEvent, emptyTimeline, isNext } from "./timeline.js";
import { showTitle } from "./title.js";
import { timeAgo, visible } from "./words.js";

export const title = "Recording";

/** The sizes of text, in pixels. */
const TEXT = { least: 5, most: 15 };

/** The most runs whose marks are shown: a tab follows few. */
const MOST_RUNS = 24;

/** How far the arrow keys go, in milliseconds. */
const LEAP = 5000;

/**
 * A stretch of the recording.
 * @typedef {{ frames: import("./playback.js").RecordedFrame[], next_ms?: number }} Stretch
 */

/**
 * @param {HTMLElement} into
 * @param {string[]} parts
 */
export function show(into, parts) {
  const id = parts[0] ?? "";
  const screen = blank();
  /** The time that is shown, in milliseconds. */
  let at = /^\d+$/.test(parts[1] ?? "") ? Number(parts[1]) : 0;
  let duration = 0;
  let isPlaying = false;
  let isOver = false;
  /** The time of the last frame that is shown. */
  let last = 0;
  /** Frames that are not shown yet. @type {import("./playback.js").RecordedFrame[]} */
  let frames = [];
  /** The stretch behind them. @type {Promise<Stretch> | null} */
  let next = null;
  /** Counts the seeks: what an earlier one brings is not shown. */
  let seeks = 0;
  /** @type {any} */
  let recording = null;
  /** @type {import("./marks.js").Mark[]} */
  let marks = [];
  /** @type {{ at_ms: number, label: string }[]} */
  let markers = [];

  const name = h("h1", {});
  const facts = h("span", { class: "hint grow" });
  const terminal = h("a", { class: "button", hidden: true }, icon("terminal"), "Terminal");
  const problem = h("p", { class: "problem", role: "alert", hidden: true });
  const damage = h("p", { class: "trouble", role: "status", hidden: true });
  const element = h("div", { class: "screen", role: "group", "aria-label": "Screen of the recording" });
  const stage = h("div", { class: "stage", hidden: true }, element);
  const play = h("button", { class: "primary play" });
  const position = h("input", { type: "range", class: "grow", min: "0", max: "0", step: "1", value: "0", "aria-label": "Time" });
  const ticks = h("div", { class: "ticks", "aria-hidden": "true" });
  const time = h("span", { class: "clock" });
  const speed = h("select", { "aria-label": "Speed" }, SPEEDS.map((factor) => h("option", { value: String(factor), selected: factor === 1 }, `${factor}×`)));
  const skips = h("input", { type: "checkbox", checked: true });
  const skipsLabel = h("span", {}, "Skip pauses");
  const list = h("ol", { class: "marks" });
  const marksCard = h("section", { class: "card", "aria-label": "Marks", hidden: true }, h("h2", {}, "Marks"), list);
  const controls = h(
    "div",
    { class: "controls", role: "group", "aria-label": "Replay", hidden: true },
    play,
    h("div", { class: "line-of-time grow" }, position, ticks),
    time,
    speed,
    h("label", { class: "check" }, skips, skipsLabel),
  );
  fill(
    into,
    h("header", { class: "head" }, h("a", { class: "button quiet", href: "#/recordings", "aria-label": "All recordings" }, icon("back")), name, facts, terminal),
    problem,
    damage,
    stage,
    controls,
    marksCard,
  );
  const painter = new Painter(element);
  /** The longest pause, in milliseconds. */
  let idle = IDLE;

  // ---- display ----

  function scale() {
    if (!screen.cols) return;
    const size = Math.max(TEXT.least, Math.min(TEXT.most, (stage.clientWidth - 2 * MARGIN) / (screen.cols * cellWidth())));
    painter.set("font-size", `${Math.floor(size * 10) / 10}px`);
  }

  /** @param {import("./playback.js").RecordedFrame[]} due */
  function paint(due) {
    if (!due.length) return;
    const { cols, rows } = screen;
    /** @type {Set<number>} */
    const changed = new Set();
    for (const frame of due) for (const row of apply(screen, frame)) changed.add(row);
    last = due.at(-1)?.at_ms ?? last;
    if (cols !== screen.cols || rows !== screen.rows) scale();
    painter.paint(screen, [...changed]);
  }

  function showTime() {
    position.value = String(Math.round(at));
    position.setAttribute("aria-valuetext", `${clockTime(at, duration)} of ${clockTime(duration, duration)}`);
    setText(time, `${clockTime(at, duration)} / ${clockTime(duration, duration)}`);
    const current = marks.findLastIndex((mark) => mark.at <= at);
    for (const [index, item] of [...list.children].entries()) {
      if (index === current) item.setAttribute("aria-current", "true");
      else item.removeAttribute("aria-current");
    }
  }

  function showButton() {
    fill(play, icon(isPlaying ? "pause" : "play"), isPlaying ? "Pause" : "Play");
  }

  // ---- time ----

  /**
   * Reads a stretch. It stays unhandled until it is needed, and fails then.
   * @param {number} from
   * @returns {Promise<Stretch>}
   */
  function read(from) {
    const reading = ask("GET", `/recordings/${encodeURIComponent(id)}`, { at_ms: Math.round(from) });
    reading.catch(() => {});
    return reading;
  }

  /** @param {any} reply */
  function know(reply) {
    recording = reply.recording;
    duration = reply.duration_ms;
    position.max = String(duration);
    if (reply.idle_limit_ms) idle = Math.max(100, reply.idle_limit_ms);
    setText(skipsLabel, `Skip pauses over ${(idle / 1000).toLocaleString()} s`);
    damage.hidden = !reply.damage;
    setText(damage, reply.damage ? `Not all of this recording can be read: ${reply.damage}. What comes before that is shown.` : "");
    const label = visible(recording.title ?? recording.session_id);
    setText(name, label);
    showTitle(`Recording of ${label}`);
    setText(facts, `recorded ${timeAgo(recording.began, Date.now())} · ${screen.cols} × ${screen.rows} · ${visible(recording.file)}`);
    terminal.href = `#/terminals/${encodeURIComponent(recording.session_id)}`;
    markers = reply.markers ?? [];
  }

  /** @param {unknown} error */
  function fails(error) {
    isPlaying = false;
    showButton();
    problem.textContent = error instanceof Error ? error.message : String(error);
    problem.hidden = false;
  }

  /**
   * Takes a stretch: its frames follow those that are shown.
   * @param {Stretch} stretch
   */
  function take(stretch) {
    frames = [...stretch.frames];
    next = stretch.next_ms === undefined ? null : read(stretch.next_ms);
  }

  /** @param {number} to */
  async function seek(to) {
    const mine = (seeks += 1);
    at = Math.max(0, duration ? Math.min(duration, to) : to);
    showTime();
    try {
      const reply = await read(at);
      if (mine !== seeks || isOver) return;
      const isFirst = recording === null;
      stage.hidden = false;
      controls.hidden = false;
      take(reply);
      paint(takeDue(frames, at));
      know(reply);
      at = Math.min(at, duration);
      showTime();
      if (isFirst) findMarks();
    } catch (error) {
      if (mine === seeks && !isOver) fails(error);
    }
  }

  let before = 0;
  let isWaiting = false;

  /** @param {number} now */
  function tick(now) {
    if (!isPlaying || isOver) return;
    const step = Math.min(1000, now - before) * Number(speed.value);
    before = now;
    if (!frames.length && next && !isWaiting) {
      isWaiting = true;
      const mine = seeks;
      next.then(
        (reply) => {
          isWaiting = false;
          if (mine === seeks && !isOver) take(reply);
        },
        (error) => {
          isWaiting = false;
          if (mine === seeks && !isOver) fails(error);
        },
      );
    }
    if (frames.length || !next) {
      at = Math.min(duration, advance(at, step, { last, next: frames[0]?.at_ms ?? null, cap: skips.checked ? idle : null }));
      paint(takeDue(frames, at));
      showTime();
      if (at >= duration && !frames.length && !next) {
        isPlaying = false;
        showButton();
        return;
      }
    }
    requestAnimationFrame(tick);
  }

  function toggle() {
    isPlaying = !isPlaying;
    problem.hidden = true;
    showButton();
    if (!isPlaying) return;
    const start = () => {
      before = performance.now();
      requestAnimationFrame(tick);
    };
    if (at >= duration) seek(0).then(start);
    else start();
  }

  play.addEventListener("click", toggle);
  position.addEventListener("input", () => seek(Number(position.value)));

  /** @param {KeyboardEvent} event */
  function press(event) {
    if (event.ctrlKey || event.altKey || event.metaKey || document.querySelector("dialog[open]")) return;
    const target = /** @type {HTMLElement} */ (event.target);
    const isControl = target.matches("button, a, input, select");
    if (event.key === " " && !isControl) toggle();
    else if (event.key === "ArrowLeft" && (!isControl || target === position)) seek(at - LEAP);
    else if (event.key === "ArrowRight" && (!isControl || target === position)) seek(at + LEAP);
    else return;
    event.preventDefault();
  }
  document.addEventListener("keydown", press);

  // ---- marks ----

  /** The runs that were in progress meanwhile. @type {Map<string, { run: any, timeline: import("./timeline.js").Timeline, seen: number }>} */
  const during = new Map();
  /** @type {(() => void)[]} */
  const forgets = [];
  let isDue = false;

  async function findMarks() {
    showMarks();
    const { runs } = await ask("GET", "/runs", { limit: 200 }).catch(() => ({ runs: [] }));
    if (isOver) return;
    for (const run of runsDuring(runs, recording, MOST_RUNS)) {
      const known = { run, timeline: emptyTimeline(), seen: 0 };
      during.set(run.run_id, known);
      forgets.push(keep(`follow ${run.run_id}`, () => ({ do: "follow", run: run.run_id, from: known.seen + 1 }), { do: "unfollow", run: run.run_id }));
    }
    const { terminals } = await ask("GET", "/terminals").then((reply) => ({ terminals: reply.sessions ?? [] }), () => ({ terminals: [] }));
    terminal.hidden = !terminals.some((/** @type {any} */ one) => one.session_id === recording.session_id);
  }

  forgets.push(
    on("event", ({ event }) => {
      const known = during.get(event.run_id);
      if (!known || !isNext(event, known.seen)) return;
      known.seen = event.seq;
      addEvent(known.timeline, event);
      if (isDue) return;
      isDue = true;
      requestAnimationFrame(showMarks);
    }),
  );

  function showMarks() {
    isDue = false;
    marks = marksOf(recording, duration, [...during.values()], markers);
    marksCard.hidden = marks.length === 0;
    fill(
      list,
      marks.map((mark) =>
        h(
          "li",
          { "data-kind": mark.kind },
          h("button", { class: "quiet", onclick: () => seek(mark.at) }, h("span", { class: "clock" }, clockTime(mark.at, duration)), h("span", { class: "mark-name" }, visible(mark.label))),
          mark.run ? h("a", { href: `#/runs/${encodeURIComponent(mark.run)}`, "aria-label": `Run ${mark.run}` }, icon("run")) : null,
        ),
      ),
    );
    fill(
      ticks,
      marks.map((mark) => {
        const tick = h("span", { "data-kind": mark.kind });
        tick.style.setProperty("--at", String(duration ? mark.at / duration : 0));
        return tick;
      }),
    );
    showTime();
  }

  const resized = new ResizeObserver(scale);
  resized.observe(stage);
  showButton();
  seek(at);
  return () => {
    isOver = true;
    resized.disconnect();
    document.removeEventListener("keydown", press);
    for (const forget of forgets) forget();
  };
}
