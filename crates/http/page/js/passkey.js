// Passkeys: the registration of one with a ticket, and signatures of answers.
//
// What a passkey signs is a hash of the question as it is shown and of the answer, so that a signature proves this answer
// to this question. The device verifies the person (by PIN, fingerprint or face) each time.

import { ask, askShared } from "./api.js";
import { announce, fill, h } from "./dom.js";

export const title = "Passkey";

/** The ticket of `steplatch gates passkey add`, once the page has got one. @type {string | null} */
let ticket = null;

/** @param {string} found */
export function setTicket(found) {
  ticket = found;
}

/** Whether this browser can have passkeys at all. */
export function isPossible() {
  return typeof PublicKeyCredential === "function" && isSecureContext;
}

/** @param {ArrayBuffer} bytes */
export function toBase64(bytes) {
  const text = Array.from(new Uint8Array(bytes), (byte) => String.fromCharCode(byte)).join("");
  return btoa(text).replaceAll("+", "-").replaceAll("/", "_").replaceAll("=", "");
}

/** @param {string} text */
function fromBase64(text) {
  return Uint8Array.from(atob(text.replaceAll("-", "+").replaceAll("_", "/")), (character) => character.charCodeAt(0));
}

/**
 * Returns the signed data of an answer, as the server computes it. Pure.
 * @param {{ gate_id: string, digest: string }} gate
 * @param {{ answer: string, number?: number | undefined, reason?: string | undefined }} answer
 */
export function signedText(gate, { answer, number, reason }) {
  const shared = `${gate.gate_id}\n${gate.digest}\n${number ?? ""}`;
  return reason ? `steplatch answer 2\n${shared}\n${reason}\n${answer}` : `steplatch answer 1\n${shared}\n${answer}`;
}

/** @param {string} text */
function hash(text) {
  return crypto.subtle.digest("SHA-256", new TextEncoder().encode(text));
}

/** Returns the passkeys that sign for this page. @returns {Promise<any[]>} */
export async function registered() {
  if (!isPossible()) return [];
  const { passkeys } = await askShared("/passkeys").catch(() => ({ passkeys: [] }));
  return (passkeys ?? []).filter((/** @type {any} */ passkey) => passkey.origin === location.origin);
}

/**
 * Has the person sign an answer.
 * @param {{ gate_id: string, digest: string }} gate
 * @param {{ answer: string, number?: number | undefined }} answer
 * @param {any[]} passkeys
 */
export async function sign(gate, answer, passkeys) {
  const credential = await navigator.credentials.get({
    publicKey: {
      challenge: await hash(signedText(gate, answer)),
      rpId: location.hostname,
      allowCredentials: passkeys.map((passkey) => ({ type: "public-key", id: fromBase64(passkey.credential_id) })),
      userVerification: "required",
    },
  });
  if (!(credential instanceof PublicKeyCredential)) throw new Error("The browser gave no signature.");
  const { response } = credential;
  if (!(response instanceof AuthenticatorAssertionResponse)) throw new Error("The browser gave no signature.");
  return {
    credential_id: toBase64(credential.rawId),
    client_data: toBase64(response.clientDataJSON),
    authenticator_data: toBase64(response.authenticatorData),
    signature: toBase64(response.signature),
  };
}

/** @param {string} name */
async function register(name) {
  const known = await registered();
  const credential = await navigator.credentials.create({
    publicKey: {
      challenge: await hash(`steplatch passkey 1\n${ticket}`),
      rp: { id: location.hostname, name: "Steplatch" },
      user: { id: crypto.getRandomValues(new Uint8Array(16)), name: "approver", displayName: "Approver of Steplatch" },
      pubKeyCredParams: [{ type: "public-key", alg: -7 }],
      authenticatorSelection: { userVerification: "required", residentKey: "discouraged" },
      excludeCredentials: known.map((passkey) => ({ type: "public-key", id: fromBase64(passkey.credential_id) })),
      attestation: "none",
    },
  });
  if (!(credential instanceof PublicKeyCredential)) throw new Error("The browser created no passkey.");
  const { response } = credential;
  if (!(response instanceof AuthenticatorAttestationResponse)) throw new Error("The browser created no passkey.");
  return ask("POST", "/passkeys", {
    ticket,
    name,
    client_data: toBase64(response.clientDataJSON),
    authenticator_data: toBase64(response.getAuthenticatorData()),
  });
}

/** @param {HTMLElement} into */
export function show(into) {
  const problem = h("p", { class: "problem", role: "alert", hidden: true });
  const name = h("input", { type: "text", autocomplete: "off", maxlength: "60" });
  const create = h("button", { type: "button" }, "Create the passkey");
  const body = h("div", {});
  fill(into, h("header", { class: "head" }, h("h1", {}, title)), body);
  if (!ticket || !isPossible()) {
    const why = ticket
      ? "This browser has no passkeys here: it needs the page at http://localhost, or behind TLS."
      : "A passkey is registered from a terminal of your own:";
    fill(body, h("p", {}, why), ticket ? null : h("p", {}, h("code", { class: "whole" }, "steplatch gates passkey add")));
    return;
  }
  create.addEventListener("click", async () => {
    create.disabled = true;
    problem.hidden = true;
    try {
      const { passkey } = await register(name.value);
      ticket = null;
      fill(
        body,
        h("p", { class: "done", role: "status" }, `The passkey ${passkey.name} is registered, with the fingerprint`),
        h("p", {}, h("code", { class: "whole" }, passkey.passkey_id.replace(/(.{4})(?=.)/g, "$1 "))),
        h("p", {}, "Compare it with the one in the terminal, and confirm it there: the passkey signs answers from then on."),
        h("p", {}, h("a", { href: "#/gates" }, "To the gates")),
      );
      announce("The passkey is registered, and waits for your confirmation in the terminal");
    } catch (error) {
      problem.textContent = error instanceof Error ? error.message : String(error);
      problem.hidden = false;
      create.disabled = false;
    }
  });
  fill(
    body,
    h("p", {}, "A passkey signs your answers to gates, instead of the passphrase. Its device verifies you each time."),
    h("p", {}, h("label", { class: "field" }, h("span", { class: "field-name" }, "Name of the device"), name)),
    h("p", {}, create),
    problem,
  );
}
