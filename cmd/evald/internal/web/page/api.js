// The server's API: requests and answers are JSON; some answers are lines of JSON. A request that does not reach the server is repeated
// until it does, or until its signal aborts it. A page without a server asks the engine in the browser instead (engine.js).
import { lost, pause, unreachable } from "./connection.js";
import * as engine from "./engine.js";
import { say } from "./strings.js";

// Refusal is an error in the server's answer.
export class Refusal extends Error {
  constructor(status, body, after) {
    super(body.error || say("page.status", { status }));
    this.status = status;
    this.field = body.field || "";
    this.after = after; // seconds after which to retry; 0: unknown
  }
}

// Cut is the error for a connection that failed before the answer was complete.
class Cut extends Error {}

// received awaits fetch or the body of its answer, and converts a failure of the connection to a Cut.
async function received(promise) {
  try {
    return await promise;
  } catch (e) {
    throw e instanceof TypeError ? new Cut() : e;
  }
}

// whole repeats a request until its whole answer has arrived.
async function whole(request, signal) {
  for (;;) {
    try {
      return await request();
    } catch (e) {
      if (!(e instanceof Cut)) {
        throw e;
      }
      await lost(signal);
    }
  }
}

async function ask(path, body, signal) {
  const options = { signal, cache: "no-store" };
  if (body !== undefined) {
    options.method = "POST";
    options.headers = { "Content-Type": "application/json" };
    options.body = JSON.stringify(body);
  }
  const response = await received(fetch(path, options));
  if (unreachable(response)) {
    throw new Cut();
  }
  if (!response.ok) {
    const wrong = await response.json().catch(() => ({}));
    throw new Refusal(response.status, wrong, Number(response.headers.get("Retry-After")) || 0);
  }
  return response;
}

// asEngine asks the engine a question that has a path of the server.
function asEngine(path, body, signal, hear) {
  return engine.ask(path.replace("/ui/", ""), body, signal, (status, wrong) => new Refusal(status, wrong, 0), hear);
}

export function get(path, signal) {
  return engine.here ? asEngine(path, undefined, signal) : whole(async () => received((await ask(path, undefined, signal)).json()), signal);
}

export function post(path, body, signal) {
  return engine.here ? asEngine(path, body, signal) : whole(async () => received((await ask(path, body, signal)).json()), signal);
}

// lines calls hear with each object of an answer as it arrives. If the connection fails, the request is repeated and the objects begin
// anew.
export function lines(path, body, signal, hear) {
  return engine.here ? asEngine(path, body, signal, hear) : whole(() => once(path, body, signal, hear), signal);
}

async function once(path, body, signal, hear) {
  const reader = (await ask(path, body, signal)).body.getReader();
  const decoder = new TextDecoder();
  let rest = "";
  for (;;) {
    const { done, value } = await received(reader.read());
    if (done) {
      return;
    }
    const parts = (rest + decoder.decode(value, { stream: true })).split("\n");
    rest = parts.pop();
    for (const part of parts) {
      hear(JSON.parse(part));
    }
  }
}

// text returns a text, such as /ui/puzzles.
export async function text(path) {
  return engine.here ? engine.text(path.replace("/ui/", "")) : whole(async () => received((await ask(path)).text()));
}

// patiently repeats a request while the server is busy, until signal is aborted.
export async function patiently(work, signal, busy) {
  for (;;) {
    try {
      return await work();
    } catch (e) {
      if (!(e instanceof Refusal) || e.status !== 503 || !e.after) {
        throw e;
      }
      busy(e);
      await pause(1000 * e.after, signal);
    }
  }
}

export function aborted(e) {
  return e instanceof DOMException && e.name === "AbortError";
}
