// The opinions of the network, the search and the solver on each move: a table under the board, and a summary beside it.
import { $, count, make, setText } from "./dom.js";
import { term } from "./words.js";

// hundredths formats a value in -1..1 in hundredths. It never shows 100, which stands for a proved win.
export function hundredths(value) {
  const n = Math.min(Math.max(Math.round(100 * value), -99), 99);
  return n > 0 ? "+" + n : String(n);
}

function tone(value) {
  return value > 0.1 ? "good" : value < -0.1 ? "bad" : "even";
}

const proved = { win: ["win", "good"], draw: ["draw", "even"], loss: ["loss", "bad"] };

// worth returns what the search knows about a move, as text and tone.
function worth(move) {
  if (move.result) {
    return proved[move.result];
  }
  return move.visits ? [hundredths(move.q), tone(move.q)] : ["", ""];
}

function scoreText(score) {
  return score > 0 ? "+" + score : String(score);
}

// head returns a row's title: an explained word, and a part that changes.
function head(word, text) {
  return [term(word, text), make("span")];
}

export class Opinions {
  // seconds is the longest time that the server may take; goOn asks it for the missing exact scores.
  constructor(seconds, goOn) {
    this.table = $("opinions");
    this.seconds = seconds;
    $("solve-on").addEventListener("click", () => {
      this.spent += seconds;
      this.progress();
      $("exact-text").focus(); // the button disappears
      goOn();
    });
  }

  // build makes the table for a game's moves.
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
        cell.append(make("div", { class: "bar " + bar, "aria-hidden": "true" }, make("i")), make("span"));
      }
      return cell;
    });
    this.names = row(["Move"], game.names.map((name) => make("div", { role: "columnheader" }, name)));
    this.names.element.firstChild.classList.add("unseen");
    this.policy = row(head("policy", "Network"), cells("policy"));
    this.search = row(head("search", "Search"), cells("visits"));
    this.exact = row(head("exact", "Exact score"), cells(""));
    this.table.replaceChildren(...[this.names, this.policy, this.search, this.exact].map((r) => r.element));
  }

  // reset clears the opinions; shown says which rows to show.
  reset(game, shown) {
    if (this.rules !== game.rules) {
      this.build(game);
    }
    this.game = game;
    this.best = -1;
    this.last = null;
    this.scores = null;
    this.over = false;
    this.spent = this.seconds;
    setText(this.policy.rest, ", in %");
    setText(this.search.rest, "");
    $("solve-on").hidden = true;
    this.search.element.hidden = !shown.search;
    this.exact.element.hidden = !shown.exact;
    for (const r of [this.policy, this.search]) {
      r.cells.forEach((c) => this.bar(c, 0, "", ""));
    }
    this.exact.cells.forEach((c) => { c.textContent = ""; c.className = ""; });
    this.names.cells.forEach((c) => c.classList.remove("best"));
    $("wdl").replaceChildren();
    setText($("wdl-text"), "–");
    setText($("search-text"), shown.search ? "–" : "off");
    setText($("exact-text"), shown.exact ? "–" : "off");
    $("line").replaceChildren();
  }

  bar(cell, share, text, kind) {
    const [bar, label] = cell.children;
    bar.firstChild.style.height = 100 * share + "%";
    setText(label, text);
    label.className = kind;
  }

  // share draws the shares of win, draw and loss.
  share(wdl) {
    $("wdl").replaceChildren(...wdl.map((share) => {
      const part = make("i");
      part.style.width = 100 * share + "%";
      return part;
    }));
  }

  // opinion shows the evaluator's own opinion, or that of the rules in its place.
  opinion(m) {
    const network = ["gpu", "cpu", "fast", "cache"].includes(m.source);
    const by = { rules: "The rules", forced: "The one move" }[m.source] ?? (network ? `Network ${m.model}` : `Heuristic ${m.source}`);
    setText(this.policy.word, by);
    const most = Math.max(...m.policy, 1e-9);
    this.policy.cells.forEach((c, a) => {
      this.bar(c, m.policy[a] / most, this.game.legal[a] ? String(Math.round(100 * m.policy[a])) : "", "");
    });
    this.share(m.wdl);
    const [win, draw, loss] = m.wdl.map((x) => Math.round(100 * x));
    setText($("wdl-text"), `win ${win}%, draw ${draw}%, loss ${loss}%` + (network ? "" : ` (${m.source})`));
  }

  // searched shows what the search knows so far.
  searched(m) {
    this.last = m;
    this.best = m.best;
    setText(this.search.rest, `, ${count(m.visits)} ${m.visits === 1 ? "position" : "positions"} tried`);
    const most = Math.max(1, ...m.moves.map((x) => x.visits));
    m.moves.forEach((x, a) => {
      const [text, kind] = this.game.legal[a] ? worth(x) : ["", ""];
      this.bar(this.search.cells[a], x.visits / most, text, kind);
      this.names.cells[a].classList.toggle("best", a === m.best);
    });
    setText($("search-text"), m.error || `${this.value(m)}, ${count(m.visits)} ${m.visits === 1 ? "position" : "positions"} tried${m.done ? ", done" : ""}`);
    const stones = m.line.map((name, i) => {
      const side = (this.game.side + i) % 2;
      const stone = make("li", { class: "s" + (1 + side) }, make("span", {}, name));
      stone.setAttribute("aria-label", `${["red", "yellow"][side]} ${name}`);
      return stone;
    });
    $("line").replaceChildren(...stones);
  }

  value(m) {
    return m.result ? `proved ${m.result}` : `${hundredths(m.value)} for the side to move`;
  }

  // solved shows what the solver knows so far.
  solved(m) {
    this.scores = m;
    const known = m.scores.filter((s) => s !== null);
    const best = known.length ? Math.max(...known) : null;
    m.scores.forEach((s, a) => {
      const cell = this.exact.cells[a];
      cell.textContent = s === null ? "" : scoreText(s);
      cell.className = s === null ? "" : (s > 0 ? "good" : s < 0 ? "bad" : "even") + (m.done && s === best ? " best" : "");
    });
    if (m.error) {
      setText($("exact-text"), m.error);
    } else if (m.done) {
      setText($("exact-text"), this.verdict(best));
    } else {
      this.progress();
    }
  }

  verdict(best) {
    const result = best > 0 ? "win" : best < 0 ? "loss" : "draw";
    return `${scoreText(best)}, a ${result}: ${this.withScore(best)}`;
  }

  withScore(score) {
    return this.game.names.filter((_, a) => this.scores.scores[a] === score).join(", ");
  }

  progress() {
    $("solve-on").hidden = true;
    setText($("exact-text"), this.scores ? `${this.scores.solved} of ${this.scores.legal} moves solved, the others follow ..` : "–");
  }

  // unsolved shows what is known when the time is over, and offers to continue.
  unsolved() {
    const known = this.scores?.scores.filter((s) => s !== null) ?? [];
    if (!known.length) {
      setText($("exact-text"), `No move was solved in ${this.spent} s: exact scores take longer where so much of the board is empty.`);
    } else {
      const best = Math.max(...known);
      setText($("exact-text"), `${known.length} of ${this.scores.legal} moves solved in ${this.spent} s, the best of them ${this.withScore(best)} with ${scoreText(best)}.`);
    }
    $("solve-on").hidden = false;
  }

  // ended says what was not finished in time.
  ended(m) {
    if (m.error) {
      setText($("search-text"), m.error);
    } else if (this.last && !this.last.done && !this.over) {
      setText($("search-text"), $("search-text").textContent + ", time over");
    }
    this.over = true;
    if (!this.exact.element.hidden && !this.scores?.done && !this.scores?.error) {
      this.unsolved();
    }
  }

  // finished shows how the game ended, in place of opinions.
  finished(game) {
    const won = game.result === "won";
    const winner = ["Red", "Yellow"][1 - game.side];
    this.share(won ? [1, 0, 0] : [0, 1, 0]);
    setText($("wdl-text"), won ? `${winner} has won` : "a draw");
    setText($("search-text"), "the game is over");
    setText($("exact-text"), won ? `${winner} wins: the result` : "a draw: the result");
  }

  // notes returns the exact scores or the search's values, for the empty cells of a game without gravity.
  notes() {
    return this.game.names.map((_, a) => {
      if (this.scores && this.scores.scores[a] !== null) {
        const s = this.scores.scores[a];
        return { text: scoreText(s), kind: s > 0 ? "good" : s < 0 ? "bad" : "even" };
      }
      const [text, kind] = this.last ? worth(this.last.moves[a]) : ["", ""];
      return { text, kind };
    });
  }

  // advice returns the best move in words.
  advice() {
    if (this.scores && this.scores.done) {
      const known = this.scores.scores.filter((s) => s !== null);
      return "Exact: " + this.verdict(Math.max(...known));
    }
    if (this.last && this.best >= 0) {
      return `Search: ${this.game.names[this.best]}, ${this.value(this.last)}`;
    }
    return this.search.element.hidden && this.exact.element.hidden ? "Search and exact scores are off" : "Nothing is known yet";
  }
}
