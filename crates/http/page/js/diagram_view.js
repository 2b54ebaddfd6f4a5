// The diagram of a run or a workflow with its tools: a size to choose, a search for states, and chains of states as one card each.

import { diagram, statesOf } from "./diagram.js";
import { fill, h, setText } from "./dom.js";

/** The sizes of a diagram, in parts of its natural size; and how much a button changes it. */
const [MIN_ZOOM, MAX_ZOOM, ZOOM_STEP] = [0.1, 3, 1.25];

/** The most states that are shown in their natural size at first. */
const MOST_READABLE = 12;

/**
 * Returns the size in which a picture fits an area; never larger than its natural size. Pure.
 * @param {{ width: number, height: number }} picture
 * @param {{ width: number, height: number }} area
 */
export function fittingZoom(picture, area) {
  if (!(picture.width > 0 && picture.height > 0 && area.width > 0 && area.height > 0)) return 1;
  return bounded(Math.min(1, area.width / picture.width, area.height / picture.height));
}

/** @param {number} zoom */
function bounded(zoom) {
  return Math.min(MAX_ZOOM, Math.max(MIN_ZOOM, zoom));
}

/**
 * Returns the names of the states that contain a text, those that begin with it first. Pure.
 * @param {Iterable<string>} names
 * @param {string} wanted
 */
export function matchingStates(names, wanted) {
  const lower = wanted.trim().toLowerCase();
  if (!lower) return [];
  const found = [...names].filter((name) => name.toLowerCase().includes(lower));
  const begins = (/** @type {string} */ name) => name.toLowerCase().startsWith(lower);
  return [...found.filter(begins), ...found.filter((name) => !begins(name))];
}

/**
 * A diagram with its tools.
 * @param {{ svg: string, collapsed_svg?: string | null }} drawn As the server draws it.
 * @param {(state: string) => void} pick Called for a state that a person clicks, and with the cards of a picture that is built anew.
 * @param {() => void} redrawn Called after another picture was built.
 */
export function diagramView(drawn, pick, redrawn) {
  /** The cards of the states. @type {Map<string, SVGElement>} */
  let cards = new Map();
  /** @type {SVGElement | null} */
  let picture = null;
  let zoom = 1;
  /** The place of the search among its matches. */
  let place = -1;
  const area = h("div", { class: "drawn", tabindex: "0", role: "group", "aria-label": "Diagram" });
  const percent = h("span", { class: "hint percent", role: "status" });
  const search = h("input", { type: "search", class: "grow", placeholder: "Find a state", "aria-label": "Find a state", autocomplete: "off", spellcheck: "false" });
  const count = h("span", { class: "hint", role: "status" });
  const chains = h("input", { type: "checkbox" });
  const chainsLabel = h("label", { class: "line", hidden: !drawn.collapsed_svg }, chains, "Chains as one");
  const tools = h(
    "div",
    { class: "line tools" },
    h("button", { onclick: () => fit() }, "Fit"),
    h("button", { "aria-label": "Smaller", onclick: () => setZoom(zoom / ZOOM_STEP) }, "−"),
    h("button", { "aria-label": "Larger", onclick: () => setZoom(zoom * ZOOM_STEP) }, "+"),
    h("button", { title: "Natural size", onclick: () => setZoom(1) }, "1:1"),
    percent,
    chainsLabel,
    search,
    count,
  );

  /** Shows the picture in another size; the middle of what is seen stays there. @param {number} wanted */
  function setZoom(wanted) {
    if (!picture) return;
    const before = zoom;
    zoom = bounded(wanted);
    const box = natural();
    const middle = { x: area.scrollLeft + area.clientWidth / 2, y: area.scrollTop + area.clientHeight / 2 };
    picture.setAttribute("width", String(Math.round(box.width * zoom)));
    picture.setAttribute("height", String(Math.round(box.height * zoom)));
    area.scrollLeft = (middle.x * zoom) / before - area.clientWidth / 2;
    area.scrollTop = (middle.y * zoom) / before - area.clientHeight / 2;
    setText(percent, `${Math.round(zoom * 100)} %`);
  }

  /** Returns the natural size of the picture. */
  function natural() {
    const [, , width = 0, height = 0] = (picture?.getAttribute("viewBox") ?? "").split(" ").map(Number);
    return { width, height };
  }

  function fit() {
    setZoom(fittingZoom(natural(), { width: area.clientWidth - 2, height: Math.max(area.clientHeight, window.innerHeight * 0.6) }));
  }

  function build() {
    const made = diagram(chains.checked && drawn.collapsed_svg ? drawn.collapsed_svg : drawn.svg);
    if (!made) return;
    picture = made.element;
    picture.setAttribute("aria-label", "Diagram of the states");
    cards = new Map();
    for (const [name, card] of made.cards) {
      const states = statesOf(name);
      for (const state of states) cards.set(state, card);
      // A chain leads to the state that ran last.
      card.addEventListener("click", () => pick(card.dataset["last"] ?? states[0] ?? name));
    }
    fill(area, picture);
    zoom = 1;
    setText(percent, "100 %");
    redrawn();
    find(0);
  }

  /** Marks the states with the text of the search, and shows one of them. @param {number} step How far to go on from the last one. */
  function find(step) {
    const found = matchingStates(cards.keys(), search.value);
    const shown = [...new Set(found.map((name) => cards.get(name)))];
    place = shown.length === 0 ? -1 : (Math.max(place, 0) + step + shown.length) % shown.length;
    for (const card of new Set(cards.values())) {
      card.toggleAttribute("data-found", shown.includes(card));
      card.toggleAttribute("data-current", card === shown[place]);
    }
    setText(count, search.value.trim() === "" ? "" : shown.length === 0 ? "No state" : `${place + 1} of ${shown.length}`);
    if (place >= 0 && search.value.trim() !== "") shown[place]?.scrollIntoView({ block: "center", inline: "center" });
  }

  search.addEventListener("input", () => {
    place = -1;
    find(0);
  });
  search.addEventListener("keydown", (event) => {
    if (event.key !== "Enter") return;
    event.preventDefault();
    find(event.shiftKey ? -1 : 1);
  });
  chains.addEventListener("change", () => {
    build();
    fit();
  });
  area.addEventListener("wheel", (event) => {
    // As in a map: the wheel alone scrolls.
    if (!event.ctrlKey) return;
    event.preventDefault();
    setZoom(event.deltaY < 0 ? zoom * ZOOM_STEP : zoom / ZOOM_STEP);
  }, { passive: false });
  build();

  return {
    element: h("div", {}, tools, area),
    /** Returns the cards of the states, by their names. Several states may have the same one. */
    cards: () => cards,
    /** Sets the first size, once the diagram is seen. */
    begin: () => {
      if (cards.size > MOST_READABLE || natural().width > area.clientWidth) fit();
    },
  };
}
