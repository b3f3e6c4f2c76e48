// A picture goes to the server inside the question about it, so that no file of a stranger is ever laid on its disk.
const input = element.querySelector("input[type=file]");
const swap = element.querySelector("input[type=checkbox]");
const trouble = element.querySelector("[role=alert]");
const most = Number(input.dataset.most);

async function send() {
  const file = input.files[0];
  trouble.textContent = "";
  if (!file) return;
  if (file.size > most) {
    trouble.textContent = `This file has ${Math.ceil(file.size / 2 ** 20)} MB; at most ${most / 2 ** 20} MB are taken.`;
    return;
  }
  const reader = new FileReader();
  reader.onload = () => trigger("submit", { picture: reader.result, swap: swap.checked });
  reader.onerror = () => (trouble.textContent = "This file cannot be read.");
  reader.readAsDataURL(file);
}

input.addEventListener("change", send);
swap.addEventListener("change", send);
