// The board: one button per move; a move is a column with gravity, a cell without. The board knows no rules; the server does.
import { make } from "./dom.js";

const stones = ["empty", "red", "yellow"];

export class Board {
  // played is called with a move's name, key with "undo", "redo" or "hint".
  constructor(element, { played, key }) {
    this.element = element;
    this.played = played;
    this.key = key;
    this.buttons = []; // by action
    this.holes = []; // by cell
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

  // build makes the buttons for a game.
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
    this.focus = Math.floor(game.gravity ? game.columns / 2 : game.names.length / 2);
    this.rove(this.focus);
  }

  // show draws a game; open says whether a person may play now.
  show(game, open) {
    const before = this.game;
    if (!before || before.rules !== game.rules) {
      this.build(game);
    }
    this.game = game;
    this.element.setAttribute("aria-label", `Board, ${game.columns} columns, ${game.rows} rows`);
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
    this.buttons.forEach((button, a) => {
      button.setAttribute("aria-label", this.label(a));
      button.setAttribute("aria-disabled", String(!(open && game.legal[a])));
    });
  }

  // label describes the stones in a column, or the stone on a cell.
  label(a) {
    const g = this.game;
    if (!g.gravity) {
      const won = g.winning.includes(a) ? ", in the winning line" : "";
      return `${g.names[a]}: row ${1 + Math.floor(a / g.columns)}, column ${1 + (a % g.columns)}, ${stones[g.cells[a]]}${won}`;
    }
    const column = [];
    for (let row = g.rows - 1; row >= 0; row--) {
      const i = row * g.columns + a;
      if (g.cells[i]) {
        column.push(stones[g.cells[i]] + (g.winning.includes(i) ? " (winning)" : ""));
      }
    }
    const full = column.length === g.rows ? ", full" : "";
    return `Column ${g.names[a]}: ${column.length ? column.join(", ") : "empty"}${full}`;
  }

  // note writes texts into the empty cells of a game without gravity.
  note(texts) {
    if (this.game && !this.game.gravity) {
      texts.forEach(({ text, kind }, a) => {
        if (!this.game.cells[a]) {
          this.holes[a].textContent = text;
          this.holes[a].className = "hole " + kind;
          this.buttons[a].setAttribute("aria-label", this.label(a) + (text && `, worth ${text}`));
        }
      });
    }
  }

  // rove makes one button the board's only tab stop.
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
