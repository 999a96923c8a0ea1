// Exact scores of a position's moves, and the game that follows if both sides play the best of them.
import { aborted, lines, patiently, post } from "./api.js";

const most = 9; // moves of a line

// solve returns the last that the server says of a position's exact scores before its time is over: scores by action, and whether all are
// known; null if it says nothing. It continues from scores that are known.
export async function solve(position, signal, known) {
  let last = null;
  await patiently(() => lines("/ui/analyze", { position, visits: 0, solve: true, known }, signal, (m) => {
    if (m.type === "exact" && !m.error) {
      last = m;
    }
  }), signal, () => {});
  return last;
}

// exactScores returns the score of each move by action, null for one that cannot be played; or null if the server does not find them in
// time. failed is called with an error.
export async function exactScores(position, signal, failed = () => {}) {
  try {
    const last = await solve(position, signal);
    return last?.done ? last.scores : null;
  } catch (e) {
    if (!aborted(e)) {
      failed(e);
    }
    return null;
  }
}

// follow plays the best moves from a game's state, calls made with the state after each, and returns the last state.
export async function follow(state, signal, made) {
  for (let n = 0; n < most && !state.result && !signal.aborted; n++) {
    const scores = await exactScores(state.position, signal);
    if (!scores || signal.aborted) {
      break;
    }
    const best = scores.indexOf(Math.max(...scores.filter((s) => s !== null)));
    state = await post("/ui/game", { position: state.position, human: [true, true], do: "play", move: state.names[best] }, signal);
    made(state);
  }
  return state;
}
