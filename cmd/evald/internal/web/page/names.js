// The dashboards draw metrics and fields by name; this file turns the names into words.
import { named, say } from "./strings.js";

function word(name) {
  return named("metric", name) ?? name.replaceAll("_", " ");
}

// inWords returns the name of a metric or field in words, as a whole or part by part.
export function inWords(name) {
  const visits = name.replace(/\bvisits 0\b/, say("names.network")).replace(/\bvisits (\d+)/, (_, n) => say("names.visits", { n }));
  return named("metric", name) ?? visits.split(" ").map((part) => named("metric", part) ?? part.split(".").map(word).join(", ")).join(" ");
}

// titled returns a name as a title.
export function titled(name) {
  const text = inWords(name);
  return text[0].toUpperCase() + text.slice(1);
}

// explained maps patterns of names to the words that explain them.
const explained = [[/batch/i, "batch"], [/cache/i, "cache"], [/^loss/i, "loss"], [/^elo$/i, "elo"], [/critical/i, "critical"], [/perfect|good/i, "perfect"]];

// explains returns the word that explains the name of a panel or a field, if there is one.
export function explains(name) {
  return explained.find(([pattern]) => pattern.test(name))?.[1];
}
