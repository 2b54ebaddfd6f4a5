// A screen in small, for the wall: watched only while it is in view.

import { keep, on, send } from "./live.js";
import { Painter } from "./paint.js";
import { apply, blank, lastUsed } from "./screen.js";

/**
 * Shows the screen of a terminal in an element, scaled to it.
 * @param {HTMLElement} into
 * @param {string} terminal
 * @returns {() => void} Ends it.
 */
export function thumbnail(into, terminal) {
  const element = document.createElement("div");
  element.className = "screen small";
  into.replaceChildren(element);
  const painter = new Painter(element);
  const screen = blank();
  /** @type {() => void} */
  let leave = () => {};
  let isWatched = false;

  function fit() {
    const width = element.offsetWidth;
    const height = element.offsetHeight;
    if (!width || !height) return;
    const scale = into.clientWidth / width;
    painter.set("--scale", String(scale));
    // What was printed last is in view.
    const used = ((lastUsed(screen) + 1) / screen.rows) * height;
    painter.set("--up", `${Math.min(0, into.clientHeight / scale - used)}px`);
  }

  const forget = on(`terminal ${terminal}`, (message) => {
    if (message.is !== "screen" || !isWatched) return;
    const rows = apply(screen, message);
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
  const resized = new ResizeObserver(fit);
  resized.observe(into);
  return () => {
    seen.disconnect();
    resized.disconnect();
    forget();
    if (isWatched) leave();
    painter.end();
  };
}
