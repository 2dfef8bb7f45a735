// DiffAE: attributes as sliders, a strip between two images, samples.
import * as api from "../api.js";
import { enlarge } from "../compare.js";
import { check, choice, el, range } from "../dom.js";
import { dropZone } from "../files.js";
import { results, run } from "../job.js";
import { figure, image, modelChoice, number, panel } from "../panel.js";

export const title = "Edit";
export const hint = "Move an attribute of a face or a pet, go from one image to another in steps, or draw new samples.";

export async function show(models) {
  const able = models.filter((model) => model.kind === "diffusion");
  if (!able.length)
    return el("div", { class: "empty card" }, el("p", {}, el("strong", {}, "Editing needs a diffusion autoencoder, and none is here yet.")),
      el("p", { class: "soft" }, "Train one in Train with a preset whose name begins with diffae, or see docs/models/diffae.md for published ones."),
      el("p", {}, el("button", { type: "button", onclick: () => dispatchEvent(new Event("zenith-models")) }, "Check again")));
  const ways = { attributes: await attributes(models, able), strip: strip(models), samples: able.some((model) => model.latent_net) && samples(models) };
  const names = [["attributes", "Attributes"], ["strip", "Between two"], ["samples", "Samples"]].filter(([name]) => ways[name]);
  const turn = (name) => names.forEach(([other]) => { ways[other].hidden = other !== name; });
  turn(names[0][0]);
  return el("div", {}, choice("What to do", "way", names, turn), names.map(([name]) => ways[name]));
}

const stepFields = (value) => el("details", {}, el("summary", {}, "More settings"), el("div", { class: "fields" },
  number("Steps", "steps", { min: 5, max: 250, value }), number("Steps to encode", "encode_steps", { min: 5, max: 1000, placeholder: "250" })));

const result = (file, caption) => figure(image(file, caption), caption, file, enlarge(null, file.url, file.name, file.blob));

/** A function that draws a portrait as a file, where a model can. */
function examplePortrait(models) {
  const suits = (text) => text.includes("portrait"), artist = models.find((model) => model.examples?.some(suits));
  return artist && (async () => {
    const prompt = artist.examples.find(suits);
    const [file] = await results(await run("generate", { model: artist.name, prompt, seed: 1 }, { title: `${prompt}, an example` }));
    return new File([file.blob], "portrait.png", { type: "image/png" });
  });
}

/** A slider for each attribute of the chosen model; one is moved at a time, so the others go back to the middle. */
async function attributes(models, able) {
  const judges = able.filter((model) => model.classifier).map((model) => model.name);
  const lists = await Promise.all(judges.map((name) => api.attributes(name)));
  const names = [...new Set(lists.flatMap((list) => list.attributes))];
  if (!names.length) return null;
  const zone = dropZone({ label: "An image to edit", example: examplePortrait(models) });
  const sliders = names.map((name) => range(name, name, { min: -2, max: 2, step: 0.1, value: 0 }));
  const inputs = sliders.map((label) => label.querySelector("input"));
  const list = el("div", { class: "sliders", oninput: ({ target }) => {
    for (const other of inputs) if (other !== target && other.value !== "0") { other.value = 0; other.dispatchEvent(new Event("input")); }
  } }, sliders);
  const model = modelChoice(models, "edit"), chosen = model.querySelector("select");
  const imagine = el("div", {}, check("Imagine it: for large changes, such as a cat to a dog", "imagine"),
    el("p", { class: "soft" }, "Then 1 is an image like yours that shows the attribute, and -1 one that does not."));
  const offer = () => {
    imagine.hidden = !able.find((one) => one.name === chosen.value)?.latent_net;
    const own = lists[judges.indexOf(chosen.value)]?.attributes ?? [];
    sliders.forEach((slider, i) => { slider.hidden = !own.includes(names[i]); });
    for (const input of inputs) if (input.value !== "0") { input.value = 0; input.dispatchEvent(new Event("input")); }
  };
  chosen.addEventListener("change", offer);
  offer();
  return panel({
    controls: [zone, model, el("h3", {}, "Attributes"), el("p", { class: "soft" }, "Right: more of it, left: less. One at a time."), list, imagine, stepFields(50)],
    button: "Edit",
    empty: "Edited images appear here.",
    run: async ({ model, steps, encode_steps, imagine, ...moved }, place) => {
      const attribute = names.find((name) => moved[name]);
      if (!zone.files.length) throw new Error("Choose an image.");
      if (!attribute) throw new Error("Move the slider of an attribute.");
      const amount = moved[attribute], name = `${attribute} ${amount > 0 ? "+" : ""}${amount}${imagine ? ", imagined" : ""}`;
      const wait = place.pending(name, URL.createObjectURL(zone.files[0]));
      const job = await run("edit", { model, steps, encode_steps, attribute, amount, imagine }, { files: zone.files, title: name, onprogress: wait.progress });
      const [file] = await results(job);
      wait.replaceWith(result(file, `${name}: the classifier now says ${Math.round(100 * job.facts.scores[0])} %`));
    },
  });
}

function strip(models) {
  const from = dropZone({ label: "From this image" }), to = dropZone({ label: "To this image" });
  return panel({
    controls: [from, to, el("div", { class: "fields" }, modelChoice(models, "interpolate"), number("Images", "frames", { min: 3, max: 16, value: 7 })), stepFields(50)],
    button: "Interpolate",
    empty: "The images between the two appear here.",
    run: async (settings, place) => {
      if (!from.files.length || !to.files.length) throw new Error("Choose two images.");
      const wait = place.pending("Interpolation");
      const files = await results(await run("interpolate", settings, { files: [...from.files, ...to.files], title: "interpolation", onprogress: wait.progress }));
      wait.replaceWith(...files.map((file, i) => result(file, `${i + 1} of ${files.length}`)));
    },
  });
}

function samples(models) {
  return panel({
    controls: [el("div", { class: "fields" }, modelChoice(models, "sample"), number("Images", "count", { min: 1, max: 64, value: 4 }),
      number("Seed", "seed", { min: 0, placeholder: "random" }), number("Steps", "steps", { min: 5, max: 250, value: 20 }))],
    button: "Sample",
    empty: "New images that the model draws by itself appear here.",
    run: async ({ seed = Math.floor(Math.random() * 2 ** 31), ...settings }, place) => {
      const wait = place.pending("Samples");
      const files = await results(await run("sample", { seed, ...settings }, { title: "samples", onprogress: wait.progress }));
      wait.replaceWith(...files.map((file, i) => result(file, `seed ${seed + i}`)));
    },
  });
}
