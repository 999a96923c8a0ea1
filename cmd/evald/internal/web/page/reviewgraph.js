// The graph of a reviewed game: the result after each move. A proved result is a filled dot on a solid line, an evaluator's value a hollow
// diamond on a dashed line. A triangle marks a mistake.
import { draw } from "./dom.js";
import { say } from "./strings.js";
import { isMistake, markWords, moveWords, resultText } from "./why.js";

const width = 400, height = 140, left = 82, right = 8, top = 18, bottom = 18; // the names are left of the graph

export function drawGraph(element, game, at) {
  const n = game.moves.length;
  const x = (i) => left + (n ? i / n : 0.5) * (width - left - right);
  const y = (v) => top + ((1 - v) / 2) * (height - top - bottom);
  const points = game.positions.map((p, i) => ({ ...p, i, proved: p.least === p.most, value: p.least === p.most ? p.least : p.value }));
  const said = game.moves.flatMap((m, i) => (isMistake(m) ? [`${moveWords(game, i)}. ${markWords(game, i)}`] : [])).join(" ");
  const svg = draw("svg", { viewBox: `0 0 ${width} ${height}`, role: "img", "aria-label": say("review.graph", { result: resultText(game, n), mistakes: said || say("review.nomistakes") }) });
  for (const v of [1, 0, -1]) {
    const name = say(["review.graph.yellow", "review.graph.draw", "review.graph.red"][v + 1]);
    svg.append(draw("line", { class: "grid", x1: left, x2: width, y1: y(v), y2: y(v) }), draw("text", { x: 0, y: y(v) + 4 }, name));
  }
  svg.append(draw("line", { class: "here", x1: x(at), x2: x(at), y1: 2, y2: height - 2 }));
  const seen = points.filter((p) => p.value !== null);
  for (let k = 1; k < seen.length; k++) {
    const [a, b] = [seen[k - 1], seen[k]];
    svg.append(draw("path", { class: a.proved && b.proved ? "proved" : "guess", d: `M${x(a.i).toFixed(1)} ${y(a.value).toFixed(1)}L${x(b.i).toFixed(1)} ${y(b.value).toFixed(1)}` }));
  }
  const r = Math.min(3, Math.max(1.5, 100 / (n + 1)));
  for (const p of points) {
    if (!p.proved) { // draw the range in which the result is proved to be
      svg.append(draw("path", { class: "range", d: `M${x(p.i)} ${y(p.least)}V${y(p.most)}` }));
    }
    if (p.value !== null) {
      const [px, py] = [x(p.i), y(p.value)];
      svg.append(p.proved ? draw("circle", { class: "proved", cx: px, cy: py, r }) : draw("path", { class: "opinion", d: `M${px} ${py - r - 1}l${r + 1} ${r + 1}l${-r - 1} ${r + 1}l${-r - 1} ${-r - 1}Z` }));
    }
  }
  game.moves.forEach((m, i) => {
    const p = points[i + 1];
    if (isMistake(m) && p.value !== null) {
      const size = m.mark === "slower" || m.mark === "sooner" ? 3.5 : 5.5;
      const up = p.value > 0 ? -1 : 1; // direction to the outside of the graph
      const py = y(p.value) + up * 5;
      svg.append(draw("path", { class: "mistake", d: `M${x(i + 1)} ${py}l${size} ${up * size * 1.6}h${-2 * size}Z` }));
    }
  });
  element.replaceChildren(svg);
  return { moveAt: (share) => ((share * width - left) / (width - left - right)) * n };
}
