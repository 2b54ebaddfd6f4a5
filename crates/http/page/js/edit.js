// Editing a machine: its definition as JSON, saved as a new version.

import { ApiError, ask } from "./api.js";
import { fill, h, setText } from "./dom.js";
import { jsonLines, placed, syntaxProblem } from "./json_lines.js";
import { project } from "./project.js";
import { visible } from "./words.js";

/** Texts that are not saved: leaving the view keeps them. By project and workflow. @type {Map<string, { before: string, text: string }>} */
const drafts = new Map();

/** Asks before the tab is closed. @param {Event} event */
const onLeave = (event) => event.preventDefault();

/** Keeps an edited text, or forgets it. @param {string} key @param {{ before: string, text: string } | null} draft */
function keepDraft(key, draft) {
  if (draft) drafts.set(key, draft);
  else drafts.delete(key);
  if (drafts.size) addEventListener("beforeunload", onLeave);
  else removeEventListener("beforeunload", onLeave);
}

/**
 * Returns the form that edits a definition.
 * @param {string} name The workflow.
 * @param {any} definition As it is saved.
 * @param {(saved?: string) => void} done Called after saving, with the outcome, or when the person leaves it.
 */
export function editor(name, definition, done) {
  const key = `${project()} ${name}`;
  const draft = drafts.get(key);
  const before = draft?.before ?? JSON.stringify(definition, null, 2);
  const text = h("textarea", { class: "mono editor", spellcheck: "false", rows: Math.min(40, before.split("\n").length + 2), "aria-label": "Definition" });
  text.value = draft?.text ?? before;
  text.addEventListener("input", () => keepDraft(key, text.value === before ? null : { before, text: text.value }));
  const reason = h("input", { type: "text", class: "grow", placeholder: "Reason, for its versions", "aria-label": "Reason", maxlength: "500" });
  const passphrase = h("input", { type: "password", autocomplete: "off" });
  const passphraseLabel = h("label", { class: "line", hidden: true }, "Passphrase", passphrase);
  // A daemon without a passphrase needs none, and its refusal names the next step.
  ask("GET", "/approver").then((approver) => (passphraseLabel.hidden = !approver.is_set), () => {});
  const save = h("button", { class: "primary" }, "Save as a new version");
  const leave = h("button", { type: "button" }, "Cancel");
  const problem = h("p", { class: "problem", role: "alert", hidden: true });
  const mistakes = h("pre", { class: "judged source", tabindex: "0", "aria-label": "Mistakes", hidden: true });
  const form = h("form", { novalidate: true }, text, h("p", { class: "line" }, reason, passphraseLabel, save, leave), problem, mistakes);

  passphrase.addEventListener("input", () => passphrase.removeAttribute("aria-invalid"));

  /** @param {string} words */
  function tell(words) {
    setText(problem, visible(words));
    problem.hidden = false;
  }

  /** Puts the cursor on a line of the text. @param {number} line */
  function goTo(line) {
    const start = text.value.split("\n").slice(0, line).join("\n").length + (line ? 1 : 0);
    text.focus();
    text.setSelectionRange(start, start);
  }

  /** Shows the mistakes below their lines. @param {any} edited @param {string[]} problems */
  function showMistakes(edited, problems) {
    const lines = jsonLines(edited);
    const found = placed(lines, problems);
    const near = new Set(found.flatMap(({ line }) => [line - 1, line, line + 1]));
    fill(
      mistakes,
      lines.flatMap((line, index) => [
        near.has(index) ? h("span", { class: "text-line numbered", "data-line": index + 1 }, `${visible(line.text)}\n`) : null,
        ...found.filter((one) => one.line === index).map(({ words }) => h("span", { class: "text-line mistake" }, `${visible(words)}\n`)),
      ]),
    );
    mistakes.hidden = false;
    // The text gets the form that the lines are numbered in.
    text.value = JSON.stringify(edited, null, 2);
    goTo(found[0]?.line ?? 0);
  }

  form.addEventListener("submit", async (event) => {
    event.preventDefault();
    problem.hidden = true;
    mistakes.hidden = true;
    const invalid = syntaxProblem(text.value);
    if (invalid) {
      tell(`Line ${invalid.line + 1}: ${invalid.words}`);
      goTo(invalid.line);
      return;
    }
    const edited = JSON.parse(text.value);
    if (edited === null || typeof edited !== "object" || Array.isArray(edited)) {
      tell("A definition is a JSON object.");
      return;
    }
    if (!passphraseLabel.hidden && !passphrase.value) {
      tell("Type the approver's passphrase first.");
      passphrase.focus();
      return;
    }
    save.disabled = text.readOnly = true;
    try {
      const { version, is_new_version: isNew } = await ask("PUT", `/workflows/${encodeURIComponent(name)}`, {
        definition: edited,
        edited: JSON.parse(before),
        reason: reason.value.trim() || undefined,
        passphrase: passphrase.value || undefined,
      });
      keepDraft(key, null);
      done(isNew ? `Saved as version ${version}.` : `Saved. Only the description has changed, so version ${version} stays the newest and a reason is not kept.`);
    } catch (error) {
      const reply = error instanceof ApiError ? error.reply : {};
      tell(error instanceof Error ? error.message : String(error));
      if (reply.passphrase_wanted) {
        passphraseLabel.hidden = false;
        passphrase.value = "";
        passphrase.setAttribute("aria-invalid", "true");
        passphrase.focus();
      }
      const problems = (reply.validation_errors ?? []).map(String);
      if (problems.length) showMistakes(edited, problems);
    } finally {
      save.disabled = text.readOnly = false;
    }
  });
  leave.addEventListener("click", () => {
    if (text.value !== before && leave.dataset["sure"] !== "asked") {
      leave.dataset["sure"] = "asked";
      fill(leave, "Discard the changes?");
      setTimeout(() => {
        delete leave.dataset["sure"];
        fill(leave, "Cancel");
      }, 4000);
      return;
    }
    keepDraft(key, null);
    done();
  });
  if (draft) tell("These changes are not saved yet.");
  return form;
}
