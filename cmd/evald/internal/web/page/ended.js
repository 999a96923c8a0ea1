// After a game: who has won, where the visitor gave the game away, and the way to the better move.
import { aborted, patiently, post } from "./api.js";
import { $, setText } from "./dom.js";
import { keep } from "./storage.js";
import { remember } from "./store.js";
import { say } from "./strings.js";

const given = ["win-loss", "win-draw", "draw-loss"]; // marks of moves that change the result

export class Ended {
  // show is called with the game on the board, even if it is unchanged; human says for each side whether the visitor plays it.
  async show(game, human, signal) {
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
      this.position = game.position;
      const mistakes = reviewed.moves.map((m, i) => i).filter((i) => i % 2 === visitor && given.includes(reviewed.moves[i].mark));
      if (mistakes.length > 0) {
        const [first] = mistakes;
        const was = reviewed.moves[first].mark === "draw-loss" ? "ended.drawing" : "ended.winning";
        this.tell(`${text} ${say(was, { move: first + 1 })}`, game.position, first);
        await this.keepMistake(game, reviewed, first, signal);
      }
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

  // keepMistake makes the mistake one of the visitor's puzzles.
  async keepMistake(game, reviewed, at, signal) {
    const { best } = await patiently(() => post("/ui/why", { position: game.position, move: at }, signal), signal, () => {});
    if (best?.length) {
      remember(`${game.rules}:${game.moves.slice(0, at).join(reviewed.separator) || "-"}`, best[0]);
      setText($("ended-text"), `${$("ended-text").textContent} ${say("ended.tomorrow")}`);
    }
  }
}
