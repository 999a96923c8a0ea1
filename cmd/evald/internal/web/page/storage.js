// What the visitor chose, kept by the browser. A browser may refuse to keep anything: then the visitor chooses again next time.
const name = "evald";

export function recall() {
  try {
    return JSON.parse(localStorage.getItem(name)) || {};
  } catch {
    return {};
  }
}

// keep adds choices to those that are kept. It returns whether the browser keeps them.
export function keep(choices) {
  try {
    localStorage.setItem(name, JSON.stringify({ ...recall(), ...choices }));
    return true;
  } catch {
    return false;
  }
}
