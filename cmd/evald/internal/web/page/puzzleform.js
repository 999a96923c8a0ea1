// The elements of the puzzles view, which are created when the view is first opened.
import { make } from "./dom.js";
import { say } from "./strings.js";

const themes = ["double-threat", "attack", "sacrifice", "defence", "tempo", "zugzwang", "plan", "hold"];

const button = (id, text, more = {}) => make("button", { type: "button", id, ...more }, text);

// style loads the view's style sheet. It returns when the sheet is loaded, so that the elements are never shown without it.
export function style() {
  const link = make("link", { rel: "stylesheet", href: new URL("puzzles.css", import.meta.url) });
  return new Promise((resolve) => {
    link.addEventListener("load", resolve);
    link.addEventListener("error", resolve);
    document.head.append(link);
  });
}

// layout creates the elements in the view's section, and returns the names of the themes.
export function layout(section) {
  const table = make("div", { class: "table" },
    make("h2", { id: "puzzle-title" }, say("puzzles.puzzle")),
    make("p", { id: "puzzle-status", role: "status" }, say("puzzles.looking")),
    make("div", { class: "scroll" }, make("div", { class: "fit" },
      make("div", { id: "puzzle-board", class: "board", role: "group" }),
      make("div", { id: "puzzle-scores", role: "table", "aria-label": say("puzzles.scores"), hidden: "" }))),
    make("div", { "aria-live": "polite" },
      make("p", { id: "puzzle-verdict", hidden: "" }),
      make("p", { id: "puzzle-kind", class: "note", hidden: "" })),
    make("div", { id: "puzzle-why", hidden: "" },
      make("h3", { id: "puzzle-follows" }, say("puzzles.follows")),
      make("ol", { id: "puzzle-line", "aria-labelledby": "puzzle-follows" }),
      make("p", { id: "puzzle-end", role: "status" })),
    make("div", { class: "buttons", role: "group", "aria-label": say("puzzles.puzzle") },
      button("puzzle-again", say("puzzles.again"), { hidden: "" }),
      button("puzzle-show", say("puzzles.show")),
      button("puzzle-more", say("puzzles.more")),
      make("a", { id: "puzzle-on", class: "button", href: "#" }, say("puzzles.on"))));
  const side = make("div", { class: "side" },
    make("section", { "aria-labelledby": "puzzle-you" },
      make("h2", { id: "puzzle-you" }, say("puzzles.you")),
      make("p", { class: "rating" }, make("strong", { id: "puzzle-rating" }), " ", make("span", { id: "puzzle-count" }))),
    make("section", { "aria-labelledby": "puzzle-choose" },
      make("h2", { id: "puzzle-choose" }, say("puzzles.choose")),
      make("div", { class: "buttons" },
        button("puzzle-daily", say("puzzles.daily")),
        button("puzzle-next", say("puzzles.next")),
        button("puzzle-review", say("puzzles.review", { count: 0 }))),
      make("p", { class: "pick" }, make("label", { for: "puzzle-theme" }, say("puzzles.theme")), " ",
        make("select", { id: "puzzle-theme" }, make("option", { value: "" }, say("puzzles.any")))),
      make("p", { class: "help" }, say("puzzles.help"))),
    make("section", { "aria-labelledby": "puzzle-yours" },
      make("h2", { id: "puzzle-yours" }, say("puzzles.yours")),
      make("p", { id: "puzzle-kept", class: "help" }),
      make("div", { class: "buttons" },
        button("puzzle-save", say("puzzles.save")),
        button("puzzle-delete", say("puzzles.delete"))),
      make("p", { class: "file" }, make("label", { for: "puzzle-file" }, say("puzzles.load")), " ",
        make("input", { type: "file", id: "puzzle-file", accept: "application/json,.json" })),
      make("p", { id: "puzzle-data", role: "status", class: "help" })));
  section.replaceChildren(table, side);
  return themes;
}
