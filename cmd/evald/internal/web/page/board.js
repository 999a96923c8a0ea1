// The board: one button per move. A move is a column or, without gravity, a cell. Only the server knows the rules of the game.
import { make } from "./dom.js";
import { say } from "./strings.js";

const stones = ["board.empty", "board.red", "board.yellow"];

// fit passes the size of a game's board to the style sheet, which makes the cells as large as the window allows. The board's element must be
// inside an element of class scroll.
export function fit(element, game) {
  const scroll = element.closest(".scroll");
  for (const [name, value] of [["--columns", game.columns], ["--rows", game.rows], ["--moves", game.names?.length ?? game.columns]]) {
    scroll.style.setProperty(name, String(value));
  }
  scroll.classList.toggle("free", !game.gravity);
}

// coordinates writes the names of the columns under a board with gravity, and returns their elements. The cells of other boards have names.
export function coordinates(element, game) {
  const names = (game.gravity ? game.names : []).map((name) => make("span", {}, name));
  const row = element.parentElement.querySelector(":scope > .names") ?? make("div", { class: "names", "aria-hidden": "true" });
  row.replaceChildren(...names);
  element.after(row);
  return names;
}

export class Board {
  // The board calls played with the name of a move, and key with "undo", "redo" or "hint".
  constructor(element, { played, key }) {
    this.element = element;
    this.played = played;
    this.key = key;
    this.buttons = []; // by action
    this.holes = []; // by cell
    this.marks = []; // ranks of the marked best moves by action, from 1
    this.focus = 0;
    element.addEventListener("keydown", (e) => this.keydown(e));
    element.addEventListener("click", (e) => {
      const action = this.buttons.indexOf(e.target.closest("button"));
      if (action >= 0) {
        this.choose(action);
      }
    });
    element.addEventListener("focusin", (e) => this.rove(this.buttons.indexOf(e.target)));
  }

  choose(action) {
    this.rove(action);
    this.played(this.game.names[action]);
  }

  // build creates the buttons for a game.
  build(game) {
    this.buttons = [];
    this.holes = new Array(game.rows * game.columns);
    this.element.classList.toggle("free", !game.gravity);
    this.element.replaceChildren();
    const cell = (i) => {
      this.holes[i] = make("span", { class: "hole" });
      return make("span", { class: "cell", "aria-hidden": "true" }, this.holes[i]);
    };
    for (let a = 0; a < game.names.length; a++) {
      const button = make("button", { type: "button", tabindex: "-1" });
      if (game.gravity) {
        for (let row = 0; row < game.rows; row++) {
          button.append(cell(row * game.columns + a));
        }
      } else {
        button.append(cell(a));
        this.holes[a].setAttribute("data-name", game.names[a]);
      }
      this.buttons.push(button);
      this.element.append(button);
    }
    this.names = coordinates(this.element, game);
    this.focus = Math.floor(game.gravity ? game.columns / 2 : game.names.length / 2);
    this.rove(this.focus);
  }

  // show draws a game; open says whether a person may move now.
  show(game, open) {
    const before = this.game;
    if (!before || before.rules !== game.rules) {
      this.build(game);
      fit(this.element, game);
    }
    this.game = game;
    this.element.setAttribute("aria-label", say("board.label", { columns: game.columns, rows: game.rows }));
    game.cells.forEach((side, i) => {
      const marks = ["hole"];
      if (side) {
        marks.push("s" + side);
      }
      if (game.winning.includes(i)) {
        marks.push("won");
      } else if (i === game.last) {
        marks.push("last");
        if (game.gravity && before && before.rules === game.rules && before.made + 1 === game.made) {
          marks.push("new");
          this.holes[i].style.setProperty("--fall", String(1 + Math.floor(i / game.columns)));
        }
      }
      this.holes[i].className = marks.join(" ");
      this.holes[i].textContent = "";
    });
    this.notes = [];
    this.buttons.forEach((button, a) => {
      button.setAttribute("aria-disabled", String(!(open && game.legal[a])));
    });
    this.mark([]);
  }

  // mark marks the best moves in the cells in which their stones would land. ranks are by action, 0 or missing for moves without a mark.
  mark(ranks) {
    this.marks = ranks;
    this.buttons.forEach((button, a) => {
      const hole = this.holes[this.landing(a)];
      for (const other of button.querySelectorAll("[data-rank]")) {
        other.removeAttribute("data-rank");
      }
      if (ranks[a] && hole) {
        hole.setAttribute("data-rank", ranks[a]);
      }
      button.setAttribute("aria-label", this.label(a));
    });
    this.names.forEach((name, a) => name.classList.toggle("best", ranks[a] === 1));
  }

  // landing returns the cell in which the stone of a move would land, or -1 if there is none.
  landing(a) {
    const g = this.game;
    if (!g.gravity) {
      return g.cells[a] ? -1 : a;
    }
    for (let i = (g.rows - 1) * g.columns + a; i >= 0; i -= g.columns) {
      if (!g.cells[i]) {
        return i;
      }
    }
    return -1;
  }

  // label describes the stones in a column, or the stone in a cell, and the move's mark and note.
  label(a) {
    const worth = this.notes[a] ? ", " + say("board.worth", { worth: this.notes[a] }) : "";
    const mark = this.marks[a] ? ", " + (this.marks[a] === 1 ? say("board.best") : say("board.rank", { rank: this.marks[a] })) : "";
    return this.stones(a) + worth + mark;
  }

  stones(a) {
    const g = this.game;
    if (!g.gravity) {
      const won = g.winning.includes(a) ? ", " + say("board.line") : "";
      return say("board.cell", { name: g.names[a], row: 1 + Math.floor(a / g.columns), column: 1 + (a % g.columns), stone: say(stones[g.cells[a]]) }) + won;
    }
    const column = [];
    for (let row = g.rows - 1; row >= 0; row--) {
      const i = row * g.columns + a;
      if (g.cells[i]) {
        column.push(say(stones[g.cells[i]]) + (g.winning.includes(i) ? ` (${say("board.winning")})` : ""));
      }
    }
    const full = column.length === g.rows ? ", " + say("board.full") : "";
    return say("board.column", { name: g.names[a], stones: column.join(", ") || say("board.empty") }) + full;
  }

  // note writes the values of moves into the empty cells of a game without gravity: a short text, and a long one for screen readers.
  note(texts) {
    if (this.game && !this.game.gravity) {
      texts.forEach(({ text, long, kind }, a) => {
        if (!this.game.cells[a]) {
          this.holes[a].textContent = text;
          this.holes[a].className = "hole " + kind;
          this.notes[a] = long.includes(text) ? long : `${text}, ${long}`;
          this.buttons[a].setAttribute("aria-label", this.label(a));
        }
      });
    }
  }

  // rove makes a button the only tab stop of the board.
  rove(action) {
    if (action >= 0 && action < this.buttons.length) {
      this.buttons[this.focus]?.setAttribute("tabindex", "-1");
      this.focus = action;
      this.buttons[action].setAttribute("tabindex", "0");
    }
  }

  keydown(e) {
    if (e.ctrlKey || e.metaKey || e.altKey || !this.game) {
      return;
    }
    const steps = { ArrowLeft: -1, ArrowRight: 1 };
    if (!this.game.gravity) {
      Object.assign(steps, { ArrowUp: -this.game.columns, ArrowDown: this.game.columns });
    }
    const ends = { Home: 0, End: this.buttons.length - 1 };
    const named = this.game.names.indexOf(e.key);
    if (e.key in steps || e.key in ends) {
      const to = e.key in ends ? ends[e.key] : this.focus + steps[e.key];
      if (to >= 0 && to < this.buttons.length) {
        this.rove(to);
        this.buttons[to].focus();
      }
    } else if (named >= 0) {
      this.choose(named);
      this.buttons[named].focus();
    } else if (e.key === "Backspace") {
      this.key(e.shiftKey ? "redo" : "undo");
    } else if (e.key === "?") {
      this.key("hint");
    } else {
      return;
    }
    e.preventDefault();
  }
}
