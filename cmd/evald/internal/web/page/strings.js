// The page's texts, in English and German, by key; the test TestStrings holds both to the same keys and values. A text may have
// parts that change: "{n} of {all} moves".

export const texts = {
  en: {
    "language.name": "Language",

    "level.option": "{name}, Elo {elo} on 7x6",
    "level.beginner": "beginner",
    "level.beginner.sees": "Overlooks your threats and diagonals in 90% of its moves, and sees only your next stone.",
    "level.novice": "novice",
    "level.novice.sees": "Overlooks your threats in 50% of its moves and diagonals in 60%, and sees only your next stone.",
    "level.casual": "casual",
    "level.casual.sees": "Overlooks your threats in 25% of its moves and diagonals in 40%, and sees only your next stone.",
    "level.fair": "fair",
    "level.fair.sees": "Overlooks your threats in 12% of its moves and diagonals in 20%, and sees only your next stone.",
    "level.steady": "steady",
    "level.steady.sees": "Overlooks your threats in 6% of its moves and diagonals in 10%, and looks only 3 stones ahead.",
    "level.good": "good",
    "level.good.sees": "Overlooks your threats in 3% of its moves and diagonals in 5%, and looks only 4 stones ahead.",
    "level.strong": "strong",
    "level.strong.sees": "Looks only 4 stones ahead, and often plays another move than it likes best.",
    "level.expert": "expert",
    "level.expert.sees": "Looks only 6 stones ahead, and at times plays another move than it likes best.",
    "level.master": "master",
    "level.master.sees": "Looks only 8 stones ahead, and may not see who wins a long endgame.",
    "level.perfect": "perfect",
    "level.perfect.sees": "Overlooks nothing that decides a game on 7x6; on other boards, what it cannot prove in time.",
  },
  de: {
    "language.name": "Sprache",

    "level.option": "{name}, Elo {elo} auf 7x6",
    "level.beginner": "Anfänger",
    "level.beginner.sees": "Übersieht Ihre Drohungen und Diagonalen in 90 % seiner Züge und sieht nur Ihren nächsten Stein.",
    "level.novice": "Neuling",
    "level.novice.sees": "Übersieht Ihre Drohungen in 50 % seiner Züge und Diagonalen in 60 % und sieht nur Ihren nächsten Stein.",
    "level.casual": "gelegentlich",
    "level.casual.sees": "Übersieht Ihre Drohungen in 25 % seiner Züge und Diagonalen in 40 % und sieht nur Ihren nächsten Stein.",
    "level.fair": "passabel",
    "level.fair.sees": "Übersieht Ihre Drohungen in 12 % seiner Züge und Diagonalen in 20 % und sieht nur Ihren nächsten Stein.",
    "level.steady": "solide",
    "level.steady.sees": "Übersieht Ihre Drohungen in 6 % seiner Züge und Diagonalen in 10 % und schaut nur 3 Steine voraus.",
    "level.good": "gut",
    "level.good.sees": "Übersieht Ihre Drohungen in 3 % seiner Züge und Diagonalen in 5 % und schaut nur 4 Steine voraus.",
    "level.strong": "stark",
    "level.strong.sees": "Schaut nur 4 Steine voraus und spielt oft einen anderen Zug als den, der ihm am besten gefällt.",
    "level.expert": "Experte",
    "level.expert.sees": "Schaut nur 6 Steine voraus und spielt manchmal einen anderen Zug als den, der ihm am besten gefällt.",
    "level.master": "Meister",
    "level.master.sees": "Schaut nur 8 Steine voraus und sieht womöglich nicht, wer ein langes Endspiel gewinnt.",
    "level.perfect": "perfekt",
    "level.perfect.sees": "Übersieht nichts, was ein Spiel auf 7x6 entscheidet; auf anderen Brettern, was es nicht rechtzeitig beweisen kann.",
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
