// From a prompt to images. Each result can be made again with the same seed, or varied with another one.
import * as api from "../api.js";
import { enlarge } from "../compare.js";
import { el, field, input, select } from "../dom.js";
import { dropZone } from "../files.js";
import { results, run } from "../job.js";
import { figure, image, missing, modelChoice, number, panel, withRemarks } from "../panel.js";

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

/** What the chosen model can draw, and prompts for it; a model that says nothing is for any prompt. */
function advice(models, prompt) {
  const about = el("p", { class: "soft", id: "about" }), ideas = el("div", { class: "row ideas", role: "group", "aria-label": "Example prompts" });
  const idea = (text) => el("button", { type: "button", class: "plain", onclick: () => { prompt.value = text; prompt.focus(); } }, text);
  const any = !models.some((model) => model.name.startsWith("z-image-turbo"));
  prompt.setAttribute("aria-describedby", "about");
  return { nodes: [about, ideas], follow: (model) => {
    const { description = "", examples = [], width } = model ?? {};
    about.replaceChildren(description, ...(width && any ? [" For any prompt: ", el("code", {}, "zenith pull z-image-turbo")] : []));
    ideas.replaceChildren(...examples.map(idea));
    about.hidden = !description;
    ideas.hidden = !examples.length;
    prompt.placeholder = examples[0] ?? "a red fox in the snow, morning light";
  } };
}

export async function show(models, { published, generator }) {
  if (!models.some((model) => model.tasks?.includes("generate")))
    return missing("Images from prompts need a generator, and none is here yet.", "z-image-turbo", published);

  const loras = [...new Set((await api.loras()).map(({ name }) => name))];
  const start = dropZone({ label: "An image to start from" });
  const mask = dropZone({ label: "A mask: white is changed" });
  const prompt = el("textarea", { name: "prompt", required: true }), said = advice(models, prompt);
  const choice = modelChoice(models, "generate", generator), size = select("size", []);
  const chosen = () => models.find((model) => model.name === (choice.querySelector("select").value || generator));
  const turn = () => {
    const { width, height } = chosen() ?? {};
    const own = width ? `${width}x${height}` : "default", wanted = size.value;
    size.replaceChildren(el("option", { value: "" }, own), ...SIZES.filter((one) => one !== own).map((one) => el("option", { value: one }, one)));
    size.value = SIZES.includes(wanted) && wanted !== own ? wanted : "";
    said.follow(chosen());
  };
  choice.addEventListener("change", turn);
  turn();
  const seed = input("seed", { type: "number", min: 0, placeholder: "random" });
  const desk = panel({
    controls: [
      field("Prompt", prompt), ...said.nodes,
      el("div", { class: "fields" },
        choice,
        field("Size", size),
        field("Seed", seed),
        number("Images", "count", { min: 1, max: 16, value: 1 })),
      el("details", {}, el("summary", {}, "More settings"), el("div", { class: "fields" },
        number("Steps", "steps", { min: 1, max: 100, placeholder: "default" }),
        number("Guidance", "guidance", { min: 0, max: 20, step: 0.1, placeholder: "default" }),
        field("Negative prompt", input("negative"), true),
        loras.length > 0 && field("LoRA", select("lora", [["", "none"], ...loras])),
        loras.length > 0 && number("Its strength", "weight", { min: -2, max: 2, step: 0.05, placeholder: "1" }))),
      el("details", {}, el("summary", {}, "Start from an image"), el("div", { class: "stack" }, start, mask,
        number("Strength: 1 ignores the image", "strength", { min: 0.05, max: 1, step: 0.05, placeholder: "0.6" })))],
    button: "Generate",
    empty: "Images appear here while they are made. Again repeats one, Vary makes it with another seed.",
    run: async (settings, place) => {
      const { lora, weight = 1, strength, ...rest } = settings;
      const wait = place.pending(settings.prompt);
      if (start.files.length && !rest.size && !chosen()?.width) rest.size = await sizeOf(start.files[0]);
      if (start.files.length && strength) rest.strength = strength;
      const job = await run("generate", { preview: true, ...rest, ...(lora && { lora: `${lora}:${weight}` }) },
        { files: start.files, mask: mask.files[0], title: settings.prompt, onprogress: wait.progress, onpreview: wait.preview });
      wait.replaceWith(...(await results(job)).map((file, i) => card(settings, file, job, i)));
    },
  });

  function card(settings, file, job, i) {
    const { facts } = job, used = facts.seed + i;
    const again = (value) => () => {
      for (const [name, old] of Object.entries(settings)) if (desk.form.elements[name]) desk.form.elements[name].value = old;
      seed.value = value;
      desk.form.requestSubmit();
    };
    const caption = el("span", {}, settings.prompt, el("br"), el("span", { class: "soft" }, `${facts.model}, seed ${used}, ${file.width}×${file.height}`));
    return figure(image(file, settings.prompt), i === 0 ? withRemarks(caption, job) : caption, file,
      el("button", { type: "button", onclick: again(used) }, "Again"),
      el("button", { type: "button", onclick: again(Math.floor(Math.random() * 2 ** 31)) }, "Vary"),
      enlarge(null, file.url, file.name, file.blob));
  }
  return desk;
}
