// What the server can use, what it lacks, and where the time of a model goes.
import { roofline } from "../chart.js";
import { bytes, el } from "../dom.js";
import { run } from "../job.js";
import { figure } from "../panel.js";

export const title = "Models";
export const hint = "Models that the server found, what they can do, and what they lack. Profile measures where the time of one goes.";

const row = (...cells) => el("tr", {}, cells.map((cell) => el("td", {}, cell ?? "")));

function table(caption, head, rows) {
  return el("div", { class: "card scroll" }, el("table", {}, el("caption", {}, caption),
    el("thead", {}, el("tr", {}, head.map((text) => el("th", { scope: "col" }, text)))), el("tbody", {}, rows)));
}

/** What a generator lacks, or why a model cannot be used. */
function lacks(model) {
  const parts = (model.parts ?? []).filter((part) => !part.present && !part.optional).map((part) => part.name);
  return model.error ?? (parts.length ? `missing: ${parts.join(", ")}` : "");
}

const PART = { encode: "encoder", decode: "decoder" };

/** The slowest layers as a table, for those who cannot see the picture. */
function slowest({ layers }) {
  const whole = layers.reduce((sum, { ms }) => sum + ms, 0);
  const top = [...layers].sort((a, b) => b.ms - a.ms).slice(0, 10);
  return el("details", {}, el("summary", {}, "The ten slowest layers"), table("Slowest layers", ["Layer", "Kernel", "ms", "Share", "Of the roofline"],
    top.map(({ name, kernel, ms, roofline: part }) => row(name, kernel, ms.toFixed(2), `${Math.round((100 * ms) / whole)} %`, `${Math.round(100 * part)} %`))));
}

export function show(models) {
  const sentence = el("p", { class: "bad", role: "alert" });
  const shelf = el("div", { "aria-label": "Profiles" });

  async function profile(model, button) {
    button.disabled = true;
    sentence.textContent = "";
    try {
      const parts = model.kind === "restorer" ? [undefined] : ["encode", "decode"].filter((part) => model[PART[part]]);
      for (const part of parts) {
        const { facts } = await run("profile", { model: model.name, part }, { title: `profile of ${model.name}` });
        const label = `${model.name}, ${facts.part} of ${facts.width}x${facts.height}: ${facts.ms_median.toFixed(1)} ms with ${facts.threads} threads (${facts.isa})`;
        const picture = figure(el("div", {}, roofline(facts, { label: "Layers below the machine's roofline" }), slowest(facts)), label);
        shelf.prepend(picture);
        picture.scrollIntoView({ block: "nearest" });
      }
    } catch (error) {
      sentence.textContent = error.message;
    }
    button.disabled = false;
  }

  const action = (model) => ["autoencoder", "restorer"].includes(model.kind)
    && el("button", { type: "button", "aria-label": `Profile ${model.name}`, onclick: (event) => profile(model, event.currentTarget) }, "Profile");
  return el("div", {}, table("Models", ["Name", "Kind", "Does", "Parameters", "Size", "In memory", "Remark", "Profile"],
    models.map((model) => row(model.name, model.kind, model.tasks.join(", "), model.parameters?.toLocaleString(), bytes(model.bytes),
      model.loaded ? "yes" : "no", lacks(model) || model.description, action(model) || ""))), sentence, shelf);
}
