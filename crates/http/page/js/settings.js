// The settings of this browser, and the keys of the page.

import { VALUES, choice, choose } from "./choices.js";
import { fill, h } from "./dom.js";
import { notifyButton } from "./notify.js";

export const title = "Settings";

/** The words for the values of each choice. @type {Record<string, (value: string) => string>} */
const WORDS = {
  theme: (value) => ({ system: "As the system", light: "Light", dark: "Dark" })[value] ?? value,
  text: (value) => `${value} %`,
  terminalText: (value) => `${value} px`,
  bells: (value) => ({ on: "Yes", off: "No" })[value] ?? value,
  commands: (value) => ({ off: "Never", 5: "After 5 s", 30: "After 30 s", 120: "After 2 min" })[value] ?? value,
  times: (value) => ({ local: "Time zone of this browser", utc: "UTC" })[value] ?? value,
};

/** The choices with their labels and explanations. @type {[import("./choices.js").Choice, string, string][]} */
const FIELDS = [
  ["theme", "Theme", ""],
  ["text", "Text size", ""],
  ["terminalText", "Largest text in terminals", "A terminal that is wider than the window has smaller text."],
  ["times", "Times", ""],
  ["commands", "Notify of ended commands", "Of those that took at least so long, where notifications are on."],
  ["bells", "Notify of bells", "Programs such as agents ring the bell of their terminal when they need you."],
];

/** The keys of the page and where they work. */
const KEYS = [
  ["ctrl-k", "everywhere", "go to a view, terminal, run or question"],
  ["ctrl-shift-f", "terminal", "output with its search"],
  ["Escape", "terminal, output", "back to the screen; end a selection"],
  ["ctrl-shift-escape", "terminal that you hold", "leave the terminal, to Hand back"],
  ["ctrl-shift-c, ctrl-shift-v", "terminal that you hold", "copy and paste"],
  ["shift-drag", "terminal that you hold", "select text where the program takes the mouse"],
  ["Space", "recording", "pause and go on"],
  ["← →", "recording", "5 seconds back or on"],
];

/** @param {HTMLElement} into */
export function show(into) {
  fill(
    into,
    h("h1", {}, title),
    h(
      "section",
      { class: "card", "aria-labelledby": "browser" },
      h("h2", { id: "browser" }, "This browser"),
      h("div", { class: "settings" }, FIELDS.flatMap(field), h("span", {}, "Notifications"), h("div", {}, notifyButton(), h("p", { class: "hint" }, "Of questions, passwords and failed runs, while you look at something else."))),
      h("p", { class: "hint" }, "They are in the storage of this browser, and take effect at once in all of its tabs."),
    ),
    h(
      "section",
      { class: "card", "aria-labelledby": "keys" },
      h("h2", { id: "keys" }, "Keys"),
      h("div", { class: "table" }, h("table", {}, h("thead", {}, h("tr", {}, ["Key", "Where", "Action"].map((name) => h("th", { scope: "col" }, name)))), h("tbody", {}, KEYS.map(([key, where, action]) => h("tr", {}, h("td", {}, h("kbd", {}, key ?? "")), h("td", {}, where ?? ""), h("td", {}, action ?? "")))))),
      h("p", { class: "hint" }, "A terminal that you hold gets every other key."),
    ),
  );
}

/** @param {[import("./choices.js").Choice, string, string]} field */
function field([name, label, explanation]) {
  const id = `choice-${name}`;
  // Sizes in their order; the usual value of the others first.
  const isSize = name === "text" || name === "terminalText";
  const values = isSize ? [...VALUES[name]].sort((one, other) => Number(one) - Number(other)) : VALUES[name];
  const select = h("select", { id }, values.map((value) => h("option", { value }, WORDS[name]?.(value) ?? value)));
  select.value = choice(name) ?? "";
  select.addEventListener("change", () => choose(name, select.value));
  return [h("label", { for: id }, label), h("div", {}, select, explanation ? h("p", { class: "hint" }, explanation) : null)];
}
