// Checks whether the server can be reached. While it cannot, the page shows a message and retries at growing intervals. At the first answer the
// message disappears, and the waiting requests are sent again.
import { $ } from "./dom.js";
import { say } from "./strings.js";

const first = 500, longest = 8000; // milliseconds between attempts

let back = null; // while the server cannot be reached: a promise that resolves when it answers again

// lost is called after a connection failed. It returns when the server answers again, and throws if signal is aborted earlier.
export async function lost(signal) {
  back ??= watch();
  await Promise.race([back, ended(signal)]);
}

// unreachable reports whether a proxy answered that it cannot reach the server.
export function unreachable(response) {
  return response.status === 502 || response.status === 504;
}

async function watch() {
  $("offline").textContent = say("page.offline");
  $("offline").hidden = false;
  for (let wait = first, gone = true; gone; wait = Math.min(2 * wait, longest)) {
    await pause(wait);
    try {
      gone = unreachable(await fetch("/ui/config", { method: "HEAD", cache: "no-store" }));
    } catch {
      // the next attempt follows
    }
  }
  back = null;
  $("offline").hidden = true;
}

// pause waits for some milliseconds, or until the browser has a network again. It throws if signal is aborted earlier.
export async function pause(milliseconds, signal) {
  let timer, again;
  try {
    await Promise.race([ended(signal), new Promise((resolve) => {
      timer = setTimeout(resolve, milliseconds);
      again = resolve;
      addEventListener("online", again);
    })]);
  } finally {
    clearTimeout(timer);
    removeEventListener("online", again);
  }
}

// ended throws when signal is aborted.
function ended(signal) {
  return new Promise((_, reject) => {
    if (signal?.aborted) {
      reject(signal.reason);
    }
    signal?.addEventListener("abort", () => reject(signal.reason), { once: true });
  });
}
