// Words with an explanation. The explanation appears beside a word that is pointed at, focused or tapped. A list at the end of the page has all
// words with their explanations.
import { $, make } from "./dom.js";
import { say } from "./strings.js";

const words = ["policy", "sight", "search", "expected", "exact", "value", "level", "agent", "position", "loss", "elo", "perfect", "critical"];

// term returns an element for a word of the list, with the word's title or the given text.
export function term(word, text = say("word." + word)) {
  return mark(make("abbr", { "data-word": word }, text));
}

function mark(element) {
  element.tabIndex = 0;
  element.setAttribute("aria-describedby", "word-" + element.dataset.word);
  return element;
}

// explain fills the list, and adds the explanations to the words on the page.
export function explain() {
  $("words").replaceChildren(...words.map((word) => make("div", {}, make("dt", {}, say("word." + word)), make("dd", { id: "word-" + word }, say(`word.${word}.text`)))));
  document.querySelectorAll("abbr[data-word]").forEach(mark);
  const tip = $("tip");
  let about = null, timer = 0;
  const hide = () => {
    clearTimeout(timer);
    about = null;
    tip.hidden = true;
  };
  const place = () => { // is called again when the page scrolls
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
    tip.textContent = say(`word.${element.dataset.word}.text`);
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
      timer = setTimeout(hide, 200); // so that the pointer can move to the explanation
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
