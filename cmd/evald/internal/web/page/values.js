// The known values of the positions of a game, for Red: from the evaluator, a search, the solver or the rules. The better
// answer is kept.
import { hundredths } from "./opinions.js";

const looked = 1, searched = 2, exact = 3;
const results = { win: 1, draw: 0, loss: -1 };

// worded formats a value: in words if it is exact, else in hundredths.
function worded(value, rank) {
  return rank < exact ? hundredths(value) : value > 0 ? "Red wins" : value < 0 ? "Yellow wins" : "draw";
}

export class Values {
  constructor() {
    this.known = new Map(); // by position: { value, rank, text, exact }
  }

  get(position) {
    return this.known.get(position);
  }

  set(position, value, rank) {
    if (rank >= (this.known.get(position)?.rank ?? 0)) {
      this.known.set(position, { value, rank, text: worded(value, rank), exact: rank === exact });
    }
  }

  // look keeps the evaluator's value of each position of a game.
  look(positions, values) {
    values.forEach((x, i) => this.set(positions[i], x.value, x.exact ? exact : looked));
  }

  // ended keeps the result of a finished game.
  ended(game) {
    this.set(game.position, game.result === "draw" ? 0 : game.side === 0 ? -1 : 1, exact);
  }

  // hear keeps what a line of an analysis says about the game's position.
  hear(game, m) {
    const sign = game.side === 0 ? 1 : -1;
    if (m.type === "opinion") {
      this.set(game.position, sign * (m.wdl[0] - m.wdl[2]), m.source === "rules" ? exact : looked);
    } else if (m.type === "search" && m.visits) {
      this.set(game.position, sign * (m.result ? results[m.result] : m.value), m.result ? exact : searched);
    } else if (m.type === "exact" && m.done && !m.error) {
      this.set(game.position, sign * Math.sign(Math.max(...m.scores.filter((s) => s !== null))), exact);
    }
  }
}
