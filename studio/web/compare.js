// Two images over each other: a slider shows what changed, a dialog shows both large, a canvas shows the difference, amplified.
import { choice, el, icon } from "./dom.js";
import { download } from "./files.js";

const pairOf = (before, after) => el("div", { class: "pair" }, el("img", { src: after, alt: "After" }), el("img", { src: before, alt: "Before", class: "before" }),
  el("span", { class: "tag", "aria-hidden": "true" }, "Before"), el("span", { class: "tag", "aria-hidden": "true" }, "After"));

const cutter = (pair, label) => {
  const range = el("input", { type: "range", min: 0, max: 100, value: 50, "aria-label": label, oninput: () => pair.style.setProperty("--cut", `${range.value}%`) });
  return range;
};

/** before and after: addresses of images of the same shape. The range input covers the pair, so that dragging anywhere moves the cut. */
export function slider(before, after, label = "Share of the image before") {
  const pair = pairOf(before, after);
  pair.append(cutter(pair, label));
  return pair;
}

/** Opens both images over the whole page, fitted or at a multiple of their pixels. */
export function viewer(before, after, name, blob) {
  const pair = before ? pairOf(before, after) : el("div", { class: "pair" }, el("img", { src: after, alt: name }));
  const image = pair.firstChild, stage = el("div", { class: "stage", tabindex: 0, "aria-label": "The image; scroll to see all of it" }, pair);
  const zoom = (factor) => {
    stage.classList.toggle("fit", factor === "fit");
    if (factor === "fit") pair.style.removeProperty("width");
    else pair.style.setProperty("width", `${(image.naturalWidth * factor) / devicePixelRatio}px`);
    pair.classList.toggle("pixels", factor > 1);
  };
  const box = el("dialog", { class: "viewer", "aria-label": name, onclose: () => box.remove() },
    el("div", { class: "head" }, el("strong", {}, name), choice("Size", "zoom", [["fit", "Fit"], ["1", "100 %"], ["2", "200 %"], ["4", "400 %"]], zoom),
      blob && el("button", { type: "button", onclick: () => download(blob, name) }, "Save"),
      el("button", { type: "button", class: "plain", "aria-label": "Close", onclick: () => box.close() }, icon("close"))),
    stage, before && el("label", { class: "foot" }, el("span", {}, "Before"), cutter(pair, "Share of the image before"), el("span", {}, "After")));
  document.body.append(box);
  zoom("fit");
  box.showModal();
}

/** A button that opens the viewer. */
export const enlarge = (before, after, name, blob) =>
  el("button", { type: "button", onclick: () => viewer(before, after, name, blob) }, "Full size");

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
