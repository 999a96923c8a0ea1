// What the server thinks about: a position, and an agent's move. The signal ends either.
import { aborted, lines, patiently, post } from "./api.js";
import { $, setText } from "./dom.js";

// analyze hands out the lines of an analysis as they arrive.
export async function analyze(body, signal, hear) {
  const heard = (m) => {
    if (!signal.aborted) {
      hear(m);
    }
  };
  try {
    await patiently(() => lines("/ui/analyze", body, signal, heard), signal, () => setText($("search-text"), "waits for the server .."));
  } catch (e) {
    if (!aborted(e) && !signal.aborted) {
      setText($("search-text"), e.message);
    }
  }
}

// agentMove is an agent's move, after so many seconds at least. busy is called where the server lets it wait.
export async function agentMove(position, agent, least, signal, busy) {
  const began = performance.now();
  const { move } = await patiently(() => post("/ui/move", { position, agent }, signal), signal, busy);
  await new Promise((resolve) => { setTimeout(resolve, Math.max(0, 1000 * least - (performance.now() - began))); });
  return move;
}
