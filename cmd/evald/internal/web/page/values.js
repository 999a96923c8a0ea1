// The known values of a game's positions, for Red, from the evaluator, a search, the solver or the rules. The visitor may hide some of these
// sources. Of the others an exact value is shown if there is one, else the value from the best source.
import { certain, chance, forRed, results } from "./chances.js";

const sight = 0, search = 1, exact = 2, ended = 3; // sources, better ones last

export class Values {
  constructor() {
    this.known = new Map(); // by position, then by source: { value, exact }
    this.shown = [true, true, true, true]; // whether each source is shown
  }

  // show sets the opinions that the visitor wants to see. The result of a finished game is always shown.
  show({ sight, search, exact }) {
    this.shown = [sight, search, exact, true];
  }

  // get returns the value to show for a position, { value, exact, text, kind }, or undefined.
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

  // look stores the server's value of each position of a game.
  look(positions, values) {
    values.forEach((x, i) => this.set(positions[i], x.exact ? exact : sight, x.value, x.exact));
  }

  // ended stores the result of a finished game.
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
