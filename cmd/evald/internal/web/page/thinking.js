// Requests that take the server some time: the analysis of a position, and an agent's move. Their signal aborts them.
import { aborted, lines, patiently, post } from "./api.js";
import { $, setText } from "./dom.js";
import { say } from "./strings.js";

// analyze calls hear with each line of an analysis as it arrives.
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

// agentMove returns an agent's move, but not before least seconds have passed. It calls busy while the server is too busy.
export async function agentMove(position, agent, least, signal, busy) {
  const began = performance.now();
  const { move } = await patiently(() => post("/ui/move", { position, agent }, signal), signal, busy);
  await new Promise((resolve) => { setTimeout(resolve, Math.max(0, 1000 * least - (performance.now() - began))); });
  return move;
}
