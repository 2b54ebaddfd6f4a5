// The diagram of a machine: drawn by the server as SVG, built here of elements that are known, with the states of a run.

import { visible } from "./words.js";

const SVG = "http://www.w3.org/2000/svg";

/** The elements that a diagram has, and the attributes that they have. Others are left out. @type {Record<string, string[]>} */
const KNOWN = {
  svg: ["width", "height", "viewBox"],
  g: ["class", "transform"],
  defs: [],
  marker: ["id", "viewBox", "refX", "refY", "markerWidth", "markerHeight", "markerUnits", "orient"],
  path: ["class", "d", "marker-end"],
  rect: ["class", "width", "height", "rx"],
  circle: ["class", "cx", "cy", "r"],
  text: ["class", "x", "y"],
  title: [],
};

/**
 * An element of a diagram.
 * @typedef {{ tag: string, attributes: [string, string][], children: (Part | string)[] }} Part
 */

/** @type {Record<string, string>} */
const ENTITIES = { "&lt;": "<", "&gt;": ">", "&quot;": '"', "&#39;": "'", "&amp;": "&" };

/** @param {string} text */
const plain = (text) => text.replace(/&(?:lt|gt|quot|#39|amp);/g, (entity) => ENTITIES[entity] ?? entity);

/**
 * Parses a diagram of the server. Omits unknown elements with their content. Pure.
 * @param {string} text
 * @returns {Part | null}
 */
export function readDiagram(text) {
  /** @type {Part[]} */
  const open = [{ tag: "", attributes: [], children: [] }];
  /** How deep what is read is in something that is left out. */
  let left = 0;
  for (const [whole, close, tag = "", attributes = "", empty] of text.matchAll(/<(\/?)([\w:-]+)((?:\s+[\w:-]+="[^"]*")*)\s*(\/?)>|[^<]+/g)) {
    const last = open.at(-1);
    if (!last) return null;
    if (!tag) {
      if (!left && (last.tag === "text" || last.tag === "title")) last.children.push(plain(whole));
    } else if (close) {
      if (left) left -= 1;
      else if (open.length > 1) open.pop();
    } else if (left || !Object.hasOwn(KNOWN, tag)) {
      if (!empty) left += 1;
    } else {
      const given = [...attributes.matchAll(/([\w:-]+)="([^"]*)"/g)].map(([, name = "", value = ""]) => /** @type {[string, string]} */ ([name, plain(value)]));
      const part = { tag, attributes: given.filter(([name]) => KNOWN[tag]?.includes(name)), children: [] };
      last.children.push(part);
      if (!empty) open.push(part);
    }
  }
  const first = open[0]?.children[0];
  return first && typeof first !== "string" && first.tag === "svg" ? first : null;
}

/**
 * Returns the name of the state that a card is of. Long names are cut in the picture, and whole in their titles. Pure.
 * @param {Part} card
 */
export function stateOf(card) {
  const name = card.children.find((child) => typeof child !== "string" && child.attributes.some(([key, value]) => key === "class" && value === "name"));
  if (!name || typeof name === "string") return null;
  const whole = name.children.find((child) => typeof child !== "string" && child.tag === "title");
  return [...(whole && typeof whole !== "string" ? whole.children : name.children)].filter((child) => typeof child === "string").join("");
}

/** Returns the states of a card, whose name is that of one state, or has a line for each state of a chain. Pure. @param {string} name */
export function statesOf(name) {
  return name.split("\n");
}

let diagrams = 0;

/**
 * Builds a diagram.
 * @param {string} svg As the server draws it.
 * @returns {{ element: SVGElement, cards: Map<string, SVGElement> } | null} With the cards of states by their names.
 */
export function diagram(svg) {
  const root = readDiagram(svg);
  if (!root) return null;
  diagrams += 1;
  // Ids belong to the document: each diagram has its own.
  const own = `diagram${diagrams}-`;
  /** @type {Map<string, SVGElement>} */
  const cards = new Map();
  /** @param {Part} part @returns {SVGElement} */
  const build = (part) => {
    const element = /** @type {SVGElement} */ (document.createElementNS(SVG, part.tag));
    for (const [name, value] of part.attributes) {
      element.setAttribute(name, name === "id" ? own + value : value.replace(/^url\(#(\w+)\)$/, `url(#${own}$1)`));
    }
    for (const child of part.children) element.append(typeof child === "string" ? visible(child) : build(child));
    if (part.tag === "g") {
      const state = stateOf(part);
      if (state !== null) cards.set(state, element);
    }
    return element;
  };
  const element = build(root);
  element.classList.add("diagram");
  element.setAttribute("role", "img");
  return { element, cards };
}

/**
 * Shows the progress of a run: the executed states, the outcome of their last visits, and the current state.
 * @param {Map<string, SVGElement>} cards
 * @param {import("./timeline.js").Step[]} steps
 */
export function showProgress(cards, steps) {
  /** @type {Map<string, string>} */
  const outcomes = new Map();
  let last = "";
  for (const step of steps) {
    if (step.key.startsWith("state ")) {
      last = step.name;
      // The order of the last visits.
      outcomes.delete(last);
      outcomes.set(last, step.outcome);
    }
    // The question of a state is a step of its own.
    if (step.key.startsWith("gate ") && step.outcome === "waiting" && outcomes.get(last) === "running") outcomes.set(last, "waiting");
  }
  /** The outcome of each card: of a chain, that of the state that was executed last. @type {Map<SVGElement, string>} */
  const shown = new Map();
  for (const [state, outcome] of outcomes) {
    const card = cards.get(state);
    if (!card) continue;
    shown.set(card, outcome);
    card.dataset["last"] = state;
  }
  for (const card of new Set(cards.values())) {
    const outcome = shown.get(card);
    if (card.dataset["outcome"] === outcome) continue;
    if (outcome) card.dataset["outcome"] = outcome;
    else delete card.dataset["outcome"];
  }
}
