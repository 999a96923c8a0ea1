// Words that need an explanation. The explanation appears beside a word that is pointed at, focused or tapped, and a list at
// the end of the page has all of them.
import { $, make } from "./dom.js";

const words = {
  policy: ["At sight: the moves", "What the network, or the heuristic in its place, thinks at sight, without any search: how likely each move is the best, in percent. The rules answer in its place where they decide: a win at once, or a threat that must be met."],
  sight: ["At sight: the result", "How likely the side to move wins, draws and loses, as the network or the heuristic sees it at first sight."],
  search: ["Search", "The evaluator looks ahead, again and again, most often along the moves that look best. A bar shows how often a move was tried, the number below what it is worth in hundredths: +100 is a certain win, -100 a certain loss. Win, draw and loss are proved."],
  expected: ["Expected", "The moves that the search thinks will follow, if both sides play their best."],
  exact: ["Exact score", "What a move is worth if nobody errs from there on, by calculation to the end of the game: 0 is a draw, above 0 wins and below 0 loses, and the further from 0 the sooner."],
  value: ["Value", "How good a position is for Red, in hundredths: +100 is a certain win for Red, -100 one for Yellow. Results in words are exact."],
  level: ["Level", "An opponent under a short name. Which program each is stands under \"All agents\"."],
  agent: ["Agent", "A program that chooses moves, with its settings, such as how many positions it may try."],
  position: ["Position", "The board's columns, rows and how many in a row win, then the moves by their columns in the order of play."],
  batch: ["Batch", "Positions that are evaluated together, because that is faster than one at a time. A row is one of them."],
  cache: ["Cache", "Answers that were given before and are kept, so that they need not be found again."],
  loss: ["Loss", "How far a network's answers are from the right ones while it learns; less is better."],
  elo: ["Elo", "A number for playing strength: 100 more win about 64% of the points against 100 less."],
  perfect: ["Perfect moves", "The share of positions where the likeliest move is one of those with the best exact score. Good moves keep the result: a win stays a win."],
  critical: ["Critical positions", "Those where some move would worsen the result, so that there is something to go wrong."],
};

// term marks up a word of the list, under its own title or the given text.
export function term(word, text = words[word][0]) {
  return mark(make("abbr", { "data-word": word }, text));
}

function mark(element) {
  element.tabIndex = 0;
  element.setAttribute("aria-describedby", "word-" + element.dataset.word);
  return element;
}

// explain writes the list, and attaches the explanations to the words of the page.
export function explain() {
  $("words").replaceChildren(...Object.entries(words).map(([word, [name, text]]) => make("div", {}, make("dt", {}, name), make("dd", { id: "word-" + word }, text))));
  document.querySelectorAll("abbr[data-word]").forEach(mark);
  const tip = $("tip");
  let about = null, timer = 0;
  const hide = () => {
    clearTimeout(timer);
    about = null;
    tip.hidden = true;
  };
  const place = () => { // the page may scroll under it
    if (about?.isConnected) {
      const at = about.getBoundingClientRect();
      const below = at.bottom + 6;
      tip.style.left = Math.max(8, Math.min(at.left, innerWidth - tip.offsetWidth - 8)) + "px";
      tip.style.top = (below + tip.offsetHeight < innerHeight ? below : Math.max(8, at.top - 6 - tip.offsetHeight)) + "px";
      requestAnimationFrame(place);
    } else {
      hide();
    }
  };
  const show = (element) => {
    const placed = about !== null;
    clearTimeout(timer);
    about = element;
    tip.textContent = words[element.dataset.word][1];
    tip.hidden = false;
    if (!placed) {
      place();
    }
  };
  const word = (e) => e.target.closest?.("abbr[data-word]");
  document.addEventListener("pointerover", (e) => {
    if (word(e)) {
      show(word(e));
    } else if (e.target === tip) {
      clearTimeout(timer);
    } else if (about && about !== document.activeElement) {
      timer = setTimeout(hide, 200); // the pointer may move over to it
    }
  });
  document.addEventListener("focusin", (e) => (word(e) ? show(word(e)) : hide()));
  document.addEventListener("focusout", hide);
  document.addEventListener("keydown", (e) => {
    if (e.key === "Escape") {
      hide();
    }
  });
}
