// What a learner can do next, the most useful first: the visitor's own mistakes, the last game, puzzles and openings.
import { $, make } from "./dom.js";
import { recall } from "./storage.js";
import { due, stored } from "./store.js";
import { say } from "./strings.js";

export class Next {
  show(shown) {
    if (!shown) {
      return;
    }
    const mistakes = due().length, { last } = recall();
    const steps = [
      ...(mistakes ? [["#puzzles=mistakes", "mistakes", { n: mistakes }]] : []),
      ...(typeof last === "string" ? [["#review=" + last, "game", {}]] : [["#", "play", {}]]),
      ["#puzzles=daily", "daily", {}],
      ["#puzzles=next", "near", { rating: stored().rating }],
      ["#drill", "drill", {}],
      ["#review", "paste", {}],
    ];
    $("steps").replaceChildren(...steps.map(([href, name, values], i) => make("li", {},
      make("a", { class: "button" + (i ? "" : " primary"), href }, say("learn." + name, values)), " ", make("span", { class: "help" }, say(`learn.${name}.text`)))));
  }
}
