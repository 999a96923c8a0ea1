// The dashboards draw metrics and fields by name; this file turns the names into words.

const known = {
  // of the service
  batch_rows: "rows in a batch", request_seconds: "time of a request", request_success: "answered", request_failure: "failed",
  pending_request_count: "requests under way", queued_rows: "positions that wait", exec_count: "batches", count: "positions",
  compute_infer_duration_us: "evaluating", compute_input_duration_us: "reading the request", compute_output_duration_us: "writing the answer",
  queue_duration_us: "waiting for a batch", request_duration_us: "whole requests", nv_cache_num_hits_per_model: "found in the cache",
  nv_cache_num_misses_per_model: "not in the cache", go_goroutines: "goroutines", process_resident_memory_bytes: "memory in use",
  process_cpu_seconds_total: "processors in use",
  full: "the batch was full", delay: "the first had waited enough", deadline: "a deadline was near", idle: "nothing else was under way",
  // of training
  lr: "learning rate", wdl: "result", policy: "moves", gameover: "board at the end", gradient_norm: "size of the gradient",
  positions_per_second: "positions a second", results: "results of games", elo: "strength (Elo)", elo_error: "error of the strength",
  log_likelihood_ratio: "log likelihood ratio", selfplay: "self-play",
  "accuracy.perfect": "perfect moves", "accuracy.good": "good moves", "accuracy.regret": "given away by a move", "accuracy.value_sign": "result foretold",
  "accuracy.critical": "critical positions", "accuracy.critical_perfect": "perfect moves in critical positions",
  "accuracy.critical_good": "good moves in critical positions", "accuracy.positions": "positions measured",
};

function word(name) {
  return known[name] ?? name.replaceAll("_", " ");
}

// inWords returns the name of a metric or field in words, as a whole or part by part.
export function inWords(name) {
  const visits = name.replace(/\bvisits 0\b/, "network alone").replace(/\bvisits (\d+)/, "$1 positions tried");
  return known[name] ?? visits.split(" ").map((part) => known[part] ?? part.split(".").map(word).join(", ")).join(" ");
}

// titled returns a name as a title.
export function titled(name) {
  const text = inWords(name);
  return text[0].toUpperCase() + text.slice(1);
}

// explained maps patterns of titles to the words that explain them.
const explained = [[/batch/i, "batch"], [/cache/i, "cache"], [/^loss/i, "loss"], [/elo\)/i, "elo"], [/critical/i, "critical"], [/(perfect|good) moves/i, "perfect"]];

export function explains(title) {
  return explained.find(([pattern]) => pattern.test(title))?.[1];
}
