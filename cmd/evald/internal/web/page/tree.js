// The tree of a search as nested lists that can be folded; the address is #tree=7x6x4:4455.
import { Refusal, aborted, patiently, post } from "./api.js";
import { certain, chance } from "./chances.js";
import { $, count, make, setText } from "./dom.js";
import { enter, orderNote } from "./position.js";
import { say } from "./strings.js";

const sides = ["", "side.red", "side.yellow"]; // by player

const results = { win: 1, draw: 0, loss: -1 };

// verdict describes a proved result or a value of a player, 1 or 2, as Red's or Yellow's chances.
function verdict(player, value, proved) {
  const forRed = player === 1 ? 1 : -1;
  return (proved ? certain(forRed * results[proved]) : chance(forRed * value)).long;
}

export class TreeView {
  constructor(config) {
    this.most = config.visits;
    this.position = ""; // the last position shown
    for (const option of $("tree-visits").options) {
      option.disabled = Number(option.value) > this.most;
    }
    $("tree-form").addEventListener("submit", (e) => {
      e.preventDefault();
      enter($("tree-position"), (position) => {
        const address = "#tree=" + position;
        if (location.hash === address) {
          this.search();
        } else {
          location.hash = address;
        }
      }, (error) => setText($("tree-status"), error.message));
    });
    $("tree-prove").addEventListener("change", () => this.search());
    $("tree-unfold").addEventListener("click", () => this.fold(true));
    $("tree-fold").addEventListener("click", () => this.fold(false));
  }

  // show opens or leaves the view; address is its part of the page's address.
  show(shown, address) {
    this.stop?.abort();
    this.position = shown ? address.split("=")[1] || this.position || "-" : this.position;
    if (shown) {
      $("tree-position").value = this.position;
      this.search();
    }
  }

  async search() {
    this.stop?.abort();
    this.stop = new AbortController();
    const { signal } = this.stop;
    const busy = (e) => setText($("tree-status"), e.message);
    setText($("tree-status"), say("tree.searching"));
    $("tree-moves").replaceChildren();
    $("tree-position").removeAttribute("aria-invalid");
    const request = { position: this.position, visits: Math.min(this.most, Number($("tree-visits").value)), unproved: !$("tree-prove").checked };
    try {
      this.draw(await patiently(() => post("/ui/tree", request, signal), signal, busy));
    } catch (e) {
      if (!aborted(e)) {
        setText($("tree-status"), e.message);
        $("tree-position").setAttribute("aria-invalid", String(e instanceof Refusal && e.field === "position"));
      }
    }
  }

  draw(tree) {
    const root = { visits: count(tree.visits), value: verdict(tree.to_move, tree.value, tree.proved) };
    const none = tree.moves.length ? "" : " " + say("tree.none", { line: tree.pv });
    const field = $("tree-position");
    if (field.value === this.position && document.activeElement !== field) { // the address may have another form; who types is not disturbed
      field.value = tree.position;
    }
    this.position = tree.position;
    setText($("tree-status"), [say("tree.root", root) + none, orderNote(tree.position)].join(" ").trim());
    const [rules, moves] = tree.position.split(":");
    const joint = /\d\d\.|\.\d/.test(moves) || tree.pv.includes(".") ? "." : "";
    const most = Math.max(1, ...tree.moves.map((m) => m.visits));
    // item returns the element of a move with the moves after it; before are the moves before it.
    const item = (m, before, depth = 0) => {
      const path = before === "-" ? m.move : before + joint + m.move;
      const value = verdict(m.player, m.value, m.proved);
      const bar = make("meter", { min: 0, max: most, value: Math.min(m.visits, most), "aria-hidden": "true" });
      const words = [
        make("span", { class: "tree-move" }, make("span", { class: "disc s" + m.player, "aria-hidden": "true" }), make("span", { class: "unseen" }, say(sides[m.player])), " ", m.move,
          ...(m.line ? [" ", make("strong", { class: "tree-expected" }, say("tree.expected"))] : [])),
        make("span", {}, count(m.visits), make("span", { class: "unseen" }, " " + say("tree.visits"))),
        make("span", {}, `${Math.round(100 * m.prior)}%`, make("span", { class: "unseen" }, " " + say("tree.share"))),
        make("span", {}, value), bar,
      ];
      words[0].style.setProperty("--depth", String(depth));
      const to = make("a", { href: `#${rules}:${path}`, "aria-label": `${say("tree.play")}: ${path}` }, "\u2192");
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
