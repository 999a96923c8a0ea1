// Puzzles: positions in which only one move keeps the result. The visitor plays a move, and sees whether it was right, and why.
import { aborted, post, text } from "./api.js";
import { Board } from "./board.js";
import { sides } from "./chances.js";
import { $, make, setText } from "./dom.js";
import { exactScores, follow } from "./follow.js";
import { layout, style } from "./puzzleform.js";
import * as store from "./store.js";
import { say } from "./strings.js";

export { remember } from "./store.js";

const near = 40; // the next puzzle is chosen from this number of unseen puzzles with ratings nearest to the visitor's
const daily = { least: 900, most: 1600, step: 7919 }; // range of ratings of the daily puzzles; step is prime, so that all puzzles come before one comes again

const side = (n) => sides()[n];

// read parses the server's file of puzzles. As everywhere on the page, positions include their rules.
function read(text) {
  return text.split("\n").filter((line) => line && !line.startsWith("#")).map((line) => {
    const [moves, move, result, rating, theme] = line.split(" ");
    return { position: moves.includes(":") ? moves : "7x6x4:" + moves, move, result, rating: Number(rating), theme };
  });
}

export class Puzzles {
  // The view calls report with an error to show, or null.
  constructor(trail, report) {
    this.trail = trail;
    this.report = report;
    this.work = new AbortController(); // requests about the current puzzle
    this.all = [];
    this.byPosition = new Map();
    this.made = this.build();
  }

  // build creates the view's elements.
  async build() {
    await style();
    this.themes = layout($("puzzles"));
    this.board = new Board($("puzzle-board"), { played: (move) => this.play(move), key: (what) => what === "undo" && this.again() });
    const on = (id, work) => $(id).addEventListener("click", work);
    on("puzzle-daily", () => this.open(this.daily(), "daily"));
    on("puzzle-next", () => this.open(this.next(), "next"));
    on("puzzle-more", () => this.more());
    on("puzzle-review", () => this.review());
    on("puzzle-again", () => this.again());
    on("puzzle-show", () => this.reveal());
    $("puzzle-theme").addEventListener("change", () => this.open(this.next(), "next"));
    this.keeping();
    store.watch(() => this.standing());
  }

  // load fetches the puzzles.
  async load() {
    this.all = read(await text("/ui/puzzles"));
    this.byPosition = new Map(this.all.map((p) => [p.position, p]));
    $("puzzle-theme").append(...this.themes.map((theme) => make("option", { value: theme },
      `${say("puzzles.theme." + theme)} (${this.all.filter((p) => p.theme === theme).length})`)));
  }

  // show opens or leaves the view. place is its part of the address: puzzles=daily, =next, =mistakes or =POSITION, which is a puzzle.
  async show(shown, place) {
    this.shown = shown;
    if (!shown) {
      return;
    }
    await this.made;
    this.standing();
    try {
      await (this.loaded ??= this.load());
      const wanted = place.slice("puzzles=".length);
      if (this.shown && (wanted || !this.puzzle)) {
        await this.choose(wanted || "daily");
      }
    } catch (e) {
      this.loaded = null; // try again next time
      this.report(e);
    }
  }

  // choose opens the puzzle of an address.
  async choose(wanted) {
    if (wanted === this.puzzle?.position) {
      return;
    }
    const daily = this.daily(), mistake = store.stored().mistakes[wanted];
    if (wanted === "mistakes" && store.due().length) {
      await this.review();
    } else if (wanted === "daily" || wanted === daily?.position) {
      await this.open(daily, "daily");
    } else if (mistake && !this.byPosition.has(wanted)) {
      await this.repeat({ position: wanted, move: mistake.move });
    } else {
      await this.open(this.byPosition.get(wanted) ?? this.next(), "next");
    }
  }

  daily() {
    const some = this.all.filter((p) => p.rating >= daily.least && p.rating <= daily.most);
    const from = some.length ? some : this.all;
    return from[(store.today() * daily.step) % from.length];
  }

  // next returns a puzzle of the chosen theme that the visitor has not tried, with a rating near the visitor's. If all were tried, it returns
  // one of them.
  next() {
    const { rating, tried } = store.stored();
    const theme = $("puzzle-theme").value;
    const fit = this.all.filter((p) => (!theme || p.theme === theme) && p.position !== this.puzzle?.position);
    const unseen = fit.filter((p) => !(p.position in tried));
    const from = (unseen.length ? unseen : fit).sort((a, b) => Math.abs(a.rating - rating) - Math.abs(b.rating - rating)).slice(0, near);
    return from[Math.floor(Math.random() * from.length)];
  }

  // more continues with the next mistake if mistakes are reviewed and one is due, else with another puzzle.
  more() {
    if (this.kind === "review" && store.due().length) {
      this.review();
    } else {
      this.open(this.next(), "next");
    }
  }

  async review() {
    const [mistake] = store.due();
    if (mistake) {
      await this.repeat(mistake);
    }
  }

  // repeat opens a mistake, which need not be one of the puzzles.
  repeat({ position, move }) {
    return this.open(this.byPosition.get(position) ?? { position, move, rating: 0, theme: "", result: "" }, "review");
  }

  // open shows a puzzle. kind says how it was chosen: daily, next or review.
  async open(puzzle, kind) {
    if (!puzzle) {
      return; // no other puzzle of this theme, or no puzzles are loaded
    }
    this.work.abort();
    this.work = new AbortController();
    const { signal } = this.work;
    Object.assign(this, { puzzle, kind, answered: false, over: false, game: null, scores: null });
    const { tried } = store.stored();
    this.first = kind !== "review" && puzzle.rating > 0 && !(puzzle.position in tried);
    try {
      const game = await post("/ui/game", { position: puzzle.position, human: [true, true] }, signal);
      this.game = this.start = game;
      this.report(null);
      if (this.shown) {
        this.trail.replace("#puzzles=" + puzzle.position);
      }
      this.ask();
      this.looking = this.look(game, signal);
    } catch (e) {
      this.fail(e, signal);
    }
  }

  fail(e, signal) {
    if (!aborted(e) && !signal.aborted) {
      this.report(e);
    }
  }

  // ask shows the position and the task.
  ask() {
    const { puzzle, game } = this;
    const title = { daily: say("puzzles.daily.of", { date: new Date().toLocaleDateString(document.documentElement.lang, { dateStyle: "long" }) }), next: say("puzzles.puzzle"), review: say("puzzles.mistake") }[this.kind];
    setText($("puzzle-title"), puzzle.rating ? `${title}, ${say("puzzles.rated", { rating: puzzle.rating })}` : title);
    this.status(game.side, say("puzzles.task." + (puzzle.result || "own"), { side: side(game.side) }));
    this.draw(game, true);
    for (const id of ["puzzle-verdict", "puzzle-why", "puzzle-kind", "puzzle-again", "puzzle-scores"]) {
      $(id).hidden = true;
    }
    $("puzzle-show").hidden = false;
    this.standing();
  }

  status(n, text) {
    $("puzzle-status").replaceChildren(make("span", { class: `disc s${1 + n}`, "aria-hidden": "true" }), make("span", {}, text));
  }

  // draw shows a position; open says whether the visitor may play.
  draw(game, open) {
    $("puzzle-scores").style.setProperty("--columns", String(game.names.length));
    this.board.show(game, open);
    const players = this.start.side === 0 ? "red=person&yellow=strong" : "red=strong&yellow=person";
    $("puzzle-on").href = `#${game.position}&${players}`;
  }

  // look requests the exact scores of all moves of the puzzle, which are shown when it is over.
  async look(game, signal) {
    const scores = await exactScores(game.position, signal, (e) => this.fail(e, signal));
    if (!signal.aborted) {
      this.scores = scores;
      this.showScores();
    }
  }

  // play handles the visitor's move.
  async play(move) {
    const { game, puzzle, work: { signal } } = this;
    if (!game || this.answered || !game.legal[game.names.indexOf(move)]) {
      return;
    }
    this.answered = true;
    const right = move === puzzle.move || (!puzzle.result && await this.keeps(move));
    if (signal.aborted) {
      return;
    }
    const change = this.keep(right);
    this.over = right;
    try {
      const after = await post("/ui/game", { position: game.position, human: [true, true], do: "play", move }, signal);
      this.draw(after, false);
      this.judge(right, move, change);
      await this.explain(after, signal);
    } catch (e) {
      this.fail(e, signal);
    }
  }

  // keeps reports whether a move is known to keep the result. Mistakes from other views may have several such moves.
  async keeps(move) {
    await this.looking;
    const known = this.scores?.filter((s) => s !== null) ?? [];
    return known.length > 0 && Math.sign(this.scores[this.game.names.indexOf(move)]) === Math.sign(Math.max(...known));
  }

  // keep stores the first answer to a puzzle. It returns the change of the visitor's rating as text, or "".
  keep(right) {
    const { puzzle } = this;
    if (this.kept === this.work) { // another try
      return "";
    }
    this.kept = this.work;
    if (this.kind === "review") {
      store.review(puzzle.position, right);
    } else if (!right) {
      store.remember(puzzle.position, puzzle.move);
    }
    if (!this.first) {
      return "";
    }
    const change = store.first(puzzle, right);
    return say("puzzles.change", { rating: store.stored().rating, change: (change > 0 ? "+" : "") + change });
  }

  // judge shows whether the visitor's move was right, and the new rating.
  judge(right, move, change) {
    this.say(right ? "verdict good" : "verdict bad", [right ? say("puzzles.right", { move }) : say("puzzles.wrong." + (this.puzzle.result || "own"), { move }), change]);
    $("puzzle-again").hidden = right;
    this.finish();
  }

  say(kind, parts) {
    $("puzzle-verdict").className = kind;
    $("puzzle-verdict").hidden = false;
    setText($("puzzle-verdict"), parts.filter(Boolean).join(" "));
  }

  // finish shows the theme and the scores, which would have revealed the right move, if the puzzle is over.
  finish() {
    if (this.over) {
      $("puzzle-again").hidden = $("puzzle-show").hidden = true;
      const theme = this.puzzle.theme;
      $("puzzle-kind").hidden = !theme;
      setText($("puzzle-kind"), theme ? `${say("puzzles.theme." + theme)}: ${say("puzzles.about." + theme)}` : "");
    }
    this.showScores();
    this.standing();
  }

  // explain shows the best moves of both sides after the visitor's move.
  async explain(after, signal) {
    $("puzzle-why").hidden = false;
    $("puzzle-line").replaceChildren();
    setText($("puzzle-end"), after.result ? this.ending(after) : say("puzzles.looking"));
    this.states = [after];
    if (after.result) {
      return;
    }
    const end = await follow(after, signal, (state) => {
      this.states.push(state);
      this.addMove(state);
    });
    if (!signal.aborted) {
      setText($("puzzle-end"), end.result ? this.ending(end) : this.states.length > 1 ? say("puzzles.goeson") : say("puzzles.unknown"));
    }
  }

  ending(state) {
    return state.result === "draw" ? say("puzzles.draw") : say("puzzles.wins", { side: side(1 - state.side) });
  }

  // addMove adds a move to the line, as a button that shows the position after it.
  addMove(state) {
    const mover = 1 - state.side;
    const stone = make("button", { type: "button", class: `stone s${1 + mover}`, "aria-label": `${side(mover)} ${state.played}` }, state.played);
    stone.addEventListener("click", () => {
      this.draw(state, false);
      for (const other of $("puzzle-line").querySelectorAll("button")) {
        other.removeAttribute("aria-current");
      }
      stone.setAttribute("aria-current", "step");
    });
    $("puzzle-line").append(make("li", {}, stone));
  }

  // anew aborts the requests about the puzzle. Later answers to it are not stored.
  anew() {
    this.work.abort();
    this.work = this.kept = new AbortController();
    if (!this.scores) {
      this.looking = this.look(this.game, this.work.signal);
    }
    return this.work.signal;
  }

  // again lets the visitor try again.
  again() {
    if (this.answered && !this.over) {
      this.anew();
      this.answered = false;
      this.ask();
      this.board.buttons[this.board.focus].focus(); // because the button disappears
    }
  }

  // reveal shows the right move. Without an answer before, this counts as a wrong answer.
  async reveal() {
    const { game, puzzle } = this;
    if (!game || this.over) {
      return;
    }
    const change = this.keep(false);
    this.answered = this.over = true;
    const signal = this.anew();
    try {
      const after = await post("/ui/game", { position: game.position, human: [true, true], do: "play", move: puzzle.move }, signal);
      this.draw(after, false);
      this.say("verdict", [say("puzzles.shown", { move: puzzle.move }), change]);
      this.finish();
      $("puzzle-more").focus(); // because the button disappears
      await this.explain(after, signal);
    } catch (e) {
      this.fail(e, signal);
    }
  }

  // showScores shows the exact score of each move below its column when the puzzle is over. Games without gravity have too many moves for this.
  showScores() {
    const shown = this.over && this.scores && this.game.gravity;
    $("puzzle-scores").hidden = !shown;
    if (!shown) {
      return;
    }
    const { names } = this.game;
    const kind = (s) => (s > 0 ? "good" : s < 0 ? "bad" : "even");
    const cells = this.scores.map((s) => (s === null ? make("span", { role: "cell" }, "–") : make("span", { role: "cell", class: kind(s) },
      make("span", {}, say("puzzles.result." + kind(s))), " ", make("small", {}, (s > 0 ? "+" : "") + s))));
    $("puzzle-scores").replaceChildren(
      make("div", { role: "row", class: "row" }, ...names.map((name) => make("span", { role: "columnheader", class: name === this.puzzle.move ? "best" : "" }, name))),
      make("div", { role: "row", class: "row" }, ...cells));
  }

  // standing shows the visitor's rating and the number of mistakes that are due.
  standing() {
    const { rating, right, tried } = store.stored();
    const count = store.due().length;
    setText($("puzzle-rating"), String(rating));
    setText($("puzzle-count"), say("puzzles.count", { right, tried: Object.keys(tried).length }));
    setText($("puzzle-review"), say("puzzles.review", { count }));
    $("puzzle-review").setAttribute("aria-disabled", String(count === 0));
    setText($("puzzle-kept"), say(store.keeps() ? "puzzles.kept" : "puzzles.unkept"));
  }

  // keeping adds the handlers of the buttons that save, load and delete the visitor's data.
  keeping() {
    const note = (key) => setText($("puzzle-data"), say(key));
    $("puzzle-save").addEventListener("click", () => {
      const url = URL.createObjectURL(new Blob([store.text()], { type: "application/json" }));
      make("a", { href: url, download: "evald-puzzles.json" }).click();
      setTimeout(() => URL.revokeObjectURL(url), 10000);
      note("puzzles.saved");
    });
    $("puzzle-file").addEventListener("change", async () => {
      const [file] = $("puzzle-file").files;
      if (file) {
        note(file.size < 4 << 20 && store.adopt(await file.text()) ? "puzzles.loaded" : "puzzles.nofile");
        $("puzzle-file").value = "";
        this.standing();
      }
    });
    const ask = $("puzzle-delete");
    const calm = () => {
      ask.removeAttribute("data-sure");
      setText(ask, say("puzzles.delete"));
    };
    ask.addEventListener("blur", calm);
    ask.addEventListener("click", () => {
      if (ask.hasAttribute("data-sure")) {
        store.clear();
        calm();
        note("puzzles.deleted");
        this.standing();
      } else {
        ask.setAttribute("data-sure", "");
        setText(ask, say("puzzles.sure"));
      }
    });
  }
}
