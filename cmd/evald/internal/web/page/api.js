// The server's API: JSON in, JSON out; some answers are lines of JSON.

// Refusal is an error that the server has answered.
export class Refusal extends Error {
  constructor(status, body, after) {
    super(body.error || `the server answered ${status}`);
    this.status = status;
    this.field = body.field || "";
    this.after = after; // seconds after which to try again; 0: not stated
  }
}

async function ask(path, body, signal) {
  const options = { signal, cache: "no-store" };
  if (body !== undefined) {
    options.method = "POST";
    options.headers = { "Content-Type": "application/json" };
    options.body = JSON.stringify(body);
  }
  const response = await fetch(path, options);
  if (!response.ok) {
    const wrong = await response.json().catch(() => ({}));
    throw new Refusal(response.status, wrong, Number(response.headers.get("Retry-After")) || 0);
  }
  return response;
}

export async function get(path, signal) {
  return (await ask(path, undefined, signal)).json();
}

export async function post(path, body, signal) {
  return (await ask(path, body, signal)).json();
}

// lines passes the objects of an answer to hear as they arrive.
export async function lines(path, body, signal, hear) {
  const reader = (await ask(path, body, signal)).body.getReader();
  const decoder = new TextDecoder();
  let rest = "";
  for (;;) {
    const { done, value } = await reader.read();
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

// patiently repeats a request while the server is busy, until signal ends it.
export async function patiently(work, signal, busy) {
  for (;;) {
    try {
      return await work();
    } catch (e) {
      if (!(e instanceof Refusal) || e.status !== 503 || !e.after) {
        throw e;
      }
      busy(e);
      await new Promise((resolve, reject) => {
        const timer = setTimeout(resolve, 1000 * e.after);
        signal.addEventListener("abort", () => {
          clearTimeout(timer);
          reject(signal.reason);
        }, { once: true });
      });
    }
  }
}

export function aborted(e) {
  return e instanceof DOMException && e.name === "AbortError";
}
