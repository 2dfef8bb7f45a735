// Autoencoders side by side: what each keeps of an image, how large its latent is, how long it takes.
import { difference, slider } from "../compare.js";
import { check, el } from "../dom.js";
import { download, dropZone } from "../files.js";
import { results, run } from "../job.js";
import { figure, panel } from "../panel.js";

export const title = "Latents";
export const hint = "Encode an image and decode it again with one model or several; see what is lost, and save the latent.";

const score = (value, digits = 2) => (Number.isFinite(value) ? value.toFixed(digits) : "–");

export function show(models) {
  const zone = dropZone({ label: "An image, or a latent to decode", accept: "image/*,.safetensors,.npy,.latent" });
  const able = models.filter((model) => model.tasks?.includes("reconstruct"));
  const [diffusion, plain] = [true, false].map((wanted) => able.filter((model) => (model.kind === "diffusion") === wanted).map((model) => model.name));
  const codecs = [...plain, ...diffusion];
  const ticks = codecs.map((name, i) => check(name, `use:${name}`, i === 0));
  const table = el("tbody");
  const scores = el("div", { class: "scroll", hidden: true }, el("table", {},
    el("caption", { class: "unseen" }, "Scores of the reconstructions"),
    el("thead", {}, el("tr", {}, ["Model", "PSNR, dB", "SSIM", "LPIPS", "Seconds"].map((text, i) => el("th", { scope: "col", class: i ? "number" : undefined }, text)))),
    table));

  async function decode(file, model, place) {
    const [out] = await results(await run("decode", { model }, { files: [file], title: file.name }));
    place(figure(el("img", { src: out.url, alt: `Decoded from ${file.name}` }), `${file.name}, ${model ?? "model named in the file"}`, out));
  }

  async function reconstruct(file, model, place) {
    const job = await run("reconstruct", { model }, { files: [file], title: `${file.name}, ${model}` });
    const [out] = await results(job);
    // A diffusion autoencoder has images of one size only; its scores are those against the image fitted to that size.
    const judged = diffusion.includes(model) ? job : await run("compare", {}, { files: [file, new File([out.blob], out.name)], title: `scores of ${model}` });
    const before = URL.createObjectURL(file);
    const { psnr, ssim, lpips_alex: alex, lpips_squeeze: squeeze } = judged.facts;
    table.append(el("tr", {}, el("td", {}, model), [score(psnr), score(ssim, 4), score(alex ?? squeeze, 3), score((job.facts.encode_ms + job.facts.decode_ms) / 1000)]
      .map((text) => el("td", { class: "number" }, text))));
    scores.hidden = false;
    place(figure(el("div", {}, slider(before, out.url), el("details", {}, el("summary", {}, "Difference, times 4"), await difference(before, out.url))),
      `${model}: ${score(psnr)} dB`, out,
      !diffusion.includes(model) && el("button", { type: "button", onclick: async () => {
        const [latent] = await results(await run("encode", { model }, { files: [file], title: `latent of ${file.name}` }));
        download(latent.blob, latent.name);
      } }, "Save latent")));
  }

  const desk = panel({
    controls: [zone, el("h3", {}, "Models"), el("div", { class: "fields" }, ticks)],
    button: "Encode and decode",
    run: async (settings, place) => {
      const [file] = zone.files;
      if (!file) throw new Error("Choose an image or a latent.");
      const chosen = codecs.filter((name) => settings[`use:${name}`]);
      if (/\.(safetensors|npy|latent)$/i.test(file.name)) return decode(file, chosen[0], place);
      if (!chosen.length) throw new Error("Choose at least one model.");
      for (const model of chosen) await reconstruct(file, model, place);
    },
  });
  desk.insertBefore(scores, desk.lastChild);
  return desk;
}
