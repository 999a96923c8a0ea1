// The game as a list of moves with the value after each, and the curve of those values.
import { aborted, post } from "./api.js";
import { $, draw, make, setText } from "./dom.js";
import { Values } from "./values.js";

const sides = ["Red", "Yellow"];
const width = 320, height = 116, edge = 6, label = 18; // of the curve

export class Moves {
  // chosen is called with the number of moves that the board should show.
  constructor(chosen) {
    this.values = new Values();
    this.list = $("record");
    this.list.addEventListener("click", (e) => {
      const made = this.buttons.indexOf(e.target.closest("button"));
      if (made >= 0) {
        chosen(made);
      }
    });
    this.list.addEventListener("keydown", (e) => this.keydown(e));
    this.buttons = []; // the first is for the empty board
  }

  // show lists the line of a game; positionAt returns the position after a number of moves.
  show(game, positionAt) {
    this.game = game;
    this.positions = [...Array(game.moves.length + 1).keys()].map(positionAt);
    if (game.result) {
      this.values.ended(game);
    }
    if (this.line !== game.line) {
      this.line = game.line;
      this.build();
    }
    this.buttons.forEach((button, made) => {
      button.toggleAttribute("aria-current", made === game.made);
      if (made === game.made) {
        button.setAttribute("aria-current", "step");
      }
      button.tabIndex = made === game.made ? 0 : -1;
      button.classList.toggle("back", made > game.made);
    });
    const now = this.buttons[game.made].offsetTop;
    if (now < this.list.scrollTop || now > this.list.scrollTop + this.list.clientHeight - 40) {
      this.list.scrollTop = now - this.list.clientHeight / 2;
    }
    this.fill();
  }

  build() {
    const focused = this.buttons.indexOf(document.activeElement);
    this.buttons = this.positions.map((_, made) => {
      const side = (made - 1) % 2;
      const move = made ? [make("small", {}, `${made}.`), " ", make("span", { class: "unseen" }, sides[side]), " ",
        make("span", { class: `stone s${1 + side}` }, this.game.moves[made - 1])] : ["Start"];
      return make("button", { type: "button" }, ...move, " ", make("span", { class: "worth" }), " ", make("span", { class: "unseen" }));
    });
    this.list.replaceChildren(...this.buttons.map((button) => make("li", {}, button)));
    this.buttons[focused]?.focus();
  }

  // fill writes the known values beside the moves, and draws the curve.
  fill() {
    this.buttons.forEach((button, made) => {
      const known = this.values.get(this.positions[made]);
      const worth = button.querySelector(".worth");
      setText(worth, known?.text ?? "");
      worth.classList.toggle("exact", known?.exact ?? false);
      setText(button.lastChild, known && !known.exact ? "for Red" : "");
    });
    $("curve").replaceChildren(...this.curve());
  }

  curve() {
    const points = this.positions.map((position, made) => ({ made, ...this.values.get(position) })).filter((p) => p.text !== undefined);
    if (this.positions.length < 3 || points.length < 2) {
      return [];
    }
    const x = (made) => edge + (made / (this.positions.length - 1)) * (width - 2 * edge);
    const y = (value) => height / 2 - value * (height / 2 - label);
    const said = points.filter((p) => p.made % 5 === 0 || p === points.at(-1)).map((p) => `after ${p.made} moves ${p.text}`).join(", ");
    const svg = draw("svg", { viewBox: `0 0 ${width} ${height}`, role: "img", "aria-label": `Value for Red over the game: ${said}` });
    svg.append(draw("line", { class: "grid", x1: 0, x2: width, y1: y(0), y2: y(0) }),
      draw("text", { x: 0, y: 10 }, "good for Red"), draw("text", { x: 0, y: height - 2 }, "good for Yellow"),
      draw("path", { class: "k0", d: points.map((p, i) => `${i ? "L" : "M"}${x(p.made).toFixed(1)} ${y(p.value).toFixed(1)}`).join("") }));
    for (const p of points.filter((q) => q.exact || q.made === this.game.made)) {
      svg.append(draw("circle", { class: p.made === this.game.made ? "now" : "sure", cx: x(p.made), cy: y(p.value), r: p.made === this.game.made ? 4.5 : 2.5 }));
    }
    return [svg];
  }

  // hear takes a result for the position on the board.
  hear(m) {
    this.values.hear(this.game, m);
    this.fill();
  }

  // complete asks for the evaluator's values of all positions, if one other than that on the board has none yet.
  async complete(line, signal) {
    const { positions, game } = this;
    if (positions.every((position) => position === game.position || this.values.get(position))) {
      return;
    }
    try {
      const { values } = await post("/ui/values", { position: line }, signal);
      this.values.look(positions, values);
      this.fill();
    } catch (e) {
      if (!aborted(e) && e.status !== 503) { // a busy server is asked again at the next move
        setText($("record-note"), e.message);
      }
    }
  }

  keydown(e) {
    const at = this.buttons.indexOf(document.activeElement);
    const to = { ArrowLeft: at - 1, ArrowRight: at + 1, ArrowUp: at - 2, ArrowDown: at + 2, Home: 0, End: this.buttons.length - 1 }[e.key];
    if (at >= 0 && to !== undefined && !e.ctrlKey && !e.metaKey && !e.altKey) {
      this.buttons[Math.min(Math.max(to, 0), this.buttons.length - 1)].focus();
      e.preventDefault();
    }
  }
}
