// Converts the names of fields of training runs to words.
import { named, say } from "./strings.js";

function word(name) {
  return named("metric", name) ?? name.replaceAll("_", " ");
}

// inWords returns the name of a metric or field in words. It translates the whole name, or else its parts.
export function inWords(name) {
  const visits = name.replace(/\bvisits 0\b/, say("names.network")).replace(/\bvisits (\d+)/, (_, n) => say("names.visits", { n }));
  return named("metric", name) ?? visits.split(" ").map((part) => named("metric", part) ?? part.split(".").map(word).join(", ")).join(" ");
}

// titled returns a name as a title.
export function titled(name) {
  const text = inWords(name);
  return text[0].toUpperCase() + text.slice(1);
}
