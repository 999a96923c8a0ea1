// Study: a board for both sides; beside it each move's value by two networks or searches and by the solver, and how often it was played, the
// tree of a search, and lines to keep. The address is #explore=7x6x4:4455, or #tree=7x6x4:4455 if the tree is open; &a=default,0 and
// &b=default,2000 are the networks of the columns and their visits.
import { aborted, lines, patiently, post } from "./api.js";
import { Board } from "./board.js";
import { scored, sides } from "./chances.js";
import { Column, first } from "./column.js";
import { $, count, make, setText } from "./dom.js";
import { Kept, split } from "./kept.js";
import { enter, orderNote } from "./position.js";
import { say } from "./strings.js";
import { Tree } from "./tree.js";

const empty = "7x6x4:-";

export class Explorer {
  // The view calls report with an error to show, or null.
  constructor(config, report) {
    this.config = config;
    this.report = report;
    this.work = new AbortController();
    this.scores = new Map(); // exact scores by position, as far as this page has received them
    this.board = new Board($("explore-board"), { played: (move) => this.play(move), key: (what) => what === "undo" && this.back() });
    this.kept = new Kept($("explore-tree"), $("explore-kept"), { go: (position) => this.go(position), value: (position) => this.verdict(position), report });
    const models = [...new Set([config.model, ...config.networks, ...config.heuristics])];
    const again = () => this.go(this.game.position);
    this.columns = [
      new Column("a", models, { model: config.model, visits: 0 }, config, again),
      new Column("b", models, { model: config.model, visits: Math.min(first, config.visits) }, config, again),
    ];
    this.tree = new Tree(config, models, (position) => this.address(position));
    $("explore-played").hidden = !config.games;
    $("tree").addEventListener("toggle", () => this.game && $("tree").open !== this.withTree && again());
    $("exact-longer").addEventListener("click", () => this.solve());
    $("explore-keep").addEventListener("click", () => this.keep());
    $("explore-back").addEventListener("click", () => this.back());
    $("explore-note").addEventListener("change", () => this.kept.note(this.game.position, $("explore-note").value));
    $("explore-position").addEventListener("change", (e) => enter(e.target, (position) => this.go(position), report));
    $("explore-moves").addEventListener("click", (e) => {
      const move = e.target.closest("button")?.dataset.move;
      if (move !== undefined) {
        this.play(move);
      }
    });
  }

  // address returns the address of a position in this view, with the visitor's choices.
  address(position) {
    return `#${$("tree").open ? "tree" : "explore"}=${position}` + this.columns.map((c) => c.written()).join("");
  }

  go(position) {
    location.hash = this.address(position);
  }

  // open shows a position of the address. A later call takes the place of an unfinished one.
  async open(text) {
    this.opening?.abort();
    this.opening = new AbortController();
    const { signal } = this.opening;
    const ask = (position) => post("/ui/game", { position, human: [true, true] }, signal);
    try {
      this.game = await ask(text || this.game?.position || empty);
      this.report(null);
    } catch (e) {
      if (aborted(e)) {
        return;
      }
      this.report(e);
      this.game ??= await ask(empty);
    }
    if (!signal.aborted) {
      this.draw();
      this.look();
    }
  }

  // show opens or leaves the view; address is its part of the page's address. A hidden view sends no requests.
  show(shown, address, choices) {
    if (!shown) {
      this.work.abort();
      this.tree.show("");
      return undefined;
    }
    const [view, position] = address.split("=");
    this.withTree = view === "tree";
    $("tree").open = this.withTree;
    $("explore").classList.toggle("with-tree", this.withTree);
    for (const column of this.columns) {
      column.read(choices.get(column.name));
    }
    return this.open(position);
  }

  async play(move) {
    const legal = this.game.legal[this.game.names.indexOf(move)];
    if (legal) {
      const next = await post("/ui/game", { position: this.game.position, do: "play", move, human: [true, true] });
      this.go(next.position);
    }
  }

  async back() {
    const before = await post("/ui/game", { position: this.game.position, do: "undo", human: [true, true] });
    if (before.position !== this.game.position) {
      this.go(before.position);
    }
  }

  keep() {
    const stored = this.kept.keep(this.game.rules, this.game.moves);
    setText($("explore-said"), stored === undefined ? "" : say(stored ? "explore.kept" : "explore.keptNot"));
  }

  draw() {
    const g = this.game;
    $("explore-position").value = g.position;
    $("explore-note").value = this.kept.noteOf(g.position);
    $("explore-position").removeAttribute("aria-invalid");
    setText($("explore-said"), orderNote(g.position));
    setText($("explore-status"), g.result === "won" ? say("explore.won", { side: sides()[1 - g.side] }) :
      g.result === "draw" ? say("explore.drawn") : say("explore.moves", { side: sides()[g.side] }));
    $("explore-back").disabled = g.made === 0;
    for (const [id, kind] of [["explore-play", "#"], ["explore-review", "#review="]]) {
      $(id).href = kind + g.position;
    }
    for (const [id, path] of [["explore-svg", "position.svg"], ["explore-png", "position.png"], ["explore-file", "game.txt"]]) {
      $(id).href = `/ui/${path}?${new URLSearchParams({ position: g.position })}`;
    }
    this.board.show(g, true);
    this.rows = g.names.map((name, a) => this.row(name, g.legal[a]));
    $("explore-moves").replaceChildren(...this.rows.filter(Boolean).map((r) => r.element));
    this.fill(this.scores.get(g.position));
    this.kept.show(g.rules, g.position);
  }

  // row creates the row of a move: a button, what the columns think of it, its exact score, and the games in which it was played.
  row(name, legal) {
    if (!legal) {
      return null;
    }
    const opinions = this.columns.map(() => make("td", { class: "opinion" }, "–"));
    const worth = make("td", { class: "exact-worth" }, "–"), games = make("td", { class: "games" });
    const move = make("th", { scope: "row" }, make("button", { type: "button", "data-move": name, "aria-label": say("explore.play", { move: name }) }, name));
    const element = make("tr", {}, move, ...opinions, worth, ...(this.config.games ? [games] : []));
    return { element, opinions, worth, games };
  }

  // look requests what the columns think of the moves, how often they were played, their exact scores, and the tree if it is open.
  look() {
    this.work.abort();
    this.work = new AbortController();
    const { signal } = this.work, game = this.game;
    this.tree.show(this.withTree && !game.result ? game.position : "");
    $("exact-longer").disabled = true;
    if (game.result) {
      return;
    }
    const all = this.columns.map((column, i) => patiently(() => column.look(game, this.rows.map((r) => r?.opinions[i]), signal), signal, () => {}));
    for (const work of [...all, this.count(game, signal), this.solve()]) {
      work.catch((e) => aborted(e) || signal.aborted || this.report(e));
    }
  }

  // count requests how often the moves were played.
  async count(game, signal) {
    if (this.config.games) {
      const { moves } = await post("/ui/played", { position: game.position }, signal);
      moves.forEach((m, a) => this.rows[a] && setText(this.rows[a].games, m.games ? say("explore.games", { n: count(m.games), share: Math.round(100 * (m.wins + m.draws / 2) / m.games) }) : ""));
    }
  }

  // solve requests the exact scores that are not known yet.
  async solve() {
    const { signal } = this.work, game = this.game;
    const hear = (m) => {
      if (!signal.aborted && m.type === "exact") {
        this.scores.set(game.position, m);
        this.fill(m);
        this.kept.values();
      }
    };
    $("exact-longer").disabled = true;
    const known = this.scores.get(game.position);
    if (!known?.done) {
      this.fill(known);
      await patiently(() => lines("/ui/analyze", { position: game.position, visits: 0, solve: true, known: known?.scores }, signal, hear), signal, () => {});
      signal.throwIfAborted();
      this.fill(this.scores.get(game.position), true);
      $("exact-longer").disabled = Boolean(this.scores.get(game.position)?.done);
    }
  }

  // fill writes the exact scores beside the moves; late says that no more scores will come.
  fill(m, late = false) {
    const scores = m?.scores ?? [];
    const best = m?.done ? Math.max(...scores.filter((s) => s !== null)) : null;
    this.rows.forEach((r, a) => {
      if (r) {
        const known = scores[a] !== undefined && scores[a] !== null;
        setText(r.worth, known ? scored(this.game, scores[a]).long + (scores[a] === best ? " ★" : "") : late ? say("explore.unknown") : "..");
        r.worth.className = "exact-worth" + (known ? ` r${Math.sign(scores[a]) * (this.game.side === 0 ? 1 : -1)}` : "");
      }
    });
  }

  // verdict returns a short text for the winner of a position, or "" if its scores are unknown.
  verdict(position) {
    const m = this.scores.get(position);
    if (!m?.done) {
      return "";
    }
    const best = Math.max(...m.scores.filter((s) => s !== null));
    const side = split(position)[1].length % 2;
    return best === 0 ? "=" : sides()[best > 0 ? side : 1 - side][0];
  }
}
