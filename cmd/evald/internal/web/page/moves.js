// The game as a list of moves with the chances after each move, and as a curve of these. A square marks an exact result, a circle and "≈" mark
// an estimate.
import { aborted, post } from "./api.js";
import { sides } from "./chances.js";
import { $, draw, make, setText } from "./dom.js";
import { say } from "./strings.js";
import { Values } from "./values.js";

const width = 320, height = 116, edge = 6, label = 18; // of the curve

export class Moves {
  // Moves calls chosen with the number of moves that the board should show.
  constructor(chosen) {
    this.chosen = chosen;
    this.values = new Values();
    this.asked = new Set(); // positions whose exact result was requested
    this.list = $("record");
    this.list.addEventListener("click", (e) => {
      const made = this.buttons.indexOf(e.target.closest("button"));
      if (made >= 0) {
        chosen(made);
      }
    });
    this.list.addEventListener("keydown", (e) => this.keydown(e));
    $("curve").addEventListener("click", (e) => this.point(e));
    this.buttons = []; // the first is for the empty board
  }

  // show lists the moves of a game. positionAt returns the position after a number of moves; shown says which opinions to show.
  show(game, positionAt, shown) {
    this.game = game;
    this.shown = shown;
    this.values.show(shown);
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
    if (this.list.contains(document.activeElement)) {
      this.buttons[game.made].focus({ preventScroll: true });
    }
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
      const move = made ? [make("small", {}, `${made}.`), " ", make("span", { class: "unseen" }, sides()[side]), " ",
        make("span", { class: `stone s${1 + side}` }, this.game.moves[made - 1])] : [say("moves.start")];
      return make("button", { type: "button" }, ...move, " ", make("span", { class: "worth" }, make("i", { "aria-hidden": "true" }), " ", make("span")), " ", make("span", { class: "unseen" }));
    });
    this.list.replaceChildren(...this.buttons.map((button) => make("li", {}, button)));
    this.buttons[focused]?.focus();
  }

  // fill writes the known values beside the moves, and draws the curve.
  fill() {
    this.buttons.forEach((button, made) => {
      const known = this.values.get(this.positions[made]);
      const worth = button.querySelector(".worth");
      setText(worth.firstChild, known ? (known.exact ? "■" : "≈") : "");
      setText(worth.lastChild, known?.text ?? "");
      worth.className = known ? `worth ${known.kind}` + (known.exact ? " exact" : "") : "worth";
      setText(button.lastChild, known ? say(known.exact ? "moves.exact" : "moves.estimate") : "");
    });
    $("curve").replaceChildren(this.curve());
  }

  // curve draws the chances over the game, Red's above and Yellow's below.
  curve() {
    const points = this.positions.map((position, made) => ({ made, ...this.values.get(position) })).filter((p) => p.text !== undefined);
    const x = (made) => this.at(made);
    const y = (value) => height / 2 - value * (height / 2 - label);
    const said = points.filter((p) => p.made % 5 === 0 || p === points.at(-1))
      .map((p) => say("moves.after", { made: p.made, chances: p.text, kind: say(p.exact ? "moves.exact" : "moves.estimate") })).join(", ");
    const svg = draw("svg", { viewBox: `0 0 ${width} ${height}`, role: "img", "aria-label": `${say("moves.curve")}: ${said || say("moves.nothing")}` });
    svg.append(draw("rect", { class: "red", x: 0, y: y(1), width, height: y(0) - y(1) }), draw("rect", { class: "yellow", x: 0, y: y(0), width, height: y(-1) - y(0) }),
      draw("line", { class: "grid", x1: 0, x2: width, y1: y(0), y2: y(0) }),
      draw("text", { x: 0, y: 11 }, say("chance.wins", { side: sides()[0] })), draw("text", { x: 0, y: height - 4 }, say("chance.wins", { side: sides()[1] })));
    if (points.length > 1) {
      const line = (all) => all.map((p, i) => `${i ? "L" : "M"}${x(p.made).toFixed(1)} ${y(p.value).toFixed(1)}`).join("");
      svg.append(draw("path", { class: "guess", d: line(points) }));
      const sure = points.slice(1).map((p, i) => (p.exact && points[i].exact ? line([points[i], p]) : "")).join("");
      svg.append(draw("path", { class: "sure", d: sure }));
    }
    for (const p of points) {
      const r = p.made === this.game.made ? 5 : 3;
      const at = p.exact ? draw("rect", { x: x(p.made) - r, y: y(p.value) - r, width: 2 * r, height: 2 * r }) : draw("circle", { cx: x(p.made), cy: y(p.value), r });
      at.setAttribute("class", (p.exact ? "sure" : "guess") + (p.made === this.game.made ? " now" : ""));
      svg.append(at);
    }
    return svg;
  }

  // at returns the x coordinate of a number of moves on the curve.
  at(made) {
    return edge + (made / Math.max(this.positions.length - 1, 1)) * (width - 2 * edge);
  }

  // point goes to the position on the curve that is nearest to a click.
  point(e) {
    const box = $("curve").firstChild.getBoundingClientRect();
    const x = ((e.clientX - box.left) / box.width) * width;
    const made = Math.round(((x - edge) / (width - 2 * edge)) * (this.positions.length - 1));
    this.chosen(Math.min(Math.max(made, 0), this.positions.length - 1));
  }

  // hear receives a line of an analysis of the position on the board.
  hear(m) {
    this.values.hear(this.game, m);
    this.fill();
  }

  // complete requests the values of all positions. It also requests the exact results of positions for which it has not done so, unless an
  // agent thinks, because the solver would slow the agent down.
  async complete(line, thinks, signal) {
    const { positions, shown, game } = this;
    const solve = shown.exact && !thinks ? positions.map((_, i) => i).filter((i) => !this.asked.has(positions[i])) : [];
    const unknown = shown.sight && positions.some((position) => position !== game.position && !this.values.get(position));
    if (!unknown && !solve.length) {
      return;
    }
    try {
      const { values } = await post("/ui/values", { position: line, solve }, signal);
      solve.forEach((i) => this.asked.add(positions[i]));
      this.values.look(positions, values);
      this.fill();
    } catch (e) {
      if (!aborted(e) && e.status !== 503) { // if the server is busy, the next move repeats the request
        setText($("record-note"), e.message);
      }
    }
  }

  // keydown moves the focus. The left and right arrow keys go through the game (keys.js).
  keydown(e) {
    const at = this.buttons.indexOf(document.activeElement);
    const columns = this.buttons[1]?.offsetTop === this.buttons[2]?.offsetTop ? 2 : 1;
    const to = { ArrowUp: at - columns, ArrowDown: at + columns, Home: 0, End: this.buttons.length - 1 }[e.key];
    if (at >= 0 && to !== undefined && !e.ctrlKey && !e.metaKey && !e.altKey) {
      this.buttons[Math.min(Math.max(to, 0), this.buttons.length - 1)].focus();
      e.preventDefault();
    }
  }
}
