// From a prompt to images. Each result can be made again with the same seed, or varied with another one.
import * as api from "../api.js";
import { el, field, input, select } from "../dom.js";
import { dropZone } from "../files.js";
import { results, run } from "../job.js";
import { figure, image, modelChoice, number, panel } from "../panel.js";

export const title = "Generate";
export const hint = "Describe an image. Start from an image of your own to change it; a mask limits the change to its white part.";

const SIZES = ["128x128", "256x256", "512x512", "768x768", "1024x1024", "1024x768", "768x1024"];

/** The size for an image to start from: its own, at most about a megapixel, with sides that generators can make. */
async function sizeOf(file) {
  try {
    const { width, height } = await createImageBitmap(file);
    const shrink = Math.min(1, Math.sqrt((1024 * 1024) / (width * height)));
    return [width, height].map((side) => Math.max(64, 16 * Math.round((side * shrink) / 16))).join("x");
  } catch { return undefined; } // a format that only the server reads, or damaged: it says so
}

export async function show(models) {
  if (!models.some((model) => model.tasks?.includes("generate")))
    return el("p", {}, "No generator was found. zenith pull z-image-turbo fetches one (6 GB); docs/generate.md lists others. Reload this page when it is there.");

  const loras = [...new Set((await api.loras()).map(({ name }) => name))];
  const start = dropZone({ label: "An image to start from (may be left out)" });
  const mask = dropZone({ label: "A mask: white is changed (may be left out)" });
  const seed = input("seed", { type: "number", min: 0, placeholder: "random" });
  const desk = panel({
    controls: [
      el("div", { class: "fields" },
        field("Prompt", el("textarea", { name: "prompt", required: true }), true),
        modelChoice(models, "generate"),
        field("Size", select("size", [["", "default"], ...SIZES])),
        field("Seed", seed),
        number("Steps", "steps", { min: 1, max: 100, placeholder: "default" }),
        number("Images", "count", { min: 1, max: 16, value: 1 }),
        number("Guidance", "guidance", { min: 0, max: 20, step: 0.1, placeholder: "default" }),
        field("Negative prompt", input("negative")),
        number("Strength (with an image)", "strength", { min: 0.05, max: 1, step: 0.05, placeholder: "0.6" }),
        loras.length > 0 && field("LoRA", select("lora", [["", "none"], ...loras])),
        loras.length > 0 && number("Strength of the LoRA", "weight", { min: -2, max: 2, step: 0.05, placeholder: "1" })),
      el("details", {}, el("summary", {}, "Start from an image"), start, mask)],
    button: "Generate",
    run: async (settings, place) => {
      const { lora, weight = 1, ...rest } = settings;
      if (start.files.length && !rest.size) rest.size = await sizeOf(start.files[0]);
      const job = await run("generate", { preview: true, ...rest, ...(lora && { lora: `${lora}:${weight}` }) }, { files: start.files, mask: mask.files[0], title: settings.prompt });
      for (const file of await results(job)) place(card(settings, file, job.facts.seed));
    },
  });

  function card(settings, file, used) {
    const again = (value) => () => {
      for (const [name, old] of Object.entries(settings)) if (desk.form.elements[name]) desk.form.elements[name].value = old;
      seed.value = value;
      desk.form.requestSubmit();
    };
    return figure(image(file, settings.prompt), `${settings.prompt} — seed ${used}`, file,
      el("button", { type: "button", onclick: again(used) }, "Again"),
      el("button", { type: "button", onclick: again(Math.floor(Math.random() * 2 ** 31)) }, "Vary"));
  }
  return desk;
}
