// Painting of screens: a row is an element, a run of cells a span, and a style a class of a sheet that scripts may extend
// under the content security policy.

import { coloursOf, isLight, plainColour } from "./colours.js";
import { cells } from "./screen.js";

/** @typedef {import("./screen.js").Screen} Screen */
/** @typedef {import("./screen.js").Run} Run */

/** The most styles with a class. A program may show millions; the others are set on their elements. */
const MOST_CLASSES = 1000;

const sheet = new CSSStyleSheet();
document.adoptedStyleSheets = [...document.adoptedStyleSheets, sheet];

/** The classes of styles. @type {Map<string, string>} */
const classes = new Map();

/**
 * Returns the declarations of a style: names and values of properties.
 * @param {string} style
 * @returns {[string, string][]}
 */
export function declarations(style) {
  const words = style ? style.split(",") : [];
  const { text: shown, ground } = coloursOf(words);
  let text = shown;
  if (words.includes("D")) text = `color-mix(in srgb, ${text} 63%, ${ground ?? "var(--bg)"})`;
  if (words.includes("H")) text = "transparent";
  /** @type {[string, string][]} */
  const rules = [["color", text]];
  if (ground) rules.push(["background-color", ground]);
  if (words.includes("B")) rules.push(["font-weight", "700"]);
  if (words.includes("I")) rules.push(["font-style", "italic"]);
  const line = { U1: "solid", U2: "double", U3: "wavy", U4: "dotted", U5: "dashed" }[words.find((word) => /^U\d$/.test(word)) ?? ""];
  const drawn = words.find((word) => /^u[\d#]/.test(word))?.slice(1);
  const lines = [line ? "underline" : "", words.includes("S") ? "line-through" : ""].filter(Boolean);
  if (lines.length) rules.push(["text-decoration", `${lines.join(" ")} ${line ?? "solid"} ${drawn ? plainColour(drawn) : "currentColor"}`]);
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
    /** The parts that each line shows. @type {Part[][]} */
    this.parts = [];
    /** The nodes of these parts. @type {Node[][]} */
    this.nodes = [];
    this.cursor = document.createElement("div");
    this.cursor.className = "cursor";
    this.cursor.hidden = true;
    /** What the properties of the element are set to. @type {Map<string, string>} */
    this.known = new Map();
    /** The place of the cursor, as a translation. */
    this.place = "0 0";
    // A browser must not translate the output of a program, because that would change cells.
    element.translate = false;
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
    while (this.lines.length > screen.rows) {
      this.lines.pop()?.remove();
      this.parts.pop();
      this.nodes.pop();
    }
    while (this.lines.length < screen.rows) {
      const line = document.createElement("div");
      line.className = "row";
      this.cursor.before(line);
      this.lines.push(line);
      this.parts.push([]);
      this.nodes.push([]);
    }
    for (const row of rows) this.paintLine(row, partsOf(screen.lines[row] ?? []));
    this.paintState(screen);
  }

  /**
   * Shows parts in a line. Where only a text differs, as after a typed key, it is changed in place: no style is computed. Nodes that
   * something else has changed, such as an extension of the browser, are recreated.
   * @param {number} row
   * @param {Part[]} parts
   */
  paintLine(row, parts) {
    const line = this.lines[row];
    if (!line) return;
    const [shown, nodes] = [this.parts[row] ?? [], this.nodes[row] ?? []];
    let same = 0;
    let at = line.firstChild;
    for (; at; at = at.nextSibling, same += 1) {
      const [before, now] = [shown[same], parts[same]];
      if (!before || !now || nodes[same] !== at || !isAlike(before, now)) break;
      const text = textOf(at);
      if (text?.data !== before.text) break;
      if (before.text !== now.text) text.data = now.text;
    }
    const added = parts.slice(same).map(nodeOf);
    if (same === 0) {
      line.replaceChildren(...added);
    } else {
      while (at) {
        const next = at.nextSibling;
        at.remove();
        at = next;
      }
      line.append(...added);
    }
    this.parts[row] = parts;
    this.nodes[row] = [...nodes.slice(0, same), ...added];
  }

  /**
   * Moves the cursor. A translation of one element costs no layout; a property of the screen would be inherited by all of its
   * rows, whose styles would be computed again with each key.
   * @param {number} row
   * @param {number} col
   */
  moveCursor(row, col) {
    const place = `calc(${col} * 1ch) calc(${row} * 1lh)`;
    if (place === this.place) return;
    this.place = place;
    this.cursor.style.translate = place;
  }

  /** @param {Screen} screen */
  paintState(screen) {
    const { state } = screen;
    this.set("--cols", String(screen.cols));
    this.set("--rows", String(screen.rows));
    this.set("--fg", state.foreground);
    this.set("--bg", state.background);
    // Chooses the colours that can be read there.
    this.set("color-scheme", isLight(state.background) ? "light" : "dark");
    const palette = new Map((state.palette ?? []).map(([index, colour]) => [`--p${index}`, colour]));
    for (const name of this.known.keys()) {
      if (name.startsWith("--p") && !palette.has(name)) this.unset(name);
    }
    for (const [name, colour] of palette) this.set(name, colour);
    const { cursor } = state;
    if (this.cursor.hidden === Boolean(cursor)) this.cursor.hidden = !cursor;
    if (cursor) {
      this.moveCursor(cursor.row, cursor.col);
      this.cursor.dataset["shape"] = cursor.shape;
    }
  }
}

/**
 * A part of a row that is a node of the document: cells that look alike, or the gap before them, which has no style.
 * @typedef {{ text: string, style: string | null, address?: string | undefined, width?: "one" | "wide" }} Part
 */

/**
 * Returns whether two parts are equal except for their text.
 * @param {Part} one
 * @param {Part} other
 */
function isAlike(one, other) {
  return one.style === other.style && one.width === other.width && !one.address === !other.address;
}

/**
 * Returns the text of the node of a part, if it is as it was made.
 * @param {Node} node
 * @returns {Text | null}
 */
function textOf(node) {
  if (node instanceof Text) return node;
  return node.childNodes.length === 1 && node.firstChild instanceof Text ? node.firstChild : null;
}

/**
 * Returns the parts that show the runs of a row.
 * @param {Run[]} runs
 * @returns {Node[]}
 */
export function paintRow(runs) {
  return partsOf(runs).map(nodeOf);
}

/**
 * Returns the parts of a row. A row that shows nothing has a text, too: it is selected and copied as an empty line.
 * @param {Run[]} runs
 * @returns {Part[]}
 */
function partsOf(runs) {
  /** @type {Part[]} */
  const parts = [];
  let column = 0;
  for (const run of runs) {
    const [col, cols, text, style, address] = run;
    if (col > column) parts.push({ text: " ".repeat(col - column), style: null });
    column = col + cols;
    if (!UNSURE.test(text)) {
      parts.push({ text, style, address });
      continue;
    }
    // Each of these cells gets its width, so that no font can move the next cells.
    let plain = "";
    for (const cell of cells(run)) {
      if (!UNSURE.test(cell.text)) {
        plain += cell.text;
        continue;
      }
      if (plain) parts.push({ text: plain, style, address });
      plain = "";
      parts.push({ text: cell.text, style, address, width: cell.cols === 2 ? "wide" : "one" });
    }
    if (plain) parts.push({ text: plain, style, address });
  }
  if (!parts.length) parts.push({ text: "\u200b", style: null });
  return parts;
}

/**
 * Returns a new node for a part.
 * @param {Part} part
 * @returns {Node}
 */
function nodeOf({ text, style, address, width }) {
  if (style === null) return document.createTextNode(text);
  const element = document.createElement("span");
  element.textContent = text;
  if (style) setStyle(element, style);
  if (address) element.classList.add("link");
  if (width) element.classList.add(width);
  return element;
}
