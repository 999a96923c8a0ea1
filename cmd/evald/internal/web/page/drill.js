// The drill: the visitor plays Red from the empty board, which Red wins with the right moves, and must never give the win away. The page
// plays Yellow, and prefers moves that lead to positions that the visitor has missed.
import { aborted, post } from "./api.js";
import { Board } from "./board.js";
import { scored } from "./chances.js";
import { $, make, setText } from "./dom.js";
import { solve } from "./follow.js";
import { Store, object } from "./storage.js";
import { remember } from "./store.js";
import { say } from "./strings.js";
import { lineWords } from "./why.js";

const start = "7x6x4:-"; // the first player wins it (Allis 1988, Allen 1988)
const storage = "evald.drill";
const enough = 2; // right answers in a row after which a missed position is learned

// checked returns the positions that the visitor has missed, with the number of right answers in a row since then.
function checked(missed) {
  return Object.fromEntries(Object.entries(object(missed)).filter(([position, n]) => /^7x6x4:[-1-7]+$/.test(position) && Number.isInteger(n)));
}

// after returns the position after one more move.
function after(position, move) {
  return position.replace(":-", ":") + move;
}

export class Drill {
  // The view calls report with an error to show, or null.
  constructor(report) {
    this.report = report;
    this.store = new Store(storage, () => ({}), checked);
    this.store.watch(() => this.count());
    this.work = new AbortController();
    this.exact = new Map(); // exact scores by position
    this.board = new Board($("drill-board"), { played: (move) => this.play(move), key: () => {} });
    $("drill-new").addEventListener("click", () => this.begin());
    $("drill-forget").addEventListener("click", () => {
      this.store.remove();
      this.begin();
    });
  }

  // show opens or leaves the view. When it is opened again, the game continues.
  show(shown) {
    if (!shown) {
      this.work.abort();
    } else if (!this.game) {
      this.begin();
    } else {
      this.work = new AbortController();
      this.go({ position: this.game.position }, this.work.signal);
    }
  }

  async begin() {
    this.work.abort();
    this.work = new AbortController();
    const { signal } = this.work;
    await this.try(signal, async () => {
      this.wrong = false;
      this.say(say("drill.begin"));
      await this.go({ position: start }, signal);
    });
  }

  // try runs work and reports its error, unless the visitor has left the view.
  async try(signal, work) {
    try {
      await work();
    } catch (e) {
      if (!aborted(e) && !signal.aborted) {
        this.report(e);
      }
    }
  }

  async go(body, signal) {
    this.game = await post("/ui/game", { human: [true, true], ...body }, signal);
    this.draw();
  }

  // scoresOf returns the exact scores of all moves of a position.
  async scoresOf(position, signal) {
    for (let last = null; !this.exact.has(position);) {
      last = await solve(position, signal, last?.scores);
      if (last?.done) {
        this.exact.set(position, last.scores);
      } else {
        this.say(say("drill.slow"));
      }
    }
    return this.exact.get(position);
  }

  async play(move) {
    const g = this.game, action = g?.names.indexOf(move);
    if (!g || g.result || g.side !== 0 || this.busy || !g.legal[action]) {
      return;
    }
    this.busy = true;
    const { signal } = this.work;
    await this.try(signal, async () => {
      const scores = await this.scoresOf(g.position, signal);
      if (scores[action] > 0) {
        await this.right(g, move, scores, action, signal);
      } else {
        this.refuse(g, move, scores, action);
      }
    });
    this.busy = false;
  }

  // refuse tells the visitor what a wrong move gives away, and notes the position as missed.
  refuse(g, move, scores, action) {
    this.wrong = true;
    this.store.change((missed) => { missed[g.position] = 0; });
    const keeps = g.names.filter((_, a) => scores[a] !== null && scores[a] > 0);
    remember(g.position, keeps[0]); // the position also returns among the puzzles, some days later
    this.say(say(scores[action] === 0 ? "drill.draws" : "drill.loses", { move }), say("drill.keeps", { moves: keeps.join(", ") }));
    $("drill-why").hidden = false;
    $("drill-why").href = "#review=" + after(g.position, move);
    this.explain(after(g.position, move), g.made);
    this.draw();
  }

  // explain adds how the game is decided after a wrong move, such as by threats or zugzwang.
  async explain(position, move) {
    const { signal } = this.work;
    await this.try(signal, async () => {
      const game = await post("/ui/review", { game: position }, signal);
      const why = await post("/ui/why", { position, move }, signal);
      if ($("drill-why").hash === "#review=" + position && !$("drill-why").hidden) {
        setText($("drill-more"), $("drill-more").textContent + " " + lineWords(game, move, why));
      }
    });
  }

  // right plays the visitor's right move, and Yellow's reply.
  async right(g, move, scores, action, signal) {
    if (g.position in this.store.get() && !this.wrong) {
      this.store.change((missed) => {
        if (g.position in missed && ++missed[g.position] >= enough) {
          delete missed[g.position];
        }
      });
    }
    this.wrong = false;
    const quickest = Math.max(...scores.filter((s) => s !== null));
    this.say(say(scores[action] === quickest ? "drill.quickest" : "drill.slower", { move, worth: scored(g, scores[action]).long }));
    $("drill-why").hidden = true;
    await this.go({ position: g.position, do: "play", move }, signal);
    if (this.game.result) {
      this.say(say("drill.won", { n: Math.ceil(this.game.made / 2) }));
      return;
    }
    const reply = await this.reply(this.game, signal);
    await this.go({ position: this.game.position, do: "play", move: reply }, signal);
  }

  // reply chooses Yellow's move: one that leads to a missed position, else usually one that delays the loss longest, and sometimes any move, so
  // that the visitor sees all lines.
  async reply(g, signal) {
    const moves = g.names.filter((_, a) => g.legal[a]);
    const due = moves.filter((move) => Object.keys(this.store.get()).some((position) => position.startsWith(after(g.position, move))));
    if (due.length > 0) {
      return due[Math.floor(Math.random() * due.length)];
    }
    const scores = await this.scoresOf(g.position, signal);
    const longest = Math.max(...scores.filter((s) => s !== null));
    const hard = g.names.filter((_, a) => scores[a] === longest);
    const from = Math.random() < 0.75 ? hard : moves;
    return from[Math.floor(Math.random() * from.length)];
  }

  say(text, more = "") {
    setText($("drill-said"), text);
    setText($("drill-more"), more);
  }

  draw() {
    const g = this.game;
    this.board.show(g, g.side === 0 && !g.result);
    this.count();
    $("drill-line").replaceChildren(...g.moves.slice(0, g.made).map((name, i) => make("li", { class: "s" + (1 + i % 2) }, make("span", {}, name))));
  }

  // count shows the number of missed positions.
  count() {
    const due = Object.keys(this.store.get()).length;
    setText($("drill-due"), due ? say("drill.due", { n: due }) : say("drill.none"));
  }
}
