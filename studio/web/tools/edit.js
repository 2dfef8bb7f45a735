// DiffAE: attributes as sliders, a strip between two images, samples.
import * as api from "../api.js";
import { el, field, input, select } from "../dom.js";
import { dropZone } from "../files.js";
import { results, run } from "../job.js";
import { figure, image, modelChoice, number, panel } from "../panel.js";

export const title = "Edit";
export const hint = "Move an attribute of an image, go from one image to another in steps, or draw new samples.";

export async function show(models) {
  const able = models.filter((model) => model.kind === "diffusion");
  if (!able.length) return el("p", {}, "No DiffAE model was found. docs/models/diffae.md tells how to train one, or use a published one. Reload this page when it is there.");
  return el("div", {}, await attributes(models, able), strip(models),
    able.some((model) => model.latent_net) ? samples(models) : el("p", { class: "soft" }, "No model here has a latent net, so there are no samples."));
}

const encodeSteps = () => number("Steps to encode", "encode_steps", { min: 5, max: 1000, placeholder: "250" });

async function attributes(models, able) {
  const lists = await Promise.all(able.filter((model) => model.classifier).map((model) => api.attributes(model.name)));
  const names = [...new Set(lists.flatMap((list) => list.attributes))];
  if (!names.length) return el("p", { class: "soft" }, "No model here has a classifier of attributes, so none can be moved.");
  const zone = dropZone({ label: "An image to edit" });
  return el("div", {}, el("h3", {}, "Attributes"), panel({
    controls: [zone, el("div", { class: "fields" }, modelChoice(models, "edit"),
      field("Attribute", select("attribute", names)),
      field("Amount (left: less, right: more)", input("amount", { type: "range", min: -2, max: 2, step: 0.1, value: 0.5 })),
      number("Steps", "steps", { min: 5, max: 250, value: 50 }), encodeSteps())],
    button: "Edit",
    run: async (settings, place) => {
      if (!zone.files.length) throw new Error("Choose an image.");
      const [file] = await results(await run("edit", settings, { files: zone.files, title: `${settings.attribute} ${settings.amount}` }));
      place(figure(image(file, `Edited: ${settings.attribute}`), `${settings.attribute} ${settings.amount}`, file));
    },
  }));
}

function strip(models) {
  const from = dropZone({ label: "From this image" }), to = dropZone({ label: "To this image" });
  return el("div", {}, el("h3", {}, "Between two images"), panel({
    controls: [el("div", { class: "fields" }, from, to, modelChoice(models, "interpolate"), number("Images", "frames", { min: 3, max: 16, value: 7 }),
      number("Steps", "steps", { min: 5, max: 250, value: 50 }), encodeSteps())],
    button: "Interpolate",
    run: async (settings, place) => {
      if (!from.files.length || !to.files.length) throw new Error("Choose two images.");
      for (const file of await results(await run("interpolate", settings, { files: [...from.files, ...to.files], title: "interpolation" })))
        place(figure(image(file, "Interpolation"), file.name, file));
    },
  }));
}

function samples(models) {
  return el("div", {}, el("h3", {}, "Samples"), panel({
    controls: [el("div", { class: "fields" }, modelChoice(models, "sample"), number("Images", "count", { min: 1, max: 64, value: 4 }),
      number("Seed", "seed", { min: 0, placeholder: "random" }), number("Steps", "steps", { min: 5, max: 250, value: 20 }))],
    button: "Sample",
    run: async (settings, place) => {
      for (const file of await results(await run("sample", settings, { title: "samples" }))) place(figure(image(file, "Sample"), file.name, file));
    },
  }));
}
