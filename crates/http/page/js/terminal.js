// A terminal: its screen, and the keyboard for the holder.

import { ask } from "./api.js";
import { choice, choose as chooseValue, nextSize, onChoice } from "./choices.js";
import { announce, fill, h, icon, setText } from "./dom.js";
import { advance, LINE, MARGIN } from "./font.js";
import { claimKey, drawKey, forgetKey, holdOf, keepSize } from "./holding.js";
import { cleanPaste, isForPage, keyName, keyText } from "./keys.js";
import { openable } from "./links.js";
import { keep, on, send, type } from "./live.js";
import { Painter } from "./paint.js";
import { followPointer } from "./pointer.js";
import { apply, blank } from "./screen.js";
import { scrollback } from "./scrollback.js";
import { listen, lists } from "./store.js";
import { showTitle } from "./title.js";
import { transfers } from "./transfers.js";
import { terminalName, terminalPlace, terminalState, visible } from "./words.js";

export const title = "Terminal";

/** The least size of text, in pixels. The largest one is a choice of the person. */
const MIN_TEXT_PX = 5;

/** The largest size of text, in pixels. */
const largestText = () => Number(choice("terminalText"));

/**
 * How long the cursor stands until the keyboard is put there, in milliseconds: longer than between two typed keys. A cursor that moves
 * all the time is followed after the second one.
 */
const FOLLOW_TIME = { still: 250, most: 1500 };

/** The height of the borders of the frame of a screen, in pixels; as in the style sheet. */
const BORDERS = 2;

/** Keys for screens without a keyboard. */
const QUICK = [["Esc", "escape"], ["Tab", "tab"], ["Ctrl-C", "ctrl-c"], ["↑", "up"], ["↓", "down"], ["←", "left"], ["→", "right"], ["Enter", "enter"]];

/**
 * @param {HTMLElement} into
 * @param {string[]} parts
 * @param {unknown} [isShared] True for a read-only link, which has neither other views nor controls.
 */
export function show(into, parts, isShared) {
  const isReadOnly = isShared === true;
  const id = parts[0] ?? "";
  /** The position in the output at which it is shown first. @type {number | undefined} */
  let offset = /^\d+$/.test(parts[1] ?? "") ? Number(parts[1]) : undefined;
  const screen = blank();
  /** @type {string | null} */
  let key = null;
  /** The size before this tab changed it. @type {{ cols: number, rows: number } | null} */
  let sizeBefore = null;
  /** Rows that changed while painting was held back. @type {Set<number>} */
  const behind = new Set();
  let isPaused = false;
  let isPainting = false;
  /** Whether the screen has another size than when it was painted last. */
  let isResized = false;
  /** Who holds the terminal, as the list says. @type {string | null} */
  let heldBy = null;
  /** The terminal, as the list says. @type {any} */
  let known = null;
  /** Whether its program has ended. */
  let isOver = false;
  /** Whether another view is shown. */
  let isLeft = false;

  // ---- elements ----

  const name = h("h1", {});
  const state = h("span", { class: "chip" });
  const holder = h("span", { class: "chip held", hidden: true });
  const place = h("span", { class: "hint grow" });
  const problem = h("p", { class: "problem", role: "alert", hidden: true });
  const take = h("button", { class: "primary" }, icon("terminal"), "Take over");
  const back = h("button", { class: "primary", hidden: true }, "Hand back");
  const fit = h("button", { hidden: true, title: "Gives the terminal the size of this window; handing back restores it" }, "Fit to window");
  /** @param {string} words @param {string} picture @param {1 | -1} direction */
  const sizeButton = (words, picture, direction) => h("button", { class: "quiet", title: words, "aria-label": words, onclick: () => resizeText(direction) }, icon(picture));
  const [smaller, larger] = [sizeButton("Smaller text", "smaller", -1), sizeButton("Larger text", "larger", 1)];
  const close = h("button", { class: "bad" }, icon("close"), "Close");
  const paused = h("p", { class: "paused", role: "status", hidden: true });
  const element = h("div", { class: "screen", role: "group", "aria-label": "Screen of the terminal" });
  const keyboard = h("textarea", {
    class: "keyboard", autocapitalize: "off", autocomplete: "off", autocorrect: "off", spellcheck: "false", rows: "1",
    "aria-label": "Keyboard of the terminal; ctrl-shift-escape leaves it",
  });
  const text = h("div", { class: "unseen", role: "log", "aria-label": "Last lines", "aria-live": "off" });
  const hint = h("p", { class: "at-bottom hint", "aria-hidden": "true", hidden: true });
  const frame = h("div", { class: "stage" }, element, paused, hint);
  const outputFrame = h("div", { class: "stage past", hidden: true });
  const files = transfers(frame, () => ({ folder: known?.cwd ?? "", host: known?.host ?? undefined }));
  const output = scrollback(outputFrame, id, () => choose("screen"));
  const tabs = h("div", { class: "tabs", role: "group", "aria-label": "What is shown" });
  const note = h("input", { type: "text", maxlength: "2000", placeholder: "A note to the agent (may be empty)", "aria-label": "Note to the agent" });
  const noteForm = h("form", { class: "note", hidden: true }, note, h("button", { class: "primary" }, "Hand back"), h("button", { type: "button", class: "quiet", onclick: () => { noteForm.hidden = true; back.hidden = false; } }, "Keep it"));
  const line = h("input", { type: "text", class: "grow", autocapitalize: "off", autocomplete: "off", "aria-label": "Line to type" });
  const compose = h(
    "form",
    { class: "compose", hidden: true },
    h("div", { class: "quick" }, QUICK.map(([label, named]) => h("button", { type: "button", onclick: () => press(named ?? "") }, label ?? ""))),
    h("div", { class: "line" }, line, h("button", { class: "primary" }, "Send")),
  );
  const confirm = h("dialog", { class: "confirm", "aria-label": "Paste" });
  const visit = h("dialog", { class: "confirm", "aria-label": "Address" });
  fill(
    into,
    h("header", { class: "head" }, isReadOnly ? null : h("a", { class: "button quiet", href: "#/terminals", "aria-label": "All terminals" }, icon("back")), name, state, holder, place, smaller, larger, files.button, tabs, fit, take, back, noteForm, close),
    problem,
    frame,
    outputFrame,
    compose,
    text,
    confirm,
    visit,
    files.dialog,
  );
  for (const control of [take, close, tabs, files.button]) control.hidden = isReadOnly;
  into.classList.add("full");
  const painter = new Painter(element);
  element.append(keyboard);

  // ---- screen ----

  function scale() {
    if (!screen.cols) return;
    // One of both is shown.
    const room = (frame.clientWidth || outputFrame.clientWidth) - 2 * MARGIN;
    const size = key && sizeBefore ? largestText() : Math.max(MIN_TEXT_PX, Math.min(largestText(), room / (screen.cols * advance())));
    const text = `${Math.floor(size * 10) / 10}px`;
    painter.set("font-size", text);
    output.scale(text);
  }

  /** @param {1 | -1} direction */
  function resizeText(direction) {
    const next = nextSize("terminalText", String(choice("terminalText")), direction);
    if (next) chooseValue("terminalText", next);
  }

  function showSizes() {
    const now = String(choice("terminalText"));
    smaller.disabled = !nextSize("terminalText", now, -1);
    larger.disabled = !nextSize("terminalText", now, 1);
    scale();
  }

  /** @type {number | undefined} */
  let following;
  /** The place of the keyboard, or the one that it is about to be put to. */
  let keyboardPlace = painter.place;
  /** Since when the keyboard is not at the cursor. @type {number | null} */
  let behindSince = null;

  /**
   * Puts the keyboard at the cursor, where a window for the composition of characters opens. That costs a fifth of what painting a
   * typed key costs, and the keyboard is not seen unless it composes, so it follows once the cursor stands.
   */
  function follow() {
    clearTimeout(following);
    behindSince = null;
    keyboardPlace = painter.place;
    keyboard.style.translate = keyboardPlace;
  }

  /** Has the keyboard follow the cursor, if it has moved. */
  function followSoon() {
    if (painter.place === keyboardPlace) return;
    keyboardPlace = painter.place;
    const now = performance.now();
    behindSince ??= now;
    clearTimeout(following);
    following = setTimeout(follow, Math.min(FOLLOW_TIME.still, behindSince + FOLLOW_TIME.most - now));
  }

  /** Paints what has changed, unless text is selected: a selection would be lost. */
  function paint() {
    if (isPainting) return;
    isPainting = true;
    requestAnimationFrame(() => {
      isPainting = false;
      if (!isPaused) {
        painter.paint(screen, [...behind]);
        behind.clear();
        // A keyboard outside of a screen that has become smaller would scroll it.
        if (isResized || keyboard.classList.contains("composing")) follow();
        else followSoon();
        isResized = false;
      }
      if (latest !== acknowledged) send({ do: "ack", terminal: id, version: latest });
      acknowledged = latest;
    });
  }

  const isMeant = (/** @type {any} */ terminal) => terminal.session_id === id || terminal.name === id;
  const isListed = () => Boolean(lists()?.terminals.some(isMeant));

  let latest = 0;
  let acknowledged = 0;
  const forgets = [
    onChoice(showSizes),
    keep(`watch ${id}`, () => ({ do: "watch", terminal: id, rate: "live" }), { do: "leave", terminal: id }),
    on(`terminal ${id}`, (message) => {
      switch (message.is) {
        case "screen": {
          const { cols, rows } = screen;
          for (const row of apply(screen, message)) behind.add(row);
          latest = message["version"];
          if (isPaused) {
            setText(paused, `Paused while text is selected; ${behind.size} rows have changed. Escape continues.`);
          }
          showState();
          output.changed();
          if (cols !== screen.cols || rows !== screen.rows) {
            isPaused = false;
            isResized = true;
            scale();
          }
          paint();
          break;
        }
        case "gone":
          // For a missing terminal the server lists all others, which is for agents.
          if (isReadOnly) tell("This terminal is closed.");
          else tell(isListed() ? (message["error"] ?? "This terminal is closed.") : known ? "This terminal is closed." : `No terminal is open as ${id}. The arrow above leads to those that are.`);
          isOver = true;
          released();
          close.disabled = true;
          if (!screen.cols) showNothing();
          break;
        case "held":
          if (message["success"]) held();
          else {
            forgetKey(id);
            key = null;
            released();
            tell(message["error"] ?? "The terminal cannot be taken over.");
          }
          break;
        case "handed_back":
          if (message["error"]) tell(message["error"]);
          else announce("The terminal is handed back");
          if (isClosing) end();
          break;
        case "typed":
          if (message["error"]) tell(message["error"]);
      }
    }),
    listen(({ terminals }) => {
      known = terminals.find(isMeant) ?? known;
      if (!known) return;
      setText(name, terminalName(known));
      files.enable();
      showState();
      heldBy = known.held_by ?? null;
      isOver = known.state === "exited";
      showHolder();
      setText(place, [terminalPlace(known), known.opened_by && `opened by ${visible(known.opened_by)}`, `${known.cols} × ${known.rows}`].filter(Boolean).join(" · "));
      showTitle(terminalName(known));
    }),
  ];

  function showState() {
    if (!known) return;
    const { word, tone } = terminalState({ ...known, alternate_screen: screen.state.alternate }, Date.now());
    setText(state, word);
    state.dataset["tone"] = tone;
  }

  /** Shows that there is no such terminal: nothing to look at, and nothing to do. */
  function showNothing() {
    setText(name, visible(id));
    for (const part of [frame, smaller, larger, files.button, tabs, take, close]) part.hidden = true;
  }

  // ---- holding ----

  function showHolder() {
    holder.hidden = !heldBy;
    setText(holder, key ? "held by you, in this tab" : `held by ${visible(heldBy ?? "")}`);
    take.disabled = isOver || Boolean(heldBy && !key);
  }

  /** @type {() => void} */
  let letGo = () => {};

  /** @param {import("./holding.js").Hold} hold */
  function takeOver(hold) {
    const holding = hold.key;
    key = holding;
    sizeBefore = hold.size ?? null;
    problem.hidden = true;
    letGo = keep(`hold ${id}`, () => ({ do: "hold", terminal: id, key: holding }));
  }

  /** Holds the terminal as before a reload or another view. A tab that was duplicated has a copy of the key. */
  async function holdAgain() {
    const hold = holdOf(id);
    if (!hold) return;
    const isOurs = await claimKey(hold.key);
    if (!isOurs) forgetKey(id);
    else if (!isLeft) takeOver(hold);
  }

  /** Asks before the tab is closed by a key that was meant for the terminal. @param {Event} event */
  const onLeave = (event) => event.preventDefault();

  function held() {
    addEventListener("beforeunload", onLeave);
    take.hidden = true;
    back.hidden = false;
    fit.hidden = false;
    compose.hidden = false;
    frame.classList.add("is-held");
    showHolder();
    announce("You hold the terminal; nobody else can type");
    focus();
  }

  function released() {
    removeEventListener("beforeunload", onLeave);
    letGo();
    take.hidden = false;
    back.hidden = true;
    fit.hidden = true;
    compose.hidden = true;
    noteForm.hidden = true;
    frame.classList.remove("is-held");
    showHolder();
  }

  function handBack() {
    if (!key) return;
    if (sizeBefore) send({ do: "size", terminal: id, ...sizeBefore });
    sizeBefore = null;
    send({ do: "hand_back", terminal: id, key, note: note.value.trim() || undefined });
    forgetKey(id);
    key = null;
    note.value = "";
    released();
    scale();
  }

  take.addEventListener("click", () => takeOver(drawKey(id)));
  back.addEventListener("click", () => {
    back.hidden = true;
    noteForm.hidden = false;
    note.focus();
  });
  noteForm.addEventListener("submit", (event) => {
    event.preventDefault();
    handBack();
  });
  fit.addEventListener("click", () => {
    sizeBefore ??= { cols: screen.cols, rows: screen.rows };
    keepSize(id, sizeBefore);
    const cell = largestText() * advance();
    const cols = Math.max(20, Math.floor((frame.clientWidth - 2 * MARGIN) / cell));
    // Below the screen are the keys and the line of a telephone, and room for its navigation.
    const [whole, box] = [into.getBoundingClientRect(), frame.getBoundingClientRect()];
    const room = innerHeight - (box.top + scrollY) - (whole.bottom - box.bottom);
    const rows = Math.max(5, Math.floor((room - 2 * MARGIN - BORDERS) / (largestText() * LINE)));
    send({ do: "size", terminal: id, cols, rows });
    focus();
  });
  let isClosing = false;

  async function end() {
    isClosing = false;
    try {
      await ask("DELETE", `/terminals/${encodeURIComponent(id)}`);
      location.hash = "#/terminals";
    } catch (error) {
      tell(error instanceof Error ? error.message : String(error));
    }
  }

  close.addEventListener("click", async () => {
    if (close.dataset["sure"]) {
      // Nobody closes a terminal that is held; it is handed back first.
      isClosing = Boolean(key);
      if (key) handBack();
      else await end();
      return;
    }
    close.dataset["sure"] = "asked";
    fill(close, "Close, and end its programs");
    setTimeout(() => {
      delete close.dataset["sure"];
      fill(close, icon("close"), "Close");
    }, 4000);
  });

  /** @param {string} words */
  function tell(words) {
    problem.textContent = visible(words);
    problem.hidden = false;
  }

  // ---- keyboard ----

  function focus() {
    follow();
    // Without a blur, a caret that was taken away with a selection does not come back.
    keyboard.blur();
    keyboard.focus({ preventScroll: true });
  }

  /** @param {string} named */
  function press(named) {
    if (key) type(id, key, { keys: [named] });
    focus();
  }

  const selected = () => {
    const selection = getSelection();
    return Boolean(selection && !selection.isCollapsed && selection.anchorNode && element.contains(selection.anchorNode));
  };

  function resume() {
    if (!isPaused) return;
    isPaused = false;
    paused.hidden = true;
    getSelection()?.removeAllRanges();
    paint();
    if (key) focus();
  }

  const onSelection = () => {
    const now = selected();
    if (now === isPaused) return;
    isPaused = now;
    paused.hidden = !now;
    setText(paused, now ? "Paused while text is selected. Escape continues." : "");
    if (!now) paint();
  };
  document.addEventListener("selectionchange", onSelection);

  element.addEventListener("copy", (event) => {
    const chosen = getSelection()?.toString() ?? "";
    const plain = chosen.replaceAll("\u200b", "").split("\n").map((row) => row.trimEnd()).join("\n");
    event.clipboardData?.setData("text/plain", plain);
    event.preventDefault();
  });
  element.addEventListener("mouseup", () => {
    if (key && !selected()) focus();
  });

  keyboard.addEventListener("keydown", (event) => {
    if (!key) return;
    if (isForPage(event, selected())) {
      if (event.key === "Escape") {
        event.preventDefault();
        // The next thing to do is there; the place of the keyboard is at the end of the page.
        (noteForm.hidden ? back : note).focus();
      }
      return;
    }
    if (isPaused) resume();
    const text = keyText(event, event.getModifierState("AltGraph"));
    const named = text === null ? keyName(event) : null;
    if (text === null && named === null) return;
    event.preventDefault();
    type(id, key, text === null ? { keys: [named ?? ""] } : { text });
  });
  const typeText = () => {
    const typed = keyboard.value;
    keyboard.value = "";
    if (typed && key) type(id, key, { text: typed.replaceAll("\n", "\r") });
  };
  keyboard.addEventListener("input", (event) => {
    if (!(/** @type {InputEvent} */ (event).isComposing)) typeText();
  });
  keyboard.addEventListener("compositionstart", () => {
    follow();
    keyboard.classList.add("composing");
  });
  keyboard.addEventListener("compositionend", () => {
    keyboard.classList.remove("composing");
    typeText();
  });
  keyboard.addEventListener("paste", (event) => {
    event.preventDefault();
    paste(event.clipboardData?.getData("text/plain") ?? "");
  });
  const onKey = (/** @type {KeyboardEvent} */ event) => {
    if (event.key === "Escape") {
      resume();
      const isClearing = event.target instanceof HTMLInputElement && event.target.value !== "";
      if (!outputFrame.hidden && !isClearing && !document.querySelector("dialog[open]")) {
        event.preventDefault();
        choose("screen");
      }
    }
    if (event.key.toLowerCase() === "f" && event.ctrlKey && event.shiftKey && !isReadOnly) {
      event.preventDefault();
      choose("output");
    }
  };
  document.addEventListener("keydown", onKey);
  compose.addEventListener("submit", (event) => {
    event.preventDefault();
    if (!key) return;
    type(id, key, { text: line.value });
    type(id, key, { keys: ["enter"] });
    line.value = "";
  });

  /** Pastes a text; of several lines only once the person has seen them. @param {string} given */
  function paste(given) {
    const clean = cleanPaste(given);
    if (!clean || !key) return;
    const rows = clean.replace(/\n$/, "").split("\n").length;
    if (rows === 1 && !clean.endsWith("\n")) {
      type(id, key, { paste: clean });
      return;
    }
    const isBracketed = screen.state.bracketed_paste;
    const holding = key;
    const done = () => {
      confirm.close();
      focus();
    };
    fill(
      confirm,
      h("h2", {}, `Paste ${rows} lines?`),
      h("p", {}, isBracketed ? "The program takes pasted text in one piece." : "The program takes each line as if it were typed and entered."),
      h("pre", { class: "judged", tabindex: "0" }, visible(clean)),
      h("p", { class: "buttons" }, h("button", { onclick: done }, "Leave it"), h("button", { class: "primary", onclick: () => { type(id, holding, { paste: clean }); done(); } }, "Paste")),
    );
    confirm.showModal();
  }

  // ---- output ----

  /** @param {"screen" | "output"} what */
  function choose(what) {
    const isLeaving = what === "screen" && !outputFrame.hidden;
    fill(
      tabs,
      [["screen", "Screen"], ["output", "Output"]].map(([word, label]) =>
        h("button", { "aria-pressed": String(word === what), onclick: () => choose(/** @type {"screen" | "output"} */ (word)) }, label ?? ""),
      ),
    );
    frame.hidden = what !== "screen";
    outputFrame.hidden = what !== "output";
    if (what === "output") output.load(offset).then(() => output.focus());
    else if (isLeaving) output.leave();
    if (what === "screen" && key) focus();
    else if (isLeaving) tabs.querySelector("button")?.focus();
    offset = undefined;
  }

  // ---- mouse ----

  const leavePointer = followPointer(element, {
    screen,
    isHeld: () => key !== null,
    send: (mouse) => {
      if (key) type(id, key, { mouse });
    },
    focus,
    scroll: () => {
      if (!isReadOnly) choose("output");
    },
    hint: (words) => {
      hint.hidden = !words;
      setText(hint, words ? visible(words) : "");
    },
    visit: (address) => {
      const href = openable(address);
      const shown = href ?? address;
      const close = () => visit.close();
      fill(
        visit,
        h("h2", {}, href ? "Open this address?" : "Address"),
        h("pre", { class: "judged", tabindex: "0" }, visible(shown)),
        h("p", { class: "hint" }, href ? "It comes from the output of a program." : "It comes from the output of a program. Only addresses of the web, without a name in them, open from here."),
        h(
          "p",
          { class: "buttons" },
          h("button", { onclick: close }, "Leave it"),
          h("button", { onclick: () => navigator.clipboard.writeText(shown).then(close, close) }, icon("copy"), "Copy"),
          href ? h("a", { class: "button primary", href, target: "_blank", rel: "noopener noreferrer", onclick: close }, "Open in a new tab") : null,
        ),
      );
      visit.showModal();
    },
  });

  choose(offset === undefined ? "screen" : "output");
  showSizes();
  const resized = new ResizeObserver(scale);
  resized.observe(frame);
  resized.observe(outputFrame);
  if (!isReadOnly) holdAgain();
  return () => {
    isLeft = true;
    removeEventListener("beforeunload", onLeave);
    document.removeEventListener("selectionchange", onSelection);
    document.removeEventListener("keydown", onKey);
    resized.disconnect();
    clearTimeout(following);
    for (const forget of forgets) forget();
    into.classList.remove("full");
    leavePointer();
    output.end();
  };
}
