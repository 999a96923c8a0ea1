// A column of the table of moves in Study: what one network thinks of each move, at sight or after a search.
import { post } from "./api.js";
import { certain, chance, forRed, verdict } from "./chances.js";
import { $, count, make, setText } from "./dom.js";
import { split } from "./kept.js";
import { say } from "./strings.js";

export const first = 2000; // visits of the first search
const more = 5, most = 100_000; // their growth, and the maximum of the server

export class Column {
  // name is "a" or "b": the column's name in addresses, and at the end of its elements' names. usual is its choice before the visitor makes
  // one. Column calls chosen after a choice.
  constructor(name, models, usual, config, chosen) {
    this.name = name;
    this.usual = usual;
    this.models = models;
    this.most = Math.min(config.visits, most);
    this.select = $("opinion-" + name);
    this.how = $(`opinion-${name}-how`);
    this.longer = $(`opinion-${name}-longer`);
    this.select.replaceChildren(...models.map((model) => make("option", {}, model)));
    this.select.addEventListener("change", () => {
      this.choose(this.select.value, this.visits);
      chosen();
    });
    this.longer.addEventListener("click", () => {
      this.choose(this.model, this.visits ? more * this.visits : first);
      chosen();
    });
  }

  choose(model, visits) {
    this.model = this.models.includes(model) ? model : this.usual.model;
    this.visits = Math.min(visits, this.most);
    this.select.value = this.model;
    this.longer.disabled = this.visits === this.most;
    setText(this.how, this.visits ? say("study.visits", { n: count(this.visits) }) : say("study.sight"));
  }

  // read takes the choice of an address: a model, a comma and a number of visits, which are 0 at sight.
  read(text) {
    const [, model, visits] = /^(.+),(\d{1,9})$/.exec(text ?? "") ?? [];
    this.choose(model ?? this.usual.model, Number(visits ?? this.usual.visits));
  }

  // written is the choice as part of an address: empty if it is the usual one.
  written() {
    const { model, visits } = this.usual;
    return this.model === model && this.visits === visits ? "" : `&${this.name}=${encodeURIComponent(this.model)},${this.visits}`;
  }

  // look asks for the opinions on a game's moves and writes them into cells, one for each move, null for those that are not legal.
  async look(game, cells, signal) {
    const about = { position: game.position, model: this.model };
    if (this.visits === 0) {
      const { moves } = await post("/ui/opinion", about, signal);
      moves.forEach((m, a) => m && this.write(cells[a], (m.exact ? certain : chance)(forRed(game, m.value)), `${Math.round(100 * m.share)}%`));
      return;
    }
    const tree = await post("/ui/tree", { ...about, visits: this.visits, depth: 1, nodes: 1000, least: 1 }, signal);
    const cell = (move) => cells[game.names.indexOf(move)];
    for (const m of tree.moves) {
      this.write(cell(m.move), verdict(m.player, m.value, m.proved), m.visits ? count(m.visits) : "");
    }
    if (!tree.moves.length) { // the rules decide before any visit
      this.write(cell(split(`${game.rules}:${tree.pv}`)[1][0]), verdict(tree.to_move, tree.value, tree.proved), "");
    }
  }

  write(cell, { text, long, kind }, share) {
    cell.replaceChildren(make("span", { class: kind, "aria-hidden": "true" }, text), make("span", { class: "unseen" }, long), " ", make("small", {}, share));
  }
}
