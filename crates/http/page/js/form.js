// Forms from a JSON Schema with flat fields, as gates ask for them and workflows take their arguments.

import { h } from "./dom.js";
import { visible } from "./words.js";

/**
 * A field: its element, and its value, or undefined where it is left empty.
 * @typedef {{ name: string, element: HTMLElement, value: () => unknown }} Field
 */

/**
 * Creates the fields of a schema.
 * @param {any} schema An object with flat fields.
 * @returns {Field[]}
 */
export function formFields(schema) {
  const required = new Set(schema.required ?? []);
  return Object.entries(schema.properties ?? {}).map(([name, property]) => field(name, property, required.has(name)));
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
 * Reads a text as a value of a type. Pure.
 * @param {string} text
 * @param {string | undefined} type
 * @returns {unknown} Undefined for an empty text; the text itself if it is no value of the type, so that the server says why.
 */
export function valueOf(text, type) {
  if (text === "") return undefined;
  if (type === "integer" || type === "number") return Number.isFinite(Number(text)) ? Number(text) : text;
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

/**
 * @param {string} name
 * @param {any} property
 * @param {boolean} isRequired
 * @returns {Field}
 */
function field(name, property, isRequired) {
  const type = Array.isArray(property.type) ? property.type.find((/** @type {string} */ one) => one !== "null") : property.type;
  const options = property.enum ?? (type === "boolean" ? ["true", "false"] : null);
  const given = property.default === undefined ? "" : typeof property.default === "string" ? property.default : JSON.stringify(property.default);
  /** @type {HTMLInputElement | HTMLSelectElement | HTMLTextAreaElement} */
  let input;
  if (options) {
    // Nothing is chosen where nothing is given: the first of them is no default.
    input = h("select", {}, h("option", { value: "" }, "–"), options.map((/** @type {unknown} */ option) => h("option", { value: String(option) }, visible(String(option)))));
    input.value = given;
  } else if (type === "object" || type === "array") {
    input = h("textarea", { rows: "3", spellcheck: "false", class: "mono" });
    input.value = given;
  } else {
    input = h("input", { type: property.format === "password" ? "password" : "text", autocomplete: "off", inputmode: type === "integer" ? "numeric" : type === "number" ? "decimal" : null });
    input.value = given;
  }
  if (isRequired) input.required = true;
  const words = [property.description, isRequired ? null : "may be left empty"].filter(Boolean).join("; ");
  const element = h("label", { class: "field" }, h("span", { class: "field-name" }, visible(property.title ?? name)), input, words ? h("span", { class: "hint" }, visible(words)) : null);
  return { name, element, value: () => valueOf(input.value, options ? (type === "boolean" ? "boolean" : undefined) : type) };
}
