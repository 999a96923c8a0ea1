// The review of a game: its graph, its mistakes and their reasons. The server computes the review; why.js has its texts.
import { aborted, patiently, post } from "./api.js";
import { $, make, setText } from "./dom.js";
import { givenAway } from "./ended.js";
import { ReviewBoard } from "./reviewboard.js";
import { drawGraph } from "./reviewgraph.js";
import { say } from "./strings.js";
import { remember } from "./store.js";
import { accuracyTable, doubt, isMistake, lineWords, markText, markWords, moveWords, resultText, side } from "./why.js";

export class Review {
  // The view calls report with an error to show, or null.
  constructor(trail, report) {
    this.trail = trail;
    this.report = report;
    this.work = new AbortController();
    this.asking = new AbortController(); // aborts the request why a move is a mistake
    this.asked = -1; // the move of this request, or -1
    this.game = null;
    this.at = 0; // number of the game's moves on the board
    this.line = null; // {name, step} while a line is shown instead of the game
    this.whys = new Map(); // reasons by number of the move
    this.board = new ReviewBoard($("review-board"));
    $("review-form").addEventListener("submit", (e) => {
      e.preventDefault();
      this.submit();
    });
    $("review-text").addEventListener("keydown", (e) => {
      if (e.key === "Enter" && !e.shiftKey && !e.isComposing) {
        e.preventDefault();
        this.submit();
      }
    });
    const buttons = {
      "review-first": () => this.go(0), "review-back": () => this.step(-1), "review-on": () => this.step(1), "review-last": () => this.go(Infinity),
      "review-before": () => this.mistake(-1), "review-next": () => this.mistake(1),
      "review-remember": () => this.remember(), "review-further": () => this.further(),
      "review-after": () => this.follow("after"), "review-instead": () => this.follow("instead"), "review-leave": () => this.leave(),
    };
    for (const [id, act] of Object.entries(buttons)) {
      $(id).addEventListener("click", act);
    }
    $("review-result").addEventListener("keydown", (e) => this.keydown(e));
    $("review-graph").addEventListener("click", (e) => {
      const box = $("review-graph").firstElementChild?.getBoundingClientRect();
      if (box) {
        this.leave();
        this.go(Math.round(this.graph.moveAt((e.clientX - box.left) / box.width)));
      }
    });
    $("review-moves").addEventListener("click", (e) => {
      const i = this.buttons.indexOf(e.target.closest("button"));
      if (i >= 0) {
        this.leave();
        this.go(i);
      }
    });
  }

  // show opens or leaves the view. place is its part of the address: review=7x6x4:4455 opens a game, at its third move with
  // move=3, else at the first mistake; review= shows the form.
  async show(shown, place, more) {
    const move = Number(more.get("move")) || 0;
    this.shown = shown;
    this.wanted = move;
    if (!shown) {
      this.work.abort();
      return;
    }
    const text = place.slice("review=".length);
    if (text === "") {
      $("review-text").focus();
    } else if (this.game?.position !== text) {
      $("review-text").value = text;
      await this.ask(text, true);
    } else if (move) {
      this.leave();
      this.go(move);
    }
  }

  submit() {
    let text = $("review-text").value.trim();
    if (text.startsWith("{")) {
      try {
        text = JSON.stringify(JSON.parse(text)); // removes the spaces in a replay
      } catch {
        // The server reports the error.
      }
    }
    this.ask(text);
  }

  // ask requests a review. Unless named says that the address contains the text already, the review gets a new entry in the browser's history.
  async ask(text, named = false) {
    this.work.abort();
    this.work = new AbortController();
    const { signal } = this.work;
    $("review-result").hidden = true;
    $("review-further").hidden = true;
    this.game = null;
    this.asked = -1;
    this.report(null);
    setText($("review-status"), say("review.working"));
    try {
      const busy = () => setText($("review-status"), say("review.busy"));
      const game = await patiently(() => post("/ui/review", { game: text }, signal), signal, busy);
      this.open(game, named);
    } catch (e) {
      if (!aborted(e)) {
        setText($("review-status"), "");
        this.report(e);
      }
    }
  }

  // further continues the review with what it has found, and stays at the move on the board.
  async further() {
    const { game, work: { signal } } = this;
    setText($("review-status"), say("review.further"));
    $("review-further").hidden = true;
    try {
      const next = await patiently(() => post("/ui/review", { game: game.position, further: game.further }, signal), signal, () => {});
      const { at } = this;
      this.open(next, true);
      this.go(at);
      if (JSON.stringify(next.further?.scores) === JSON.stringify(game.further.scores)) {
        setText($("review-status"), `${$("review-status").textContent} ${say("review.further.nothing")}`);
      }
    } catch (e) {
      if (!aborted(e)) {
        $("review-further").hidden = false;
        this.report(e);
      }
    }
  }

  open(game, named) {
    this.game = game;
    this.whys.clear();
    this.line = null;
    const address = "#review=" + game.position + (named && this.wanted ? "&move=" + this.wanted : "");
    if (named && this.shown) {
      this.trail.replace(address);
    } else if (location.hash !== address) {
      location.hash = address;
    }
    this.mistakes = game.moves.flatMap((m, i) => (isMistake(m) ? [i] : []));
    const count = [0, 1].map((s) => this.mistakes.filter((i) => i % 2 === s).length);
    const open = game.moves.filter((m) => m.mark === "unproved").length, likely = game.moves.filter((_, i) => doubt(game, i)).length;
    $("review-further").hidden = !game.further;
    setText($("review-status"), [say("review.summary", { moves: game.moves.length, red: count[0], yellow: count[1] }), open ? say("review.summary.open", { n: open }) : "", likely ? say("review.summary.likely", { n: likely }) : "", game.ordered ? "" : say("review.unordered")].filter(Boolean).join(" "));
    this.buttons = [make("button", { type: "button" }, say("review.start")), ...game.moves.map((m, i) => this.moveButton(m, i))];
    $("review-moves").replaceChildren(...this.buttons.map((b) => make("li", {}, b)));
    $("review-accuracy").replaceChildren(...accuracyTable(game));
    this.board.build(game);
    $("review-result").hidden = false;
    this.graph = null;
    this.go((named && this.wanted) || (this.mistakes.length ? this.mistakes[0] + 1 : game.moves.length));
  }

  moveButton(m, i) {
    const mark = markText(this.game, i);
    return make("button", { type: "button", class: isMistake(m) ? "wrong " + m.mark : "" }, make("small", {}, `${i + 1}.`), " ",
      make("span", { class: "unseen" }, side(i % 2)), " ", make("span", { class: `stone s${1 + (i % 2)}` }, m.move), " ", make("span", { class: "worth" }, mark));
  }

  go(at) {
    if (!this.game) {
      return;
    }
    if (this.line) {
      this.line.step = Math.min(Math.max(at, 0), this.lineMoves().length);
    } else {
      this.at = Math.min(Math.max(at, 0), this.game.moves.length);
    }
    this.draw();
  }

  step(by) {
    this.go((this.line ? this.line.step : this.at) + by);
  }

  mistake(by) {
    this.leave();
    const to = by > 0 ? this.mistakes.find((i) => i + 1 > this.at) : this.mistakes.findLast((i) => i + 1 < this.at);
    if (to !== undefined) {
      this.go(to + 1);
    }
  }

  // follow shows the line after the move on the board ("after") or the better line ("instead").
  follow(name) {
    if (this.whys.get(this.at - 1)?.[name]) {
      this.line = { name, step: Math.min(1, this.whys.get(this.at - 1)[name].moves.length) };
      this.draw();
    }
  }

  leave() {
    if (this.line) {
      const focused = document.activeElement === $("review-leave");
      this.line = null;
      this.draw();
      if (focused) {
        $("review-board").focus();
      }
    }
  }

  lineMoves() {
    return this.whys.get(this.at - 1)[this.line.name].moves;
  }

  // stones returns the moves on the board: those of the game, followed by those of the line.
  stones() {
    if (!this.line) {
      return this.game.moves.slice(0, this.at);
    }
    const before = this.line.name === "after" ? this.at : this.at - 1;
    return [...this.game.moves.slice(0, before), ...this.lineMoves().slice(0, this.line.step)];
  }

  draw() {
    const { game, line } = this;
    const stones = this.stones();
    const whole = line ? this.whys.get(this.at - 1)[line.name] : { ...game, at: -1, cells: [] };
    const won = (line ? line.step : this.at) === whole.moves.length ? whole.winning : [];
    const keys = line?.step === whole.at ? whole.cells : []; // cells that decide the line
    this.board.show(stones, { won, keys, title: this.caption() });
    this.graph = drawGraph($("review-graph"), game, this.at);
    this.buttons.forEach((b, i) => {
      b.toggleAttribute("aria-current", i === this.at);
      if (i === this.at) {
        b.setAttribute("aria-current", "step");
        const list = $("review-moves");
        if (b.offsetTop < list.scrollTop || b.offsetTop + b.offsetHeight > list.scrollTop + list.clientHeight) {
          list.scrollTop = b.offsetTop - list.clientHeight / 2;
        }
      }
    });
    const can = {
      "review-first": stones.length > 0 && (!line || line.step > 0), "review-back": line ? line.step > 0 : this.at > 0,
      "review-on": line ? line.step < this.lineMoves().length : this.at < game.moves.length,
      "review-before": this.mistakes.some((i) => i + 1 < this.at), "review-next": this.mistakes.some((i) => i + 1 > this.at),
    };
    can["review-last"] = can["review-on"];
    for (const [id, ok] of Object.entries(can)) {
      $(id).setAttribute("aria-disabled", String(!ok));
    }
    this.words();
  }

  caption() {
    if (this.line) {
      const moves = this.lineMoves().slice(0, this.line.step).map((m) => m.move).join(" ");
      return say(this.line.name === "after" ? "review.line.after" : "review.line.instead", { move: this.at, moves: moves || "-" });
    }
    return this.at ? moveWords(this.game, this.at - 1) : say("review.start");
  }

  // words shows what the move on the board gives away, and for a mistake the reason.
  words() {
    const { game, at } = this;
    const i = at - 1, move = game.moves[i];
    setText($("review-caption"), this.caption());
    setText($("review-mark"), move ? markWords(game, i) : "");
    setText($("review-value"), resultText(game, at));
    const wrong = move !== undefined && isMistake(move);
    $("review-why").hidden = !wrong;
    $("review-leave").hidden = !this.line;
    $("review-retry").hidden = at === 0;
    const moves = game.moves.slice(0, Math.max(0, i)).map((m) => m.move);
    $("review-retry").href = `#${game.rules}:${moves.join(game.separator) || "-"}`;
    const why = wrong ? this.whys.get(i) : undefined;
    $("review-remember").hidden = !(why?.best?.length && givenAway(move));
    setText($("review-remember"), say("review.remember"));
    if (!wrong) {
      return;
    }
    for (const name of ["after", "instead"]) {
      $("review-" + name).setAttribute("aria-pressed", String(this.line?.name === name));
      $("review-" + name).hidden = !why?.[name].moves.length;
    }
    if (!why) {
      setText($("review-reason"), say("review.why.working"));
      this.explain(i);
      return;
    }
    setText($("review-reason"), why.error ?? lineWords(game, i, why));
  }

  // remember adds the position before the mistake on the board, with a best move, to the visitor's mistakes.
  remember() {
    remember($("review-retry").hash.slice(1), this.whys.get(this.at - 1).best[0]);
    setText($("review-remember"), say("review.remembered"));
  }

  // explain requests why move i is a mistake, and aborts an earlier request.
  async explain(i) {
    if (this.asked === i) {
      return;
    }
    this.asked = i;
    this.asking.abort();
    this.asking = new AbortController();
    const signal = AbortSignal.any([this.work.signal, this.asking.signal]), { game } = this;
    let why;
    try {
      why = await patiently(() => post("/ui/why", { position: game.position, move: i }, signal), signal, () => {});
    } catch (e) {
      if (aborted(e)) {
        return;
      }
      why = { error: e.message, after: { moves: [] }, instead: { moves: [] } };
    }
    this.asked = -1;
    this.whys.set(i, why);
    this.draw();
  }

  keydown(e) {
    if (e.ctrlKey || e.metaKey || e.altKey || !this.game) {
      return;
    }
    const list = e.target.closest("#review-moves") !== null;
    switch (e.key) {
      case "ArrowLeft":
      case "ArrowRight": {
        const by = e.key === "ArrowLeft" ? -1 : 1;
        if (e.shiftKey) {
          this.mistake(by);
        } else {
          this.step(by);
        }
        break;
      }
      case "Home":
        this.go(0);
        break;
      case "End":
        this.go(Infinity);
        break;
      case "n":
        this.mistake(1);
        break;
      case "p":
        this.mistake(-1);
        break;
      case "w":
        this.follow("after");
        break;
      case "b":
        this.follow("instead");
        break;
      case "Escape":
        this.leave();
        break;
      default:
        return;
    }
    if (list) {
      this.buttons[this.at].focus();
    }
    e.preventDefault();
  }
}

