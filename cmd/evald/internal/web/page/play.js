// The game: what is on the board, whose turn it is, and what is asked of the server meanwhile.
import { aborted, lines, patiently, post } from "./api.js";
import { Board } from "./board.js";
import { $, count, make, setText } from "./dom.js";
import { Opinions } from "./opinions.js";

// Levels for people, from the weakest on: a name and the agent behind it.
const presets = [
  ["any move", "random"],
  ["beginner", "negamax"],
  ["casual", "uct:sims=500"],
  ["first thought", "policy"],
  ["good", "mcts:visits=50"],
  ["strong", "mcts:time=1s"], // unless another is chosen
  ["perfect", "solver:time=4s"],
];
const sides = ["Red", "Yellow"];
const empty = "7x6x4:-";

// What was chosen last is kept where the browser lets it be kept.
function recall() {
  try {
    return JSON.parse(localStorage.getItem("evald")) || {};
  } catch {
    return {};
  }
}

function remember(choices) {
  try {
    localStorage.setItem("evald", JSON.stringify(choices));
  } catch {
    // it is chosen anew next time
  }
}

export class Play {
  // report is called with an error for people, or null.
  constructor(config, report) {
    this.config = config;
    this.report = report;
    this.game = null;
    this.paused = false;
    this.visible = true;
    this.commands = Promise.resolve();
    this.work = new AbortController(); // what is asked about the position on the board
    this.opinions = new Opinions();
    this.board = new Board($("board"), {
      played: (move) => this.person(move),
      key: (what) => (what === "hint" ? this.hint() : this.command(what)),
    });
    this.setup();
    for (const id of ["undo", "redo"]) {
      $(id).addEventListener("click", () => {
        if ($(id).getAttribute("aria-disabled") !== "true") {
          this.command(id);
        }
      });
    }
    $("hint").addEventListener("click", () => this.hint());
    $("new").addEventListener("click", () => this.start(this.rules() + ":-"));
    $("go").addEventListener("click", () => {
      this.paused = false;
      this.renew();
      this.board.buttons[this.board.focus].focus(); // the button is gone now
    });
    $("share").addEventListener("click", () => this.share());
    $("moves").addEventListener("keydown", (e) => {
      if (e.key === "Enter") {
        location.hash = "#" + $("moves").value.trim();
      }
    });
  }

  // setup fills the form and listens to it.
  setup() {
    const networks = this.config.networks.flatMap((name) => [`mcts:model=${name},visits=200`, `policy:model=${name}`]);
    const allowed = presets.filter(([, text]) => !(Number(text.match(/time=(\d+)s/)?.[1]) > this.config.seconds));
    const levels = allowed.map(([name, text]) => make("option", { value: text }, `${name} (${text})`));
    $("agent").append(...levels, ...networks.map((text) => make("option", { value: text }, text)), make("option", { value: "other" }, "other .."));
    $("agents").textContent = this.config.agents;
    $("agent-help").textContent = `such as mcts:model=bitsquares,visits=2000; at most ${count(this.config.visits)} visits or ${this.config.seconds} s a move`;
    const kept = recall();
    const [, usual] = allowed.find(([name]) => name === "strong") ?? allowed[0];
    $("agent").value = usual;
    for (const id of ["side", "agent"]) {
      if ([...$(id).options].some((o) => o.value === kept[id])) {
        $(id).value = kept[id];
      }
    }
    $("agent-text").value = kept.text || usual;
    const changed = () => {
      $("agent-row").hidden = $("agent").value !== "other" || $("side").value === "both";
      $("agent").disabled = $("side").value === "both";
      $("agent-text").removeAttribute("aria-invalid");
      remember({ side: $("side").value, agent: $("agent").value, text: $("agent-text").value });
      this.paused = this.paused && this.agents();
      if (this.game) {
        this.command("");
      }
    };
    for (const id of ["side", "agent", "agent-text"]) {
      $(id).addEventListener("change", changed);
    }
    changed();
    $("rules").addEventListener("change", () => {
      $("rules-row").hidden = $("rules").value !== "other";
      if ($("rules").value !== "other") {
        this.start(this.rules() + ":-");
      } else {
        $("rules-text").focus();
      }
    });
    $("rules-text").addEventListener("change", () => this.start(this.rules() + ":-"));
    $("setup").addEventListener("submit", (e) => e.preventDefault());
    for (const id of ["evaluate", "solve"]) {
      $(id).addEventListener("change", () => this.renew());
    }
  }

  rules() {
    return $("rules").value === "other" ? $("rules-text").value.trim() : $("rules").value;
  }

  // human says which sides people play.
  human() {
    const side = $("side").value;
    return [side === "first" || side === "both", side === "second" || side === "both"];
  }

  agents() {
    return $("side").value === "none";
  }

  agent() {
    return $("agent").value === "other" ? $("agent-text").value.trim() : $("agent").value;
  }

  over() {
    return this.game.result !== "";
  }

  personToMove() {
    return !this.over() && this.human()[this.game.side];
  }

  // see says whether the game is shown; nothing is asked about a board that nobody sees.
  see(visible) {
    if (visible !== this.visible) {
      this.visible = visible;
      this.renew();
    }
  }

  // open goes to a position of a link. Agents wait there: the position is there to be looked at.
  open(position) {
    if (this.game && position === this.game.position) {
      return;
    }
    this.start(position || empty, position !== "" && !position.endsWith("-"));
  }

  start(position, paused = false) {
    this.order({ position }, () => { this.paused = paused; });
  }

  // person plays a move, where it is a person's turn.
  person(move) {
    if (this.game && this.personToMove()) {
      this.command("play", move);
    } else if (this.game && !this.over()) {
      setText($("status").lastChild, this.paused ? "The agent waits; \"Let the agent move\" lets it go on" : `${sides[this.game.side]} is thinking`);
    }
  }

  // command changes the game: play, undo, redo, or "" for looking at it again. A move is one of the position that stands on
  // the board now: where another command comes first, such as that of a second click, it is dropped.
  command(what, move = "") {
    const now = this.game.position;
    const body = () => (what === "play" && this.game.position !== now ? null : { position: this.game.line, made: this.game.made, do: what, move });
    return this.order(body, () => {
      this.paused = what === "" ? this.paused : what !== "play" && this.agents();
    });
  }

  // order asks for a new state, one order after the other; body may be null by then. done is called where the state came.
  order(body, done) {
    this.commands = this.commands.then(async () => {
      const before = this.game && this.game.position;
      const wanted = typeof body === "function" ? body() : body;
      if (!wanted) {
        return;
      }
      try {
        const game = await post("/ui/game", { human: this.human(), ...wanted });
        this.game = game;
        this.report(null);
        done();
      } catch (e) {
        this.report(e);
        if (!this.game) {
          this.order({ position: empty }, () => this.report(e)); // a link that means nothing still gets a board
        }
        return;
      }
      this.show(before !== this.game.position);
      this.renew();
    });
    return this.commands;
  }

  // show draws the game.
  show(moved) {
    const g = this.game;
    if (this.shown !== g.rules) { // the middle of a wide board first
      this.shown = g.rules;
      requestAnimationFrame(() => {
        const scroll = $("board").closest(".scroll");
        scroll.scrollLeft = g.gravity ? (scroll.scrollWidth - scroll.clientWidth) / 2 : 0;
      });
    }
    if (moved) {
      history.replaceState(null, "", "#" + g.position);
    }
    $("to-play").href = "#" + g.position;
    $("moves").value = g.position;
    const known = [...$("rules").options].some((o) => o.value === g.rules);
    if ($("rules").value !== "other" || known) {
      $("rules").value = known ? g.rules : "other";
    }
    if (!known) {
      $("rules-text").value = g.rules;
    }
    $("rules-row").hidden = $("rules").value !== "other";
    $("board").style.setProperty("--columns", String(g.columns));
    for (const element of [$("opinions"), $("board").parentElement]) {
      element.style.setProperty("--columns", String(g.names.length)); // under gravity one below each column
    }
    $("undo").setAttribute("aria-disabled", String(!g.undo));
    $("redo").setAttribute("aria-disabled", String(!g.redo));
  }

  status() {
    const g = this.game;
    const played = g.played ? `${sides[1 - g.side]} played ${g.played}. ` : "";
    if (g.result === "won") {
      return [1 - g.side, `${played}${sides[1 - g.side]} wins`];
    }
    if (g.result === "draw") {
      return [1 - g.side, played + "A draw"];
    }
    if (this.personToMove()) {
      return [g.side, `${played}${sides[g.side]} to move${$("side").value === "both" ? "" : ": you"}`];
    }
    return [g.side, `${played}${sides[g.side]} ${this.paused ? "waits" : "thinks"}: ${this.agent()}`];
  }

  // renew ends what is asked about the last position and asks about this one.
  renew() {
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
    this.board.show(g, this.personToMove());
    const thinks = !this.over() && !this.personToMove() && !this.paused;
    $("go").hidden = this.over() || this.personToMove() || !this.paused;
    const shown = { search: $("evaluate").checked, exact: $("solve").checked };
    this.opinions.reset(g, shown);
    if (!this.over() && this.visible) {
      this.analyze(shown, thinks, this.work.signal);
    }
    if (thinks && this.visible) {
      this.reply(this.work.signal);
    }
  }

  // analyze lets the bars move. While an agent thinks only the evaluator is asked, which costs the agent no time.
  async analyze(shown, thinks, signal) {
    const body = { position: this.game.position, solve: shown.exact && !thinks };
    if (!shown.search || thinks) {
      body.visits = 0;
    }
    try {
      await patiently(() => lines("/ui/analyze", body, signal, (m) => {
        if (!signal.aborted) {
          this.heard(m, thinks);
        }
      }), signal, () => setText($("search-text"), "waits for the server .."));
    } catch (e) {
      if (!aborted(e) && !signal.aborted) {
        setText($("search-text"), e.message);
      }
    }
  }

  heard(m, thinks) {
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
        }
        break;
    }
    if (!thinks) {
      this.board.note(this.opinions.notes());
    }
  }

  // reply lets the agent move.
  async reply(signal) {
    const began = performance.now();
    try {
      const { move } = await patiently(() => post("/ui/move", { position: this.game.position, agent: this.agent() }, signal), signal,
        (e) => this.report(e));
      const least = this.agents() ? 250 : 0; // people can follow
      await new Promise((resolve) => { setTimeout(resolve, Math.max(0, least - (performance.now() - began))); });
      if (!signal.aborted) {
        this.command("play", move);
      }
    } catch (e) {
      if (aborted(e) || signal.aborted) {
        return;
      }
      if (e.field === "agent") {
        $("agent-text").setAttribute("aria-invalid", "true");
      }
      this.paused = true;
      this.renew();
      this.report(e);
    }
  }

  hint() {
    setText($("status").lastChild, this.over() ? this.status()[1] : this.opinions.advice());
  }

  async share() {
    const link = location.href;
    try {
      await navigator.clipboard.writeText(link);
      setText($("share"), "Copied");
      setTimeout(() => setText($("share"), "Copy link"), 2000);
    } catch {
      // Without a secure context there is no clipboard: the field can be copied from.
      $("moves").value = link;
      $("moves").select();
    }
  }
}
