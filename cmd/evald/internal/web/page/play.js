// The view of the game: the board, the side to move, and the requests to the server.
import { format } from "./address.js";
import { aborted, post } from "./api.js";
import { Board } from "./board.js";
import { sides } from "./chances.js";
import { $, make, setText } from "./dom.js";
import { Ended } from "./ended.js";
import { Hint } from "./hint.js";
import { listen } from "./keys.js";
import { Moves } from "./moves.js";
import { Opinions } from "./opinions.js";
import { Players } from "./players.js";
import { orderNote } from "./position.js";
import { Rules } from "./rules.js";
import { complain, sharing } from "./share.js";
import { keep, recall } from "./storage.js";
import { say } from "./strings.js";
import { sound } from "./sound.js";
import { agentMove, analyze } from "./thinking.js";

const empty = "7x6x4:-";
const opinions = ["sight", "evaluate", "solve", "best"]; // opinions that the visitor may show or hide

export class Play {
  // The view calls report with an error to show, or null.
  constructor(config, trail, report) {
    this.trail = trail;
    this.report = report;
    this.game = null;
    this.paused = false; // whether agents wait
    this.unnamed = false; // whether the position is from a link that does not say who plays
    this.analysing = false; // whether the visitor moves for both sides
    this.visible = true;
    this.commands = Promise.resolve();
    this.work = new AbortController(); // requests about the position on the board
    this.opinions = new Opinions(config.seconds, () => this.solveOn());
    this.moves = new Moves((made) => this.goTo(made));
    this.hints = new Hint((ranks) => this.board.mark(ranks));
    this.ended = new Ended();
    this.board = new Board($("board"), {
      played: (move) => this.person(move),
      key: (what) => (what === "hint" ? this.hint() : this.command(what)),
    });
    this.players = new Players(config, () => {
      this.unnamed = false;
      this.paused = this.paused && (this.players.agents() || !$("shared").hidden);
      this.command("");
    });
    this.rules = new Rules((rules) => this.start(rules + ":-"));
    sharing();
    listen({
      shown: () => this.visible && this.game !== null,
      go: (by) => this.goTo((game) => Math.min(Math.max(game.made + by, 0), game.moves.length)),
      play: (name) => (this.game.names.includes(name) ? this.person(name) : null),
    });
    for (const id of ["undo", "redo"]) {
      $(id).addEventListener("click", () => {
        if ($(id).getAttribute("aria-disabled") !== "true") {
          this.command(id);
        }
      });
    }
    $("hint").addEventListener("click", () => this.hint());
    $("new").addEventListener("click", () => this.start(this.rules.text() + ":-"));
    $("go").addEventListener("click", () => {
      this.playOn();
      this.renew();
      this.board.buttons[this.board.focus].focus(); // because the button disappears
    });
    $("analyse").addEventListener("click", () => this.analyse(!this.analysing));
    $("values").addEventListener("click", () => {
      keep({ values: !recall().values });
      this.renew();
    });
    $("setup").addEventListener("submit", (e) => e.preventDefault());
    for (const id of [...opinions, "sound"]) {
      $(id).checked = recall()[id] ?? $(id).checked;
      $(id).addEventListener("change", () => {
        keep({ [id]: $(id).checked });
        this.renew();
      });
    }
    document.addEventListener("visibilitychange", () => this.renew());
  }

  over() {
    return this.game.result !== "";
  }

  // human returns for each side whether a person moves for it.
  human() {
    return this.analysing ? [true, true] : this.players.human();
  }

  personToMove() {
    return !this.over() && this.human()[this.game.side];
  }

  // analyse lets the visitor move for both sides, or returns the agents' sides to them; the agents then wait.
  analyse(on) {
    if (this.analysing !== on) {
      this.analysing = on;
      $("analyse").setAttribute("aria-pressed", String(on));
      this.paused = true;
      this.command("");
    }
  }

  // watched reports whether the game is visible.
  watched() {
    return this.visible && !document.hidden;
  }

  // see is called when the view is shown or hidden. A hidden board sends no requests.
  see(visible) {
    if (visible !== this.visible) {
      this.visible = visible;
      this.renew();
    }
  }

  // open shows the position of the address. fresh says that it comes from a link, which begins a new game. Otherwise it comes from an entry of
  // the browser's history, and open goes to this position of the current game and keeps the moves after it. Agents then wait, so that people
  // can look at the position.
  open(position, players, fresh) {
    if (this.starting) {
      return;
    }
    const other = fresh && players && location.hash !== format(position, this.players.named());
    if (this.game && position === this.game.position && !other) {
      $("moves").value = position; // which may have been typed in another form
      this.write();
      return;
    }
    const address = location.hash;
    const first = !this.game;
    let wrong = "";
    this.order(() => {
      if (location.hash !== address) {
        return null; // the address has changed again
      }
      wrong = players && (fresh || first) ? this.players.adopt(players) : "";
      const made = first || fresh ? -1 : this.madeAt(position);
      return made < 0 ? { position: position || empty, do: "open" } : { position: this.game.line, made };
    }, () => {
      if (fresh) {
        this.trail.begin();
      }
      this.paused = position !== "";
      this.note(fresh && position !== "" ? players : undefined);
      const dropped = this.game.dropped && say("play.broken", { what: this.game.dropped }) + " ";
      this.report(dropped || wrong ? { message: dropped + wrong } : null);
    });
  }

  // note shows the players of a game from a link. players is null if the link does not name them, and undefined without a link.
  note(players) {
    this.unnamed = players === null;
    $("shared").hidden = players === undefined;
    if (players !== undefined) {
      const whose = players ? say("play.shared", { players: this.players.sentence(players) }) : say("play.shared.unnamed");
      setText($("shared"), [whose, ...(this.over() ? [] : [say("play.shared.waits"), this.noteOfMoves()]), orderNote(this.game.position)].filter(Boolean).join(" "));
    }
  }

  // noteOfMoves describes what a move on the board does while an agent waits for its turn.
  noteOfMoves() {
    const side = sides()[this.game.side], player = this.players.name(this.players.agent());
    if (this.personToMove() || this.players.agents()) {
      return "";
    }
    return this.unnamed ? say("play.shared.take", { side }) : say("play.shared.first", { side: sides()[1 - this.game.side], player });
  }

  playOn() {
    this.paused = false;
    this.note(undefined);
  }

  // start begins a game, which replaces the previous game in the browser's history.
  async start(position) {
    if (this.starting) {
      return;
    }
    if (this.trail.at > this.trail.first) {
      this.starting = true;
      await this.trail.go(this.trail.first - this.trail.at);
      this.starting = false;
    }
    this.order({ position }, () => {
      this.playOn();
      this.analyse(false);
    });
  }

  // positionAt returns the position after a number of moves of the game's line. madeAt is its inverse, -1 for other positions.
  positionAt(made) {
    const moves = this.game.moves.slice(0, made).join(this.game.names.at(-1).length > 1 ? "." : "");
    return `${this.game.rules}:${moves || "-"}`;
  }

  madeAt(position) {
    for (let made = 0; made <= this.game.moves.length; made++) {
      if (this.positionAt(made) === position) {
        return made;
      }
    }
    return -1;
  }

  // person plays a move of the visitor. While agents wait, it also lets them play on: the agent to move plays first, and the visitor's move
  // follows if it is still possible. If a link does not say who plays, the visitor plays the side to move instead.
  person(move) {
    if (!this.game || this.over()) {
      return;
    }
    if (!this.personToMove() && this.unnamed && !this.players.agents()) {
      this.players.take(this.game.side);
    }
    if (this.personToMove()) {
      this.command("play", move, "push");
    } else if (!this.paused) {
      setText($("status").lastChild, say("status.thinks.click", { side: sides()[this.game.side] }));
    } else if (this.can(move)) {
      this.playOn();
      this.renew(move);
    }
  }

  // can reports whether a move is legal on the board.
  can(move) {
    return this.game.legal[this.game.names.indexOf(move)] === true;
  }

  // command changes the game: play, undo, redo, or "" to reload it. A move is for the position at the time of the call; if an earlier command
  // that is still running changes the position, such as the first click of two, the move is dropped.
  command(what, move = "", entry = what === "undo" || what === "redo" ? "go" : "replace") {
    if (!this.game) {
      return this.commands;
    }
    const now = this.game.position;
    const body = () => (what === "play" && this.game.position !== now ? null : { position: this.game.line, made: this.game.made, do: what, move });
    return this.order(body, () => {
      if (what === "play") {
        this.playOn();
      } else if (what !== "") {
        this.paused = this.players.agents();
      }
    }, entry);
  }

  // goTo shows the game after a number of its moves, and keeps the moves after them. made is the number, or a function of the game that returns
  // it.
  goTo(made) {
    const body = () => {
      const to = typeof made === "function" ? made(this.game) : made;
      return to === this.game.made ? null : { position: this.game.line, made: to };
    };
    return this.order(body, () => { this.paused = true; }, "push");
  }

  // order requests a new state of the game. Orders run one after the other. body is the request, or a function that returns it when the order
  // runs, or null for no request. done is called when the new state has arrived. entry says how the browser's history changes: "replace" the
  // entry, "push" a new one, or "go" to an existing one.
  order(body, done, entry = "replace") {
    this.commands = this.commands.then(async () => {
      const before = this.game?.position;
      const { arrivals } = this.trail;
      const written = (entry) => arrivals === this.trail.arrivals && this.write(entry); // else a later order will
      const wanted = typeof body === "function" ? body() : body;
      if (!wanted) {
        return;
      }
      try {
        this.game = await post("/ui/game", { human: this.human(), ...wanted });
        this.report(null);
        done();
      } catch (e) {
        this.report(e);
        if (this.game) {
          written();
        } else {
          this.order({ position: empty }, () => this.report(e)); // show the empty board after an invalid link
        }
        return;
      }
      if (wanted.do === "play") {
        sound(this.game);
      }
      this.show();
      this.renew();
      await written(before === this.game.position ? "replace" : entry);
    });
    return this.commands;
  }

  // write writes the game into the address.
  async write(entry = "replace") {
    const address = format(this.game.position, this.players.named());
    $("to-play").href = address;
    for (const [id, view] of [["review-this", "review"], ["to-explore", "explore"]]) {
      $(id).href = `#${view}=${this.game.position}`;
    }
    if (!this.visible) {
      return; // the address belongs to another view
    }
    const by = entry === "go" ? this.trail.find(this.game.position) : 0;
    if (by) {
      await this.trail.go(by);
    } else if (entry === "replace") {
      this.trail.replace(address);
    } else {
      this.trail.push(address);
    }
  }

  // show draws the game.
  show() {
    const g = this.game;
    if (this.drawn !== g.rules) { // scroll a wide board to its middle
      this.drawn = g.rules;
      requestAnimationFrame(() => {
        const scroll = $("board").closest(".scroll");
        scroll.scrollLeft = g.gravity ? (scroll.scrollWidth - scroll.clientWidth) / 2 : 0;
      });
    }
    $("moves").value = g.position;
    complain("");
    this.rules.show(g.rules);
    $("undo").setAttribute("aria-disabled", String(!g.undo));
    $("redo").setAttribute("aria-disabled", String(!g.redo));
  }

  status() {
    const g = this.game;
    const played = g.played ? say("status.played", { side: sides()[1 - g.side], move: g.played }) + " " : "";
    if (g.result === "won") {
      return [1 - g.side, played + say("chance.wins", { side: sides()[1 - g.side] })];
    }
    if (g.result === "draw") {
      return [1 - g.side, played + say("status.draw")];
    }
    if (this.personToMove()) {
      const you = this.analysing || $("side").value === "both" ? "status.move" : "status.you";
      return [g.side, played + say(you, { side: sides()[g.side] })];
    }
    return [g.side, played + say(this.paused ? "status.waits" : "status.thinks", { side: sides()[g.side], player: this.players.name(this.players.agent()) })];
  }

  // renew aborts the requests about the last position and sends those about the current one. If an agent thinks, next is the visitor's move
  // after the agent's, or "".
  renew(next = "") {
    this.work.abort();
    this.work = new AbortController();
    const g = this.game;
    if (!g) {
      return;
    }
    const [side, text] = this.status();
    const disc = make("span", { class: `disc s${1 + side}`, "aria-hidden": "true" });
    if ($("status").textContent !== text || !$("status").firstElementChild) {
      $("status").replaceChildren(disc, make("span", {}, text));
    } else {
      $("status").firstElementChild.className = disc.className;
    }
    this.board.show(g, this.personToMove() || this.paused);
    const thinks = !this.over() && !this.personToMove() && !this.paused;
    $("go").hidden = this.over() || this.personToMove() || !this.paused;
    setText($("go"), this.human()[1 - g.side] ? say("play.go.you", { side: sides()[1 - g.side] }) : say("play.go"));
    const values = recall().values === true; // else the page does not give the answers away
    $("values").setAttribute("aria-pressed", String(values));
    $("play").classList.toggle("quiet", !values);
    const shown = { sight: values && $("sight").checked, search: values && $("evaluate").checked, exact: values && $("solve").checked };
    this.shown = shown;
    this.opinions.reset(g, shown);
    if (this.over()) {
      this.opinions.finished(g);
    }
    this.moves.show(g, (made) => this.positionAt(made), shown);
    this.hints.show(g, !this.over() && !thinks && (shown.search || shown.exact));
    if (!this.watched()) {
      return;
    }
    const { signal } = this.work;
    this.moves.complete(g.line, thinks, signal);
    this.ended.show(g, this.human(), (made) => this.positionAt(made), signal);
    if (!this.over()) {
      this.look(shown, thinks, signal);
      if (this.hints.asked && !thinks && this.hints.ask()) {
        this.lookForHint();
      }
    }
    if (thinks) {
      this.reply(signal, next);
    }
  }

  // look requests the opinions. While an agent thinks, it requests only the evaluator's opinion, which does not slow the agent down.
  look(shown, thinks, signal) {
    const body = { position: this.game.position, solve: shown.exact && !thinks };
    if (!shown.search || thinks) {
      body.visits = 0;
    }
    if (!shown.sight && !body.solve && body.visits === 0) {
      return null; // the visitor wants no opinions
    }
    return analyze(body, signal, (m) => this.heard(m, thinks));
  }

  // lookForHint requests an analysis for a hint if the visitor hides the search and the exact scores.
  lookForHint() {
    analyze({ position: this.game.position, solve: true }, this.work.signal, (m) => this.hints.hear(m));
  }

  // solveOn requests the missing exact scores.
  solveOn() {
    const body = { position: this.game.position, visits: 0, solve: true, known: this.opinions.scores?.scores };
    analyze(body, this.work.signal, (m) => this.heard(m, false));
  }

  heard(m, thinks) {
    this.moves.hear(m);
    if (!thinks && (this.shown.search || this.shown.exact)) { // otherwise lookForHint has its own analysis
      this.hints.hear(m);
    }
    switch (m.type) {
      case "opinion":
        this.opinions.opinion(m);
        break;
      case "search":
        this.opinions.searched(m);
        break;
      case "exact":
        this.opinions.solved(m);
        break;
      case "end":
        if (!thinks) {
          this.opinions.ended(m);
          if (this.shown.exact && $("best").checked && !m.error && this.opinions.goOn()) { // if the best moves are always shown, the solver continues automatically
            this.solveOn();
          }
        }
        break;
    }
    if (!thinks) {
      this.board.note(this.opinions.notes());
    }
  }

  // reply requests and plays the agent's move, and then the visitor's next one if there is one.
  async reply(signal, next) {
    const least = this.players.agents() ? 0.35 : 0; // seconds per move between agents, so that people and the browser's history can follow
    try {
      const move = await agentMove(this.game.position, this.players.agent(), least, signal, this.report);
      if (!signal.aborted) {
        const { made } = this.game;
        await this.command("play", move);
        if (next && this.game.made === made + 1 && this.personToMove() && this.can(next)) {
          this.command("play", next, "push");
        }
      }
    } catch (e) {
      if (aborted(e) || signal.aborted) {
        return;
      }
      if (e.field === "agent") {
        this.players.wrong();
      }
      this.paused = true;
      this.renew();
      this.report(e);
    }
  }

  hint() {
    if (!this.game) {
      return;
    }
    if (this.hints.ask()) {
      this.lookForHint();
    }
  }
}
