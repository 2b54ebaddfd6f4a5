// Plays a recording with the core of asciinema's player: `player.mjs PACKAGE RECORDING`
//
// Prints, as JSON, what the player made of it: its size, every event in the order in which it was played, and how long it
// is. What the player cannot read ends this with an error.

import { readFileSync, readdirSync } from "node:fs";
import { join } from "node:path";
import { pathToFileURL } from "node:url";

const [folder, recording] = process.argv.slice(2);
const core = readdirSync(join(folder, "dist")).find((name) => /^core-.*\.js$/.test(name));
const { C: Core } = await import(pathToFileURL(join(folder, "dist", core)));

// The player reads recordings from the network and keeps time by frames of a page.
globalThis.window = globalThis;
globalThis.fetch = async () => new Response(readFileSync(recording));
globalThis.requestAnimationFrame = (draw) => setTimeout(() => draw(performance.now()), 1);
globalThis.cancelAnimationFrame = clearTimeout;

const fail = (...words) => {
  throw new Error(words.map(String).join(" "));
};
const silent = () => {};
const logger = { debug: silent, info: silent, warn: fail, error: fail, log: silent };

const played = new Core({ url: "recording" }, { logger, speed: 1000, preload: true });
const events = [];
for (const kind of ["reset", "output", "resize"]) {
  played.addEventListener(kind, (data) => events.push([kind, data]));
}
const ended = new Promise((resolve) => played.addEventListener("ended", resolve));
played.terminalReady();
await played.init();
await played.play();
await ended;
console.log(JSON.stringify({ duration: played.getDuration(), events }));
process.exit(0);
