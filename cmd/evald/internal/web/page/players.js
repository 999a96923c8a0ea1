// The players: their names, and the form for choosing them.
import { agentTable } from "./agents.js";
import { $, count, make } from "./dom.js";
import { keep, recall } from "./storage.js";
import { say } from "./strings.js";

const person = "person";

export class Players {
  // Players calls changed after a choice.
  constructor(config, changed) {
    this.levels = config.levels;
    const networks = config.networks.flatMap((name) => [
      [`mcts:model=${name},visits=200`, say("players.network", { name })], [`policy:model=${name}`, say("players.instinct", { name })]]);
    for (const seconds of [0.1, 1, 5].filter((t) => t <= config.seconds)) {
      networks.push([`mcts:time=${seconds < 1 ? 1000 * seconds + "ms" : seconds + "s"}`, say("players.time", { seconds })]);
    }
    this.networks = new Map(networks);
    $("agent").append(
      ...this.levels.map((l) => make("option", { value: l.name }, say("level.option", { name: say(`level.${l.name}`), elo: l.elo }))),
      ...networks.map(([text, name]) => make("option", { value: text }, name)),
      make("option", { value: "other" }, say("setup.other")));
    $("agents").replaceChildren(agentTable(config));
    $("agent-help").textContent = say("players.help", { visits: count(config.visits), seconds: config.seconds });
    const kept = recall();
    const usual = (this.levels.find((l) => l.name === "strong") ?? this.levels.at(-1))?.name ?? "other";
    $("agent").value = usual;
    $("agent-text").value = kept.text || (usual === "other" ? "random" : this.agentOf(usual));
    for (const [id, value] of [["side", kept.side], ["agent", this.levelOf(kept.agent)]]) {
      if ([...$(id).options].some((o) => o.value === value)) {
        $(id).value = value;
      }
    }
    for (const [id, name] of [["side", "side"], ["agent", "agent"], ["agent-text", "text"]]) {
      $(id).addEventListener("change", () => {
        this.show();
        // Of the others not all are the visitor's choice: they may be a link's, or another tab has changed them.
        keep({ [name]: $(id).value, ...(id === "agent" && $(id).value === "other" ? { text: $("agent-text").value } : {}) });
        changed();
      });
    }
    this.show();
  }

  show() {
    $("agent-row").hidden = $("agent").value !== "other" || $("side").value === "both";
    $("agent").disabled = $("side").value === "both";
    const level = this.level($("agent").value);
    $("agent-sees").textContent = level && $("side").value !== "both" ? say(`level.${level.name}.sees`) : "";
    $("agent-text").removeAttribute("aria-invalid");
  }

  level(name) {
    return this.levels.find((l) => l.name === name);
  }

  agentOf(level) {
    return this.level(level)?.agent ?? level;
  }

  levelOf(agent) {
    return this.levels.find((l) => l.agent === agent)?.name ?? agent;
  }

  // name returns the name of an agent: a level, a network, or its spec.
  name(agent) {
    const level = this.level(this.levelOf(agent));
    return this.networks.get(agent) ?? (level ? say(`level.${level.name}`) : agent);
  }

  // human returns for each side whether a person plays it.
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

  wrong() {
    $("agent-text").setAttribute("aria-invalid", "true");
  }

  // named returns the players of both sides in the form of links.
  named() {
    const [red, yellow] = this.human().map((human) => (human ? person : this.levelOf(this.agent())));
    return { red, yellow };
  }

  // adopt chooses the players of a link. It returns a message about players that are not available, or "".
  adopt({ red, yellow }) {
    const agents = [red, yellow].filter((who) => who !== person);
    $("side").value = agents.length === 2 ? "none" : agents.length === 0 ? "both" : red === person ? "first" : "second";
    if (agents.length) {
      const agent = this.levelOf(agents[0]);
      const known = agent !== "other" && [...$("agent").options].some((o) => o.value === agent);
      $("agent").value = known ? agent : "other";
      $("agent-text").value = known ? $("agent-text").value : agent;
    }
    this.show();
    return agents.length === 2 && red !== yellow ? say("players.missing", { name: this.name(yellow) }) : "";
  }

  // take makes the visitor play a side, 0 or 1.
  take(side) {
    $("side").value = side === 0 ? "first" : "second";
    this.show();
  }

  // sentence describes the players of both sides.
  sentence({ red, yellow }) {
    const who = (text) => (text === person ? say("players.person") : this.name(text));
    return say("players.sentence", { red: who(red), yellow: who(yellow) });
  }
}
