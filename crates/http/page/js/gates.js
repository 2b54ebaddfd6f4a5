// The inbox: questions that runs ask people, each with what there is to judge.
//
// An answer belongs to what was shown: it carries the digest of the question, and a question that has changed is shown
// again. Nothing answers by accident: no field has the focus, no button is the default, and buttons do nothing for a
// moment after they appear or the window gets the focus.

import { ApiError, ask } from "./api.js";
import { textLine } from "./difference_lines.js";
import { unified } from "./differences.js";
import { announce, fill, h, setText } from "./dom.js";
import { formFields, formValue } from "./form.js";
import { registered, sign } from "./passkey.js";
import { gates, listen } from "./store.js";
import { timeAgo, visible } from "./words.js";

export const title = "Gates";

/** How long buttons do nothing after they appear or the window gets the focus, in milliseconds. */
const INERT_TIME = 800;

/** How long it is shown that an answer was taken, in milliseconds. */
const DONE_TIME = 5000;

/** @param {HTMLElement} into */
export function show(into) {
  /** @type {Map<string, { element: HTMLElement, end: () => void, update: (gate: any) => void, isAnswered: () => boolean }>} */
  const shown = new Map();
  const none = h("p", { class: "hint", hidden: true }, "No run waits for an answer.");
  const list = h("div", { class: "gates" });
  fill(into, h("header", { class: "head" }, h("h1", {}, title)), none, list);
  const forget = listen((lists) => {
    const open = gates(lists);
    none.hidden = open.length > 0;
    const here = new Set(open.map((gate) => gate.gate_id));
    for (const [id, card] of shown) {
      if (here.has(id)) continue;
      card.end();
      // What became of an answer stays for a while.
      setTimeout(() => card.element.remove(), card.isAnswered() ? DONE_TIME : 0);
      shown.delete(id);
    }
    for (const gate of open) {
      let known = shown.get(gate.gate_id);
      if (!known) {
        known = card(gate);
        shown.set(gate.gate_id, known);
        list.append(known.element);
        announce(`A question waits: ${gate.prompt}`);
      }
      known.update(gate);
    }
  });
  return () => {
    forget();
    for (const card of shown.values()) card.end();
  };
}

/** Returns what there is to judge: a difference with its lines in colours, any other text as it is. @param {string} text */
function judged(text) {
  const shown = visible(text);
  return unified(shown)?.map((line) => textLine(line.is, line.text)) ?? shown;
}

/** @param {any} first */
function card(first) {
  /** The question as it is shown, with its digest. @type {any} */
  let gate = first;
  const element = h("article", { class: "card gate", "aria-label": `Question of ${first.workflow}` });
  const told = h("p", { class: "problem", role: "alert", hidden: true });
  const since = h("time", { datetime: first.created_at });
  let inertUntil = 0;
  /** @type {HTMLButtonElement[]} */
  let buttons = [];
  /** @type {HTMLInputElement | null} */
  let passphrase = null;
  /** What the person fills in, and the question that it belongs to. */
  let entry = { of: "", fields: /** @type {ReturnType<typeof formFields> | null} */ (null), text: h("input", {}) };
  let isAnswered = false;
  /** The passkeys that sign for this page. @type {any[]} */
  let passkeys = [];
  /** Whether all of the question is shown, which takes a request of its own. */
  let isWhole = false;

  function inert() {
    inertUntil = performance.now() + INERT_TIME;
    for (const button of buttons) button.dataset["inert"] = "";
    setTimeout(() => {
      if (performance.now() >= inertUntil) for (const button of buttons) delete button.dataset["inert"];
    }, INERT_TIME + 20);
  }

  /** @param {string} words */
  function tell(words) {
    told.textContent = words;
    told.hidden = false;
  }

  /** @param {Record<string, any>} answer @param {Event} event */
  async function send(answer, event) {
    event.preventDefault();
    // A click that gave the window its focus, or that was meant for what was here before.
    if (performance.now() < inertUntil || isAnswered) return;
    const isSigned = gate.answered_by === "human" && !passphrase?.value && passkeys.length > 0;
    if (gate.answered_by === "human" && !passphrase?.value && !isSigned) {
      tell("Type the approver's passphrase first: it proves that a person answers.");
      await wantPassphrase();
      return;
    }
    for (const button of buttons) button.disabled = true;
    told.hidden = true;
    const shown = gate;
    /** @type {any} */
    let proof = { passphrase: passphrase?.value || undefined };
    if (isSigned) {
      // A signature is of a text, so that a form is sent as one.
      if (answer["form"]) answer = { answer: JSON.stringify(answer["form"]) };
      try {
        proof = { passkey: await sign(shown, /** @type {any} */ (answer), passkeys) };
      } catch (error) {
        const why = error instanceof Error ? error.message : String(error);
        tell(`The passkey did not sign: ${why} You can answer with the passphrase instead.`);
        for (const button of buttons) button.disabled = !isWhole;
        return;
      }
    }
    try {
      const reply = await ask("POST", `/runs/${encodeURIComponent(gate.run_id)}/gates/${encodeURIComponent(gate.gate_id)}`, {
        ...answer,
        digest: shown.digest,
        ...proof,
      });
      isAnswered = true;
      fill(element, h("p", { class: "done", role: "status" }, `Answered: the run is ${reply.status}.`));
      announce("The answer is taken");
    } catch (error) {
      const reply = error instanceof ApiError ? error.reply : {};
      tell(error instanceof Error ? error.message : String(error));
      if (reply.passphrase_wanted) await wantPassphrase(reply.retry_after_seconds);
      else if (error instanceof ApiError && error.status === 409) await load();
      for (const button of buttons) button.disabled = !isWhole;
    }
  }

  /** @param {number} [wait] Seconds until a passphrase is checked again. */
  async function wantPassphrase(wait) {
    const { is_set: isSet } = await ask("GET", "/approver").catch(() => ({ is_set: true }));
    if (!isSet) {
      tell("Answers over the page need the approver's passphrase, and none is set. Set one in a terminal of your own: steplatch approver set. Or answer there: steplatch gates answer");
      return;
    }
    if (wait) tell(`Wrong passphrases came before; the next one is checked in ${wait} s.`);
    const row = element.querySelector(".proof");
    if (row instanceof HTMLElement) row.hidden = false;
    passphrase?.focus();
  }

  /** Reads the whole question again, and shows it. */
  async function load() {
    if (gate.answered_by === "human") passkeys = await registered();
    try {
      const { gate: whole } = await ask("GET", `/runs/${encodeURIComponent(gate.run_id)}/gates/${encodeURIComponent(gate.gate_id)}`);
      if (whole) gate = { ...whole, workflow: first.workflow };
      isWhole = true;
    } catch (error) {
      if (error instanceof ApiError && error.status === 404) return;
      tell(error instanceof Error ? error.message : String(error));
    }
    if (!isAnswered) paint();
  }

  function paint() {
    passphrase ??= h("input", { type: "password", autocomplete: "off", "aria-label": "Approver's passphrase" });
    const question = JSON.stringify([gate.digest, gate.form]);
    if (entry.of !== question) {
      const text = h("input", { type: "text", autocomplete: "off", class: "grow", "aria-label": "Answer" });
      entry = { of: question, fields: gate.form ? formFields(gate.form) : null, text };
    }
    const { fields, text } = entry;
    const focused = element.contains(document.activeElement) ? document.activeElement : null;
    const context = Object.entries(gate.context ?? {});
    buttons = [];
    /** @param {string} label @param {() => Record<string, any>} answer */
    const button = (label, answer) => {
      const made = h("button", { type: "button", disabled: !isWhole }, visible(label));
      made.addEventListener("click", (event) => send(answer(), event));
      buttons.push(made);
      return made;
    };
    const isForPeople = gate.answered_by === "human";
    fill(
      element,
      h(
        "p",
        { class: "line asked" },
        h("span", {}, "Asked by ", h("strong", {}, visible(gate.workflow ?? "")), " "),
        h("span", { class: "hint" }, since),
        isForPeople ? null : h("span", { class: "tag" }, `for ${gate.answered_by}`),
        gate.expires_at ? h("span", { class: "hint" }, `until ${new Date(gate.expires_at).toLocaleTimeString()}`) : null,
        h("a", { class: "hint", href: `#/runs/${encodeURIComponent(gate.run_id)}` }, gate.run_id),
      ),
      h("h2", { class: "question" }, visible(gate.prompt)),
      context.length
        ? h("dl", { class: "context" }, context.flatMap(([name, value]) => [
            h("dt", {}, visible(name)),
            h("dd", {}, h("pre", { class: "judged", tabindex: "0", "aria-label": name }, judged(typeof value === "string" ? value : JSON.stringify(value, null, 2)))),
          ]))
        : null,
      gate.shortened ? h("p", { class: "hint" }, "Parts of this are left out. All of it: ", h("code", {}, `steplatch gates show ${gate.gate_id}`)) : null,
      gate.masked ? h("p", { class: "hint" }, "Parts of this are hidden as secrets (••••••).") : null,
      (gate.typed ?? []).map((/** @type {any} */ input) => h("p", { class: "hint" }, `Since the question, ${input.by} typed ${input.bytes} bytes into ${input.session_id}.`)),
      told,
      fields?.map(({ element: field }) => field),
      h(
        "div",
        { class: "answers" },
        fields
          ? button("Answer with these values", () => ({ form: formValue(fields) }))
          : gate.choices.length
            ? gate.choices.map((/** @type {string} */ choice, /** @type {number} */ index) => button(choice, () => ({ answer: choice, number: index + 1 })))
            : [text, button("Answer", () => ({ answer: text.value }))],
      ),
      h("div", { class: "proof line", hidden: !isForPeople }, h("label", { class: "line" }, "Passphrase", passphrase), h("span", { class: "hint" }, passkeys.length ? "or your passkey: leave this empty" : "proves that a person answers")),
    );
    if (focused instanceof HTMLElement && focused.isConnected) focused.focus();
    inert();
    update(gate);
  }

  const onFocus = () => inert();
  addEventListener("focus", onFocus);
  paint();
  load();

  /** @param {any} now */
  function update(now) {
    setText(since, timeAgo(now.created_at, Date.now()));
    if (now.digest && gate.digest && now.digest !== gate.digest && !isAnswered) {
      // Until it is painted, what is shown is another question: it takes no answer.
      isWhole = false;
      for (const button of buttons) button.disabled = true;
      gate = { ...now, workflow: first.workflow };
      load().then(() => tell("The question has changed; this is how it is now."));
    }
  }

  return { element, update, isAnswered: () => isAnswered, end: () => removeEventListener("focus", onFocus) };
}
