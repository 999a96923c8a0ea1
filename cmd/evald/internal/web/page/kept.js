// The lines that a visitor keeps, as a tree, in the browser's storage and in files.
import { $, make, setText } from "./dom.js";
import { Store, object } from "./storage.js";
import { say } from "./strings.js";

const storage = "evald.explorer";
const mostMoves = 128, mostNote = 500, mostNodes = 20000; // limits of a file

// fresh returns a node: { next: {move: node}, note }. There is a tree for each game's rules.
function fresh() {
  return { next: {} };
}

// checked returns a copy of trees from a file or the storage with only the known fields. It throws if they are invalid.
export function checked(trees) {
  let nodes = 0;
  const copy = (node, depth) => {
    if (typeof node !== "object" || node === null || depth > mostMoves || ++nodes > mostNodes) {
      throw new Error(say("explore.wrongFile"));
    }
    const own = fresh();
    if (typeof node.note === "string") {
      own.note = node.note.slice(0, mostNote);
    }
    for (const [move, next] of Object.entries(node.next ?? {})) {
      if (!/^\w{1,3}$/.test(move)) {
        throw new Error(say("explore.wrongFile"));
      }
      own.next[move] = copy(next, depth + 1);
    }
    return own;
  };
  return Object.fromEntries(Object.entries(object(trees)).map(([rules, node]) => {
    if (!/^\d{1,3}x\d{1,3}x\d{1,3}(free)?$/.test(rules)) {
      throw new Error(say("explore.wrongFile"));
    }
    return [rules, copy(node, 0)];
  }));
}

// size returns the number of positions in trees.
export function size(trees) {
  const count = (node) => Object.values(node.next).reduce((n, next) => n + count(next), 1);
  return Object.values(trees).reduce((n, node) => n + count(node), 0);
}

// merge adds the lines and notes of other trees to trees. If a position has two different notes, it gets both.
export function merge(trees, others) {
  const add = (to, from) => {
    if (from.note && !to.note?.includes(from.note)) {
      to.note = (to.note ? `${to.note}; ${from.note}` : from.note).slice(0, mostNote);
    }
    for (const [move, next] of Object.entries(from.next)) {
      add(to.next[move] ??= fresh(), next);
    }
  };
  for (const [rules, node] of Object.entries(others)) {
    add(trees[rules] ??= fresh(), node);
  }
}

// path returns the node after moves of a game, which it creates if there is none.
function path(trees, rules, moves) {
  return moves.reduce((node, move) => node.next[move] ??= fresh(), trees[rules] ??= fresh());
}

// find returns the node of a position, or undefined.
function find(trees, position) {
  const [rules, moves] = split(position);
  return moves.reduce((node, move) => node?.next[move], trees[rules]);
}

export class Kept {
  // list and status are the elements for the tree and a message. Kept calls go with a position to show, and value for a short verdict on a position.
  constructor(list, status, { go, value, report }) {
    this.list = list;
    this.status = status;
    this.value = value;
    this.report = report;
    this.store = new Store(storage, () => ({}), checked);
    this.store.watch(() => this.rules && this.show(this.rules, this.position));
    list.addEventListener("click", (e) => {
      const button = e.target.closest("button");
      if (button?.dataset.remove) {
        this.remove(button.dataset.remove);
      } else if (button?.dataset.position) {
        go(button.dataset.position);
      }
    });
    $("explore-save").addEventListener("click", () => this.save());
    $("explore-load").addEventListener("change", async (e) => {
      try {
        const read = checked(JSON.parse(await e.target.files[0].text()));
        report(null);
        this.change((trees) => merge(trees, read));
      } catch {
        report(new Error(say("explore.wrongFile")));
      }
      e.target.value = "";
    });
  }

  // keep adds a line to the tree of its game. It returns whether the browser has stored it.
  keep(rules, moves) {
    return this.change((trees) => { path(trees, rules, moves); });
  }

  noteOf(position) {
    return find(this.store.get(), position)?.note ?? "";
  }

  // note stores the visitor's note about a position. It returns whether the browser has stored it.
  note(position, text) {
    const note = text.slice(0, mostNote) || undefined;
    return this.change((trees) => {
      if (note || find(trees, position)) {
        path(trees, ...split(position)).note = note;
      }
    });
  }

  // remove removes a position and all lines through it.
  remove(position) {
    this.change((trees) => {
      const [rules, moves] = split(position);
      const last = moves.pop();
      if (last === undefined) {
        delete trees[rules];
      } else {
        delete find(trees, join(rules, moves))?.next[last];
      }
    });
  }

  // change changes what is stored, which other tabs may have changed too, and returns whether the browser has stored it. Trees that would be too
  // large are not changed, because they could not be read again; change then reports this and returns undefined.
  change(by) {
    const changed = structuredClone(this.store.get());
    by(changed);
    const fits = size(changed) <= mostNodes;
    if (!fits) {
      this.report(new Error(say("explore.tooMany", { n: mostNodes })));
      return undefined;
    }
    const stored = this.store.change(by);
    this.show(this.rules, this.position);
    return stored;
  }

  save() {
    const link = make("a", { download: "evald-lines.json", href: URL.createObjectURL(new Blob([JSON.stringify(this.store.get())], { type: "application/json" })) });
    link.click();
    URL.revokeObjectURL(link.href);
  }

  // show lists the tree of a game; position is the position on the board.
  show(rules, position) {
    this.rules = rules;
    this.position = position;
    const tree = this.store.get()[rules];
    const focused = this.list.contains(document.activeElement) ? document.activeElement.dataset.position : undefined;
    const known = tree && Object.keys(tree.next).length > 0;
    this.list.replaceChildren(...(known ? this.branches(rules, tree, []) : []));
    setText(this.status, this.store.kept ? (known ? "" : say("explore.nothing")) : say("explore.notStored"));
    if (focused !== undefined) {
      [...this.list.querySelectorAll("button")].find((b) => b.dataset.position === focused)?.focus();
    }
  }

  // branches returns an item for each move after a node. Moves without alternatives share an item.
  branches(rules, node, before) {
    return Object.entries(node.next).map(([move, next]) => {
      const item = make("li"), moves = [...before, move];
      const start = join(rules, moves);
      item.append(this.button(rules, moves, next));
      while (Object.keys(next.next).length === 1) {
        const [only] = Object.keys(next.next);
        next = next.next[only];
        moves.push(only);
        item.append(" ", this.button(rules, moves, next));
      }
      item.append(" ", make("button", { type: "button", class: "remove", "data-remove": start, "aria-label": say("explore.remove", { line: moves.join(" ") }) }, "×"));
      if (Object.keys(next.next).length > 0) {
        item.append(make("ul", {}, ...this.branches(rules, next, moves)));
      }
      return item;
    });
  }

  button(rules, moves, node) {
    const position = join(rules, moves);
    const button = make("button", { type: "button", "data-position": position, class: "stone s" + (1 + (moves.length - 1) % 2) }, moves.at(-1), make("small", {}, this.value(position)));
    if (position === this.position) {
      button.setAttribute("aria-current", "step");
    }
    if (node.note) {
      button.title = node.note;
      button.append(make("span", { class: "unseen" }, node.note), make("span", { "aria-hidden": "true" }, "…"));
    }
    return button;
  }

  // values updates the verdicts after a position was solved.
  values() {
    for (const button of this.list.querySelectorAll("button[data-position] > small")) {
      setText(button, this.value(button.parentElement.dataset.position));
    }
  }
}

// split returns the rules and moves of a position; join is its inverse.
export function split(position) {
  const [rules, text] = position.split(":");
  return [rules, text === "-" ? [] : dotted(rules) ? text.split(".") : [...text]];
}

function join(rules, moves) {
  return `${rules}:${moves.join(dotted(rules) ? "." : "") || "-"}`;
}

// dotted reports whether dots separate the moves of a game, because it has more moves than there are characters for them.
function dotted(rules) {
  const [columns, rows] = rules.split("x").map(Number);
  return (rules.endsWith("free") ? columns * rows : columns) > 61;
}
