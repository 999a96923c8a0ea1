// Exact scores of a position's moves, and the continuation if both sides play their best moves.
import { aborted, lines, patiently, post } from "./api.js";

const most = 9; // maximum number of moves of a continuation

// solve returns the server's last message about a position's exact scores before its time limit: scores by action, and done, whether all are
// known; or null if there is no such message. known are scores that need not be solved again.
export async function solve(position, signal, known) {
  let last = null;
  await patiently(() => lines("/ui/analyze", { position, visits: 0, solve: true, known }, signal, (m) => {
    if (m.type === "exact" && !m.error) {
      last = m;
    }
  }), signal, () => {});
  return last;
}

// exactScores returns the score of each move by action, null for illegal ones; or null if the server does not find all scores in time. It
// calls failed with an error.
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

// follow plays best moves from a game's state, calls made with the state after each move, and returns the last state.
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
