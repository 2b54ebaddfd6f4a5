// Files: from this browser to the machine of a terminal, and back.

import { ApiError, ask } from "./api.js";
import { fill, h, icon, setText } from "./dom.js";
import { half } from "./login.js";
import { size, visible } from "./words.js";

/** The largest file that the server takes, and the pieces in which a file is sent and read, in bytes. */
const BYTES = { most: 256 * 1024 * 1024, sent: 2 * 1024 * 1024, read: 1024 * 1024 };

/**
 * Returns the path of a file in a directory. Pure.
 * @param {string} folder
 * @param {string} name
 */
export function pathIn(folder, name) {
  return folder.endsWith("/") ? `${folder}${name}` : `${folder}/${name}`;
}

/** Returns the last part of a path. Pure. @param {string} path */
export function nameOf(path) {
  return path.split("/").filter(Boolean).at(-1) ?? "file";
}

/**
 * Sends a file in pieces, and has it copied to its place.
 * @param {File} file
 * @param {{ path: string, host?: string | undefined, overwrite: boolean }} target
 * @param {(sent: number) => void} progress
 * @param {AbortSignal} signal
 */
async function upload(file, target, progress, signal) {
  if (file.size > BYTES.most) throw new Error(`It has ${size(file.size)}, and the limit is 256 MiB; use scp.`);
  const id = Array.from(crypto.getRandomValues(new Uint8Array(16)), (byte) => byte.toString(16).padStart(2, "0")).join("");
  const address = `/page/uploads/${id}`;
  const headers = { "steplatch-half": half()?.half ?? "" };
  try {
    let sent = 0;
    do {
      const piece = file.slice(sent, sent + BYTES.sent);
      const response = await fetch(`${address}?offset=${sent}`, { method: "PUT", headers: { ...headers, "content-type": "application/octet-stream" }, body: piece, signal });
      const reply = await response.json().catch(() => ({}));
      if (!response.ok) throw new ApiError(response.status, reply);
      sent += piece.size;
      progress(sent);
    } while (sent < file.size);
    const response = await fetch(address, { method: "POST", headers: { ...headers, "content-type": "application/json" }, body: JSON.stringify({ ...target, size: file.size }), signal });
    const reply = await response.json().catch(() => ({}));
    if (!response.ok) throw new ApiError(response.status, reply);
    return reply.file;
  } catch (error) {
    fetch(address, { method: "DELETE", headers }).catch(() => {});
    throw error;
  }
}

/**
 * Reads a file in pieces. It fails if the file changes meanwhile.
 * @param {{ path: string, host?: string | undefined }} source
 * @param {(read: number, size: number) => void} progress
 * @param {AbortSignal} signal
 * @returns {Promise<Blob>}
 */
async function download(source, progress, signal) {
  /** @type {BlobPart[]} */
  const pieces = [];
  /** @type {any} */
  let first = null;
  let offset = 0;
  for (;;) {
    const reply = await ask("POST", "/files/read", { ...source, offset, limit: BYTES.read });
    first ??= reply;
    if (signal.aborted) throw new DOMException("", "AbortError");
    if (reply.size !== first.size || reply.modified !== first.modified) throw new Error("The file changed while it was read; try again.");
    if (reply.size > BYTES.most) throw new Error(`It has ${size(reply.size)}, and the limit is 256 MiB; use scp.`);
    pieces.push(typeof reply.content === "string" ? reply.content : Uint8Array.from(atob(reply.content_base64 ?? ""), (sign) => sign.charCodeAt(0)));
    const next = reply.next_offset ?? null;
    progress(next ?? reply.size, reply.size);
    if (next === null) break;
    offset = next;
  }
  const content = new Blob(pieces, { type: "application/octet-stream" });
  // Secrets in a text are replaced, and the copy would not be the file.
  if (first.sha256 && (await digestOf(content)) !== first.sha256) throw new Error("It contains a secret that steplatch hides, or it changed while it was read; use scp.");
  return content;
}

/** Returns the SHA-256 digest, in hexadecimal. @param {Blob} content */
async function digestOf(content) {
  const digest = await crypto.subtle.digest("SHA-256", await content.arrayBuffer());
  return Array.from(new Uint8Array(digest), (byte) => byte.toString(16).padStart(2, "0")).join("");
}

/** Has the browser store a file. @param {Blob} content @param {string} name */
function store(content, name) {
  const address = URL.createObjectURL(content);
  const link = h("a", { href: address, download: name });
  link.click();
  setTimeout(() => URL.revokeObjectURL(address), 60_000);
}

/** @param {unknown} error */
function reasonOf(error) {
  if (error instanceof DOMException && error.name === "AbortError") return "stopped";
  return visible(error instanceof Error ? error.message : String(error));
}

/**
 * The transfers of one terminal: a button with both directions, and files that are dropped on its screen.
 * @param {HTMLElement} ground Where files may be dropped.
 * @param {() => { folder: string, host: string | undefined }} place
 */
export function transfers(ground, place) {
  const dialog = h("dialog", { class: "confirm transfers", "aria-label": "Files" });
  const button = h("button", { class: "quiet", "aria-haspopup": "dialog", disabled: true, title: "Send files to the machine of this terminal, or get one" }, icon("file"), "Files");
  let stopper = new AbortController();

  /** @param {File[]} files */
  function open(files) {
    stopper = new AbortController();
    const { folder, host } = place();
    const close = h("button", { onclick: () => dialog.close() }, "Close");
    fill(dialog, h("h2", {}, "Files"), host ? h("p", { class: "hint" }, `On ${visible(host)}`) : null, sending(files, folder, host), getting(folder, host), h("p", { class: "buttons" }, close));
    if (!dialog.open) dialog.showModal();
  }

  /** @param {File[]} files @param {string} folder @param {string | undefined} host */
  function sending(files, folder, host) {
    let chosen = files;
    const picker = h("input", { type: "file", multiple: true, "aria-label": "Files to send" });
    const into = h("input", { type: "text", class: "grow mono", value: folder, required: true, placeholder: "directory", "aria-label": "To the directory", spellcheck: "false" });
    const replace = h("input", { type: "checkbox" });
    const list = h("ul", { class: "files" });
    const send = h("button", { class: "primary" }, "Send");
    const show = () => {
      fill(list, chosen.map((file) => h("li", {}, h("span", { class: "grow" }, visible(file.name)), h("span", { class: "hint" }, size(file.size)))));
      send.disabled = chosen.length === 0;
    };
    picker.addEventListener("change", () => {
      chosen = [...(picker.files ?? [])];
      show();
    });
    const form = h("form", { class: "part" }, h("h3", {}, "Send"), h("p", { class: "line" }, picker), h("p", { class: "line" }, h("span", {}, "To"), into), h("p", {}, h("label", { class: "line" }, replace, "Replace existing files")), list, h("p", {}, send));
    form.addEventListener("submit", async (event) => {
      event.preventDefault();
      // Other files would be in other rows.
      send.disabled = picker.disabled = true;
      const target = into.value.trim();
      for (const [at, file] of chosen.entries()) {
        const row = /** @type {Element} */ (list.children[at]);
        const state = h("span", { class: "hint", role: "status" });
        const bar = h("progress", { max: Math.max(1, file.size), value: 0, "aria-label": visible(file.name) });
        fill(row, h("span", { class: "grow" }, visible(file.name)), bar, state);
        try {
          const written = await upload(file, { path: pathIn(target, file.name), host, overwrite: replace.checked }, (sent) => { bar.value = sent; }, stopper.signal);
          bar.remove();
          setText(state, `${written.unchanged ? "was there already" : written.replaced ? "replaced" : "written"}: ${visible(written.path)}`);
        } catch (error) {
          bar.remove();
          state.className = "bad";
          setText(state, reasonOf(error));
        }
      }
      send.disabled = picker.disabled = false;
    });
    show();
    return form;
  }

  /** @param {string} folder @param {string | undefined} host */
  function getting(folder, host) {
    const path = h("input", { type: "text", class: "grow mono", value: folder && pathIn(folder, ""), required: true, placeholder: "path of a file", "aria-label": "File to get", spellcheck: "false" });
    const get = h("button", {}, "Get");
    const state = h("p", { class: "hint", role: "status" });
    const form = h("form", { class: "part" }, h("h3", {}, "Get"), h("p", { class: "line" }, path, get), state);
    form.addEventListener("submit", async (event) => {
      event.preventDefault();
      const wanted = path.value.trim();
      get.disabled = true;
      state.className = "hint";
      setText(state, "");
      try {
        store(await download({ path: wanted, host }, (read, whole) => setText(state, `${size(read)} of ${size(whole)}`), stopper.signal), nameOf(wanted));
        setText(state, `${visible(nameOf(wanted))} is in the downloads of this browser.`);
      } catch (error) {
        state.className = "bad";
        setText(state, reasonOf(error));
      }
      get.disabled = false;
    });
    return form;
  }

  dialog.addEventListener("close", () => {
    // It may have been opened again before the event.
    if (!dialog.open) stopper.abort();
  });
  button.addEventListener("click", () => open([]));
  ground.addEventListener("dragover", (event) => {
    if (!event.dataTransfer?.types.includes("Files")) return;
    event.preventDefault();
    ground.classList.toggle("is-target", !button.hidden);
  });
  for (const end of ["dragleave", "drop"]) ground.addEventListener(end, () => ground.classList.remove("is-target"));
  ground.addEventListener("drop", (event) => {
    const files = [...(event.dataTransfer?.files ?? [])];
    if (!files.length) return;
    event.preventDefault();
    // A read-only link sends no files.
    if (!button.hidden) open(files);
  });
  return { button, dialog, /** The place is known now. */ enable: () => { button.disabled = false; } };
}
