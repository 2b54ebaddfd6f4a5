// The keys of a keyboard with their modifiers, and what xterm sends for each to a program that asked for nothing else ("PC-Style Function
// Keys", https://invisible-island.net/xterm/ctlseqs/ctlseqs.html, and the control characters of X11).

/** Keys of one byte: what they send alone, and with ctrl. Alt puts an escape before it. */
const SINGLE = { Enter: ["\r", "\r"], Escape: ["\x1b", "\x1b"], Backspace: ["\x7f", "\b"], " ": [" ", "\0"] };

/** Keys whose sequence ends in a letter, or in a tilde behind a number: with modifiers it has their number. */
const LETTERED = { ArrowUp: "A", ArrowDown: "B", ArrowRight: "C", ArrowLeft: "D", Home: "H", End: "F" };
const NUMBERED = { Insert: 2, Delete: 3, PageUp: 5, PageDown: 6, F5: 15, F6: 17, F7: 18, F8: 19, F9: 20, F10: 21, F11: 23, F12: 24 };
const FUNCTIONS = { F1: "P", F2: "Q", F3: "R", F4: "S" };

/** Input of ctrl with characters that are not letters. */
const CONTROLS = {
  "0": "0", "1": "1", "2": "\0", "3": "\x1b", "4": "\x1c", "5": "\x1d", "6": "\x1e", "7": "\x1f", "8": "\x7f", "9": "9",
  "@": "\0", "[": "\x1b", "\\": "\x1c", "]": "\x1d", "^": "\x1e", "_": "\x1f", "/": "\x1f", "?": "\x7f",
  "`": "\0", "{": "\x1b", "|": "\x1c", "}": "\x1d", "~": "\x1e", "-": "-", "=": "=", ";": ";", ",": ",", ".": ".", "'": "'",
};

/** Characters that need shift on a keyboard of the United States. */
const SHIFTED = "@^_?{|}~";

/** Keys that the page keeps. */
const OF_THE_PAGE = new Set(["ctrl+shift+C", "ctrl+shift+V", "ctrl+shift+F", "ctrl+shift+Escape"]);

/** The sets of modifiers: shift, alt and ctrl, as xterm adds up their numbers. */
const MODIFIERS = [0, 1, 2, 3, 4, 5, 6, 7].map((bits) => ({ shift: Boolean(bits & 1), alt: Boolean(bits & 2), ctrl: Boolean(bits & 4), number: bits + 1 }));

/** @param {{ shift: boolean, alt: boolean, ctrl: boolean }} modifiers @param {string} key */
const row = ({ shift, alt, ctrl }, key, bytes) => ({ key, shift, alt, ctrl, bytes });

/** Every key with its modifiers, and its bytes. */
export const KEYS = [
  ...MODIFIERS.flatMap((modifiers) => {
    const { shift, alt, ctrl, number } = modifiers;
    const escaped = alt ? "\x1b" : "";
    return [
      ...Object.entries(SINGLE).map(([key, [alone, controlled]]) => row(modifiers, key, escaped + (ctrl ? controlled : alone))),
      ...Object.entries(LETTERED).map(([key, letter]) => row(modifiers, key, number > 1 ? `\x1b[1;${number}${letter}` : `\x1b[${letter}`)),
      ...Object.entries(FUNCTIONS).map(([key, letter]) => row(modifiers, key, number > 1 ? `\x1b[1;${number}${letter}` : `\x1bO${letter}`)),
      ...Object.entries(NUMBERED).map(([key, code]) => row(modifiers, key, number > 1 ? `\x1b[${code};${number}~` : `\x1b[${code}~`)),
      ...[..."abcdefghijklmnopqrstuvwxyz"].map((letter) => {
        const shown = shift ? letter.toUpperCase() : letter;
        return row(modifiers, shown, escaped + (ctrl ? String.fromCharCode(letter.charCodeAt(0) & 0x1f) : shown));
      }),
    ];
  }),
  row({}, "Tab", "\t"),
  row({ shift: true }, "Tab", "\x1b[Z"),
  ...Object.entries(CONTROLS).flatMap(([key, controlled]) => {
    const shift = SHIFTED.includes(key);
    return [row({ shift }, key, key), row({ shift, ctrl: true }, key, controlled), row({ shift, alt: true }, key, `\x1b${key}`)];
  }),
  ...["0", "3", "6", "8"].map((key) => row({ ctrl: true, alt: true }, key, `\x1b${CONTROLS[key]}`)),
].filter(({ key, shift, ctrl }) => !OF_THE_PAGE.has(`${ctrl ? "ctrl+" : ""}${shift ? "shift+" : ""}${key}`));
