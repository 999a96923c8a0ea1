// The worker in which the engine computes. Messages to it: first the names of the files, then
// questions {id, name, body} and {cancel: id}. Messages from it: {id, text, status}, and {failed} if
// the engine cannot be loaded.
import { unpacked } from "./unpack.js";
import "./wasm_exec.js";

let files = null;
let waiting = []; // messages that arrive before the engine is loaded
let engine = null;

globalThis.evaldFetch = (name) => unpacked(files[name]);
globalThis.evaldAnswer = (id, text, status) => postMessage({ id, text, status });
globalThis.evaldFailed = (text) => postMessage({ failed: text });
globalThis.evaldReady = (ask, cancel) => {
  engine = { ask, cancel };
  waiting.forEach(take);
  waiting = [];
};

function take(message) {
  if (message.cancel !== undefined) {
    engine.cancel(message.cancel);
  } else {
    engine.ask(message.id, message.name, message.body);
  }
}

async function load() {
  try {
    const go = new Go();
    const { instance } = await WebAssembly.instantiate(await unpacked(files.engine), go.importObject);
    await go.run(instance);
  } catch (e) {
    postMessage({ failed: e.message });
  }
}

addEventListener("message", ({ data }) => {
  if (data.files) {
    files = data.files;
    load();
  } else if (engine) {
    take(data);
  } else {
    waiting.push(data);
  }
});
