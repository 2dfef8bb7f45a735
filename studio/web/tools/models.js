// What the server can use, what publishers offer, and where the time of a model goes.
import { roofline } from "../chart.js";
import { bytes, command, count, el, progressText } from "../dom.js";
import { Cancelled, run } from "../job.js";
import { figure } from "../panel.js";

export const title = "Models";
export const hint = "Models that the server found and what they can do. Profile measures where the time of one goes.";

/** Where the publisher keeps a file: the page of its repository. */
const source = (address) => address.replace(/^https:\/\/raw\.githubusercontent\.com\/([^/]+\/[^/]+)\/.*$/, "https://github.com/$1").replace(/\/resolve\/.*$/, "");

const PART = { encode: "encoder", decode: "decoder" };
const KIND = { diffusion: "diffusion autoencoder", video: "video autoencoder", judge: "perceptual score" };

/** What a generator lacks, or why a model cannot be used. */
function lacks(model) {
  const parts = (model.parts ?? []).filter((part) => !part.present && !part.optional).map((part) => part.name);
  return model.error ?? (parts.length ? `Missing: ${parts.join(", ")}` : "");
}

/** The slowest layers as a table, for those who cannot see the chart. */
function slowest({ layers }) {
  const whole = layers.reduce((sum, { ms }) => sum + ms, 0);
  const top = [...layers].sort((a, b) => b.ms - a.ms).slice(0, 10);
  const cells = (texts, tag) => el("tr", {}, texts.map((text, i) => el(tag, { class: i > 1 ? "number" : undefined, ...(tag === "th" && { scope: "col" }) }, text)));
  return el("details", {}, el("summary", {}, "The ten slowest layers"), el("div", { class: "scroll" }, el("table", {}, el("caption", { class: "unseen" }, "Slowest layers"),
    el("thead", {}, cells(["Layer", "Kernel", "ms", "Share", "Of the roofline"], "th")),
    el("tbody", {}, top.map(({ name, kernel, ms, roofline: part }) => cells([name, kernel, ms.toFixed(2), `${Math.round((100 * ms) / whole)} %`, `${Math.round(100 * part)} %`], "td"))))));
}

export function show(models, { published, memory }) {
  const sentence = el("p", { class: "bad", role: "alert" }), state = el("p", { class: "soft", role: "status" });
  const shelf = el("div", { class: "gallery", "aria-label": "Profiles" });

  async function profile(model, button) {
    button.disabled = true;
    sentence.textContent = "";
    state.textContent = `Measuring ${model.name} …`;
    state.scrollIntoView({ block: "nearest" });
    try {
      const parts = model.kind === "restorer" ? [undefined] : ["encode", "decode"].filter((part) => model[PART[part]]);
      for (const part of parts) {
        const { facts } = await run("profile", { model: model.name, part }, { title: `profile of ${model.name}`,
          onprogress: (data) => { state.textContent = `Measuring ${model.name}: ${progressText(data)}`; } });
        const label = `${facts.part} of ${facts.width}×${facts.height}: ${facts.ms_median.toFixed(1)} ms with ${facts.threads} threads (${facts.isa})`;
        const picture = figure(el("div", {}, roofline(facts, { label: "Layers below the machine's roofline; large dots take more of the time" }), slowest(facts)),
          el("span", {}, el("strong", {}, model.name), ` ${label}`));
        picture.className = "wide";
        shelf.prepend(picture);
        shelf.scrollIntoView({ block: "nearest" });
      }
    } catch (error) {
      if (!(error instanceof Cancelled)) sentence.textContent = error.message;
    }
    state.textContent = "";
    button.disabled = false;
  }

  const action = (model) => ["autoencoder", "restorer"].includes(model.kind)
    && el("button", { type: "button", "aria-label": `Profile ${model.name}`, onclick: (event) => profile(model, event.currentTarget) }, "Profile");

  const found = (model) => el("article", { class: "card model", "aria-label": model.name }, el("h4", {}, model.name, " ", el("span", { class: `badge ${model.kind}` }, KIND[model.kind] ?? model.kind)),
    lacks(model) ? el("p", { class: "bad" }, lacks(model)) : model.description && el("p", {}, model.description),
    model.tasks.length > 0 && el("p", { class: "soft" }, `For ${model.tasks.join(", ")}`),
    el("p", { class: "soft facts" }, [model.parameters && `${count(model.parameters)} parameters`, model.bytes && bytes(model.bytes), model.loaded && "in memory"].filter(Boolean).join(" · ")), action(model));

  const offered = (model) => el("article", { class: "card model", "aria-label": `${model.name}, published` }, el("h4", {}, model.name), el("p", {}, model.description),
    el("p", { class: "soft facts" }, `${bytes(model.bytes)} · ${model.licence} · for ${model.used_by} · `,
      el("a", { href: source(model.files[0]), rel: "noreferrer", target: "_blank" }, source(model.files[0]).replace("https://", ""))), command(`zenith pull ${model.name}`));

  const absent = published.filter((model) => !model.present);
  return el("div", {}, el("div", { class: "memory" }, el("span", {}, `Loaded models take ${bytes(memory.loaded)} of ${bytes(memory.budget)}`),
    el("meter", { min: 0, max: memory.budget, value: memory.loaded, "aria-label": "Memory of loaded models" })),
  sentence, state, shelf, el("h3", {}, "Here"), el("div", { class: "cards" }, models.map(found)),
  absent.length > 0 && el("h3", {}, "Published, not here yet"), absent.length > 0 && el("p", { class: "soft" }, "Nothing is fetched unless you ask: run the line in a terminal, then reload this page."),
  el("div", { class: "cards" }, absent.map(offered)));
}
