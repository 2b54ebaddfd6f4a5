// Colours of programs, readable on their ground: text gets a contrast of 4.5 at least (WCAG 2, 1.4.3), as it would with the
// least contrast of xterm.js. Equal colours stay equal: a program hides a text so.

/** The first 16 colours of the palette, as the terminals have them. */
const FIRST = [
  "#000000", "#cd0000", "#00cd00", "#cdcd00", "#0000ee", "#cd00cd", "#00cdcd", "#e5e5e5",
  "#7f7f7f", "#ff0000", "#00ff00", "#ffff00", "#5c5cff", "#ff00ff", "#00ffff", "#ffffff",
];

const LEAST_CONTRAST = 4.5;

/** How many steps lead from a colour to white or black. */
const STEPS = 40;

/** @typedef {[number, number, number]} Colour Red, green and blue, from 0 to 255. */

/** The usual ground and text of a terminal, dark and light. @type {Record<"dark" | "light", { ground: Colour, text: Colour }>} */
const USUAL = {
  dark: { ground: [30, 30, 30], text: [229, 229, 229] },
  light: { ground: [242, 242, 242], text: [30, 30, 30] },
};

/**
 * Returns the colour of the palette with a number.
 * @param {number} index
 * @returns {Colour}
 */
function paletteColour(index) {
  if (index < 16) return hexColour(FIRST[index] ?? "#000000");
  if (index >= 232) {
    const grey = 8 + (index - 232) * 10;
    return [grey, grey, grey];
  }
  const levels = [0, 95, 135, 175, 215, 255];
  const cube = index - 16;
  return [levels[Math.floor(cube / 36)] ?? 0, levels[Math.floor(cube / 6) % 6] ?? 0, levels[cube % 6] ?? 0];
}

/** @param {string} word @returns {Colour} */
function hexColour(word) {
  const value = Number.parseInt(word.slice(1), 16);
  return [(value >> 16) & 255, (value >> 8) & 255, value & 255];
}

/** @param {Colour} colour */
function cssOf(colour) {
  return `#${colour.map((part) => part.toString(16).padStart(2, "0")).join("")}`;
}

/** Returns the relative luminance of a colour (WCAG 2). @param {Colour} colour */
function luminance(colour) {
  const [red, green, blue] = colour.map((part) => (part / 255 <= 0.04045 ? part / 255 / 12.92 : ((part / 255 + 0.055) / 1.055) ** 2.4));
  return 0.2126 * (red ?? 0) + 0.7152 * (green ?? 0) + 0.0722 * (blue ?? 0);
}

/** Returns the contrast of two colours, from 1 to 21. @param {Colour} one @param {Colour} other */
export function contrast(one, other) {
  const [low, high] = [luminance(one), luminance(other)].sort((a, b) => a - b);
  return ((high ?? 0) + 0.05) / ((low ?? 0) + 0.05);
}

/** Returns a colour, or the nearest one on the way to white or black that can be read on a ground. @param {Colour} text @param {Colour} ground @returns {Colour} */
export function readable(text, ground) {
  if (contrast(text, ground) >= LEAST_CONTRAST || text.every((part, at) => part === ground[at])) return text;
  const end = 1.05 / (luminance(ground) + 0.05) >= LEAST_CONTRAST ? 255 : 0;
  for (let step = 1; step < STEPS; step += 1) {
    const mixed = /** @type {Colour} */ (text.map((part) => Math.round(part + ((end - part) * step) / STEPS)));
    if (contrast(mixed, ground) >= LEAST_CONTRAST) return mixed;
  }
  return [end, end, end];
}

/** Returns whether a ground is light. @param {string} ground As `#rrggbb`. */
export function isLight(ground) {
  return luminance(hexColour(ground)) > 0.18;
}

/**
 * Returns the text and the ground of a style, for a sheet; a ground is null where it is the screen's. A colour of the palette stays a
 * property of the screen, which a program may set.
 * @param {string[]} words The words of the style: `f` and `b` with a colour, `R` for reverse.
 * @returns {{ text: string, ground: string | null }}
 */
export function coloursOf(words) {
  /** @param {string} sign */
  const named = (sign) => words.find((word) => word.startsWith(sign))?.slice(1);
  const isReversed = words.includes("R");
  const [front, back] = isReversed ? [named("b"), named("f")] : [named("f"), named("b")];
  /** @param {string} word */
  const colour = (word) => (word.startsWith("#") ? hexColour(word) : paletteColour(Number(word)));
  /** @param {string} word @param {string} value */
  const css = (word, value) => (word.startsWith("#") ? value : `var(--p${word}, ${value})`);
  // Default colours: those of the screen, swapped if the style is reversed.
  /** @type {("ground" | "text")[]} */
  const [textOf = "text", groundOf = "ground"] = isReversed ? ["ground", "text"] : [];
  /** @param {"dark" | "light"} scheme */
  const shown = (scheme) => {
    const text = front === undefined ? USUAL[scheme][textOf] : colour(front);
    const better = readable(text, back === undefined ? USUAL[scheme][groundOf] : colour(back));
    return front === undefined && better === text ? `var(${isReversed ? "--bg" : "--fg"})` : cssOf(better);
  };
  const [dark, light] = [shown("dark"), shown("light")];
  const value = dark === light ? dark : `light-dark(${light}, ${dark})`;
  const ground = back === undefined ? (isReversed ? "var(--fg)" : null) : css(back, cssOf(colour(back)));
  return { text: front === undefined ? value : css(front, value), ground };
}

/** Returns a colour of a style that is not text, for a sheet. @param {string} word */
export function plainColour(word) {
  return word.startsWith("#") ? word : `var(--p${word}, ${cssOf(paletteColour(Number(word)))})`;
}
