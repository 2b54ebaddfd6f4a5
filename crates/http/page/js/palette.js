// The palette: every place of the page by a few letters, with ctrl-k.

import { fill, h } from "./dom.js";
import { gates, lists } from "./store.js";
import { terminalName, visible } from "./words.js";

/** The most places that are listed. */
const MOST = 12;

/**
 * Returns the places that match, the best first: each letter occurs in order, and words that begin with it count more. Pure.
 * @template {{ name: string }} Place
 * @param {Place[]} places
 * @param {string} wanted
 * @returns {Place[]}
 */
export function matching(places, wanted) {
  const letters = wanted.toLowerCase().replaceAll(" ", "");
  return places
    .map((place) => ({ place, rank: rank(place.name.toLowerCase(), letters) }))
    .filter(({ rank }) => rank !== null)
    .sort((one, other) => Number(one.rank) - Number(other.rank))
    .map(({ place }) => place);
}

/** @param {string} name @param {string} letters @returns {number | null} */
function rank(name, letters) {
  let at = -1;
  let gaps = 0;
  for (const letter of letters) {
    const next = name.indexOf(letter, at + 1);
    if (next < 0) return null;
    gaps += next - at - 1 - (/[\s\-_/]/.test(name[next - 1] ?? " ") ? 2 : 0);
    at = next;
  }
  return gaps;
}

/** @returns {{ name: string, kind: string, address: string }[]} */
function places() {
  const known = lists();
  return [
    ...["Inbox", "Terminals", "Recordings", "Runs", "Workflows", "Search", "Overview", "Settings"].map((name) => ({ name, kind: "view", address: `#/${name.toLowerCase()}` })),
    ...(known ? gates(known).map((gate) => ({ name: visible(String(gate.prompt)).slice(0, 80), kind: "gate", address: "#/inbox" })) : []),
    ...(known?.terminals ?? []).map((terminal) => ({ name: terminalName(terminal), kind: "terminal", address: `#/terminals/${encodeURIComponent(terminal.session_id)}` })),
    ...(known?.runs ?? []).map((run) => ({ name: visible(`${run.workflow_id} ${run.run_id}`), kind: `run, ${run.state}`, address: `#/runs/${encodeURIComponent(run.run_id)}` })),
  ];
}

/** Opens the palette. */
export function openPalette() {
  if (document.querySelector("dialog[open]")) return;
  const list = h("ul", { class: "found", id: "found", role: "listbox", "aria-label": "Places" });
  const input = h("input", {
    type: "text", class: "grow", placeholder: "Go to…", autocomplete: "off", spellcheck: "false",
    role: "combobox", "aria-expanded": "true", "aria-controls": "found", "aria-label": "Go to",
  });
  const dialog = h("dialog", { class: "palette", "aria-label": "Go to" }, input, list);
  let chosen = 0;
  /** @type {ReturnType<typeof places>} */
  let found = [];

  function draw() {
    found = matching(places(), input.value).slice(0, MOST);
    chosen = Math.max(0, Math.min(chosen, found.length - 1));
    fill(
      list,
      found.map(({ name, kind }, index) => {
        const item = h("li", { role: "option", id: `found-${index}`, "aria-selected": String(index === chosen) }, h("span", {}, name), h("span", { class: "hint" }, kind));
        item.addEventListener("click", () => go(index));
        return item;
      }),
    );
    if (found.length) input.setAttribute("aria-activedescendant", `found-${chosen}`);
    else input.removeAttribute("aria-activedescendant");
  }

  /** @param {number} index */
  function go(index) {
    const place = found[index];
    dialog.close();
    if (place) location.hash = place.address;
  }

  input.addEventListener("input", () => {
    chosen = 0;
    draw();
  });
  input.addEventListener("keydown", (event) => {
    const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
    if (step) {
      chosen += step;
      draw();
      event.preventDefault();
    }
    if (event.key === "Enter") go(chosen);
  });
  dialog.addEventListener("close", () => dialog.remove());
  document.body.append(dialog);
  draw();
  dialog.showModal();
  input.focus();
}

addEventListener("keydown", (event) => {
  // In a terminal that is held, ctrl-k belongs to the program.
  const isTyping = document.activeElement?.classList.contains("keyboard");
  if (event.key === "k" && (event.ctrlKey || event.metaKey) && !event.altKey && !event.shiftKey && !isTyping) {
    event.preventDefault();
    openPalette();
  }
});
