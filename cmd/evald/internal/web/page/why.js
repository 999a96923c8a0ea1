// The texts of a review.
import { chance, sides } from "./chances.js";
import { make } from "./dom.js";
import { say } from "./strings.js";

export function side(s) {
  return sides()[s];
}

// cellWords names a cell by its column and its row, which counts from the bottom or, without gravity, from the top.
export function cellWords(game, i) {
  const row = Math.floor(i / game.columns);
  return say("review.cell", { column: (i % game.columns) + 1, row: game.gravity ? game.rows - row : row + 1 });
}

export function isMistake(m) {
  return m.mark !== "best" && m.mark !== "kept" && m.mark !== "unproved";
}

const doubtful = 15; // hundredths of a point that a move must give away to be called a likely mistake

// doubt returns what move i gives away by the search's opinion, in hundredths of a point of the side that moved, if it is not proved whether
// the move keeps the result and the opinion is that it is likely a mistake; else 0.
export function doubt(game, i) {
  const worth = (p) => p.value ?? p.least;
  const lost = Math.round(50 * (worth(game.positions[i]) - worth(game.positions[i + 1])) * (i % 2 ? -1 : 1));
  return game.moves[i].mark === "unproved" && lost >= doubtful ? lost : 0;
}

// markText returns a move's mark for the list of moves: a short text, empty if nothing is given away.
export function markText(game, i) {
  const m = game.moves[i];
  switch (m.mark) {
    case "best":
      return "";
    case "unproved":
      if (doubt(game, i)) {
        return say("review.short.doubt", { n: doubt(game, i) });
      }
      break;
    case "slower":
    case "sooner":
      return say("review.short." + m.mark, { n: (m.atLeast ? "≥" : "") + m.by });
  }
  return say("review.short." + m.mark);
}

// moveWords names move i and the side that played it.
export function moveWords(game, i) {
  return say("review.caption", { n: i + 1, side: side(i % 2), name: game.moves[i].move });
}

// markWords returns a sentence that says what a move gives away.
export function markWords(game, i) {
  const m = game.moves[i];
  if (doubt(game, i)) {
    return say("review.mark.doubt", { n: doubt(game, i) });
  }
  return say("review.mark." + m.mark + (m.by === 1 && !m.atLeast ? ".one" : ""), { n: m.atLeast ? say("review.atleast", { n: m.by }) : m.by });
}

// resultText describes the result after a number of moves.
export function resultText(game, at) {
  const p = game.positions[at];
  if (at === game.moves.length && game.over) {
    return p.least === 0 ? say("review.result.drawn") : say("review.result.won", { side: side(p.least > 0 ? 0 : 1) });
  }
  if (p.least === p.most) {
    if (p.least === 0) {
      return say("review.result.draw");
    }
    const winner = side(p.least > 0 ? 0 : 1);
    return p.in ? say(p.in === 1 ? "review.result.in.one" : "review.result.in", { side: winner, n: p.in }) : say("review.result.win", { side: winner });
  }
  const bound = p.least === 0 ? say("review.bound.atleast", { side: side(0) }) : p.most === 0 ? say("review.bound.atleast", { side: side(1) }) : "";
  const opinion = p.value === null ? "" : say("review.opinion", { value: chance(p.value).long });
  return [say("review.result.open"), bound, opinion].filter(Boolean).join(" ");
}

// lineWords explains why move i is a mistake.
export function lineWords(game, i, why) {
  const m = game.moves[i];
  const words = [];
  if (why.best.length) {
    words.push(say("review.best", { moves: why.best.join(", ") }));
  }
  if (m.mark === "win-draw" || m.mark === "slower") {
    words.push(say("review.why.instead"), endWords(game, why.instead, null));
    if (m.mark === "win-draw") {
      words.push(say("review.why.after"), endWords(game, why.after, m));
    }
  } else {
    words.push(say("review.why.after"), endWords(game, why.after, m));
  }
  return words.join(" ");
}

// endWords explains how a line is decided. mistake is the move before it, or null.
export function endWords(game, line, mistake) {
  if (line.how === "open") {
    return say(line.proved ? "review.end.proved" : "review.end.open");
  }
  if (line.how === "draw") {
    return say("review.end.draw");
  }
  const winner = side(line.side), loser = side(1 - line.side);
  const cells = line.cells.map((c) => cellWords(game, c)).join("; ");
  const values = { winner, loser, cells, k: game.rules.match(/x(\d+)(free)?$/)[1], n: line.at, last: cellWords(game, line.last) };
  const one = line.at === 1 ? ".one" : "";
  switch (line.how) {
    case "at-once": {
      const below = mistake && game.gravity && mistake.cell - game.columns === line.last;
      return say("review.end.atonce", values) + (mistake ? " " + say(below ? "review.end.below" : "review.end.missed") : "");
    }
    case "zugzwang":
      return say("review.end.zugzwang" + one, values) + " " + parity(game, line, values);
  }
  return say("review.end." + line.how + one, values);
}

// parity explains why the winner gets the cells of a zugzwang, if the reason is that all are in odd or in even rows. With an even number of rows
// the first side gets the odd rows in the end, and the second side, which answers in the same column, the even ones.
function parity(game, line, values) {
  if (!game.gravity || game.rows % 2) {
    return "";
  }
  const rows = new Set(line.cells.map((c) => (game.rows - Math.floor(c / game.columns)) % 2));
  const wanted = line.side === 0 ? 1 : 0;
  return rows.size === 1 && rows.has(wanted) ? say(line.side === 0 ? "review.end.odd" : "review.end.even", values) : "";
}

// accuracyTable returns a table by side and phase, and its explanation.
export function accuracyTable(game) {
  const phases = ["opening", "middle", "end"];
  const sum = (all) => all.reduce((a, b) => ({ critical: a.critical + b.critical, kept: a.kept + b.kept, slower: a.slower + b.slower, open: a.open + b.open }));
  const share = (a) => (a.critical ? make("td", {}, make("b", {}, Math.round((100 * a.kept) / a.critical) + "%"), " ", make("small", {}, say("review.of", { kept: a.kept, critical: a.critical }))) : make("td", {}, "–"));
  const names = [...phases, "whole"];
  const all = game.accuracy.map((own) => [...own, sum(own)]); // by side and name
  const head = make("tr", {}, make("th", { scope: "col" }, say("review.phase")), ...all.map((_, s) => make("th", { scope: "col" }, side(s))));
  const rows = names.map((name, k) => make("tr", {}, make("th", { scope: "row" }, say("review.phase." + name)), ...all.map((own) => share(own[k]))));
  const table = make("table", { class: "accuracy" }, make("thead", {}, head), make("tbody", {}, ...rows));
  const [red, yellow] = game.accuracy.map(sum);
  const notes = [say("review.accuracy.means"), say("review.accuracy.slower", { red: red.slower, yellow: yellow.slower })];
  if (red.open + yellow.open) {
    notes.push(say("review.accuracy.open", { n: red.open + yellow.open }));
  }
  return [table, make("p", { class: "help" }, notes.join(" "))];
}
