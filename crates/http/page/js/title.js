// Title of the window: the number of open gates, and the current view.

let shown = "Steplatch";
let waiting = 0;

function set() {
  const title = `${waiting ? `(${waiting}) ` : ""}${shown} – Steplatch`;
  if (document.title !== title) document.title = title;
}

/** @param {string} title */
export function showTitle(title) {
  shown = title;
  set();
}

/** @param {number} gates */
export function showWaiting(gates) {
  waiting = gates;
  set();
}
