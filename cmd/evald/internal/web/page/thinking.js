// Requests that make the server think: the analysis of a position, and an agent's move. The signal ends either.
import { aborted, lines, patiently, post } from "./api.js";
import { $, setText } from "./dom.js";
import { say } from "./strings.js";

// analyze passes the lines of an analysis to hear as they arrive.
export async function analyze(body, signal, hear) {
  const heard = (m) => {
    if (!signal.aborted) {
      hear(m);
    }
  };
  try {
    await patiently(() => lines("/ui/analyze", body, signal, heard), signal, () => setText($("search-text"), say("opinions.waits")));
  } catch (e) {
    if (!aborted(e) && !signal.aborted) {
      setText($("search-text"), e.message);
    }
  }
}

// agentMove returns an agent's move, after at least least seconds. busy is called if the server makes the request wait.
export async function agentMove(position, agent, least, signal, busy) {
  const began = performance.now();
  const { move } = await patiently(() => post("/ui/move", { position, agent }, signal), signal, busy);
  await new Promise((resolve) => { setTimeout(resolve, Math.max(0, 1000 * least - (performance.now() - began))); });
  return move;
}
