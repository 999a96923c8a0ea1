// Refreshes the page of a learner and its workers every few seconds, in place, so that the scroll position and the focus stay.
const every = 5000;
const main = document.getElementById("main");

async function renew() {
  let text = "The learner does not answer. What is below was so before.";
  try {
    const answer = await fetch("/", {cache: "no-store"});
    if (answer.ok) {
      const page = new DOMParser().parseFromString(await answer.text(), "text/html");
      document.title = page.title;
      main.replaceChildren(...page.getElementById("main").childNodes);
      text = "";
    }
  } catch { // the learner has ended, or the network has failed
  }
  const lost = document.getElementById("lost");
  lost.textContent = text;
  lost.hidden = text === "";
  setTimeout(renew, every);
}

setTimeout(renew, every);
