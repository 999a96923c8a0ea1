// Keys that work wherever the focus is, except in elements that use them themselves: fields, lists of choices, and the board.

const own = "input, select, textarea, summary, #board";

// While shown returns true, listen calls go(-1) and go(1) for the left and right arrow keys, and play with a digit.
export function listen({ shown, go, play }) {
  document.addEventListener("keydown", (e) => {
    if (e.defaultPrevented || e.ctrlKey || e.metaKey || e.altKey || e.shiftKey || !shown() || e.target.closest?.(own)) {
      return;
    }
    if (e.key === "ArrowLeft" || e.key === "ArrowRight") {
      go(e.key === "ArrowLeft" ? -1 : 1);
    } else if (/^[1-9]$/.test(e.key)) {
      play(e.key);
    } else {
      return;
    }
    e.preventDefault();
  });
}
