// A position by its text: to go to, and as a link to pass on.
import { $, setText } from "./dom.js";

export function sharing() {
  $("share").addEventListener("click", copy);
  $("moves").addEventListener("keydown", (e) => {
    if (e.key === "Enter") {
      location.hash = "#" + $("moves").value.trim();
    }
  });
}

async function copy() {
  const link = location.href;
  try {
    await navigator.clipboard.writeText(link);
    setText($("share"), "Copied");
    setTimeout(() => setText($("share"), "Copy link"), 2000);
  } catch {
    // Without a secure context there is no clipboard: the field can be copied from.
    $("moves").value = link;
    $("moves").select();
  }
}
