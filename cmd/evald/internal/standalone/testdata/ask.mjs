// Asks the engine in node: ask.mjs FOLDER NETWORK reads questions as JSON, [[name, body], ...], and
// prints each object of the answers with its status. [name, body, "cancel"] is cancelled after 50 ms,
// which gives status -1. The last line has the milliseconds of each question.
import { readFileSync } from "node:fs";
import { gunzipSync } from "node:zlib";

const [folder, network] = process.argv.slice(2);
await import(folder + "/wasm_exec.js");
const questions = JSON.parse(readFileSync(0, "utf8"));
const times = [];
let engine, at = -1, began;

function next() {
  if (at >= 0) {
    times.push(performance.now() - began);
  }
  if (++at === questions.length) {
    console.log(JSON.stringify({ times }));
    process.exit();
  }
  const [name, body, cancelled] = questions[at];
  began = performance.now();
  engine.ask(at, name, body);
  if (cancelled) {
    setTimeout(() => {
      engine.cancel(at);
      console.log(JSON.stringify({ id: at, text: "", status: -1 }));
      next();
    }, 50);
  }
}

globalThis.evaldFetch = async () => new Uint8Array(readFileSync(network));
globalThis.evaldFailed = (text) => { throw new Error(text); };
globalThis.evaldAnswer = (id, text, status) => {
  console.log(JSON.stringify({ id, text, status }));
  if (status && id === at) {
    setTimeout(next);
  }
};
globalThis.evaldReady = (ask, cancel) => {
  engine = { ask, cancel };
  next();
};
const go = new Go();
const { instance } = await WebAssembly.instantiate(gunzipSync(readFileSync(folder + "/evald.wasm.gz")), go.importObject);
await go.run(instance);
