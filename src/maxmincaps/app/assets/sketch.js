// The sketch pad: white ink on black, as the training digits are. Each stroke that ends is sent as a small PNG.
const canvas = element.querySelector("canvas");
const hint = element.querySelector("span");
const ink = canvas.getContext("2d", { willReadFrequently: true });
let last = null;

function wipe() {
  hint.hidden = false;
  ink.fillStyle = "#000";
  ink.fillRect(0, 0, canvas.width, canvas.height);
}

function at(event) {
  const box = canvas.getBoundingClientRect();
  return [
    ((event.clientX - box.left) * canvas.width) / box.width,
    ((event.clientY - box.top) * canvas.height) / box.height,
  ];
}

function stroke(event) {
  if (!last) return;
  const next = at(event);
  ink.strokeStyle = "#fff";
  ink.lineWidth = canvas.width / 13;
  ink.lineCap = ink.lineJoin = "round";
  ink.beginPath();
  ink.moveTo(...last);
  ink.lineTo(...next);
  ink.stroke();
  last = next;
}

canvas.addEventListener("pointerdown", (event) => {
  canvas.setPointerCapture(event.pointerId);
  hint.hidden = true;
  last = at(event);
  stroke(event);
  event.preventDefault();
});
canvas.addEventListener("pointermove", stroke);
for (const end of ["pointerup", "pointercancel"]) {
  canvas.addEventListener(end, () => {
    if (!last) return;
    last = null;
    trigger("submit", { picture: canvas.toDataURL("image/png") });
  });
}
element.querySelector("button").addEventListener("click", wipe);
wipe();
