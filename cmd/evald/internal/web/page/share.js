// A field for opening a position, and a link for copying the current one.
import { post } from "./api.js";
import { $, setText } from "./dom.js";
import { say } from "./strings.js";

export function sharing() {
  $("share").addEventListener("click", copy);
  $("moves").addEventListener("keydown", (e) => {
    if (e.key === "Enter") {
      go($("moves").value.trim());
    }
  });
  $("moves").addEventListener("input", () => complain(""));
}

// go opens a position. If the position is invalid, the game stays as it is, and the error is shown beside the field.
async function go(position) {
  try {
    await post("/ui/game", { position });
  } catch (e) {
    complain(e.message);
    return;
  }
  complain("");
  location.hash = "#" + position;
}

export function complain(text) {
  $("moves").toggleAttribute("aria-invalid", text !== "");
  if (text) {
    $("moves").setAttribute("aria-invalid", "true");
  }
  setText($("moves-problem"), text);
}

async function copy() {
  const link = location.href;
  try {
    await navigator.clipboard.writeText(link);
    setText($("share"), say("share.copied"));
    setTimeout(() => setText($("share"), say("share.copy")), 2000);
  } catch {
    // Without a secure context there is no clipboard, so the link is written into the field, where the visitor can copy it.
    $("moves").value = link;
    $("moves").select();
  }
}
