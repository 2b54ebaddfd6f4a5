// A screen in small, for the wall: watched only while it is in view.

import { advance, LINE } from "./font.js";
import { keep, on, send } from "./live.js";
import { Painter } from "./paint.js";
import { apply, blank, lastUsed } from "./screen.js";

/** The size of text before it is scaled, in pixels; as in the style sheet. */
const TEXT = 10;

/**
 * Shows the screen of a terminal in an element, scaled to it.
 * @param {HTMLElement} into
 * @param {string} terminal
 * @param {(screen: import("./screen.js").Screen) => void} [onChange] Called with the screen when it has changed.
 * @returns {() => void} Ends it.
 */
export function thumbnail(into, terminal, onChange) {
  const element = document.createElement("div");
  element.className = "screen small";
  into.replaceChildren(element);
  const painter = new Painter(element);
  const screen = blank();
  /** @type {() => void} */
  let leave = () => {};
  let isWatched = false;

  /** The room that there is, in pixels. */
  const room = { width: 0, height: 0 };

  function fit() {
    if (!screen.cols || !room.width) return;
    const scale = room.width / (screen.cols * advance() * TEXT);
    painter.set("--scale", String(scale));
    // The newest output is visible.
    const used = (lastUsed(screen) + 1) * LINE * TEXT;
    painter.set("--up", `${Math.min(0, room.height / scale - used)}px`);
  }

  const forget = on(`terminal ${terminal}`, (message) => {
    if (message.is !== "screen" || !isWatched) return;
    const rows = apply(screen, message);
    onChange?.(screen);
    requestAnimationFrame(() => {
      painter.paint(screen, rows);
      fit();
      send({ do: "ack", terminal, version: message["version"] });
    });
  });
  const seen = new IntersectionObserver((entries) => {
    const isSeen = entries.some((entry) => entry.isIntersecting);
    if (isSeen === isWatched) return;
    isWatched = isSeen;
    if (isSeen) leave = keep(`watch ${terminal}`, () => ({ do: "watch", terminal, rate: "thumb" }), { do: "leave", terminal });
    else leave();
  });
  seen.observe(into);
  const resized = new ResizeObserver(([entry]) => {
    if (!entry) return;
    Object.assign(room, { width: entry.contentRect.width, height: entry.contentRect.height });
    fit();
  });
  resized.observe(into);
  return () => {
    seen.disconnect();
    resized.disconnect();
    forget();
    if (isWatched) leave();
  };
}
