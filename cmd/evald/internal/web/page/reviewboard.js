// A board without moves: stones, and the cells in which a side would complete a line. Letters distinguish the threats of the two sides.
import { coordinates, fit } from "./board.js";
import { make, setText } from "./dom.js";
import { say } from "./strings.js";
import { cellWords, side } from "./why.js";

export class ReviewBoard {
  constructor(element) {
    this.element = element;
  }

  build(game) {
    this.game = game;
    this.holes = [...Array(game.rows * game.columns)].map(() => make("span", { class: "hole" }));
    this.element.classList.toggle("free", !game.gravity);
    fit(this.element, game);
    coordinates(this.element, game);
    this.element.replaceChildren(...this.holes.map((hole) => make("span", { class: "cell", "aria-hidden": "true" }, hole)));
  }

  // show draws the position after the moves. won are the cells of a completed line, keys the cells that decide a line of best play.
  show(moves, { won, keys, title }) {
    const sides = new Array(this.holes.length).fill(0);
    moves.forEach((m, i) => { sides[m.cell] = 1 + (i % 2); });
    const last = moves.at(-1);
    const threats = last?.threats ?? [[], []];
    this.holes.forEach((hole, i) => {
      const marks = ["hole"];
      if (sides[i]) {
        marks.push("s" + sides[i]);
      }
      const by = [0, 1].filter((s) => !sides[i] && threats[s].includes(i));
      if (by.length) {
        marks.push("threat", by.length > 1 ? "both" : "t" + (1 + by[0]));
      }
      if (keys.includes(i)) {
        marks.push("key");
      }
      if (won.includes(i)) {
        marks.push("won");
      } else if (i === last?.cell) {
        marks.push("last");
      }
      hole.className = marks.join(" ");
      setText(hole, by.map((s) => say(s ? "review.letter.yellow" : "review.letter.red")).join(""));
    });
    this.element.setAttribute("aria-label", `${title}. ${this.words(sides, threats)}`);
  }

  // words describes the board: its columns from the bottom or, without gravity, its rows; then the threats.
  words(sides, threats) {
    const { rows, columns, gravity } = this.game;
    const stone = (s) => (s ? side(s - 1) : say("review.empty"));
    const all = [];
    if (gravity) {
      for (let c = 0; c < columns; c++) {
        const stones = [];
        for (let r = rows - 1; r >= 0 && sides[r * columns + c]; r--) {
          stones.push(stone(sides[r * columns + c]));
        }
        if (stones.length) {
          all.push(say("review.board.column", { n: c + 1, stones: stones.join(", ") }));
        }
      }
    } else {
      for (let r = 0; r < rows; r++) {
        all.push(say("review.board.row", { n: r + 1, stones: sides.slice(r * columns, (r + 1) * columns).map(stone).join(", ") }));
      }
    }
    threats.forEach((cells, s) => {
      if (cells.length) {
        all.push(say("review.board.threats", { side: side(s), cells: cells.map((i) => cellWords(this.game, i)).join("; ") }));
      }
    });
    return all.join(". ");
  }
}
