// A long list of rows of one height, of which only those in view are elements.

/**
 * Returns the rows that are elements: from the first to before the last. Pure.
 * @param {number} top How far the list is scrolled, in pixels.
 * @param {number} height The height of what is seen of it.
 * @param {number} row The height of a row.
 * @param {number} count
 * @returns {{ first: number, last: number }}
 */
export function inView(top, height, row, count) {
  const first = Math.max(0, Math.min(count, Math.floor(top / row) - BEYOND));
  return { first, last: Math.max(first, Math.min(count, Math.ceil((top + height) / row) + BEYOND)) };
}

/** How many rows beyond the view there are, on both sides. */
const BEYOND = 8;

/** A list in an element that scrolls. */
export class LongList {
  /**
   * @param {HTMLElement} element A list with the class `long`.
   * @param {number} row The height of a row, in pixels; as in the style sheet.
   * @param {(index: number) => HTMLElement} make Makes the content of a row.
   */
  constructor(element, row, make) {
    this.element = element;
    this.row = row;
    this.make = make;
    this.count = 0;
    this.height = 0;
    this.top = 0;
    /** The rows that are there, by their index. @type {Map<number, HTMLElement>} */
    this.rows = new Map();
    element.replaceChildren();
    element.style.setProperty("--whole", "0px");
    element.addEventListener("scroll", () => {
      this.top = element.scrollTop;
      this.place();
    });
    this.resized = new ResizeObserver(([entry]) => {
      this.height = entry?.contentRect.height ?? 0;
      this.place();
    });
    this.resized.observe(element);
  }

  /** Ends it. */
  end() {
    this.resized.disconnect();
  }

  /**
   * Recreates all visible rows.
   * @param {number} count
   */
  draw(count) {
    this.element.dataset["count"] = String(count);
    if (this.count !== count) this.element.style.setProperty("--whole", `${count * this.row}px`);
    this.count = count;
    const focused = [...this.rows].find(([, item]) => item.contains(document.activeElement))?.[0];
    for (const item of this.rows.values()) item.remove();
    this.rows.clear();
    this.place();
    if (focused !== undefined) this.focus(focused);
  }

  /** Makes the rows that came into view, and removes those that left it. */
  place() {
    const { first, last } = inView(this.top, this.height, this.row, this.count);
    for (const [index, item] of this.rows) {
      if (index >= first && index < last) continue;
      // A row with the focus stays, so that the keyboard does not lose its place.
      if (index < this.count && item.contains(document.activeElement)) continue;
      item.remove();
      this.rows.delete(index);
    }
    for (let index = first; index < last; index += 1) {
      if (this.rows.has(index)) continue;
      const item = document.createElement("li");
      item.setAttribute("aria-posinset", String(index + 1));
      item.setAttribute("aria-setsize", String(this.count));
      item.style.setProperty("transform", `translateY(${index * this.row}px)`);
      item.append(this.make(index));
      this.rows.set(index, item);
      // In their order, which is the one in which a keyboard goes through them.
      const next = [...this.rows.keys()].filter((other) => other > index).sort((one, other) => one - other)[0];
      if (next === undefined) this.element.append(item);
      else this.rows.get(next)?.before(item);
    }
  }

  /** Returns whether the last row is in view. */
  isAtEnd() {
    return this.top + this.height >= (this.count - 1) * this.row;
  }

  /**
   * Scrolls to a row.
   * @param {number} index
   */
  show(index) {
    const top = index * this.row;
    if (top >= this.top && top + this.row <= this.top + this.height) return;
    this.element.scrollTop = Math.max(0, top - this.height / 2);
    this.top = this.element.scrollTop;
    this.place();
  }

  /** @param {number} index */
  focus(index) {
    const inside = this.rows.get(index)?.querySelector("button, a");
    if (inside instanceof HTMLElement) inside.focus({ preventScroll: true });
  }
}
