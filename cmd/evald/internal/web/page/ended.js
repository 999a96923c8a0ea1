// After a game: who has won, where the visitor gave the game away, and the way to the better move.
import { aborted, patiently, post } from "./api.js";
import { $, setText } from "./dom.js";
import { keep } from "./storage.js";
import { remember } from "./store.js";
import { say } from "./strings.js";

// givenAway reports whether a reviewed move changes the result.
export const givenAway = (move) => ["win-loss", "win-draw", "draw-loss"].includes(move.mark);

export class Ended {
  // show is called with the game on the board, even if it is unchanged; human says for each side whether the visitor plays it, and positionAt
  // returns the position after a number of moves.
  async show(game, human, positionAt, signal) {
    const visitor = human[0] === human[1] ? -1 : human.indexOf(true);
    $("ended").hidden = game.result === "" || visitor < 0;
    if ($("ended").hidden || this.position === game.position) {
      return;
    }
    const text = say(game.result === "draw" ? "ended.draw" : visitor === game.side ? "ended.lost" : "ended.won");
    this.tell(text, game.position, -1);
    keep({ last: game.position });
    try {
      const reviewed = await patiently(() => post("/ui/review", { game: game.position }, signal), signal, () => {});
      const first = reviewed.moves.findIndex((m, i) => i % 2 === visitor && givenAway(m));
      if (first >= 0) {
        const was = reviewed.moves[first].mark === "draw-loss" ? "ended.drawing" : "ended.winning";
        this.tell(`${text} ${say(was, { move: first + 1 })}`, game.position, first);
        await this.keepMistake(game.position, first, positionAt(first), signal);
      }
      this.position = game.position;
    } catch (e) {
      if (!aborted(e)) {
        setText($("ended-text"), text);
      }
    }
  }

  // tell shows a text and the link to the review, at a move if there is a mistake.
  tell(text, position, mistake) {
    setText($("ended-text"), text);
    $("ended-review").href = `#review=${position}` + (mistake < 0 ? "" : `&move=${mistake + 1}`);
    setText($("ended-review"), say(mistake < 0 ? "ended.review" : "ended.better"));
  }

  // keepMistake makes a move of a game one of the visitor's puzzles; before is the position before it.
  async keepMistake(position, move, before, signal) {
    const { best } = await patiently(() => post("/ui/why", { position, move }, signal), signal, () => {});
    if (best.length) {
      remember(before, best[0]);
      setText($("ended-text"), `${$("ended-text").textContent} ${say("ended.tomorrow")}`);
    }
  }
}
