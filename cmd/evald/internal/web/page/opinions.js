// The opinions of the network, the search and the solver on each move: a table under the board, and a summary beside it. All are shown as Red's
// and Yellow's chances, whichever side is to move.
import { certain, chance, forRed, results, scored, sides } from "./chances.js";
import { $, count, make, setText } from "./dom.js";
import { say } from "./strings.js";
import { term } from "./words.js";

const nothing = { text: "", long: "", kind: "" };

function capital(text) {
  return text[0].toUpperCase() + text.slice(1);
}

// head returns the title of a row: a word with an explanation, and a part that changes.
function head(word, text) {
  return [term(word, text), make("span")];
}

const mostTurns = 12; // maximum number of automatic turns of the solver

export class Opinions {
  // seconds is the server's time limit. Opinions calls goOn to request the missing exact scores.
  constructor(seconds, goOn) {
    this.table = $("opinions");
    this.seconds = seconds;
    $("solve-on").addEventListener("click", () => {
      this.further();
      $("exact-text").focus(); // because the button disappears
      goOn();
    });
  }

  // further begins another turn of the solver.
  further() {
    this.spent += this.seconds;
    this.progress();
  }

  // goOn begins another automatic turn of the solver if scores are missing, at most mostTurns times. It returns whether there is another turn.
  goOn() {
    const more = !$("solve-on").hidden && this.spent < mostTurns * this.seconds;
    if (more) {
      this.further();
    }
    return more;
  }

  // build creates the table for a game's moves.
  build(game) {
    this.rules = game.rules;
    const row = (title, cells) => {
      const element = make("div", { role: "row", class: "row" }, make("div", { role: "rowheader" }, ...title), ...cells);
      const [word, rest] = title;
      return { element, word, rest, cells };
    };
    const cells = (bar) => game.names.map(() => {
      const cell = make("div", { role: "cell" });
      if (bar) {
        cell.append(make("div", { class: "bar " + bar, "aria-hidden": "true" }, make("i")));
      }
      cell.append(make("span", { "aria-hidden": "true" }), make("span", { class: "unseen" }));
      return cell;
    });
    this.names = row([say("opinions.move")], game.names.map((name) => make("div", { role: "columnheader" }, name)));
    this.names.element.classList.add("unseen");
    this.policy = row(head("policy", say("opinions.sight")), cells("policy"));
    this.search = row(head("search", say("word.search")), cells("visits"));
    this.exact = row(head("exact", say("word.exact")), cells(""));
    this.table.replaceChildren(...[this.names, this.policy, this.search, this.exact].map((r) => r.element));
  }

  // reset clears the opinions; shown says which ones to show.
  reset(game, shown) {
    if (this.rules !== game.rules) {
      this.build(game);
    }
    this.game = game;
    this.shown = shown;
    this.best = -1;
    this.last = null;
    this.scores = null;
    this.over = false;
    this.spent = this.seconds;
    setText(this.policy.rest, ", " + say("opinions.percent"));
    setText(this.search.rest, "");
    $("solve-on").hidden = true;
    this.policy.element.hidden = !shown.sight;
    this.search.element.hidden = !shown.search;
    this.exact.element.hidden = !shown.exact;
    for (const r of [this.policy, this.search]) {
      r.cells.forEach((c) => this.bar(c, 0, nothing));
    }
    this.exact.cells.forEach((c) => this.write(c, nothing));
    $("wdl").replaceChildren();
    setText($("wdl-text"), shown.sight ? "–" : say("opinions.off"));
    setText($("search-text"), shown.search ? "–" : say("opinions.off"));
    setText($("exact-text"), shown.exact ? "–" : say("opinions.off"));
    $("line").replaceChildren();
  }

  bar(cell, share, worth) {
    cell.firstChild.firstChild.style.height = 100 * share + "%";
    this.write(cell, worth);
  }

  // write writes a short text into a cell, and a long one for screen readers.
  write(cell, { text, long, kind }) {
    const [seen, heard] = [...cell.children].slice(-2);
    setText(seen, text);
    setText(heard, long);
    seen.className = kind;
  }

  // chances draws the shares of Red's wins, draws and Yellow's wins, in this order.
  chances(shares) {
    $("wdl").replaceChildren(...["red", "even", "yellow"].map((kind, i) => {
      const part = make("i", { class: kind });
      part.style.width = 100 * shares[i] + "%";
      return part;
    }));
  }

  // opinion shows the evaluator's opinion, or the result by the rules in its place.
  opinion(m) {
    if (!this.shown.sight) {
      return;
    }
    const network = ["gpu", "cpu", "fast", "cache"].includes(m.source);
    const by = { rules: say("opinions.by.rules"), forced: say("opinions.by.forced") }[m.source] ??
      (network ? say("opinions.by.network", { name: m.model }) : say("opinions.by.heuristic", { name: m.source }));
    setText(this.policy.word, by);
    const most = Math.max(...m.policy, 1e-9);
    this.policy.cells.forEach((c, a) => {
      const text = this.game.legal[a] ? String(Math.round(100 * m.policy[a])) : "";
      this.bar(c, m.policy[a] / most, { text, long: text && text + "%", kind: "" });
    });
    const shares = this.game.side === 0 ? m.wdl : [...m.wdl].reverse();
    this.chances(shares);
    const [red, draw, yellow] = shares.map((x) => Math.round(100 * x));
    setText($("wdl-text"), say("chance.shares", { red, draw, yellow }) + (network ? "" : ` (${m.source})`));
  }

  // worth describes the search's result for a move.
  worth(a) {
    const move = this.last.moves[a];
    if (!this.game.legal[a] || (!move.visits && !move.result)) {
      return nothing;
    }
    return move.result ? certain(forRed(this.game, results[move.result])) : chance(forRed(this.game, move.q));
  }

  // searched shows the search's results so far.
  searched(m) {
    if (!this.shown.search) {
      return;
    }
    this.last = m;
    this.best = m.best;
    const tried = say(m.visits === 1 ? "opinions.tried.one" : "opinions.tried", { n: count(m.visits) });
    setText(this.search.rest, ", " + tried);
    const most = Math.max(1, ...m.moves.map((x) => x.visits));
    m.moves.forEach((x, a) => this.bar(this.search.cells[a], x.visits / most, this.worth(a)));
    setText($("search-text"), m.error || `${capital(this.value(m))}, ${tried}` + (m.done ? ", " + say("opinions.done") : ""));
    if (!this.scores?.done) {
      this.draw(m.line);
    }
  }

  // draw shows the expected moves: those of best play once all is solved, before that those of the search.
  draw(line) {
    const stones = line.map((name, i) => {
      const side = (this.game.side + i) % 2;
      const stone = make("li", { class: "s" + (1 + side) }, make("span", {}, name));
      stone.setAttribute("aria-label", `${sides()[side]} ${name}`);
      return stone;
    });
    $("line").replaceChildren(...stones);
  }

  value(m) {
    return m.result ? say("opinions.proved", { result: certain(forRed(this.game, results[m.result])).long }) : chance(forRed(this.game, m.value)).long;
  }

  // solved shows the solver's results so far.
  solved(m) {
    if (!this.shown.exact) {
      return;
    }
    this.scores = m;
    const known = m.scores.filter((s) => s !== null);
    const best = known.length ? Math.max(...known) : null;
    m.scores.forEach((s, a) => {
      this.write(this.exact.cells[a], s === null ? nothing : scored(this.game, s));
    });
    if (m.error) {
      setText($("exact-text"), m.error);
    } else if (m.done) {
      this.draw(m.line ?? []);
      setText($("exact-text"), capital(say("opinions.exact.best", { result: this.score(best), moves: this.withScore(best) })));
    } else {
      this.progress();
    }
  }

  score(score) {
    return scored(this.game, score).long;
  }

  withScore(score) {
    return this.game.names.filter((_, a) => this.scores.scores[a] === score).join(", ");
  }

  progress() {
    $("solve-on").hidden = true;
    setText($("exact-text"), this.scores ? say("opinions.exact.progress", { n: this.scores.solved, all: this.scores.legal }) : "–");
  }

  // unsolved shows the scores known when the time is over, and offers to continue.
  unsolved() {
    const known = this.scores?.scores.filter((s) => s !== null) ?? [];
    if (!known.length) {
      setText($("exact-text"), say("opinions.exact.none", { seconds: this.spent }));
    } else {
      const best = Math.max(...known);
      setText($("exact-text"), say("opinions.exact.some", { n: known.length, all: this.scores.legal, seconds: this.spent, moves: this.withScore(best), result: this.score(best) }));
    }
    $("solve-on").hidden = false;
  }

  // ended shows which opinions were not finished in time.
  ended(m) {
    if (m.error && this.shown.search) {
      setText($("search-text"), m.error);
    } else if (this.last && !this.last.done && !this.over) {
      setText($("search-text"), $("search-text").textContent + ", " + say("opinions.time"));
    }
    this.over = true;
    if (this.shown.exact && !this.scores?.done && !this.scores?.error) {
      this.unsolved();
    }
  }

  // finished shows the result of the game in place of opinions.
  finished(game) {
    const result = game.result === "won" ? forRed(game, -1) : 0;
    this.chances([Number(result > 0), Number(result === 0), Number(result < 0)]);
    setText($("wdl-text"), result ? say("opinions.has.won", { side: sides()[result > 0 ? 0 : 1] }) : say("chance.draw"));
    setText($("search-text"), say("opinions.over"));
    setText($("exact-text"), say("opinions.result", { result: certain(result).long }));
  }

  // notes returns the exact scores or the search's values, for the empty cells of a game without gravity.
  notes() {
    return this.game.names.map((_, a) => {
      if (this.scores && this.scores.scores[a] !== null) {
        return scored(this.game, this.scores.scores[a]);
      }
      return this.last ? this.worth(a) : nothing;
    });
  }
}
