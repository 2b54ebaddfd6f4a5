// Scrollback of a screen in its colours, and older output as text; with a search through all output.
//
// The server has the whole output, of which the newest rows are here in their colours. The search finds lines on the server, too. If
// there are some that are not here, the output is shown as text around the chosen one.
//
// It follows what is printed while its end is in view and nothing is searched or selected. Otherwise it stands still, and a button
// leads to the new output.

import { ask } from "./api.js";
import { isLight } from "./colours.js";
import { fill, h, icon, setText } from "./dom.js";
import { MOST_PLACES, newestBefore, patternOf, places } from "./find.js";
import { paintRow } from "./paint.js";
import { runsOf } from "./screen.js";
import { visible } from "./words.js";

/** Lines of the newest output that are shown as text at most, and the most characters. */
const NEWEST = { line_count: 5000, limit: 400_000 };

/** Bytes of older output that are added at once. */
const OLDER_BYTES = 400_000;

/** The output around a found line: bytes before it, and characters in all. */
const AROUND = { before: 8000, limit: 60_000 };

/** The most lines that are found on the server, and the pause before it is asked, in milliseconds. */
const [MOST_FOUND, SEARCH_PAUSE] = [200, 250];

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
  const beginning = h("span", { class: "hint" });
  const rows = h("div", { class: "screen lines" });
  const text = h("pre", { class: "output", hidden: true });
  const area = h("div", { class: "scrollback", tabindex: "0", role: "region", "aria-label": "Output" }, text, rows);
  fill(into, h("div", { class: "line tools" }, search, previous, next, count, h("span", { class: "grow" }), beginning, older, anew), area);

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
  /** The position in the output at which the shown text begins; null if it is unknown. @type {number | null} */
  let textStart = null;
  /** The lines that the server found, the newest first, if not all of them are here. @type {import("./find.js").Line[] | null} */
  let lines = null;
  let chosenLine = 0;
  /** The number of requested parts of the text. */
  let texts = 0;
  /** Whether the server is searching, and the number of the search. */
  let isSearching = false;
  let searches = 0;
  /** @type {ReturnType<typeof setTimeout> | undefined} */
  let searchTimer;

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
      await showText({ content_mode: "history", offset, limit: NEWEST.limit }, offset);
      return;
    }
    text.hidden = true;
    fill(text);
    lines = null;
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
      await showNewest();
      if (text.hidden) fill(text, error instanceof Error ? error.message : String(error));
      text.hidden = false;
    }
    area.scrollTop = area.scrollHeight;
    take();
  }

  /**
   * Shows a part of the output as text.
   * @param {Record<string, unknown>} part
   * @param {number} [start] Where it begins.
   */
  async function showText(part, start) {
    texts += 1;
    const number = texts;
    const reply = await ask("GET", `/terminals/${encodeURIComponent(id)}`, part).catch(() => null);
    // A later request shows another part.
    if (!reply || number !== texts) return;
    const content = reply.screen_content ?? "";
    fill(text, textLines(content));
    textStart = start ?? Math.max(0, Number(reply.next_offset) - byteLength(content));
    text.hidden = false;
    rows.hidden = true;
    area.scrollTop = 0;
    showStart(reply);
    take();
  }

  /** Shows the newest output as text, from its end. */
  async function showNewest() {
    await showText({ content_mode: "tail", ...NEWEST });
    area.scrollTop = area.scrollHeight;
  }

  /** Adds older output in front of the text; what is seen stays where it is. */
  async function addOlder() {
    if (text.hidden || textStart === null) return showNewest();
    const [end, start] = [textStart, Math.max(0, textStart - OLDER_BYTES)];
    const reply = await ask("GET", `/terminals/${encodeURIComponent(id)}`, { content_mode: "history", offset: start, limit: OLDER_BYTES }).catch(() => null);
    if (!reply) return;
    // The part ends where the text begins.
    const bytes = new TextEncoder().encode(reply.screen_content ?? "");
    const part = new TextDecoder().decode(bytes.subarray(0, Math.max(0, bytes.length - Math.max(0, Number(reply.next_offset) - end))));
    const height = area.scrollHeight - area.scrollTop;
    text.prepend(...textLines(part.replace(/\n$/, "")));
    area.scrollTop = area.scrollHeight - height;
    textStart = start;
    showStart(reply);
    take();
  }

  /** Says where the text begins, and offers what is before it. @param {any} reply */
  function showStart(reply) {
    const lost = Number(reply.omitted?.lost_before ?? 0);
    const isFirst = textStart === 0 || (lost > 0 && (textStart ?? 0) <= lost);
    older.hidden = isFirst;
    setText(older, "Older output");
    setText(beginning, !isFirst ? "" : lost > 0 ? "Older output is no longer kept" : "From the beginning");
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

  /** Searches what is here, and then all output. */
  function begin() {
    lines = null;
    searches += 1;
    clearTimeout(searchTimer);
    isSearching = search.value !== "";
    find(true);
    if (isSearching) searchTimer = setTimeout(() => findAll(searches), SEARCH_PAUSE);
  }

  /** Finds the newest lines of the output on the server. @param {number} number */
  async function findAll(number) {
    const path = `/terminals/${encodeURIComponent(id)}`;
    const pattern = patternOf(search.value);
    /** @param {number} offset */
    const page = async (offset) => {
      const { matches, next_offset: next } = await ask("GET", path, { search: pattern, context: 0, offset });
      return { lines: matches ?? [], next: next ?? null };
    };
    let newest = null;
    try {
      const { next_offset: end } = await ask("GET", path, { content_mode: "tail", line_count: 1 });
      newest = await newestBefore(page, Number(end), MOST_FOUND);
    } catch {
      // The terminal has gone, or its host does not answer.
    }
    if (number !== searches) return;
    isSearching = false;
    // Places, because a long line has several rows here.
    const total = newest === null ? 0 : places(newest.map(({ text }) => text), search.value).length;
    if (newest === null) setText(count, `${found.length} here; older output could not be searched`);
    else if (total <= found.length && newest.length < MOST_FOUND) mark();
    else {
      lines = newest;
      await showLine(0);
    }
  }

  /** Shows one of the lines that the server found, in the output around it. @param {number} index 0 is the newest. */
  async function showLine(index) {
    const line = lines?.[index];
    if (!line) return;
    chosenLine = index;
    const start = Math.max(0, line.offset - AROUND.before);
    await showText({ content_mode: "history", offset: start, limit: AROUND.limit }, start);
    if (chosenLine !== index || lines?.[index] !== line) return;
    // The line is the one at its distance from the start, as far as hidden characters allow.
    let [at, best, distance] = [start, -1, Infinity];
    const rowsWithPlaces = new Set(found.map(({ row }) => row));
    for (const [row, { text }] of searched.entries()) {
      if (rowsWithPlaces.has(row) && Math.abs(at - line.offset) < distance) [best, distance] = [row, Math.abs(at - line.offset)];
      at += byteLength(text);
    }
    chosen = found.findIndex(({ row }) => row === best);
    mark();
  }

  function mark() {
    if (!search.value) setText(count, "");
    else if (lines) {
      const isAll = lines.length < MOST_FOUND;
      setText(count, isAll ? `Line ${lines.length - chosenLine} of ${lines.length}` : `Line ${chosenLine + 1} from the end, of ${MOST_FOUND} or more`);
    } else {
      const many = found.length === MOST_PLACES ? `${MOST_PLACES} or more` : String(found.length);
      const told = found.length ? `${chosen + 1} of ${many}` : isSearching ? "" : "Not found";
      setText(count, isSearching ? `${told} searching…`.trim() : told);
    }
    previous.disabled = next.disabled = found.length === 0;
    const one = found[chosen];
    if (typeof Highlight === "function") {
      CSS.highlights.set(HIGHLIGHTS.all, new Highlight(...found.map(range).filter((range) => range !== null)));
      const chosenRange = one ? range(one) : null;
      CSS.highlights.set(HIGHLIGHTS.chosen, chosenRange ? new Highlight(chosenRange) : new Highlight());
    }
    if (one) searched[one.row]?.element.scrollIntoView({ block: lines ? "center" : "nearest" });
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
    if (lines) showLine((chosenLine - step + lines.length) % lines.length);
    if (lines || !found.length) return;
    chosen = (chosen + step + found.length) % found.length;
    mark();
  }

  search.addEventListener("input", () => {
    begin();
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
    searches += 1;
    older.hidden = false;
    setText(older, "Older output, as text");
    setText(beginning, "");
    await load();
    area.focus();
  });
  area.addEventListener("scroll", follow, { passive: true });
  area.addEventListener("wheel", (event) => {
    if (event.deltaY <= 0 || event.ctrlKey || event.shiftKey || !isAtEnd() || isLoading) return;
    event.preventDefault();
    onEnd();
  }, { passive: false });
  older.addEventListener("click", addOlder);
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
      searches += 1;
      clearTimeout(timer);
      clearTimeout(searchTimer);
      for (const name of Object.values(HIGHLIGHTS)) CSS.highlights?.delete(name);
    },
  };
}

/** @param {string} text */
function textLines(text) {
  return visible(text).split("\n").map((line) => h("span", { class: "text-line" }, `${line}\n`));
}

/** @param {string} text */
function byteLength(text) {
  return new TextEncoder().encode(text).length;
}
