// Scrollback of a screen in its colours, and older output as text; with a search.
//
// It follows what is printed while its end is in view and nothing is searched or selected. Otherwise it stands still, and a button
// leads to the new output.

import { ask } from "./api.js";
import { isLight } from "./colours.js";
import { fill, h, icon, setText } from "./dom.js";
import { MOST_PLACES, places } from "./find.js";
import { paintRow } from "./paint.js";
import { runsOf } from "./screen.js";
import { visible } from "./words.js";

/** Lines of older output that are shown as text at most, and the most characters. */
const OLDER = { line_count: 5000, limit: 400_000 };

/** The pause between two looks at output that is printed all the time, in milliseconds. */
const FOLLOW_PAUSE = 700;

/** How near to its end a text is at its end, in pixels. */
const END = 4;

/** The highlights of places, and of the one that is chosen; as in the style sheet. */
const HIGHLIGHTS = { all: "found", chosen: "chosen" };

/**
 * Shows the output of a terminal.
 * @param {HTMLElement} into
 * @param {string} id
 * @param {() => void} onEnd Called when the wheel is turned on beyond the end, where the screen is.
 * @returns {{ load: (offset?: number) => Promise<void>, changed: () => void, scale: (size: string) => void, focus: () => void, leave: () => void, end: () => void }}
 */
export function scrollback(into, id, onEnd) {
  const search = h("input", { type: "search", placeholder: "Find", "aria-label": "Find in the output", autocomplete: "off", spellcheck: "false" });
  const count = h("span", { class: "hint", role: "status" });
  const previous = h("button", { "aria-label": "Previous place", title: "shift-enter" }, icon("up"));
  const next = h("button", { "aria-label": "Next place", title: "enter" }, icon("down"));
  const anewLabel = h("span");
  const anew = h("button", { hidden: true }, icon("down"), anewLabel);
  const older = h("button", { class: "quiet" }, "Older output, as text");
  const rows = h("div", { class: "screen lines" });
  const text = h("pre", { class: "output", hidden: true });
  const area = h("div", { class: "scrollback", tabindex: "0", role: "region", "aria-label": "Output" }, text, rows);
  fill(into, h("div", { class: "line tools" }, search, previous, next, count, h("span", { class: "grow" }), older, anew), area);

  /** The elements that are searched, and their text. @type {{ element: Element, text: string }[]} */
  let searched = [];
  /** @type {ReturnType<typeof places>} */
  let found = [];
  let chosen = -1;
  /** Whether it is shown. */
  let isShown = false;
  /** Whether something was printed since it was looked at. */
  let isBehind = false;
  let isLoading = false;
  /** @type {ReturnType<typeof setTimeout> | undefined} */
  let timer;

  const isAtEnd = () => area.scrollTop + area.clientHeight >= area.scrollHeight - END;

  /** Whether the text may be replaced by a newer one under the eyes of who reads it. */
  function isFollowing() {
    const selection = getSelection();
    const isSelected = Boolean(selection && !selection.isCollapsed && selection.anchorNode && area.contains(selection.anchorNode));
    return isAtEnd() && text.hidden && !search.value && !isSelected;
  }

  /** Looks again at what was printed, after a pause; or offers it. */
  function follow() {
    if (!isShown || isLoading) return;
    const follows = isFollowing();
    anew.hidden = follows;
    setText(anewLabel, isBehind ? "New output" : "To the end");
    if (!isBehind || timer !== undefined || !follows) return;
    timer = setTimeout(() => {
      timer = undefined;
      if (isShown && isBehind && isFollowing()) load();
      else follow();
    }, FOLLOW_PAUSE);
  }

  /** @param {number} [offset] A position in the output: what came from there on is shown, as text. */
  async function load(offset) {
    isShown = true;
    isBehind = false;
    isLoading = true;
    await look(offset);
    isLoading = false;
    follow();
  }

  /** @param {number} [offset] */
  async function look(offset) {
    if (offset !== undefined) {
      rows.hidden = true;
      await showOlder({ content_mode: "history", offset, limit: OLDER.limit });
      return;
    }
    text.hidden = true;
    try {
      const reply = await ask("GET", `/terminals/${encodeURIComponent(id)}/scrollback`);
      rows.style.setProperty("--fg", reply.foreground);
      rows.style.setProperty("--bg", reply.background);
      rows.style.setProperty("color-scheme", isLight(reply.background) ? "light" : "dark");
      rows.style.setProperty("--cols", String(reply.cols));
      for (const [index, colour] of reply.palette ?? []) rows.style.setProperty(`--p${index}`, colour);
      const last = reply.lines.findLastIndex((/** @type {any} */ line) => line.runs.length > 0);
      fill(rows, reply.lines.slice(0, last + 1).map((/** @type {any} */ line) => {
        const row = h("div", { class: "row" });
        row.append(...paintRow(runsOf(line)));
        return row;
      }));
      rows.hidden = false;
    } catch (error) {
      // A host of an older version has no cells to give.
      rows.hidden = true;
      await showOlder({ content_mode: "tail", ...OLDER });
      if (text.hidden) fill(text, error instanceof Error ? error.message : String(error));
      text.hidden = false;
    }
    area.scrollTop = area.scrollHeight;
    take();
  }

  /** @param {Record<string, unknown>} part */
  async function showOlder(part) {
    const reply = await ask("GET", `/terminals/${encodeURIComponent(id)}`, part).catch(() => null);
    if (!reply) return;
    fill(text, visible(reply.screen_content ?? "").split("\n").map((line) => h("span", { class: "text-line" }, `${line}\n`)));
    text.hidden = false;
    area.scrollTop = 0;
    take();
  }

  function take() {
    const all = [...(text.hidden ? [] : text.children), ...(rows.hidden ? [] : rows.children)];
    searched = all.map((element) => ({ element, text: element.textContent ?? "" }));
    find(false);
  }

  /** @param {boolean} jumps */
  function find(jumps) {
    found = places(searched.map(({ text }) => text), search.value);
    // The search begins at the newest output.
    chosen = jumps ? found.length - 1 : Math.min(chosen, found.length - 1);
    mark();
  }

  function mark() {
    if (search.value) {
      const many = found.length === MOST_PLACES ? `${MOST_PLACES} or more` : String(found.length);
      setText(count, found.length ? `${chosen + 1} of ${many}` : "Not found");
    } else setText(count, "");
    previous.disabled = next.disabled = found.length === 0;
    const one = found[chosen];
    if (typeof Highlight === "function") {
      CSS.highlights.set(HIGHLIGHTS.all, new Highlight(...found.map(range).filter((range) => range !== null)));
      const chosenRange = one ? range(one) : null;
      CSS.highlights.set(HIGHLIGHTS.chosen, chosenRange ? new Highlight(chosenRange) : new Highlight());
    }
    if (one) searched[one.row]?.element.scrollIntoView({ block: "nearest" });
  }

  /** @param {{ row: number, from: number, to: number }} place */
  function range({ row, from, to }) {
    const element = searched[row]?.element;
    if (!element) return null;
    const made = new Range();
    let at = 0;
    const texts = document.createTreeWalker(element, NodeFilter.SHOW_TEXT);
    while (texts.nextNode()) {
      const node = /** @type {Text} */ (texts.currentNode);
      if (from >= at && from < at + node.length) made.setStart(node, from - at);
      if (to > at && to <= at + node.length) {
        made.setEnd(node, to - at);
        return made;
      }
      at += node.length;
    }
    return null;
  }

  /** @param {number} step */
  function go(step) {
    if (!found.length) return;
    chosen = (chosen + step + found.length) % found.length;
    mark();
  }

  search.addEventListener("input", () => {
    find(true);
    follow();
  });
  search.addEventListener("keydown", (event) => {
    if (event.key !== "Enter") return;
    event.preventDefault();
    go(event.shiftKey ? 1 : -1);
  });
  previous.addEventListener("click", () => go(-1));
  next.addEventListener("click", () => go(1));
  anew.addEventListener("click", async () => {
    search.value = "";
    await load();
    area.focus();
  });
  area.addEventListener("scroll", follow, { passive: true });
  area.addEventListener("wheel", (event) => {
    if (event.deltaY <= 0 || event.ctrlKey || event.shiftKey || !isAtEnd() || isLoading) return;
    event.preventDefault();
    onEnd();
  }, { passive: false });
  older.addEventListener("click", () => showOlder({ content_mode: "tail", ...OLDER }));
  return {
    load,
    changed: () => {
      isBehind = true;
      follow();
    },
    scale: (size) => {
      const atEnd = isAtEnd();
      rows.style.setProperty("font-size", size);
      if (atEnd) area.scrollTop = area.scrollHeight;
    },
    focus: () => search.focus(),
    leave: () => {
      isShown = false;
      clearTimeout(timer);
      timer = undefined;
    },
    end: () => {
      isShown = false;
      clearTimeout(timer);
      for (const name of Object.values(HIGHLIGHTS)) CSS.highlights?.delete(name);
    },
  };
}
