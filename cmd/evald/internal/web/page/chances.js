// Converts values, scores and results to Red's or Yellow's chances, whichever side is to move.
import { say } from "./strings.js";

export const sides = () => [say("side.red"), say("side.yellow")];

const kinds = ["red", "yellow"];
const draw = () => ({ text: say("chance.draw"), long: say("chance.draw"), kind: "even" });

// forRed converts a value for the side to move to one for Red.
export function forRed(game, value) {
  return game.side === 0 ? value : -value;
}

// chance describes an estimate for Red, -1..1: the side that is ahead and its share of the points in percent. text is short, for a cell of a
// table; long is for sentences. The share is at most 99, because 100 would mean a certain win.
export function chance(value) {
  const percent = Math.min(Math.max(Math.round(50 + 50 * value), 1), 99);
  if (percent === 50) {
    return { text: "50%", long: say("chance.even"), kind: "even" };
  }
  const side = percent > 50 ? 0 : 1;
  const share = side === 0 ? percent : 100 - percent;
  return { text: `${say("side.initial." + kinds[side])} ${share}%`, long: say("chance.ahead", { side: sides()[side], percent: share }), kind: kinds[side] };
}

// certain describes a result for Red: 1, 0 or -1.
export function certain(result) {
  if (result === 0) {
    return draw();
  }
  const side = result > 0 ? 0 : 1;
  return { text: say("chance.win.short", { side: say("side.initial." + kinds[side]) }), long: say("chance.wins", { side: sides()[side] }), kind: kinds[side] };
}

export const results = { win: 1, draw: 0, loss: -1 };

// verdict describes a result that is proved, "win", "draw" or "loss", or else a value; both are for the player, 1 or 2.
export function verdict(player, value, proved) {
  const forRed = player === 1 ? 1 : -1;
  return proved ? certain(forRed * results[proved]) : chance(forRed * value);
}

// scored describes the exact score of a move of the side to move in a game: a draw, or the winner and the number of stones that it still has to
// place.
export function scored(game, score) {
  if (score === 0) {
    return draw();
  }
  const side = score > 0 ? game.side : 1 - game.side, n = stonesLeft(Math.abs(score), side, game);
  return { text: say("chance.in.short", { side: say("side.initial." + kinds[side]), n }), long: say("chance.in", { side: sides()[side], n }), kind: kinds[side] };
}

// stonesLeft returns the number of stones that the winner still has to place. A score is (cells + 1 - stones before the winning one) / 2.
function stonesLeft(score, wins, game) {
  const cells = game.cells.length, stones = game.cells.filter(Boolean).length;
  for (let before = stones + (wins === game.side ? 0 : 1), n = 1; before < cells; before += 2, n++) {
    if (Math.floor((cells + 1 - before) / 2) === score) {
      return n;
    }
  }
  return 1;
}
