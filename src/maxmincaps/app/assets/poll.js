"use strict";
// One image at a time. An answer counts once the server has stored it on disk; until then it is sent again.

const part = (id) => document.getElementById(id);
let poll = null; // {classes, order, answers, open, cannotTell} from the server
let place = 0; // position in the person's own order of images; order.length is the end
let sending = false;

const wait = (milliseconds) => new Promise((resolve) => setTimeout(resolve, milliseconds));
const answered = () => poll.order.filter((number) => number in poll.answers).length;

async function asked(path, options) {
  // A stopped server may come back: retry at growing intervals, and say so.
  for (let pause = 250; ; pause = Math.min(2 * pause, 4000)) {
    try {
      const answer = await fetch(path, { credentials: "same-origin", cache: "no-store", ...options });
      const reply = await answer.json().catch(() => ({ error: "This page needs the whole address that you were sent." }));
      part("trouble").textContent = answer.ok ? "" : reply.error;
      return answer.ok ? reply : { refused: answer.status };
    } catch {
      part("trouble").textContent = "No connection. Your answer is kept here and sent as soon as there is one.";
      await wait(pause);
    }
  }
}

async function begin() {
  const reply = await asked("state");
  if (reply.refused) return;
  poll = reply;
  const numbered = poll.classes.every((name) => /^\d$/.test(name));
  part("question").textContent = numbered ? "Which digit do you see?" : "What do you see?";
  part("choices").classList.toggle("words", !numbered);
  part("hint").textContent = `Keys: 0 to 9 answer${numbered ? "" : ", in order"}; c means “I cannot tell”; ← goes back.`;
  part("choices").replaceChildren(...poll.classes.map(choice));
  const open = poll.order.findIndex((number) => !(number in poll.answers));
  place = open < 0 ? poll.order.length : open;
  show();
}

function choice(name, label) {
  const button = document.createElement("button");
  button.type = "button";
  button.textContent = name;
  button.addEventListener("click", () => answer(label));
  return button;
}

function show() {
  const ended = place >= poll.order.length;
  part("asking").hidden = ended || !poll.open;
  part("thanks").hidden = !ended || !poll.open;
  part("closed").hidden = poll.open;
  const count = poll.order.length;
  const words = count === 1 ? "image" : "images";
  part("progress").max = count;
  part("progress").value = answered();
  part("progress-words").textContent = ended
    ? `${answered()} of ${count} ${words} answered`
    : `Image ${place + 1} of ${count} · ${answered()} answered`;
  part("thanks-words").textContent = `All ${count} of your answers are stored. You can close this page.`;
  if (!ended) showImage();
}

function showImage() {
  const number = poll.order[place];
  const image = part("image");
  image.src = `image/${number}.png`;
  image.alt = `Image ${place + 1} of ${poll.order.length}: what it shows is the question.`;
  [...part("choices").children].forEach((button, label) => {
    button.setAttribute("aria-pressed", String(poll.answers[number] === label));
  });
  part("cannot-tell").setAttribute("aria-pressed", String(poll.answers[number] === poll.cannotTell));
  part("back").disabled = place === 0;
  part("forward").disabled = !(number in poll.answers);
  const next = poll.order[place + 1];
  if (next !== undefined) new Image().src = `image/${next}.png`;
}

async function answer(label) {
  if (!poll || !poll.open || sending || place >= poll.order.length || label >= poll.classes.length) return;
  sending = true;
  const number = poll.order[place];
  (part("choices").children[label] ?? part("cannot-tell")).setAttribute("aria-pressed", "true");
  const reply = await asked("answer", {
    method: "POST",
    headers: { "content-type": "application/json" },
    body: JSON.stringify({ image: number, label }),
  });
  sending = false;
  if (reply.refused === 409) poll.open = false;
  if (!reply.refused) {
    poll.answers[number] = label;
    place += 1;
  }
  show();
}

function move(step) {
  if (!poll || sending) return;
  const furthest = poll.order.findIndex((number) => !(number in poll.answers));
  const last = furthest < 0 ? poll.order.length : furthest;
  place = Math.max(0, Math.min(place + step, last));
  show();
}

part("cannot-tell").addEventListener("click", () => answer(poll.cannotTell));
part("back").addEventListener("click", () => move(-1));
part("forward").addEventListener("click", () => move(1));
part("again").addEventListener("click", () => move(-1));
document.addEventListener("keydown", (event) => {
  if (event.repeat || event.ctrlKey || event.altKey || event.metaKey) return;
  if (/^[0-9]$/.test(event.key)) answer(Number(event.key));
  if (event.key === "c" && poll) answer(poll.cannotTell);
  if (event.key === "ArrowLeft" || event.key === "Backspace") move(-1);
  if (event.key === "ArrowRight") move(1);
});
begin();
