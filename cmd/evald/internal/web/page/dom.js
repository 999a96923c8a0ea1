// Helpers for DOM elements, and for numbers as text.

export const $ = (id) => document.getElementById(id);

// make returns a new element with attributes and children. Callers set styles through element.style: the page's security
// policy forbids style attributes.
export function make(name, attributes = {}, ...children) {
  return fill(document.createElement(name), attributes, children);
}

export function draw(name, attributes = {}, ...children) {
  return fill(document.createElementNS("http://www.w3.org/2000/svg", name), attributes, children);
}

function fill(element, attributes, children) {
  for (const [key, value] of Object.entries(attributes)) {
    element.setAttribute(key, value);
  }
  element.append(...children);
  return element;
}

// setText sets an element's text only if it differs, so that screen readers do not read the same text again.
export function setText(element, text) {
  if (element.textContent !== text) {
    element.textContent = text;
  }
}

// count formats a number with three significant digits: 831, 12.3 k, 4.56 M.
export function count(n) {
  const negative = n < 0 ? "-" : "";
  n = Math.abs(n);
  if (n < 1000) {
    return negative + (Number.isInteger(n) ? String(n) : String(Number(n.toPrecision(3))));
  }
  let unit = -1;
  for (; n >= 999.5 && unit < 4; unit++) {
    n /= 1000;
  }
  return negative + Number(n.toPrecision(3)) + " " + "kMGTP"[unit];
}

// duration formats seconds with two or three significant digits: 512 µs, 16 ms, 1.2 s.
export function duration(s) {
  let unit = 0;
  for (; s > 0 && s < 0.9995 && unit < 3; unit++) {
    s *= 1000;
  }
  return Number(s.toPrecision(s < 100 ? 2 : 3)) + " " + ["s", "ms", "µs", "ns"][unit];
}
