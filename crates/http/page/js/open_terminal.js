// Opening a terminal: at once with the settings, or with a name, a program, a directory, a machine and a size.

import { ask } from "./api.js";
import { fill, h, icon } from "./dom.js";
import { checkFields, formFields, formValue, markRefused } from "./form.js";

/** The sizes that the server takes. */
const SIZE = { minimum: 2, maximum: 1000 };

/**
 * Returns the form of a new terminal.
 * @param {string[]} hosts The names of other machines.
 */
export function terminalSchema(hosts) {
  return {
    type: "object",
    properties: {
      name: { type: "string", title: "Name", description: "To find it by; otherwise it has an id only." },
      shell: { type: "string", title: "Program", description: "Such as python3 -q; otherwise the shell of the settings." },
      working_directory: { type: "string", title: "Directory", description: "Otherwise that of the project, or your home directory." },
      ...(hosts.length ? { host: { type: "string", title: "Machine", description: "Otherwise this one.", enum: hosts } } : {}),
      cols: { type: "integer", title: "Columns", ...SIZE },
      rows: { type: "integer", title: "Rows", ...SIZE },
    },
  };
}

/**
 * The buttons that open a terminal, with the place where an error is shown.
 * @returns {{ buttons: HTMLElement, problem: HTMLElement }}
 */
export function terminalOpening() {
  const problem = h("p", { class: "problem", role: "alert", hidden: true });
  const open = h("button", { class: "primary" }, icon("plus"), "Open a terminal");
  const choose = h("button", { "aria-haspopup": "dialog" }, "Open with…");
  const dialog = h("dialog", { class: "confirm", "aria-label": "Open a terminal" });
  let isBusy = false;

  /**
   * Does something, unless it is doing something already, and shows an error.
   * @param {HTMLElement} place Where an error is shown.
   * @param {() => Promise<void>} work
   */
  async function once(place, work) {
    if (isBusy) return;
    isBusy = true;
    place.hidden = true;
    try {
      await work();
    } catch (error) {
      place.textContent = error instanceof Error ? error.message : String(error);
      place.hidden = false;
    } finally {
      isBusy = false;
    }
  }

  /** Opens a terminal and leads to it. @param {Record<string, unknown>} request */
  async function begin(request) {
    const opened = await ask("POST", "/terminals", request);
    location.hash = `#/terminals/${encodeURIComponent(opened.session_id)}`;
  }

  open.addEventListener("click", () => once(problem, () => begin({})));
  choose.addEventListener("click", () => once(problem, async () => {
    const { hosts } = await ask("GET", "/hosts").catch(() => ({ hosts: [] }));
    const fields = formFields(terminalSchema(hosts.map((/** @type {any} */ host) => host.name)));
    const refused = h("p", { class: "problem", role: "alert", hidden: true });
    const form = h(
      "form",
      { novalidate: true },
      fields.map(({ element }) => element),
      refused,
      h("p", { class: "buttons" }, h("button", { type: "button", onclick: () => dialog.close() }, "Leave it"), h("button", { class: "primary" }, "Open")),
    );
    form.addEventListener("submit", async (event) => {
      event.preventDefault();
      refused.hidden = true;
      if (!checkFields(fields)) return;
      await once(refused, async () => {
        await begin(formValue(fields));
        dialog.close();
      });
      if (!refused.hidden) markRefused(fields, refused.textContent ?? "");
    });
    // The person may have left the view meanwhile.
    if (!dialog.isConnected) return;
    fill(dialog, h("h2", {}, "Open a terminal"), form);
    dialog.showModal();
    fields[0]?.focus();
  }));
  return { buttons: h("span", { class: "line" }, choose, open, dialog), problem };
}
