// Autoencoders side by side: what each keeps of an image, how large its latent is, how long it takes.
import { difference, enlarge, slider } from "../compare.js";
import { bytes, check, el } from "../dom.js";
import { download, dropZone, exampleImage } from "../files.js";
import { results, run } from "../job.js";
import { figure, panel } from "../panel.js";

export const title = "Latents";
export const hint = "Encode an image and decode it again with one model or several; see what is lost, and save the latent.";

const score = (value, digits = 2) => (Number.isFinite(value) ? value.toFixed(digits) : "–");
const COLUMNS = ["Model", "PSNR, dB", "SSIM", "LPIPS", "Encode, s", "Decode, s"];

export function show(models) {
  const zone = dropZone({ label: "An image, or a latent to decode", accept: "image/*,.safetensors,.npy,.latent", example: () => exampleImage() });
  const able = models.filter((model) => model.tasks?.includes("reconstruct"));
  const [diffusion, plain] = [true, false].map((wanted) => able.filter((model) => (model.kind === "diffusion") === wanted).map((model) => model.name));
  const codecs = [...plain, ...diffusion];
  const first = Math.max(codecs.indexOf("zenith-r"), 0); // the program's default
  const ticks = codecs.map((name, i) => check(name, `use:${name}`, i === first));
  const table = el("tbody");
  const scores = el("div", { class: "card scroll", hidden: true }, el("table", {},
    el("caption", { class: "unseen" }, "Scores of the reconstructions"),
    el("thead", {}, el("tr", {}, COLUMNS.map((text, i) => el("th", { scope: "col", class: i ? "number" : undefined }, text)))),
    table));

  async function decode(file, model, place) {
    const wait = place.pending(file.name);
    const [out] = await results(await run("decode", { model }, { files: [file], title: file.name, onprogress: wait.progress }));
    wait.replaceWith(figure(el("img", { src: out.url, alt: `Decoded from ${file.name}` }), `${file.name}, ${model ?? "model named in the file"}`, out, enlarge(null, out.url, out.name, out.blob)));
  }

  async function saveLatent(file, model, button) {
    button.disabled = true;
    try {
      const [latent] = await results(await run("encode", { model }, { files: [file], title: `latent of ${file.name}` }));
      download(latent.blob, latent.name);
      button.title = `${latent.name}, ${bytes(latent.blob.size)}`;
    } finally { button.disabled = false; }
  }

  async function reconstruct(file, model, wait) {
    const job = await run("reconstruct", { model }, { files: [file], title: `${file.name}, ${model}`, onprogress: wait.progress });
    const [out] = await results(job);
    // A diffusion autoencoder has images of one size only; its scores are those against the image fitted to that size.
    const judged = diffusion.includes(model) ? job : await run("compare", {}, { files: [file, new File([out.blob], out.name)], title: `scores of ${model}` });
    const before = URL.createObjectURL(file);
    const { psnr, ssim, lpips_alex: alex, lpips_squeeze: squeeze } = judged.facts;
    table.append(el("tr", {}, el("td", {}, model), [score(psnr), score(ssim, 4), score(alex ?? squeeze, 3), score(job.facts.encode_ms / 1000), score(job.facts.decode_ms / 1000)]
      .map((text) => el("td", { class: "number" }, text))));
    scores.hidden = false;
    wait.replaceWith(figure(el("div", {}, slider(before, out.url), el("details", {}, el("summary", {}, "Difference, times 4"), await difference(before, out.url))),
      el("span", {}, el("strong", {}, model), ` ${score(psnr)} dB`), out, enlarge(before, out.url, out.name, out.blob),
      !diffusion.includes(model) && el("button", { type: "button", onclick: (event) => saveLatent(file, model, event.currentTarget) }, "Save latent")));
  }

  const desk = panel({
    controls: [zone, el("h3", {}, "Models"), el("div", { class: "checks" }, ticks)],
    button: "Encode and decode",
    empty: "Reconstructions appear here beside the original, with their scores.",
    run: async (settings, place) => {
      const [file] = zone.files;
      if (!file) throw new Error("Choose an image or a latent.");
      const chosen = codecs.filter((name) => settings[`use:${name}`]);
      if (/\.(safetensors|npy|latent)$/i.test(file.name)) return decode(file, chosen[0], place);
      if (!chosen.length) throw new Error("Choose at least one model.");
      const waits = [...chosen].reverse().map((model) => place.pending(model, URL.createObjectURL(file))).reverse();
      for (let i = 0; i < chosen.length; i++) await reconstruct(file, chosen[i], waits[i]);
    },
  });
  desk.shelf.before(scores);
  return desk;
}
