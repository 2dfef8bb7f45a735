// A place to drop files on, to choose them by keyboard, or to paste an image into.
import { el, icon } from "./dom.js";

const MOST_SHOWN = 24;

/** A thumbnail of a file, or its name where the browser cannot show it. */
function thumbnail(file, remove) {
  const drop = el("button", { type: "button", class: "remove", "aria-label": `Remove ${file.name}`, onclick: remove }, icon("close"));
  const item = el("li", { title: file.name }, drop);
  if (!file.type.startsWith("image/")) item.prepend(el("span", {}, file.name));
  else {
    const url = URL.createObjectURL(file);
    item.prepend(el("img", { src: url, alt: file.name, decoding: "async", onload: () => URL.revokeObjectURL(url),
      onerror: (event) => event.target.replaceWith(el("span", {}, file.name)) }));
  }
  return item;
}

/**
 * dropZone({label, accept, multiple, folder, example}) returns a node with `.files`, the files chosen so far. The input
 * inside it is a real file input that covers the zone: it works with the mouse, the keyboard and screen readers. folder: whole
 * folders may be chosen too. example: a function that gives a file to try things with.
 */
export function dropZone({ label, accept = "image/*", multiple = false, folder = false, example }) {
  const list = el("ul", { "aria-label": `${label}: files` });
  const chooser = el("input", { type: "file", accept, multiple, "aria-label": label, onchange: () => { take(chooser.files); chooser.value = ""; } });
  const whole = folder && el("input", { type: "file", class: "unseen", webkitdirectory: "", tabindex: -1, "aria-label": `${label}: a folder`,
    onchange: () => take([...whole.files].filter((file) => file.type.startsWith("image/"))) });
  const zone = el("div", {
    class: "drop",
    ondragover: () => zone.classList.add("over"),
    ondragleave: () => zone.classList.remove("over"),
    ondrop: () => zone.classList.remove("over"),
  }, chooser, whole, icon("upload"), el("p", {}, el("strong", {}, label)), el("p", { class: "soft" }, "Drop, paste, or click to choose"),
    (folder || example) && el("div", { class: "row" },
      folder && el("button", { type: "button", class: "plain", onclick: () => whole.click() }, "Choose a folder"),
      example && el("button", { type: "button", class: "plain", onclick: tryExample }, "Try an example")), list);
  zone.files = [];
  zone.take = take;

  /** Some examples are made by a job: if that fails, or is cancelled, its card says so. */
  async function tryExample({ currentTarget: button }) {
    button.disabled = true;
    await example().then((file) => take([file]), () => {});
    button.disabled = false;
    if (document.activeElement === document.body) button.focus(); // a disabled button loses it
  }

  function take(files) {
    if (!files.length) return;
    zone.files = multiple ? [...zone.files, ...files] : [files[0]];
    draw();
  }

  function draw() {
    const shown = zone.files.slice(0, MOST_SHOWN), more = zone.files.length - shown.length;
    list.replaceChildren(...shown.map((file) => thumbnail(file, () => {
      zone.files = zone.files.filter((other) => other !== file);
      draw();
      chooser.focus();
    })), ...(more ? [el("li", {}, el("span", {}, `and ${more} more`))] : []));
    zone.classList.toggle("filled", zone.files.length > 0);
  }
  return zone;
}

/** Files that are dropped beside a zone, or pasted anywhere, go to the zone under the pointer or to the first that is shown. */
export function catchFiles(page) {
  const visible = () => [...document.querySelectorAll("main .drop")].find((zone) => zone.offsetParent);
  page.addEventListener("dragover", (event) => event.preventDefault());
  page.addEventListener("drop", (event) => {
    event.preventDefault();
    (event.target.closest?.(".drop") ?? visible())?.take(event.dataTransfer.files);
  });
  page.addEventListener("paste", (event) => { if (event.clipboardData.files.length) visible()?.take(event.clipboardData.files); });
}

/** The image that comes with the program, as a file. noise: with noise and JPEG artefacts, for tools that remove them. */
export async function exampleImage(noise = false) {
  const blob = await (await fetch("demo.png")).blob();
  if (!noise) return new File([blob], "lighthouse.png", { type: "image/png" });
  const image = await createImageBitmap(blob), canvas = el("canvas", { width: image.width, height: image.height }), context = canvas.getContext("2d");
  context.drawImage(image, 0, 0);
  const pixels = context.getImageData(0, 0, image.width, image.height);
  const normal = () => Math.sqrt(-2 * Math.log(1 - Math.random())) * Math.cos(2 * Math.PI * Math.random());
  for (let i = 0; i < pixels.data.length; i++) if (i % 4 !== 3) pixels.data[i] += 22 * normal();
  context.putImageData(pixels, 0, 0);
  return new Promise((resolve) => canvas.toBlob((bytes) => resolve(new File([bytes], "noisy-lighthouse.jpg", { type: "image/jpeg" })), "image/jpeg", 0.85));
}

/** A second of video that moves over the image that comes with the program. The browser records it in real time. */
export async function exampleClip() {
  const [width, height, lasts] = [320, 240, 1000], image = await createImageBitmap(await (await fetch("demo.png")).blob());
  const canvas = el("canvas", { width, height }), context = canvas.getContext("2d"), parts = [];
  const draw = (part) => context.drawImage(image, part * (image.width - width), part * (image.height - height), width, height, 0, 0, width, height);
  draw(0);
  const recorder = new MediaRecorder(canvas.captureStream(24), { videoBitsPerSecond: 4e6 });
  recorder.ondataavailable = ({ data }) => parts.push(data);
  const ended = new Promise((resolve) => { recorder.onstop = resolve; });
  const began = performance.now();
  recorder.start();
  const timer = setInterval(() => {
    const part = Math.min(1, (performance.now() - began) / lasts);
    draw(part);
    if (part === 1) { clearInterval(timer); recorder.stop(); }
  }, 40);
  await ended;
  return new File(parts, "lighthouse.webm", { type: "video/webm" });
}

/** Saves a blob or an address under a name. */
export function download(source, name) {
  const url = typeof source === "string" ? source : URL.createObjectURL(source);
  el("a", { href: url, download: name }).click();
  if (typeof source !== "string") setTimeout(() => URL.revokeObjectURL(url), 10000);
}
