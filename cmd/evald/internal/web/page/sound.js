// Sounds of the game: a knock when a stone lands, two notes at the end. They are off unless the visitor turns them on.
import { $ } from "./dom.js";

let audio = null; // created late, because browsers allow it only after the visitor's first click or key

// tone plays a note of a frequency in hertz, which begins after begin seconds and lasts length seconds.
function tone(hertz, begin, length) {
  const oscillator = audio.createOscillator(), volume = audio.createGain();
  const start = audio.currentTime + begin;
  oscillator.type = "triangle";
  oscillator.frequency.value = hertz;
  volume.gain.setValueAtTime(0.2, start);
  volume.gain.exponentialRampToValueAtTime(0.001, start + length);
  oscillator.connect(volume).connect(audio.destination);
  oscillator.start(start);
  oscillator.stop(start + length);
}

// sound plays the sounds of the last move.
export function sound(game) {
  if (!$("sound").checked || !window.AudioContext) {
    return;
  }
  audio ??= new AudioContext();
  tone(game.side === 0 ? 150 : 180, 0, 0.12);
  if (game.result) {
    tone(game.result === "won" ? 440 : 330, 0.15, 0.3);
    tone(game.result === "won" ? 660 : 330, 0.35, 0.5);
  }
}
