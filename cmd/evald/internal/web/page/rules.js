// The form for choosing the rules of the game.
import { $ } from "./dom.js";

export class Rules {
  // Rules calls chosen with the text of the rules.
  constructor(chosen) {
    $("rules").addEventListener("change", () => {
      $("rules-row").hidden = $("rules").value !== "other";
      if ($("rules").value !== "other") {
        chosen(this.text());
      } else {
        $("rules-text").focus();
      }
    });
    $("rules-text").addEventListener("change", () => chosen(this.text()));
  }

  text() {
    return $("rules").value === "other" ? $("rules-text").value.trim() : $("rules").value;
  }

  // show selects the rules of the game.
  show(rules) {
    const known = [...$("rules").options].some((o) => o.value === rules);
    if ($("rules").value !== "other" || known) {
      $("rules").value = known ? rules : "other";
    }
    if (!known) {
      $("rules-text").value = rules;
    }
    $("rules-row").hidden = $("rules").value !== "other";
  }
}
