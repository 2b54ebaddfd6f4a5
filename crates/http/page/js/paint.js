// Painting of screens: a row is an element, a run of cells a span, and a style a class of a sheet that scripts may extend
// under the content security policy.

import { cells } from "./screen.js";

/** @typedef {import("./screen.js").Screen} Screen */
/** @typedef {import("./screen.js").Run} Run */

/** The first 16 colours of the palette, as the terminals have them. */
const FIRST = [
  "#000000", "#cd0000", "#00cd00", "#cdcd00", "#0000ee", "#cd00cd", "#00cdcd", "#e5e5e5",
  "#7f7f7f", "#ff0000", "#00ff00", "#ffff00", "#5c5cff", "#ff00ff", "#00ffff", "#ffffff",
];

/** The most styles with a class. A program may show millions; the others are set on their elements. */
const MOST_CLASSES = 1000;

const sheet = new CSSStyleSheet();
document.adoptedStyleSheets = [...document.adoptedStyleSheets, sheet];

/** The classes of styles. @type {Map<string, string>} */
const classes = new Map();

/**
 * Returns the colour of the palette with a number.
 * @param {number} index
 */
export function paletteColour(index) {
  if (index < 16) return FIRST[index] ?? "#000000";
  if (index >= 232) {
    const grey = 8 + (index - 232) * 10;
    return `rgb(${grey} ${grey} ${grey})`;
  }
  const levels = [0, 95, 135, 175, 215, 255];
  const cube = index - 16;
  return `rgb(${levels[Math.floor(cube / 36)]} ${levels[Math.floor(cube / 6) % 6]} ${levels[cube % 6]})`;
}

/**
 * Returns the declarations of a style: names and values of properties.
 * @param {string} style
 * @returns {[string, string][]}
 */
export function declarations(style) {
  const words = style ? style.split(",") : [];
  /** @param {string} sign */
  const colour = (sign) => {
    const word = words.find((word) => word.startsWith(sign))?.slice(1);
    if (word === undefined) return null;
    return word.startsWith("#") ? word : `var(--p${word}, ${paletteColour(Number(word))})`;
  };
  let text = colour("f") ?? "var(--fg)";
  let ground = colour("b");
  if (words.includes("R")) [text, ground] = [ground ?? "var(--bg)", text];
  if (words.includes("D")) text = `color-mix(in srgb, ${text} 63%, ${ground ?? "var(--bg)"})`;
  if (words.includes("H")) text = "transparent";
  /** @type {[string, string][]} */
  const rules = [["color", text]];
  if (ground) rules.push(["background-color", ground]);
  if (words.includes("B")) rules.push(["font-weight", "700"]);
  if (words.includes("I")) rules.push(["font-style", "italic"]);
  const line = { U1: "solid", U2: "double", U3: "wavy", U4: "dotted", U5: "dashed" }[words.find((word) => /^U\d$/.test(word)) ?? ""];
  const lines = [line ? "underline" : "", words.includes("S") ? "line-through" : ""].filter(Boolean);
  if (lines.length) rules.push(["text-decoration", `${lines.join(" ")} ${line ?? "solid"} ${colour("u") ?? "currentColor"}`]);
  return rules;
}

/**
 * Gives an element a style: by a class, or by its own properties. A new rule has the browser look at the whole document
 * again, so that only colours of the palette have one.
 * @param {HTMLElement} element
 * @param {string} style
 */
function setStyle(element, style) {
  let name = classes.get(style);
  if (!name && classes.size < MOST_CLASSES && !style.includes("#")) {
    name = `s${classes.size}`;
    classes.set(style, name);
    const rules = declarations(style).map(([property, value]) => `${property}: ${value}`);
    sheet.insertRule(`.${name} { ${rules.join("; ")} }`, sheet.cssRules.length);
  }
  if (name) element.className = name;
  else for (const [property, value] of declarations(style)) element.style.setProperty(property, value);
}

/** Characters whose width a font decides: everything but plain ASCII. */
const UNSURE = /[^\x20-\x7e]/;

/** The painting of one screen into an element. */
export class Painter {
  /** @param {HTMLElement} element It has the class `screen`. */
  constructor(element) {
    this.element = element;
    /** @type {HTMLElement[]} */
    this.lines = [];
    this.cursor = document.createElement("div");
    this.cursor.className = "cursor";
    this.cursor.hidden = true;
    /** What stands at the cursor: the cursor itself, and what the screen's owner adds. @type {HTMLElement[]} */
    this.atCursor = [this.cursor];
    /** What the properties of the element are set to. @type {Map<string, string>} */
    this.known = new Map();
    this.placed = "";
    element.replaceChildren(this.cursor);
  }

  /**
   * Sets a property of the element, if it differs.
   * @param {string} name
   * @param {string} value
   */
  set(name, value) {
    if (this.known.get(name) === value) return;
    this.known.set(name, value);
    this.element.style.setProperty(name, value);
  }

  /** @param {string} name */
  unset(name) {
    this.known.delete(name);
    this.element.style.removeProperty(name);
  }

  /**
   * Paints rows of a screen, and the cursor.
   * @param {Screen} screen
   * @param {number[]} rows
   */
  paint(screen, rows) {
    while (this.lines.length > screen.rows) this.lines.pop()?.remove();
    while (this.lines.length < screen.rows) {
      const line = document.createElement("div");
      line.className = "row";
      this.cursor.before(line);
      this.lines.push(line);
    }
    for (const row of rows) this.lines[row]?.replaceChildren(...paintRow(screen.lines[row] ?? []));
    this.paintState(screen);
  }

  /**
   * Moves what stands at the cursor. A translation of these few elements costs no layout; a property of the screen would be
   * inherited by all of its rows, whose styles would be computed again with each key.
   * @param {number} row
   * @param {number} col
   */
  place(row, col) {
    const place = `calc(${col} * 1ch) calc(${row} * 1lh)`;
    if (place === this.placed) return;
    this.placed = place;
    for (const element of this.atCursor) element.style.translate = place;
  }

  /** @param {Screen} screen */
  paintState(screen) {
    const { state } = screen;
    this.set("--cols", String(screen.cols));
    this.set("--rows", String(screen.rows));
    this.set("--fg", state.foreground);
    this.set("--bg", state.background);
    const palette = new Map((state.palette ?? []).map(([index, colour]) => [`--p${index}`, colour]));
    for (const name of this.known.keys()) {
      if (name.startsWith("--p") && !palette.has(name)) this.unset(name);
    }
    for (const [name, colour] of palette) this.set(name, colour);
    const { cursor } = state;
    if (this.cursor.hidden === Boolean(cursor)) this.cursor.hidden = !cursor;
    if (cursor) {
      this.place(cursor.row, cursor.col);
      this.cursor.dataset["shape"] = cursor.shape;
    }
  }
}

/**
 * Returns what shows the runs of a row.
 * @param {Run[]} runs
 * @returns {Node[]}
 */
export function paintRow(runs) {
  /** @type {Node[]} */
  const nodes = [];
  let column = 0;
  for (const run of runs) {
    const [col, cols, text, style, address] = run;
    if (col > column) nodes.push(document.createTextNode(" ".repeat(col - column)));
    column = col + cols;
    if (!UNSURE.test(text)) {
      nodes.push(span(text, style, address));
      continue;
    }
    // Each of these cells gets its width, so that no font can move what follows.
    let plain = "";
    for (const cell of cells(run)) {
      if (!UNSURE.test(cell.text)) {
        plain += cell.text;
        continue;
      }
      if (plain) nodes.push(span(plain, style, address));
      plain = "";
      const fixed = span(cell.text, style, address);
      fixed.classList.add(cell.cols === 2 ? "wide" : "one");
      nodes.push(fixed);
    }
    if (plain) nodes.push(span(plain, style, address));
  }
  if (!nodes.length) nodes.push(document.createTextNode("\u200b"));
  return nodes;
}

/**
 * @param {string} text
 * @param {string} style
 * @param {string} [address]
 */
function span(text, style, address) {
  const element = document.createElement("span");
  element.textContent = text;
  if (style) setStyle(element, style);
  if (address) element.classList.add("link");
  return element;
}
