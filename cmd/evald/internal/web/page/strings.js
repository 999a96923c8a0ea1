// The page's texts, in English and German, by key; the test TestStrings holds both to the same keys and values. A text may have
// parts that change: "{n} of {all} moves".

export const texts = {
  en: {
    "language.name": "Language",

    "tree.name": "Search tree",
    "tree.title": "Search tree - evald",
    "tree.explain": "What a search of this position has tried. Each line is a move: its visits, the evaluator's share before the search, and its value for the player who makes it. The expected moves are marked.",
    "tree.position": "Position",
    "tree.visits": "Visits",
    "tree.show": "Search",
    "tree.unfold": "Unfold all",
    "tree.fold": "Fold all",
    "tree.searching": "Searching ..",
    "tree.root": "{visits} visits; {value} for {side}",
    "tree.line": "{n} {side}: {visits} visits, share {share}%, value {value}",
    "tree.expected": "expected",
    "tree.left": "not shown: {n}",
    "tree.none": "The search keeps no moves here: {line} decides.",
    "tree.play": "Go to this position",
    "tree.red": "Red",
    "tree.yellow": "Yellow",
    "tree.win": "win",
    "tree.draw": "draw",
    "tree.loss": "loss",
  },
  de: {
    "language.name": "Sprache",

    "tree.name": "Suchbaum",
    "tree.title": "Suchbaum - evald",
    "tree.explain": "Was eine Suche in dieser Stellung versucht hat. Jede Zeile ist ein Zug: wie oft er besucht wurde, sein Anteil vor der Suche, und sein Wert für den Spieler, der ihn macht. Die erwarteten Züge sind markiert.",
    "tree.position": "Stellung",
    "tree.visits": "Besuche",
    "tree.show": "Suchen",
    "tree.unfold": "Alles aufklappen",
    "tree.fold": "Alles zuklappen",
    "tree.searching": "Suche läuft ..",
    "tree.root": "{visits} Besuche; {value} für {side}",
    "tree.line": "{n} {side}: {visits} Besuche, Anteil {share}%, Wert {value}",
    "tree.expected": "erwartet",
    "tree.left": "nicht gezeigt: {n}",
    "tree.none": "Die Suche hat hier keine Züge: {line} entscheidet.",
    "tree.play": "Zu dieser Stellung",
    "tree.red": "Rot",
    "tree.yellow": "Gelb",
    "tree.win": "Gewinn",
    "tree.draw": "Remis",
    "tree.loss": "Verlust",
  },
};

export const languages = { en: "English", de: "Deutsch" };

// language is the visitor's choice, or else the browser's language, or else English.
export const language = (() => {
  const wanted = [remembered(), ...navigator.languages.map((name) => name.slice(0, 2))];
  return wanted.find((name) => Object.hasOwn(texts, name)) ?? "en";
})();

function remembered() {
  try {
    return localStorage.getItem("evald.language");
  } catch {
    return null; // a browser may keep nothing
  }
}

// speak changes the language, which needs a new page.
export function speak(name) {
  try {
    localStorage.setItem("evald.language", name);
  } finally {
    location.reload();
  }
}

// say returns a text in the visitor's language, with values in place of its {parts}.
export function say(key, values = {}) {
  return texts[language][key].replace(/\{(\w+)\}/g, (_, part) => values[part]);
}

// translate writes the texts of the page's own elements: data-say is the key of an element's text, data-say-label that of its
// label for screen readers.
export function translate() {
  document.documentElement.lang = language;
  for (const element of document.querySelectorAll("[data-say]")) {
    element.textContent = say(element.dataset.say);
  }
  for (const element of document.querySelectorAll("[data-say-label]")) {
    element.setAttribute("aria-label", say(element.dataset.sayLabel));
  }
}
