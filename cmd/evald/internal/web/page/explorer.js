// The explorer: a board for both sides, with the score of each move and how often it was played, and a tree of lines to keep.
import { aborted, lines, patiently, post } from "./api.js";
import { Board } from "./board.js";
import { scored, sides } from "./chances.js";
import { $, count, make, setText } from "./dom.js";
import { Kept, split } from "./kept.js";
import { enter, orderNote } from "./position.js";
import { say } from "./strings.js";

export const place = "explore"; // the address is #explore=7x6x4:4455
const empty = "7x6x4:-";

// address returns the address of a position in this view.
export function address(position) {
  return `#${place}=${position}`;
}

export class Explorer {
  // The view calls report with an error to show, or null.
  constructor(config, report) {
    this.config = config;
    this.report = report;
    this.work = new AbortController();
    this.scores = new Map(); // exact scores by position, as far as this page has received them
    this.board = new Board($("explore-board"), { played: (move) => this.play(move), key: (what) => what === "undo" && this.back() });
    this.kept = new Kept($("explore-tree"), $("explore-kept"), { go: (position) => this.go(position), value: (position) => this.verdict(position), report });
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

  go(position) {
    location.hash = address(position);
  }

  // open shows a position of the address.
  async open(text) {
    const wanted = text || this.game?.position || empty;
    try {
      this.game = await post("/ui/game", { position: wanted, human: [true, true] });
    } catch (e) {
      this.report(e);
      if (!this.game && wanted !== empty) {
        await this.open(empty);
        this.report(e);
      }
      return;
    }
    this.report(null);
    this.draw();
    this.look();
  }

  // show opens or leaves the view; address is its part of the page's address. A hidden view sends no requests.
  show(shown, address) {
    if (shown) {
      this.open(address.split("=")[1]);
    } else {
      this.work.abort();
    }
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
    for (const [id, kind] of [["explore-play", "#"], ["explore-review", "#review="], ["explore-search", "#tree="]]) {
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

  // row creates the row of a move: a button, its score, and the games in which it was played.
  row(name, legal) {
    if (!legal) {
      return null;
    }
    const worth = make("td", { class: "exact-worth" }, "–"), games = make("td", { class: "games" });
    const move = make("th", { scope: "row" }, make("button", { type: "button", "data-move": name, "aria-label": say("explore.play", { move: name }) }, name));
    const element = make("tr", {}, move, worth, games);
    return { element, worth, games };
  }

  // look requests the exact scores of the moves, and how often they were played.
  async look() {
    this.work.abort();
    this.work = new AbortController();
    const { signal } = this.work, game = this.game;
    if (game.result) {
      return;
    }
    const hear = (m) => {
      if (!signal.aborted && m.type === "exact") {
        this.scores.set(game.position, m);
        this.fill(m);
        this.kept.values();
      }
    };
    try {
      if (this.config.games) {
        const { moves } = await post("/ui/played", { position: game.position }, signal);
        moves.forEach((m, a) => this.rows[a] && setText(this.rows[a].games, m.games ? say("explore.games", { n: count(m.games), share: Math.round(100 * (m.wins + m.draws / 2) / m.games) }) : ""));
      }
      const known = this.scores.get(game.position);
      if (!known?.done) {
        await patiently(() => lines("/ui/analyze", { position: game.position, visits: 0, solve: true, known: known?.scores }, signal, hear), signal, () => {});
        this.fill(this.scores.get(game.position), true);
      }
    } catch (e) {
      if (!aborted(e) && !signal.aborted) {
        this.report(e);
      }
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
