// A picture is sent inside the event about it, so that no file of a visitor is written to the server's disk.
const input = element.querySelector("input[type=file]");
const invert = element.querySelector("input[type=checkbox]");
const trouble = element.querySelector("[role=alert]");
const most = Number(input.dataset.most);

async function send() {
  const file = input.files[0];
  trouble.textContent = "";
  if (!file) return;
  if (file.size > most) {
    trouble.textContent = `This file has ${Math.ceil(file.size / 2 ** 20)} MB; at most ${most / 2 ** 20} MB are allowed.`;
    return;
  }
  const reader = new FileReader();
  reader.onload = () => trigger("submit", { picture: reader.result, invert: invert.checked });
  reader.onerror = () => (trouble.textContent = "This file cannot be read.");
  reader.readAsDataURL(file);
}

input.addEventListener("change", send);
invert.addEventListener("change", send);
