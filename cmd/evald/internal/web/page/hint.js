// The best moves of the position on the board, according to the search and the solver. They are marked on the board from the visitor's request
// for a hint to the next move, or always if the visitor chooses so.
import { certain, forRed } from "./chances.js";
import { $, setText } from "./dom.js";
import { say } from "./strings.js";

const shown = 3; // number of ranks that are marked if the best moves are always shown

export class Hint {
  // Hint calls marked with the rank of each move by action, 0 for moves without a mark.
  constructor(marked) {
    this.marked = marked;
    this.asked = false;
    this.over = true; // whether no analysis is running that may find a best move
  }

  // show is called with the game on the board, even if it is unchanged; coming says whether an analysis of it begins.
  show(game, coming) {
    this.over = !coming;
    if (this.position !== game.position) {
      this.position = game.position;
      this.asked = false;
      this.search = null;
      this.exact = null;
      setText($("hint-text"), "");
    }
    this.game = game;
    this.draw();
  }

  // ask marks the best moves and shows them as text. It returns whether an analysis must be started to find them.
  ask() {
    this.asked = true;
    setText($("hint-text"), ""); // so that screen readers read it again
    this.draw();
    const needed = this.over && !this.exact && !this.search && !this.game.result;
    this.over &&= !needed;
    return needed;
  }

  // hear receives a line of an analysis of the position on the board.
  hear(m) {
    if (m.type === "search" && m.best >= 0 && !m.error) {
      this.search = m;
    } else if (m.type === "exact" && m.done && !m.error) {
      this.exact = m;
    } else if (m.type === "end") {
      this.over = true;
      if (this.asked && !this.search && !this.exact) {
        setText($("hint-text"), say("hint.none"));
      }
      return;
    } else {
      return;
    }
    this.draw();
  }

  // ranks returns the rank of each move by action: 1 to 3, or 0 for worse moves. Moves with the same exact score share a rank.
  ranks() {
    const game = this.game;
    const worth = game.names.map((_, a) => this.worth(a));
    const better = (a, b) => worth[b].findIndex((x, i) => x !== worth[a][i]);
    const before = (a, b) => {
      const at = better(a, b);
      return at >= 0 && worth[a][at] > worth[b][at];
    };
    const legal = game.names.map((_, a) => a).filter((a) => game.legal[a] && worth[a].length);
    return game.names.map((_, a) => {
      const rank = legal.includes(a) ? 1 + legal.filter((b) => before(b, a)).length : 0;
      return rank <= shown ? rank : 0;
    });
  }

  // worth returns a list of numbers that orders moves lexicographically, higher ones first; it is empty if nothing is known about the move.
  worth(a) {
    if (this.exact) {
      return this.exact.scores[a] === null ? [] : [this.exact.scores[a]];
    }
    if (!this.search) {
      return [];
    }
    const { visits, q, result } = this.search.moves[a];
    const proved = { win: 1, loss: -1 }[result] ?? 0;
    return visits || result ? [Number(a === this.search.best), proved, visits, q] : [];
  }

  draw() {
    const always = $("best").checked;
    const ranks = this.asked || always ? this.ranks() : [];
    this.marked(ranks.map((rank) => (always || rank === 1 ? rank : 0)));
    if (this.asked) {
      setText($("hint-text"), this.text(ranks));
    }
  }

  // text names the best moves. It changes only if they do, because screen readers read it aloud.
  text(ranks) {
    const game = this.game;
    if (game.result) {
      return say("hint.over");
    }
    const moves = game.names.filter((_, a) => ranks[a] === 1).join(", ");
    if (!moves) {
      return say("hint.looking");
    }
    const result = this.exact ? Math.sign(Math.max(...this.exact.scores.filter((s) => s !== null))) : { win: 1, draw: 0, loss: -1 }[this.search.result];
    return result === undefined ? say("hint.search", { moves }) : say("hint.exact", { moves, result: certain(forRed(game, result)).long });
  }
}
