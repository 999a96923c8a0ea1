// The known values of the positions of a game, for Red: from the evaluator, a search, the solver or the rules. A visitor may hide some of
// these; of the others an exact one is shown if there is one, else that of the best source.
import { certain, chance, forRed } from "./chances.js";

const sight = 0, search = 1, exact = 2, ended = 3; // sources, better ones last
const results = { win: 1, draw: 0, loss: -1 };

export class Values {
  constructor() {
    this.known = new Map(); // by position, then by source: { value, exact }
    this.shown = [true, true, true, true]; // by source
  }

  // show says which opinions the visitor wants to see. How a game ended is always shown.
  show({ sight, search, exact }) {
    this.shown = [sight, search, exact, true];
  }

  // get returns what is shown of a position: { value, exact, text, kind }, or undefined.
  get(position) {
    const all = (this.known.get(position) ?? []).filter((x, source) => x && this.shown[source]);
    const best = all.findLast((x) => x.exact) ?? all.at(-1);
    return best && { ...best, ...this.worded(best) };
  }

  worded({ value, exact }) {
    const { long, kind } = exact ? certain(value) : chance(value);
    return { text: long, kind };
  }

  set(position, source, value, exact) {
    if (!this.known.has(position)) {
      this.known.set(position, [null, null, null, null]);
    }
    this.known.get(position)[source] = { value, exact };
  }

  // look keeps the server's value of each position of a game.
  look(positions, values) {
    values.forEach((x, i) => this.set(positions[i], x.exact ? exact : sight, x.value, x.exact));
  }

  // ended keeps the result of a finished game.
  ended(game) {
    this.set(game.position, ended, game.result === "draw" ? 0 : forRed(game, -1), true);
  }

  // hear stores the value in a line of an analysis of the game's position.
  hear(game, m) {
    if (m.type === "opinion") {
      this.set(game.position, sight, forRed(game, m.wdl[0] - m.wdl[2]), m.source === "rules");
    } else if (m.type === "search" && m.visits) {
      this.set(game.position, search, forRed(game, m.result ? results[m.result] : m.value), Boolean(m.result));
    } else if (m.type === "exact" && m.done && !m.error) {
      this.set(game.position, exact, forRed(game, Math.sign(Math.max(...m.scores.filter((s) => s !== null)))), true);
    }
  }
}
