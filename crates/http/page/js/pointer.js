// The mouse over a screen: for programs that request it, for links, and for the scrollback.

import { addressAt } from "./links.js";
import { cellAt, isReported, wheelSteps } from "./mouse.js";

/** @typedef {import("./mouse.js").MouseInput} MouseInput */

/**
 * The inputs and the actions of the mouse.
 * @typedef {{
 *   screen: import("./screen.js").Screen,
 *   isHeld: () => boolean,
 *   send: (inputs: MouseInput[]) => void,
 *   focus: () => void,
 *   scroll: () => void,
 *   hint: (words: string | null) => void,
 *   visit: (address: string) => void,
 * }} Uses
 */

/**
 * Follows the mouse over the element of a screen.
 * @param {HTMLElement} element
 * @param {Uses} uses
 */
export function followPointer(element, uses) {
  /** The button that is pressed. @type {number | null} */
  let pressed = null;
  let rest = 0;
  /** The cell of the last movement. */
  let last = "";
  let isHinted = false;

  const wants = () => (uses.isHeld() ? uses.screen.state.mouse : undefined);

  /** @param {MouseEvent} event */
  function cell(event) {
    const box = element.getBoundingClientRect();
    return cellAt({ x: event.clientX - box.left, y: event.clientY - box.top }, box, uses.screen);
  }

  /** @param {MouseEvent} event @param {MouseInput["action"]} action @param {number} button @returns {MouseInput} */
  const input = (event, action, button) => ({ action, button, ...cell(event), shift: event.shiftKey, alt: event.altKey, ctrl: event.ctrlKey });

  element.addEventListener("mousedown", (event) => {
    // With shift, the mouse selects text even if the program requests the mouse.
    if (!wants() || event.shiftKey || event.button > 2) return;
    event.preventDefault();
    uses.focus();
    pressed = event.button;
    uses.send([input(event, "press", event.button)]);
  });
  // The button may be released elsewhere.
  const released = (/** @type {MouseEvent} */ event) => {
    if (pressed === null) return;
    if (wants()) uses.send([input(event, "release", pressed)]);
    pressed = null;
  };
  addEventListener("mouseup", released);
  element.addEventListener("mousemove", (event) => {
    const { col, row } = cell(event);
    if (last === `${col} ${row}`) return;
    last = `${col} ${row}`;
    const action = pressed === null ? "move" : "drag";
    if (isReported(wants(), action) && !event.shiftKey) {
      uses.send([input(event, action, pressed ?? 0)]);
      if (action === "drag" && !isHinted) {
        isHinted = true;
        uses.hint("The program has the mouse. Shift-drag selects text.");
      }
      return;
    }
    const address = addressAt(uses.screen, { col, row });
    element.classList.toggle("at-address", Boolean(address));
    if (address || isHinted) uses.hint(address);
    isHinted = Boolean(address);
  });
  element.addEventListener("mouseleave", () => {
    uses.hint(null);
    isHinted = false;
    last = "";
  });
  element.addEventListener("click", (event) => {
    const isForProgram = wants() && !event.shiftKey && !event.ctrlKey;
    if (isForProgram || !getSelection()?.isCollapsed) return;
    const address = addressAt(uses.screen, cell(event));
    if (address) uses.visit(address);
  });
  element.addEventListener("contextmenu", (event) => {
    if (wants() && !event.shiftKey) event.preventDefault();
  });
  element.addEventListener("wheel", (event) => {
    // With a key, the browser zooms or scrolls sideways.
    if (event.ctrlKey || event.shiftKey || !event.deltaY) return;
    const turned = wheelSteps(rest, event.deltaY, event.deltaMode);
    rest = turned.rest;
    if (uses.isHeld() && (wants() || uses.screen.state.alternate)) {
      event.preventDefault();
      const action = turned.steps < 0 ? "wheel_up" : "wheel_down";
      if (turned.steps) uses.send(Array.from({ length: Math.abs(turned.steps) }, () => input(event, action, 0)));
    } else if (turned.steps < 0 && !uses.screen.state.alternate) {
      event.preventDefault();
      uses.scroll();
    }
  }, { passive: false });
  return () => removeEventListener("mouseup", released);
}
