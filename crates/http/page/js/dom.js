// Elements. Text becomes text nodes only; no markup is parsed anywhere on the page.

/**
 * A child of an element: text, an element, or nothing.
 * @typedef {Node | string | number | null | undefined | false} Child
 */

/**
 * Creates an element. A property that begins with `on` is a listener, `class` the classes, and others are attributes;
 * `true` is an attribute without a value, and `false`, `null` and `undefined` are left out.
 *
 * @template {keyof HTMLElementTagNameMap} Tag
 * @param {Tag} tag
 * @param {Record<string, unknown>} [properties]
 * @param {...(Child | Child[])} children
 * @returns {HTMLElementTagNameMap[Tag]}
 */
export function h(tag, properties = {}, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(properties)) {
    if (value === null || value === undefined || value === false) continue;
    if (name.startsWith("on") && typeof value === "function") {
      element.addEventListener(name.slice(2), /** @type {EventListener} */ (value));
    } else {
      element.setAttribute(name, value === true ? "" : String(value));
    }
  }
  add(element, children);
  return element;
}

/**
 * Adds children to an element.
 * @param {Element} element
 * @param {(Child | Child[])[]} children
 */
function add(element, children) {
  for (const child of children.flat()) {
    if (child === null || child === undefined || child === false) continue;
    element.append(child instanceof Node ? child : String(child));
  }
}

/**
 * Replaces the children of an element.
 * @param {Element} element
 * @param {...(Child | Child[])} children
 */
export function fill(element, ...children) {
  element.replaceChildren();
  add(element, children);
}

/**
 * Sets the text of an element, if it differs: unchanged text keeps a selection, and is not read aloud again.
 * @param {Element} element
 * @param {string} text
 */
export function setText(element, text) {
  if (element.textContent !== text) element.textContent = text;
}

const SVG = "http://www.w3.org/2000/svg";

/** The icons: paths on a grid of 16 by 16. @type {Record<string, string>} */
const ICONS = {
  gate: "M8 14.5A6.5 6.5 0 1 0 8 1.5a6.5 6.5 0 0 0 0 13zM6.1 6.3A2 2 0 1 1 8.8 8.1c-.6.3-.8.6-.8 1.2M8 11.3v.4",
  terminal: "M2 3h12v10H2zM4.5 6l2 2-2 2M8.5 10h3",
  run: "M3 4h5M3 8h10M3 12h7",
  workflow: "M3 3h4v3H3zM9 10h4v3H9zM5 6v5.5h4",
  house: "M2.5 7.5 8 3l5.5 4.5M4 7v6h8V7",
  settings: "M2 5h6M12 5h2M2 11h2M8 11h6M10 3.2a1.8 1.8 0 1 1 0 3.6 1.8 1.8 0 0 1 0-3.6zM6 9.2a1.8 1.8 0 1 1 0 3.6 1.8 1.8 0 0 1 0-3.6z",
  smaller: "M1.5 12 5 4l3.5 8M2.8 9.3h4.4M10.5 8h4",
  larger: "M1.5 12 5 4l3.5 8M2.8 9.3h4.4M10.5 8h4M12.5 6v4",
  file: "M4 1.5h5l3 3v10H4zM9 1.5v3h3",
  plus: "M8 3v10M3 8h10",
  close: "M4 4l8 8M12 4l-8 8",
  back: "M10 3 5 8l5 5",
  search: "M7 2.5a4.5 4.5 0 1 1 0 9 4.5 4.5 0 0 1 0-9zM10.5 10.5l3 3",
  up: "M3.5 10 8 5.5l4.5 4.5",
  down: "M3.5 6 8 10.5 12.5 6",
  play: "M5 3.5v9l7-4.5z",
  pause: "M5.5 3.5v9M10.5 3.5v9",
  tape: "M2 4h12v8H2zM5.5 9.5a1.5 1.5 0 1 1 0-3 1.5 1.5 0 0 1 0 3zM10.5 9.5a1.5 1.5 0 1 1 0-3 1.5 1.5 0 0 1 0 3zM5.5 9.5h5",
  copy: "M5 5h8v8H5zM3 11V3h8",
};

/**
 * Creates an icon. It is decoration: the text beside it or the label of its button has the meaning.
 * @param {string} name
 * @returns {SVGSVGElement}
 */
export function icon(name) {
  const picture = /** @type {SVGSVGElement} */ (document.createElementNS(SVG, "svg"));
  picture.setAttribute("viewBox", "0 0 16 16");
  picture.setAttribute("class", "icon");
  picture.setAttribute("aria-hidden", "true");
  const path = document.createElementNS(SVG, "path");
  path.setAttribute("d", ICONS[name] ?? "");
  picture.append(path);
  return picture;
}

/**
 * Has a screen reader say something.
 * @param {string} text
 */
export function announce(text) {
  const region = document.getElementById("polite");
  if (region) region.textContent = text;
}
