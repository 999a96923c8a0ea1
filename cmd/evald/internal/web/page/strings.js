// The page's texts, in English and German, by key; the test TestStrings holds both to the same keys and values. A text may have
// parts that change: "{n} of {all} moves".

export const texts = {
  en: {
    "language.name": "Language",
    "puzzles.nav": "Puzzles",
    "puzzles.red": "Red",
    "puzzles.yellow": "Yellow",
    "puzzles.none": "The puzzles cannot be loaded: the server answered {status}.",
    "puzzles.puzzle": "Puzzle",
    "puzzles.mistake": "One of your mistakes",
    "puzzles.daily.of": "Puzzle of {date}",
    "puzzles.rated": "rating {rating}",
    "puzzles.task.win": "{side} to move: one move alone wins",
    "puzzles.task.draw": "{side} to move: one move alone does not lose",
    "puzzles.task.own": "{side} to move: find the right move",
    "puzzles.right": "Right: {move} is the move.",
    "puzzles.wrong.win": "{move} gives the win away.",
    "puzzles.wrong.draw": "{move} loses.",
    "puzzles.wrong.own": "{move} is not the right move.",
    "puzzles.shown": "{move} was the move.",
    "puzzles.change": "Your rating: {rating} ({change}).",
    "puzzles.follows": "What follows, if both sides play their best",
    "puzzles.looking": "Looking ..",
    "puzzles.unknown": "The solver did not finish in time.",
    "puzzles.goeson": "The game goes on from there.",
    "puzzles.draw": "The game ends in a draw.",
    "puzzles.wins": "{side} wins.",
    "puzzles.scores": "What each move is worth",
    "puzzles.result.good": "wins",
    "puzzles.result.even": "draws",
    "puzzles.result.bad": "loses",
    "puzzles.again": "Try again",
    "puzzles.show": "Show the move",
    "puzzles.more": "Another puzzle",
    "puzzles.on": "Play on from here",
    "puzzles.you": "Your rating",
    "puzzles.count": "{right} of {tried} right at the first try",
    "puzzles.choose": "Choose a puzzle",
    "puzzles.daily": "Puzzle of the day",
    "puzzles.next": "Near your rating",
    "puzzles.review": "Your mistakes ({count})",
    "puzzles.theme": "Theme",
    "puzzles.any": "any",
    "puzzles.help": "A puzzle that you got wrong comes back after 1 day, and after right answers again after 3, 7 and 21 days. The first try counts for your rating. On the board: arrows and Enter, or the number of a column; Backspace tries again.",
    "puzzles.yours": "Your data",
    "puzzles.kept": "Your rating and your mistakes are kept in this browser only.",
    "puzzles.unkept": "This browser keeps nothing: your rating and your mistakes last until this page is closed.",
    "puzzles.save": "Save as a file",
    "puzzles.load": "Load a file",
    "puzzles.delete": "Delete all",
    "puzzles.sure": "Really delete all?",
    "puzzles.saved": "Saved.",
    "puzzles.loaded": "Loaded.",
    "puzzles.nofile": "This is no file of puzzle data; nothing has changed.",
    "puzzles.deleted": "All is deleted.",
    "puzzles.theme.double-threat": "Double threat",
    "puzzles.theme.attack": "Attack",
    "puzzles.theme.sacrifice": "Sacrifice",
    "puzzles.theme.defence": "Defence",
    "puzzles.theme.tempo": "Tempo",
    "puzzles.theme.zugzwang": "Zugzwang",
    "puzzles.theme.plan": "Plan",
    "puzzles.theme.hold": "Holding a draw",
    "puzzles.about.double-threat": "after the move there are two threats, and one block is not enough.",
    "puzzles.about.attack": "each stone makes a threat that has to be blocked, until there are two at once.",
    "puzzles.about.sacrifice": "the stone lets the other side take a cell where it would win itself.",
    "puzzles.about.defence": "the other side has an attack that would win, and the move stops it.",
    "puzzles.about.tempo": "the move makes a threat, and so gains time.",
    "puzzles.about.zugzwang": "the other side would not lose if it did not have to move.",
    "puzzles.about.plan": "no threat at once, but a position that is won.",
    "puzzles.about.hold": "every other move loses in the end.",
  },
  de: {
    "language.name": "Sprache",
    "puzzles.nav": "Aufgaben",
    "puzzles.red": "Rot",
    "puzzles.yellow": "Gelb",
    "puzzles.none": "Die Aufgaben lassen sich nicht laden: Der Server antwortete {status}.",
    "puzzles.puzzle": "Aufgabe",
    "puzzles.mistake": "Einer Ihrer Fehler",
    "puzzles.daily.of": "Aufgabe vom {date}",
    "puzzles.rated": "Wertung {rating}",
    "puzzles.task.win": "{side} am Zug: Nur ein Zug gewinnt",
    "puzzles.task.draw": "{side} am Zug: Nur ein Zug verliert nicht",
    "puzzles.task.own": "{side} am Zug: Finden Sie den richtigen Zug",
    "puzzles.right": "Richtig: {move} ist der Zug.",
    "puzzles.wrong.win": "{move} verschenkt den Gewinn.",
    "puzzles.wrong.draw": "{move} verliert.",
    "puzzles.wrong.own": "{move} ist nicht der richtige Zug.",
    "puzzles.shown": "{move} war der Zug.",
    "puzzles.change": "Ihre Wertung: {rating} ({change}).",
    "puzzles.follows": "So geht es weiter, wenn beide ihr Bestes spielen",
    "puzzles.looking": "Wird gesucht ..",
    "puzzles.unknown": "Der Löser wurde nicht rechtzeitig fertig.",
    "puzzles.goeson": "Von dort geht die Partie weiter.",
    "puzzles.draw": "Die Partie endet unentschieden.",
    "puzzles.wins": "{side} gewinnt.",
    "puzzles.scores": "Was jeder Zug wert ist",
    "puzzles.result.good": "gewinnt",
    "puzzles.result.even": "remis",
    "puzzles.result.bad": "verliert",
    "puzzles.again": "Noch einmal",
    "puzzles.show": "Zug zeigen",
    "puzzles.more": "Weitere Aufgabe",
    "puzzles.on": "Von hier weiterspielen",
    "puzzles.you": "Ihre Wertung",
    "puzzles.count": "{right} von {tried} beim ersten Versuch richtig",
    "puzzles.choose": "Aufgabe wählen",
    "puzzles.daily": "Aufgabe des Tages",
    "puzzles.next": "Passend zu Ihrer Wertung",
    "puzzles.review": "Ihre Fehler ({count})",
    "puzzles.theme": "Thema",
    "puzzles.any": "beliebig",
    "puzzles.help": "Eine Aufgabe, die Sie falsch lösten, kommt nach 1 Tag wieder, nach richtigen Antworten noch einmal nach 3, 7 und 21 Tagen. Für die Wertung zählt der erste Versuch. Auf dem Brett: Pfeiltasten und Eingabe, oder die Nummer einer Spalte; die Rücktaste versucht es noch einmal.",
    "puzzles.yours": "Ihre Daten",
    "puzzles.kept": "Ihre Wertung und Ihre Fehler bleiben allein in diesem Browser.",
    "puzzles.unkept": "Dieser Browser speichert nichts: Ihre Wertung und Ihre Fehler bleiben, bis diese Seite geschlossen wird.",
    "puzzles.save": "Als Datei speichern",
    "puzzles.load": "Datei laden",
    "puzzles.delete": "Alles löschen",
    "puzzles.sure": "Wirklich alles löschen?",
    "puzzles.saved": "Gespeichert.",
    "puzzles.loaded": "Geladen.",
    "puzzles.nofile": "Das ist keine Datei mit Daten von Aufgaben; nichts wurde geändert.",
    "puzzles.deleted": "Alles ist gelöscht.",
    "puzzles.theme.double-threat": "Doppeldrohung",
    "puzzles.theme.attack": "Angriff",
    "puzzles.theme.sacrifice": "Opfer",
    "puzzles.theme.defence": "Verteidigung",
    "puzzles.theme.tempo": "Tempo",
    "puzzles.theme.zugzwang": "Zugzwang",
    "puzzles.theme.plan": "Plan",
    "puzzles.theme.hold": "Remis halten",
    "puzzles.about.double-threat": "Nach dem Zug gibt es zwei Drohungen, und eine Abwehr reicht nicht.",
    "puzzles.about.attack": "Jeder Stein droht und muss beantwortet werden, bis es zwei Drohungen zugleich gibt.",
    "puzzles.about.sacrifice": "Der Stein überlässt der anderen Seite ein Feld, auf dem man selbst gewänne.",
    "puzzles.about.defence": "Die andere Seite hat einen Angriff, der gewänne; der Zug hält ihn auf.",
    "puzzles.about.tempo": "Der Zug droht und gewinnt so Zeit.",
    "puzzles.about.zugzwang": "Die andere Seite verlöre nicht, wenn sie nicht ziehen müsste.",
    "puzzles.about.plan": "Keine Drohung sofort, aber eine gewonnene Stellung.",
    "puzzles.about.hold": "Jeder andere Zug verliert am Ende.",
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
