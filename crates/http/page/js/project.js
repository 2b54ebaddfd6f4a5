// The project of this tab: the directory in which `steplatch open` was called, or a directory selected from those known here.
//
// Requests carry it in a header: they find the workflows of the project, and start terminals and runs in its directory.

/** Where the tab keeps its project, and the browser all that it knows, the last one first. */
const [KEY, KNOWN] = ["steplatch.project", "steplatch.projects"];

/** Maximum number of projects that a browser remembers. */
const MAX_KNOWN = 12;

/** Returns the directories of the projects that this browser knows, the last one first. @returns {string[]} */
export function knownProjects() {
  try {
    const known = JSON.parse(localStorage.getItem(KNOWN) ?? "[]");
    return Array.isArray(known) ? known.filter((path) => typeof path === "string" && path.startsWith("/")) : [];
  } catch {
    return [];
  }
}

/** Returns the directory of the project of this tab; empty without one. */
export function project() {
  return sessionStorage.getItem(KEY) ?? knownProjects()[0] ?? "";
}

/** Selects the project of this tab. @param {string} path Its directory; empty for none. */
export function chooseProject(path) {
  sessionStorage.setItem(KEY, path);
  if (path) localStorage.setItem(KNOWN, JSON.stringify([path, ...knownProjects().filter((known) => known !== path)].slice(0, MAX_KNOWN)));
}

/** Encodes a directory for headers and addresses, in base64 for URLs. @param {string} path */
export function projectName(path) {
  const bytes = Array.from(new TextEncoder().encode(path), (byte) => String.fromCharCode(byte)).join("");
  return btoa(bytes).replaceAll("+", "-").replaceAll("/", "_").replaceAll("=", "");
}

/** Decodes a directory; empty if the text is invalid. @param {string} name */
export function projectPath(name) {
  try {
    const bytes = Uint8Array.from(atob(name.replaceAll("-", "+").replaceAll("_", "/")), (sign) => sign.charCodeAt(0));
    return new TextDecoder("utf-8", { fatal: true }).decode(bytes);
  } catch {
    return "";
  }
}
