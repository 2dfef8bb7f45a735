// Two images over each other: a slider shows what changed, a canvas shows the difference, amplified.
import { el } from "./dom.js";

/** before and after: addresses of images of the same size. */
export function slider(before, after, label = "Share of the image before") {
  const pair = el("div", { class: "pair" }, el("img", { src: after, alt: "After" }), el("img", { src: before, alt: "Before", class: "before" }));
  const range = el("input", { type: "range", min: 0, max: 100, value: 50, "aria-label": label,
    oninput: () => pair.style.setProperty("--cut", `${range.value}%`) });
  const box = el("div", {}, pair);
  const size = el("button", { type: "button", "aria-pressed": "false", onclick: () => {
    const actual = box.classList.toggle("actual");
    size.setAttribute("aria-pressed", String(actual));
  } }, "100 %");
  pair.addEventListener("pointermove", (event) => {
    if (event.pointerType !== "mouse" && !event.buttons) return;
    const area = pair.getBoundingClientRect();
    range.value = String(Math.round((100 * (event.clientX - area.left)) / area.width));
    range.dispatchEvent(new Event("input"));
  });
  return el("div", {}, box, el("div", { class: "row" }, range, size));
}

async function pixels(address) {
  const image = new Image();
  image.src = address;
  await image.decode();
  const canvas = el("canvas", { width: image.naturalWidth, height: image.naturalHeight });
  const context = canvas.getContext("2d", { willReadFrequently: true });
  context.drawImage(image, 0, 0);
  return context.getImageData(0, 0, canvas.width, canvas.height);
}

/** A canvas with grey + gain x (after - before), or a sentence where the sizes differ. */
export async function difference(before, after, gain = 4) {
  const [a, b] = await Promise.all([pixels(before), pixels(after)]);
  if (a.width !== b.width || a.height !== b.height)
    return el("p", { class: "bad" }, `The images differ in size: ${a.width}×${a.height} and ${b.width}×${b.height}.`);
  for (let i = 0; i < a.data.length; i++)
    if (i % 4 !== 3) a.data[i] = 128 + gain * (b.data[i] - a.data[i]);
  const canvas = el("canvas", { width: a.width, height: a.height, role: "img", "aria-label": `Difference times ${gain}` });
  canvas.getContext("2d").putImageData(a, 0, 0);
  return canvas;
}
