// What the browser keeps for the visitor. A browser may refuse to keep anything: then the visitor chooses again next time.

// read returns the object that is kept under a name; an empty one if there is none.
export function read(name) {
  try {
    return JSON.parse(localStorage.getItem(name)) || {};
  } catch {
    return {};
  }
}

// write keeps an object under a name. It returns whether the browser keeps it.
export function write(name, object) {
  try {
    localStorage.setItem(name, JSON.stringify(object));
    return true;
  } catch {
    return false;
  }
}

const choices = "evald";

// recall returns what the visitor chose.
export const recall = () => read(choices);

// keep adds choices to those that are kept. It returns whether the browser keeps them.
export const keep = (more) => write(choices, { ...recall(), ...more });
