// The engine in the browser, for a page that no server answers. evald page writes its settings into
// the page; it computes in a worker.
import { unpacked } from "./unpack.js";

const settings = JSON.parse(document.getElementById("evald-engine")?.textContent ?? "null");

// here says whether the engine answers, and not a server.
export const here = settings !== null;

// Hidden ends a question because the visitor cannot see the page.
class Hidden extends Error {}

const patience = 5000; // milliseconds that the first visit's engine waits for the service worker

const asked = new Map(); // questions that are not answered yet, by their numbers
let kept = null; // a promise that resolves when the service worker stores what is loaded
let worker = null;
let count = 0;

// ask answers a question. It calls hear with each object of the answer, and returns the last one;
// refused makes an error of a refusal. Nothing computes while the page is hidden: the question
// begins anew when it is visible again.
export async function ask(name, body, signal, refused, hear = () => {}) {
  const known = name === "config" ? settings.config : emptyBoard(name, body);
  if (known) {
    return known;
  }
  for (;;) {
    await visible(signal);
    try {
      return await once(name, body, signal, refused, hear);
    } catch (e) {
      if (!(e instanceof Hidden)) {
        throw e;
      }
    }
  }
}

// text returns the text of a file of the page, such as "puzzles".
export async function text(name) {
  return new TextDecoder().decode(await unpacked(settings.files[name]));
}

// emptyBoard answers the first question of a new visitor before the engine is loaded.
function emptyBoard(name, body) {
  const first = name === "game" && [undefined, "", "open", "new"].includes(body.do) && body.position === settings.game.position;
  return first ? settings.game : null;
}

// visible returns when the visitor can see the page, and throws if signal is aborted earlier.
async function visible(signal) {
  while (document.hidden) {
    await new Promise((resolve) => {
      document.addEventListener("visibilitychange", resolve, { once: true });
      signal?.addEventListener("abort", resolve, { once: true });
    });
    signal?.throwIfAborted();
  }
}

async function once(name, body, signal, refused, hear) {
  await load();
  const id = ++count;
  const ended = new AbortController();
  return new Promise((resolve, reject) => {
    signal?.throwIfAborted();
    const cancel = (reason) => {
      worker?.postMessage({ cancel: id });
      reject(reason);
    };
    signal?.addEventListener("abort", () => cancel(signal.reason), { signal: ended.signal });
    document.addEventListener("visibilitychange", () => cancel(new Hidden()), { signal: ended.signal });
    const answered = (x, status) => {
      if (status > 200) {
        reject(refused(status, x));
        return;
      }
      hear(x);
      if (status === 200) {
        resolve(x);
      }
    };
    asked.set(id, { answered, reject });
    worker.postMessage({ id, name, body: JSON.stringify(body ?? null) });
  }).finally(() => {
    asked.delete(id);
    ended.abort();
  });
}

function start() {
  const fresh = new Worker(new URL("worker.js", import.meta.url), { type: "module" });
  const fail = (text) => {
    for (const { reject } of asked.values()) {
      reject(new Error(text));
    }
    fresh.terminate();
    worker = null; // the next question tries again
  };
  fresh.addEventListener("message", ({ data }) => {
    if (data.failed) {
      fail(data.failed);
    } else {
      asked.get(data.id)?.answered(JSON.parse(data.text), data.status);
    }
  });
  fresh.addEventListener("error", (e) => fail(e.message ?? "worker.js"));
  fresh.postMessage({ files: settings.files });
  return fresh;
}

// load loads the engine before there is a question.
export async function load() {
  kept ??= keep();
  await kept;
  worker ??= start();
}

// keep has a service worker store the page in the browser, so that it works without a network. A new
// version takes the place of this one when it is complete: at once if the visitor has done nothing
// yet, and otherwise when the visitor looks away.
async function keep() {
  const workers = navigator.serviceWorker; // undefined on pages of http:, except of this machine
  if (!workers) {
    return;
  }
  workers.addEventListener("controllerchange", compare);
  const found = await workers.register("sw.js").catch(() => null);
  if (found) {
    found.update().catch(() => {}); // without a network the stored version stays
    await Promise.race([workers.ready, new Promise((resolve) => { setTimeout(resolve, patience); })]);
    compare(); // a new worker may have come before this script
  }
}

// compare renews the page if the worker that answers it has another version.
function compare() {
  const { port1, port2 } = new MessageChannel();
  port1.onmessage = ({ data }) => {
    if (data !== settings.version) {
      renew();
    }
  };
  navigator.serviceWorker.controller?.postMessage("version", [port2]);
}

function renew() {
  if (navigator.userActivation?.hasBeenActive) {
    document.addEventListener("visibilitychange", () => location.reload(), { once: true });
  } else {
    location.reload();
  }
}
