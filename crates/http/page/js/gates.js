// Questions of runs to people, each with the facts for a decision.
//
// An answer belongs to what was shown: it carries the digest of the question, and a question that has changed is shown
// again. Nothing answers by accident: no field has the focus, no button is the default, and buttons do nothing for a
// moment after they appear or the window gets the focus.
//
// Questions that are locked since the daemon was restarted come first: the passphrase opens them, and answers none.

import { ApiError, ask, askShared } from "./api.js";
import { shownTime } from "./choices.js";
import { textLine } from "./difference_lines.js";
import { unified } from "./differences.js";
import { announce, fill, h, setText } from "./dom.js";
import { checkFields, formFields, formValue, markRefused } from "./form.js";
import { registered, sign } from "./passkey.js";
import { forgetPassphrase, listenToPassphrase, rememberPassphrase, remembered } from "./remembered.js";
import { gates, listen, lockedRuns } from "./store.js";
import { timeAgo, visible } from "./words.js";

/** How long buttons do nothing after they appear or the window gets the focus, in milliseconds. */
const INERT_TIME = 800;

/** How long it is shown that an answer was taken, in milliseconds. */
const DONE_TIME = 5000;

/**
 * The open questions, a card each.
 * @returns {{ element: HTMLElement, end: () => void }}
 */
export function gatesList() {
  /** @type {Map<string, ReturnType<typeof card>>} */
  const shown = new Map();
  const locked = lockedCard();
  const list = h("div", { class: "gates" }, locked.element);
  const forget = listen((lists) => {
    const open = gates(lists);
    locked.update(lockedRuns(lists).length);
    const currentIds = new Set(open.map((gate) => gate.gate_id));
    for (const [id, card] of shown) {
      if (currentIds.has(id)) continue;
      card.end();
      // The result of an answer stays visible for a while, also where the question is gone before its reply arrives.
      card.answered().then((isSent) => setTimeout(() => remove(card.element), isSent ? DONE_TIME : 0));
      shown.delete(id);
    }
    for (const gate of open) {
      let known = shown.get(gate.gate_id);
      if (!known) {
        known = card(gate);
        shown.set(gate.gate_id, known);
        list.append(known.element);
        announce(`A question waits: ${visible(gate.prompt)}`);
      }
      known.update(gate);
    }
  });

  /** Removes a card. The focus goes on to the next one. @param {HTMLElement} element */
  function remove(element) {
    const hadFocus = element.contains(document.activeElement);
    const next = element.nextElementSibling ?? element.previousElementSibling;
    element.remove();
    const heading = next instanceof HTMLElement && !next.hidden ? next.querySelector(".question") : null;
    if (hadFocus) (heading instanceof HTMLElement ? heading : document.getElementById("main"))?.focus();
  }

  const end = () => {
    forget();
    for (const card of shown.values()) card.end();
  };
  return { element: list, end };
}

/**
 * The questions that are locked since the daemon was restarted: their number, and a field for the passphrase that opens them.
 * @returns {{ element: HTMLElement, update: (count: number) => void }}
 */
function lockedCard() {
  const heading = h("h2", { class: "question", tabindex: "-1" });
  const passphrase = h("input", { type: "password", autocomplete: "off", "aria-describedby": "locked-problem" });
  const problem = h("p", { class: "problem", role: "alert", id: "locked-problem", hidden: true });
  const unlock = h("button", { class: "primary" }, "Unlock");
  const form = h("form", { class: "line", novalidate: true }, h("label", { class: "line" }, "Passphrase to unlock", passphrase), unlock);
  const element = h(
    "article",
    { class: "card gate locked", "aria-label": "Locked questions", hidden: true },
    heading,
    h("p", {}, "The daemon was restarted meanwhile. The approver's passphrase unlocks what waits for a person, and answers nothing."),
    form,
    problem,
    h("p", { class: "hint" }, "In a terminal of your own: ", h("code", { class: "whole" }, "steplatch approver unlock")),
  );
  let isBusy = false;

  /** @param {string} words */
  function tell(words) {
    problem.textContent = words;
    problem.hidden = false;
    passphrase.setAttribute("aria-invalid", "true");
    passphrase.focus();
  }

  passphrase.addEventListener("input", () => passphrase.removeAttribute("aria-invalid"));
  form.addEventListener("submit", async (event) => {
    event.preventDefault();
    if (isBusy) return;
    if (!passphrase.value) {
      tell("Type the approver's passphrase first.");
      return;
    }
    isBusy = true;
    problem.hidden = true;
    try {
      await ask("POST", "/approver/unlock", { passphrase: passphrase.value });
      passphrase.value = "";
      announce("The questions are unlocked");
    } catch (error) {
      tell(error instanceof Error ? error.message : String(error));
    } finally {
      isBusy = false;
    }
  });
  return {
    element,
    update(count) {
      const hadFocus = element.contains(document.activeElement);
      element.hidden = count === 0;
      setText(heading, count === 1 ? "1 question is locked" : `${count} questions are locked`);
      if (hadFocus && element.hidden) document.getElementById("main")?.focus();
    },
  };
}

/** Returns what there is to judge: a difference with its lines in colours, any other text as it is. @param {string} text */
function judged(text) {
  const shown = visible(text);
  return unified(shown)?.map((line) => textLine(line.is, line.text)) ?? shown;
}

/**
 * Returns a field of the context with the time limit of the gate as people read times. Other texts stay.
 * @param {any} gate @param {string} name @param {string} text
 * @returns {string}
 */
function inLocalTime(gate, name, text) {
  const limit = `after ${gate.expires_at}, `;
  if (name !== "without an answer" || !text.startsWith(limit)) return text;
  return `after ${shownTime(gate.expires_at, Date.now())}, ${text.slice(limit.length)}`;
}

/** What a person does where no passphrase is set. */
const NO_PASSPHRASE = "Answers over the page need the approver's passphrase, and none is set. Set one in a terminal of your own: steplatch approver set. Or answer there: steplatch gates answer";

/** @param {any} first */
function card(first) {
  /** The question as it is shown, with its digest. @type {any} */
  let gate = first;
  const element = h("article", { class: "card gate", "aria-label": `Question of ${visible(first.workflow ?? "")}`, "data-for": first.answered_by });
  const told = h("p", { class: "problem", role: "alert", tabindex: "-1", hidden: true });
  const since = h("time", { datetime: first.created_at });
  let inertUntil = 0;
  /** @type {HTMLButtonElement[]} */
  let buttons = [];
  /** @type {HTMLInputElement | null} */
  let passphrase = null;
  /** What the person fills in, and the question that it belongs to. */
  let entry = { of: "", fields: /** @type {ReturnType<typeof formFields> | null} */ (null), text: h("input", {}), reason: h("input", {}) };
  let isAnswered = false;
  /** Whether an answer is on its way. */
  let isSending = false;
  /** Resolves once no answer is on its way, to whether one was sent. */
  let answered = Promise.resolve(false);
  /** The passkeys that sign for this page. @type {any[]} */
  let passkeys = [];
  /** Minutes for which the passphrase may be kept; 0 if it may not. */
  let rememberMinutes = 0;
  /** Whether the approver has a passphrase: without one, only a passkey answers here. */
  let hasPassphrase = true;
  const rememberBox = h("input", { type: "checkbox" });
  const proofRow = h("div", { class: "proof line" });
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
    // Ignore a click that focused the window, or that was meant for the previous content.
    if (performance.now() < inertUntil || isAnswered || isSending) return;
    told.hidden = true;
    if (answer["form"] && entry.fields && !checkFields(entry.fields)) {
      tell("Not sent: see the fields that are marked.");
      return;
    }
    if (isForPeople() && !passphrase?.value && !kept() && passkeys.length === 0) {
      if (hasPassphrase) tell("Type the approver's passphrase first: it proves that a person answers.");
      await wantPassphrase();
      return;
    }
    answered = post(answer);
    await answered;
  }

  /** Sends an answer with its proof, and shows the reply. @param {Record<string, any>} answer */
  async function post(answer) {
    sending(true);
    const sentKept = isForPeople() && !passphrase?.value ? kept()?.passphrase : undefined;
    const sentPassphrase = passphrase?.value || sentKept;
    const shown = gate;
    const reason = entry.reason.value.split(/\s+/).filter(Boolean).join(" ") || undefined;
    /** @type {any} */
    let proof = { passphrase: sentPassphrase };
    if (isForPeople() && !sentPassphrase) {
      // A signature is of a text, so that a form is sent as one.
      if (answer["form"]) answer = { answer: JSON.stringify(answer["form"]) };
      try {
        proof = { passkey: await sign(shown, /** @type {any} */ ({ ...answer, reason }), passkeys) };
      } catch (error) {
        const why = error instanceof Error ? error.message : String(error);
        tell(`The passkey did not sign: ${why} You can answer with the passphrase instead.`);
        sending(false);
        return true;
      }
    }
    try {
      const reply = await ask("POST", `/runs/${encodeURIComponent(gate.run_id)}/gates/${encodeURIComponent(gate.gate_id)}`, {
        ...answer,
        digest: shown.digest,
        reason,
        ...proof,
      });
      isAnswered = true;
      if (passphrase?.value && rememberBox.checked && mayRemember()) rememberPassphrase(passphrase.value, rememberMinutes);
      const done = h("p", { class: "done question", role: "status", tabindex: "-1" }, `Answered${answer["answer"] === undefined || gate.form ? "" : ` “${visible(String(answer["answer"])).slice(0, 80)}”`}. `, h("a", { href: `#/runs/${encodeURIComponent(gate.run_id)}` }, "The run"), ` was ${reply.status} then.`);
      const hadFocus = element.contains(document.activeElement);
      fill(element, done);
      if (hadFocus) done.focus();
      announce("The answer is taken");
    } catch (error) {
      const reply = error instanceof ApiError ? error.reply : {};
      const why = error instanceof Error ? error.message : String(error);
      tell(why);
      // A question that has changed takes an answer once it is shown, any other one from now on.
      if (error instanceof ApiError && error.status === 409) await load();
      sending(false);
      // Another passphrase was set meanwhile.
      if (reply.passphrase_wanted && sentKept) forgetPassphrase();
      if (reply.passphrase_wanted) await wantPassphrase(reply.retry_after_seconds);
      else if (reply.misread && entry.fields && answer["form"]) markRefused(entry.fields, why);
    }
    return true;
  }

  /** Shows that an answer is on its way. Its button stays a button: one that is disabled loses the focus. @param {boolean} now */
  function sending(now) {
    isSending = now;
    for (const button of buttons) {
      if (now) button.setAttribute("aria-disabled", "true");
      else button.removeAttribute("aria-disabled");
    }
  }

  /** @param {number} [wait] Seconds until a passphrase is checked again. */
  async function wantPassphrase(wait) {
    const { is_set: isSet } = await ask("GET", "/approver").catch(() => ({ is_set: true }));
    if (!isSet) {
      tell(NO_PASSPHRASE);
      return;
    }
    if (wait) tell(`Wrong passphrases came before; the next one is checked in ${wait} s.`);
    proofRow.hidden = false;
    passphrase?.setAttribute("aria-invalid", "true");
    passphrase?.focus();
  }

  function isForPeople() {
    return gate.answered_by === "human";
  }

  /** Returns whether the tab may keep the passphrase. Each answer needs a new signature of a passkey, so it keeps none beside one. */
  function mayRemember() {
    return rememberMinutes > 0 && passkeys.length === 0;
  }

  /** Returns the passphrase that the tab keeps for this question. */
  function kept() {
    return mayRemember() ? remembered() : null;
  }

  /** Draws the kept passphrase, or the field for it. */
  function paintProof() {
    const hadFocus = proofRow.contains(document.activeElement);
    const keptNow = kept();
    if (keptNow) {
      const forget = h("button", { type: "button", class: "quiet" }, "Forget it");
      forget.addEventListener("click", forgetPassphrase);
      const until = shownTime(keptNow.until, Date.now());
      fill(proofRow, h("span", {}, `Your passphrase is kept in this tab until ${until}.`), forget);
    } else if (!hasPassphrase && passkeys.length === 0) {
      fill(proofRow, h("span", {}, NO_PASSPHRASE));
    } else {
      fill(
        proofRow,
        h("label", { class: "line" }, "Passphrase", passphrase),
        h("span", { class: "hint" }, passkeys.length ? "or your passkey: leave this empty" : "proves that a person answers"),
        mayRemember() ? h("label", { class: "line" }, rememberBox, `keep it in this tab for ${rememberMinutes} min`) : null,
      );
    }
    const field = proofRow.querySelector("input, button");
    if (hadFocus && !proofRow.contains(document.activeElement) && field instanceof HTMLElement) field.focus();
  }

  /** Reads the whole question again, and shows it. */
  async function load() {
    if (isForPeople()) {
      const [keys, approver] = await Promise.all([registered(), askShared("/approver").catch(() => ({}))]);
      passkeys = keys;
      rememberMinutes = approver.remember_minutes ?? 0;
      hasPassphrase = approver.is_set !== false;
    }
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
    if (!passphrase) {
      passphrase = h("input", { type: "password", autocomplete: "off", "aria-label": "Approver's passphrase" });
      passphrase.addEventListener("input", () => {
        passphrase?.removeAttribute("aria-invalid");
        told.hidden = true;
      });
      // Several answers may follow: the person chooses one.
      passphrase.addEventListener("keydown", (event) => {
        if (event.key !== "Enter") return;
        event.preventDefault();
        buttons[0]?.focus();
      });
    }
    const asked = JSON.stringify([gate.digest, gate.form]);
    if (entry.of !== asked) {
      const text = h("input", { type: "text", autocomplete: "off", class: "grow", "aria-label": "Answer" });
      const reason = h("input", { type: "text", autocomplete: "off", class: "grow", maxlength: "500", placeholder: "optional, for the run and its agent" });
      entry = { of: asked, fields: gate.form ? formFields(gate.form) : null, text, reason };
    }
    const { fields, text, reason } = entry;
    const focused = element.contains(document.activeElement) ? document.activeElement : null;
    const context = Object.entries(gate.context ?? {});
    buttons = [];
    proofRow.hidden = !isForPeople();
    paintProof();
    /** @param {string} label @param {() => Record<string, any>} answer */
    const button = (label, answer) => {
      const made = h("button", { type: "button", disabled: !isWhole }, visible(label));
      made.addEventListener("click", (event) => send(answer(), event));
      buttons.push(made);
      return made;
    };
    const question = h("h2", { class: "question", tabindex: "-1" }, visible(gate.prompt));
    fill(
      element,
      h(
        "p",
        { class: "line asked" },
        h("span", {}, "Asked by ", h("strong", {}, visible(gate.workflow ?? "")), " "),
        h("span", { class: "hint" }, since),
        isForPeople() ? null : h("span", { class: "tag" }, `for ${gate.answered_by}`),
        gate.expires_at ? h("span", { class: "hint" }, "until ", h("time", { datetime: gate.expires_at }, shownTime(gate.expires_at, Date.now()))) : null,
        h("a", { class: "hint", href: `#/runs/${encodeURIComponent(gate.run_id)}` }, gate.run_id),
      ),
      question,
      context.length
        ? h("dl", { class: "context" }, context.flatMap(([name, value]) => [
            h("dt", {}, visible(name)),
            h("dd", {}, h("pre", { class: "judged", tabindex: "0", "aria-label": visible(name) }, judged(typeof value === "string" ? inLocalTime(gate, name, value) : JSON.stringify(value, null, 2)))),
          ]))
        : null,
      gate.shortened ? h("p", { class: "hint" }, "Parts of this are left out. All of it: ", h("code", {}, `steplatch gates show ${gate.gate_id}`)) : null,
      gate.masked ? h("p", { class: "hint" }, "Parts of this are hidden as secrets (••••••).") : null,
      (gate.typed ?? []).map((/** @type {any} */ input) => h("p", { class: "hint" }, `Since the question, ${visible(input.by)} typed ${input.bytes} bytes into ${input.session_id}.`)),
      fields?.map(({ element: field }) => field),
      h(
        "div",
        { class: "answers" },
        fields
          ? button("Answer with these values", () => ({ form: formValue(fields) }))
          : gate.choices?.length
            ? gate.choices.map((/** @type {string} */ choice, /** @type {number} */ index) => button(choice, () => ({ answer: choice, number: index + 1 })))
            : [text, button("Answer", () => ({ answer: text.value }))],
      ),
      h("label", { class: "line reason" }, "Reason", reason),
      proofRow,
      told,
    );
    // A button that had the focus is another one now, which gets none.
    if (focused instanceof HTMLElement) (focused.isConnected ? focused : told.hidden ? question : told).focus();
    inert();
    update(gate);
  }

  const onFocus = () => inert();
  addEventListener("focus", onFocus);
  const endListener = listenToPassphrase(paintProof);
  paint();
  load();

  /** @param {any} now */
  function update(now) {
    setText(since, timeAgo(now.created_at, Date.now()));
    since.title = shownTime(now.created_at, Date.now());
    if (now.digest && gate.digest && now.digest !== gate.digest && !isAnswered) {
      // Until the next paint the page shows another question, so it accepts no answer.
      isWhole = false;
      for (const button of buttons) button.disabled = true;
      gate = { ...now, workflow: first.workflow };
      load().then(() => tell("The question has changed; this is how it is now."));
    }
  }

  return { element, update, answered: () => answered, end: () => (removeEventListener("focus", onFocus), endListener()) };
}
