// The list of all agents, with a description, the settings and the levels of each.
import { make } from "./dom.js";
import { say } from "./strings.js";

export function agentTable({ agents, levels }) {
  return make("dl", { class: "agents" }, ...agents.map(({ name, about, spec }) => {
    const short = levels.filter((l) => l.agent.split(":")[0] === name);
    return make("div", {}, make("dt", {}, name), make("dd", {}, about,
      ...(spec === name ? [] : [make("span", { class: "fact" }, say("agents.usual") + " ", make("code", {}, spec))]),
      ...short.map((l) => make("span", { class: "fact" }, say("agents.level", { level: say(`level.${l.name}`) }) + " ", make("code", {}, l.agent)))));
  }));
}
