// The tree of a search as nested lists that can be folded, beside the board in Study.
import { aborted, patiently, post } from "./api.js";
import { verdict } from "./chances.js";
import { $, count, make, setText } from "./dom.js";
import { say } from "./strings.js";

const sides = ["", "side.red", "side.yellow"]; // by player

export class Tree {
  // models are the names of the networks and heuristics that may search. Tree calls address with a position for a link to it.
  constructor(config, models, address) {
    this.address = address;
    $("tree-model").replaceChildren(...models.map((name) => make("option", {}, name)));
    for (const option of $("tree-visits").options) {
      option.disabled = Number(option.value) > config.visits;
    }
    for (const id of ["tree-model", "tree-visits", "tree-prove"]) {
      $(id).addEventListener("change", () => this.search());
    }
    $("tree-unfold").addEventListener("click", () => this.fold(true));
    $("tree-fold").addEventListener("click", () => this.fold(false));
  }

  // show shows the tree of a position, or of none if the game is over or the tree is closed.
  show(position) {
    if (position !== this.position || !position) {
      this.position = position;
      this.search();
    }
  }

  async search() {
    this.stop?.abort();
    $("tree-moves").replaceChildren();
    if (!this.position) {
      setText($("tree-status"), "");
      return;
    }
    this.stop = new AbortController();
    const { signal } = this.stop;
    const busy = (e) => setText($("tree-status"), e.message);
    setText($("tree-status"), say("tree.searching"));
    const request = {
      position: this.position, model: $("tree-model").value, visits: Number($("tree-visits").value), unproved: !$("tree-prove").checked,
    };
    try {
      this.draw(await patiently(() => post("/ui/tree", request, signal), signal, busy));
    } catch (e) {
      if (!aborted(e)) {
        setText($("tree-status"), e.message);
      }
    }
  }

  draw(tree) {
    const root = { visits: count(tree.visits), value: verdict(tree.to_move, tree.value, tree.proved).long };
    const none = tree.moves.length ? "" : " " + say("tree.none", { line: tree.pv });
    setText($("tree-status"), say("tree.root", root) + none);
    const [rules, moves] = tree.position.split(":");
    const joint = /\d\d\.|\.\d/.test(moves) || tree.pv.includes(".") ? "." : "";
    const most = Math.max(1, ...tree.moves.map((m) => m.visits));
    // item returns the element of a move with the moves after it; before are the moves before it.
    const item = (m, before, depth = 0) => {
      const path = before === "-" ? m.move : before + joint + m.move;
      const value = verdict(m.player, m.value, m.proved).long;
      const bar = make("meter", { min: 0, max: most, value: Math.min(m.visits, most), "aria-hidden": "true" });
      const words = [
        make("span", { class: "tree-move" }, make("span", { class: "disc s" + m.player, "aria-hidden": "true" }), make("span", { class: "unseen" }, say(sides[m.player])), " ", m.move,
          ...(m.line ? [" ", make("strong", { class: "tree-expected" }, say("tree.expected"))] : [])),
        make("span", {}, count(m.visits), make("span", { class: "unseen" }, " " + say("tree.visits"))),
        make("span", {}, `${Math.round(100 * m.prior)}%`, make("span", { class: "unseen" }, " " + say("tree.share"))),
        make("span", {}, value), bar,
      ];
      words[0].style.setProperty("--depth", String(depth));
      const to = make("a", { href: this.address(`${rules}:${path}`), "aria-label": `${say("tree.play")}: ${path}` }, "\u2192");
      if (!m.moves) {
        return make("li", { class: m.line ? "main" : "" }, make("div", { class: "leaf" }, ...words), to, ...rest(m.left_out, depth + 1));
      }
      const details = make("details", {}, make("summary", {}, ...words), make("ul", {}, ...m.moves.map((next) => item(next, path, depth + 1)), ...rest(m.left_out, depth + 1, "li")));
      details.open = Boolean(m.line);
      return make("li", { class: m.line ? "main" : "" }, details, to);
    };
    // rest returns an element with the number of moves that are not shown, if there are any.
    const rest = (n, depth, element = "span") => {
      const left = make(element, { class: "tree-left" }, say("tree.left", { n }));
      left.style.setProperty("--depth", String(depth));
      return n ? [left] : [];
    };
    $("tree-moves").replaceChildren(...tree.moves.map((m) => item(m, moves)), ...rest(tree.left_out, 0, "li"));
  }

  fold(open) {
    for (const details of $("tree-moves").querySelectorAll("details")) {
      details.open = open;
    }
  }
}
