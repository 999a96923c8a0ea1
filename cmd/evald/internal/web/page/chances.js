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
    return { text: "50", long: say("chance.even"), kind: "even" };
  }
  const side = percent > 50 ? 0 : 1;
  const share = side === 0 ? percent : 100 - percent;
  return { text: `${say("side.initial." + kinds[side])} ${share}`, long: say("chance.ahead", { side: sides()[side], percent: share }), kind: kinds[side] };
}

// certain describes a result for Red: 1, 0 or -1.
export function certain(result) {
  if (result === 0) {
    return draw();
  }
  const side = result > 0 ? 0 : 1;
  return { text: say("chance.win.short", { side: say("side.initial." + kinds[side]) }), long: say("chance.wins", { side: sides()[side] }), kind: kinds[side] };
}

// scored describes an exact score for Red: the winner, and a number that is higher for a faster win.
export function scored(score) {
  if (score === 0) {
    return { ...draw(), text: "0" };
  }
  const side = score > 0 ? 0 : 1, number = Math.abs(score);
  return { text: `${say("side.initial." + kinds[side])} ${number}`, long: say("chance.score", { side: sides()[side], score: number }), kind: kinds[side] };
}
