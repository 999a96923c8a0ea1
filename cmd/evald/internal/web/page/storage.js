// The visitor's choices and data in the browser's storage. If the browser refuses to store them, the visitor must choose again next time.

// read returns the object stored under a name, or an empty one.
export function read(name) {
  try {
    return JSON.parse(localStorage.getItem(name)) || {};
  } catch {
    return {};
  }
}

// write stores an object under a name. It returns whether the browser has stored it.
export function write(name, object) {
  try {
    localStorage.setItem(name, JSON.stringify(object));
    return true;
  } catch {
    return false;
  }
}

const choices = "evald";

// recall returns the visitor's choices.
export const recall = () => read(choices);

// keep adds choices to the stored ones. It returns whether the browser has stored them.
export const keep = (more) => write(choices, { ...recall(), ...more });
