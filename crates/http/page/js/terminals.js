// The wall: every terminal with its screen in small and its state.

import { announce, fill, h, icon, setText } from "./dom.js";
import { terminalOpening } from "./open_terminal.js";
import { listen } from "./store.js";
import { thumbnail } from "./thumbnail.js";
import { terminalName, terminalPlace, terminalState, timeAgo, visible } from "./words.js";

export const title = "Terminals";

/**
 * @typedef {{ element: HTMLElement, update: (terminal: any) => void, end: () => void }} Card
 */

/** @param {HTMLElement} into */
export function show(into) {
  const { parts, open, end } = wallOfTerminals();
  fill(into, h("header", { class: "head" }, h("h1", { class: "grow" }, title), h("a", { class: "button", href: "#/recordings" }, icon("tape"), "Recordings"), open), parts);
  return end;
}

/**
 * The terminals, a card each, and the buttons that open one.
 * @returns {{ parts: HTMLElement[], open: HTMLElement, end: () => void }}
 */
export function wallOfTerminals() {
  /** @type {Map<string, Card>} */
  const cards = new Map();
  const wall = h("ul", { class: "wall" });
  const none = h("p", { class: "hint", hidden: true }, "No terminal is open. Agents open them, and so does the button above.");
  const { buttons, problem } = terminalOpening();

  const forget = listen(({ terminals }) => {
    none.hidden = terminals.length > 0;
    const currentIds = new Set(terminals.map((terminal) => terminal.session_id));
    for (const [id, card] of cards) {
      if (currentIds.has(id)) continue;
      card.end();
      card.element.remove();
      cards.delete(id);
      announce("A terminal was closed");
    }
    for (const terminal of terminals) {
      let known = cards.get(terminal.session_id);
      if (!known) {
        known = card(terminal.session_id);
        cards.set(terminal.session_id, known);
        wall.append(known.element);
      }
      known.update(terminal);
    }
  });
  const end = () => {
    forget();
    for (const card of cards.values()) card.end();
  };
  return { parts: [problem, none, wall], open: buttons, end };
}

/**
 * @param {string} id
 * @returns {Card}
 */
function card(id) {
  const picture = h("div", { class: "thumb", "aria-hidden": "true" });
  const name = h("span", { class: "name" });
  const state = h("span", { class: "chip" });
  const holder = h("span", { class: "chip held", hidden: true });
  const more = h("span", { class: "more" });
  const element = h(
    "li",
    {},
    h("a", { class: "terminal-card", href: `#/terminals/${encodeURIComponent(id)}` }, picture, h("span", { class: "line" }, name, state), h("span", { class: "line" }, more, holder)),
  );
  /** @type {any} */
  let known = null;
  /** Whether a full-screen program has the screen, as the picture says. */
  let isFullScreen = false;

  function showState() {
    if (!known) return;
    const { word, tone } = terminalState({ ...known, alternate_screen: isFullScreen }, Date.now());
    setText(state, word);
    state.dataset["tone"] = tone;
  }

  return {
    element,
    end: thumbnail(picture, id, (screen) => {
      isFullScreen = Boolean(screen.state.alternate);
      showState();
    }),
    update(terminal) {
      known = terminal;
      showState();
      setText(name, terminalName(terminal));
      holder.hidden = !terminal.held_by;
      setText(holder, terminal.held_by ? `held by ${visible(terminal.held_by)}` : "");
      const last = timeAgo(new Date(terminal.last_activity * 1000).toISOString(), Date.now());
      setText(more, [terminalPlace(terminal), terminal.opened_by && `by ${visible(terminal.opened_by)}`, last].filter(Boolean).join(" · "));
    },
  };
}
