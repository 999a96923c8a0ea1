// What the page keeps in the browser's storage, which all tabs of the page share. A change is made to what is stored at that moment, so that
// tabs do not lose each other's changes. Changes that the browser refuses to store last until the page is closed, and are stored with the
// next one that it accepts.

export const stores = new Map(); // all stores by name

let refused = null; // is called when the browser refuses to store something for the first time

// whenRefused sets the function that tells the visitor so.
export function whenRefused(tell) {
  refused = tell;
}

export class Store {
  // fresh returns the value if nothing is stored. checked returns a copy of a stored value with its valid parts, or throws if there are none;
  // what is stored then moves to the name with .old before it is replaced.
  constructor(name, fresh, checked) {
    Object.assign(this, { name, fresh, checked, text: undefined, value: null, waiting: [], kept: true, readable: true });
    stores.set(name, this);
  }

  // get returns the value, which callers must not change.
  get() {
    let text = null;
    try {
      text = localStorage.getItem(this.name);
    } catch {
      // the browser stores nothing
    }
    if (text !== this.text) {
      this.text = text;
      this.value = this.waiting.reduce(applied, this.parse(text));
    }
    return this.value;
  }

  parse(text) {
    this.readable = true;
    try {
      return text === null ? this.fresh() : this.checked(JSON.parse(text));
    } catch {
      this.readable = false;
      return this.fresh();
    }
  }

  // change applies a function to the value, and stores it. The function changes the value or returns a new one; it is called again if the value
  // could not be stored and another tab has changed it. change returns whether the browser has stored the value.
  change(by) {
    this.value = applied(this.get(), by);
    const text = JSON.stringify(this.value);
    try {
      if (!this.readable) {
        localStorage.setItem(this.name + ".old", this.text);
      }
      localStorage.setItem(this.name, text);
      Object.assign(this, { text, waiting: [], kept: true, readable: true });
    } catch {
      this.waiting.push(by);
      this.kept = false;
      refused?.();
      refused = null;
    }
    return this.kept;
  }

  // remove deletes what is stored.
  remove() {
    Object.assign(this, { text: null, value: this.fresh(), waiting: [] });
    try {
      localStorage.removeItem(this.name);
    } catch {
      // nothing was stored
    }
  }

  // watch calls changed when another tab has changed the value.
  watch(changed) {
    addEventListener("storage", (e) => {
      if (e.key === this.name || e.key === null) {
        changed();
      }
    });
  }
}

function applied(value, by) {
  return by(value) ?? value;
}

// object returns x if it is an object, and throws otherwise.
export function object(x) {
  if (typeof x !== "object" || x === null || Array.isArray(x)) {
    throw new TypeError("not an object");
  }
  return x;
}

const choices = new Store("evald", () => ({}), object);

// recall returns the visitor's choices.
export const recall = () => choices.get();

// keep adds choices to the stored ones. It returns whether the browser has stored them.
export const keep = (more) => choices.change((all) => Object.assign(all, more));
