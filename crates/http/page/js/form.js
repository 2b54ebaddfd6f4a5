// Forms from a JSON Schema with flat fields, as gates ask for them and workflows take their arguments.
//
// A field has the control of its type: a choice is a list with its titles, a date a date, a yes or no two buttons, or a
// switch where it begins with one of them. What it takes is said below it, and what is wrong with it beside that.

import { h } from "./dom.js";
import { visible } from "./words.js";

/**
 * A field: its element, its value, or undefined where it is left empty, and what is wrong with the value. `mark` shows what is
 * wrong, or nothing.
 * @typedef {{ name: string, element: HTMLElement, value: () => unknown, problem: () => string | null, mark: (words: string | null) => void, focus: () => void }} Field
 */

/**
 * The control of a field: its element, its value, and the problem of an unreadable value.
 * @typedef {{ element: HTMLElement, controls: HTMLElement[], value: () => unknown, misread?: () => string | null }} Control
 */

/** Numbers the fields, so that the parts of each can name each other. */
let fieldCount = 0;

/** The least length of text that is written in several rows. */
const LONG_TEXT = 200;

/**
 * Creates the fields of a schema.
 * @param {any} schema An object with flat fields.
 * @returns {Field[]}
 */
export function formFields(schema) {
  const required = new Set(schema.required ?? []);
  return Object.entries(schema.properties ?? {}).map(([name, property]) => field(name, plain(property), required.has(name)));
}

/**
 * Returns the values of fields, without those that are left empty.
 * @param {Field[]} fields
 * @returns {Record<string, unknown>}
 */
export function formValue(fields) {
  return Object.fromEntries(fields.map(({ name, value }) => [name, value()]).filter(([, value]) => value !== undefined));
}

/**
 * Checks fields. Shows the problem at each invalid field, and focuses the first one.
 * @param {Field[]} fields
 * @returns {boolean} Whether all can be sent.
 */
export function checkFields(fields) {
  return !markFields(fields, new Map(fields.map((one) => [one.name, one.problem()])));
}

/**
 * Shows the problems of the server at their fields, and focuses the first one.
 * @param {Field[]} fields
 * @param {string} words
 * @returns {boolean} Whether it names one.
 */
export function markRefused(fields, words) {
  return markFields(fields, refusals(words, fields.map(({ name }) => name)));
}

/**
 * @param {Field[]} fields
 * @param {Map<string, string | null>} problems
 * @returns {boolean} Whether there is one.
 */
function markFields(fields, problems) {
  for (const one of fields) one.mark(problems.get(one.name) ?? null);
  const first = fields.find((one) => problems.get(one.name));
  first?.focus();
  return Boolean(first);
}

/**
 * Returns the problem of each field in a message of the server: the text after its quoted name. Pure.
 * @param {string} words
 * @param {string[]} names
 * @returns {Map<string, string>}
 */
export function refusals(words, names) {
  const places = names.map((name) => ({ name, at: words.indexOf(`'${name}' `) })).filter(({ at }) => at >= 0).sort((one, other) => one.at - other.at);
  return new Map(places.map(({ name, at }, index) => [name, words.slice(at + name.length + 3, places[index + 1]?.at).replace(/[;,]?\s*$/, "")]));
}

/**
 * Reads a text as a value of a type. Pure.
 * @param {string} text
 * @param {string | undefined} type
 * @returns {unknown} Undefined for an empty text; the text itself if it is not of the type, so that the server reports it.
 */
export function valueOf(text, type) {
  if (text === "") return undefined;
  if (type === "integer" || type === "number") return Number.isFinite(Number(text)) && text.trim() ? Number(text) : text;
  if (type === "boolean") return text === "true" ? true : text === "false" ? false : text;
  if (type === "object" || type === "array") {
    try {
      return JSON.parse(text);
    } catch {
      return text;
    }
  }
  return text;
}

/** Returns a schema without the alternative of having no value. @param {any} property */
function plain(property) {
  if (typeof property !== "object" || property === null) return {};
  const parts = (property.anyOf ?? property.oneOf ?? []).filter((/** @type {any} */ part) => part?.type !== "null");
  return parts.length === 1 ? { ...property, ...parts[0], title: property.title ?? parts[0].title } : property;
}

/** Returns the type of a value, without null. @param {any} property @returns {string | undefined} */
function typeOf(property) {
  return Array.isArray(property.type) ? property.type.find((/** @type {string} */ one) => one !== "null") : property.type;
}

/**
 * Returns what can be chosen, each with its title: of `enum`, perhaps with `enumNames`, or of `oneOf` with `const` and `title`. Pure.
 * @param {any} property
 * @returns {{ value: unknown, title: string }[] | null} None if any value can be given.
 */
export function choicesOf(property) {
  /** @param {unknown} value */
  const told = (value) => (typeof value === "string" ? value : JSON.stringify(value));
  const titled = [property.oneOf, property.anyOf].find((list) => Array.isArray(list) && list.length && list.every((one) => one && typeof one === "object" && ("const" in one || one.type === "null")));
  if (titled) return titled.filter((/** @type {any} */ one) => "const" in one && one.const !== null).map((/** @type {any} */ one) => ({ value: one.const, title: String(one.title ?? told(one.const)) }));
  if ("const" in property) return [{ value: property.const, title: told(property.const) }];
  if (!Array.isArray(property.enum)) return null;
  const choices = property.enum.map((/** @type {unknown} */ value, /** @type {number} */ index) => ({ value, title: String(property.enumNames?.[index] ?? told(value)) }));
  return choices.filter((/** @type {{ value: unknown }} */ { value }) => value !== null);
}

/** The words for texts of a format. @type {Map<string, string>} */
const FORMATS = new Map([
  ["email", "an address such as ana@example.com"],
  ["uri", "an address such as https://example.com"],
  ["date", "a date"],
  ["date-time", "a day and a time, in your time zone"],
  ["password", "a text that is not shown"],
]);

/**
 * Returns a description of the valid values of a field; empty for any text or visible choices. Pure.
 * @param {any} property
 * @returns {string}
 */
export function constraint(property) {
  const type = typeOf(property);
  if (choicesOf(property) || type === "boolean") return "";
  if (type === "integer" || type === "number") {
    const kind = type === "integer" ? "a whole number" : "a number";
    return [kind, range(property)].filter(Boolean).join(" ");
  }
  if (type === "array") return "a list, as JSON";
  if (type === "object") return "an object, as JSON";
  const { minLength: least, maxLength: most } = property;
  const length = bounds(least || undefined, most);
  return [FORMATS.get(property.format), length && `${length} characters`].filter(Boolean).join(", ");
}

/** @param {number | undefined} least @param {number | undefined} most */
function bounds(least, most) {
  if (least !== undefined && most !== undefined) return `${least} to ${most}`;
  return least !== undefined ? `at least ${least}` : most !== undefined ? `at most ${most}` : "";
}

/** @param {any} property */
function range({ minimum, maximum, exclusiveMinimum: above, exclusiveMaximum: below }) {
  const within = minimum !== undefined && maximum !== undefined ? `from ${minimum} to ${maximum}` : bounds(minimum, maximum);
  return [within, above === undefined ? "" : `above ${above}`, below === undefined ? "" : `below ${below}`].filter(Boolean).join(", ");
}

/**
 * Returns the problem of a value, as far as the page can check it; the server checks it completely. Pure.
 * @param {any} property
 * @param {boolean} isRequired
 * @param {unknown} value
 * @returns {string | null}
 */
export function problemOf(property, isRequired, value) {
  const type = typeOf(property);
  if (value === undefined) {
    if (!isRequired || property.default !== undefined) return null;
    return choicesOf(property) || type === "boolean" ? "Choose one." : "Fill this in.";
  }
  if (choicesOf(property)) return null;
  const wanted = `This must be ${constraint(property)}.`;
  if (type === "integer" || type === "number") {
    if (typeof value !== "number" || (type === "integer" && !Number.isInteger(value))) return wanted;
    const { minimum, maximum, exclusiveMinimum: above, exclusiveMaximum: below } = property;
    return value < minimum || value > maximum || value <= above || value >= below ? wanted : null;
  }
  if (type === "array" || type === "object") {
    const isOne = type === "array" ? Array.isArray(value) : typeof value === "object" && value !== null && !Array.isArray(value);
    return isOne ? null : wanted;
  }
  if (typeof value === "string" && (type === "string" || type === undefined)) {
    const length = [...value].length;
    if (length < property.minLength || length > property.maxLength) return `This must have ${bounds(property.minLength || undefined, property.maxLength)} characters, not ${length}.`;
  }
  return null;
}

/**
 * Returns a time as a field for local times has it. Pure.
 * @param {string} iso
 */
export function localTime(iso) {
  const time = new Date(iso);
  if (Number.isNaN(time.getTime())) return "";
  const two = (/** @type {number} */ number) => String(number).padStart(2, "0");
  return `${String(time.getFullYear()).padStart(4, "0")}-${two(time.getMonth() + 1)}-${two(time.getDate())}T${two(time.getHours())}:${two(time.getMinutes())}`;
}

/**
 * @param {string} name
 * @param {any} property
 * @param {boolean} isRequired
 * @returns {Field}
 */
function field(name, property, isRequired) {
  const id = `field-${(fieldCount += 1)}`;
  const { element: control, controls, value, misread } = controlOf(id, property);
  const isGroup = control.getAttribute("role") === "radiogroup";
  const help = [property.description, constraint(property)].filter(Boolean).map((words) => String(words).replace(/[.;]$/, "")).join("; ");
  const about = help ? h("p", { class: "hint", id: `${id}-help` }, visible(help)) : null;
  const fault = h("p", { class: "fault", id: `${id}-fault`, hidden: true });
  const needed = isRequired && property.default === undefined;
  const label = [visible(property.title ?? name), needed ? h("span", { class: "needed", "aria-hidden": "true" }, " required") : null];
  const described = [about && `${id}-help`, `${id}-fault`].filter(Boolean).join(" ");
  const element = h("div", { class: "field" }, isGroup ? h("span", { class: "field-name", id: `${id}-name` }, label) : h("label", { class: "field-name", for: id }, label), control, about, fault);
  const told = isGroup ? [control] : controls;
  for (const one of told) {
    one.setAttribute("aria-describedby", described);
    if (needed) one.setAttribute("aria-required", "true");
  }
  /** @param {string | null} words */
  const mark = (words) => {
    fault.textContent = words === null ? "" : visible(words);
    fault.hidden = words === null;
    for (const one of told) {
      if (words === null) one.removeAttribute("aria-invalid");
      else one.setAttribute("aria-invalid", "true");
    }
  };
  element.addEventListener("input", () => mark(null));
  return { name, element, value, mark, problem: () => misread?.() ?? problemOf(property, isRequired, value()), focus: () => controls[0]?.focus() };
}

/**
 * Creates the control of a field.
 * @param {string} id
 * @param {any} property
 * @returns {Control}
 */
function controlOf(id, property) {
  const type = typeOf(property);
  const choices = choicesOf(property);
  if (choices) return choiceOf(id, property, choices);
  if (type === "boolean") return typeof property.default === "boolean" ? switchOf(id, property.default) : yesOrNo(id);
  if (property.format === "date" || property.format === "date-time") return timeOf(id, property);
  const given = property.default === undefined ? "" : typeof property.default === "string" ? property.default : JSON.stringify(property.default);
  const isJson = type === "object" || type === "array";
  const isLong = isJson || property.minLength > LONG_TEXT || property.maxLength > LONG_TEXT || given.includes("\n");
  const input = isLong && property.format !== "password"
    ? h("textarea", { id, rows: "3", spellcheck: isJson ? "false" : null, class: isJson ? "mono" : null })
    : h("input", { id, type: property.format === "password" ? "password" : "text", autocomplete: "off", inputmode: INPUT_MODES.get(property.format ?? type) });
  input.value = given;
  return { element: input, controls: [input], value: () => valueOf(input.value, type) };
}

/** The keyboards of telephones, by format or type. @type {Map<string | undefined, string>} */
const INPUT_MODES = new Map([["integer", "numeric"], ["number", "decimal"], ["email", "email"], ["uri", "url"]]);

/**
 * A list of choices. Without a default, none is selected.
 * @param {string} id
 * @param {any} property
 * @param {{ value: unknown, title: string }[]} choices
 * @returns {Control}
 */
function choiceOf(id, property, choices) {
  const select = h("select", { id }, h("option", { value: "" }, "–"), choices.map(({ title }, index) => h("option", { value: String(index) }, visible(title))));
  const given = choices.findIndex(({ value }) => JSON.stringify(value) === JSON.stringify(property.default));
  select.value = given < 0 ? "" : String(given);
  return { element: select, controls: [select], value: () => (select.value === "" ? undefined : choices[Number(select.value)]?.value) };
}

/** @param {string} id @param {boolean} given @returns {Control} */
function switchOf(id, given) {
  const input = h("input", { id, type: "checkbox", role: "switch", class: "switch" });
  input.checked = given;
  return { element: input, controls: [input], value: () => input.checked };
}

/** Two buttons, of which none is chosen. @param {string} id @returns {Control} */
function yesOrNo(id) {
  const [yes, no] = ["yes", "no"].map((value) => h("input", { type: "radio", name: id, value }));
  const element = h("div", { class: "either", role: "radiogroup", "aria-labelledby": `${id}-name` }, h("label", { class: "check" }, yes, "Yes"), h("label", { class: "check" }, no, "No"));
  return { element, controls: [yes, no].filter((one) => one !== undefined), value: () => (yes?.checked ? true : no?.checked ? false : undefined) };
}

/** A day, or a day with a time. @param {string} id @param {any} property @returns {Control} */
function timeOf(id, property) {
  const isDay = property.format === "date";
  const given = typeof property.default === "string" ? property.default : undefined;
  const input = h("input", { id, type: isDay ? "date" : "datetime-local" });
  input.value = given === undefined ? "" : isDay ? given : localTime(given);
  const begun = input.value;
  return {
    element: input,
    controls: [input],
    misread: () => (input.validity.badInput ? `Fill in all of it: ${constraint(property)}.` : null),
    value: () => {
      if (input.value === "") return undefined;
      // A time that nobody changed keeps its seconds.
      if (input.value === begun) return given;
      return isDay ? input.value : new Date(input.value).toISOString();
    },
  };
}
