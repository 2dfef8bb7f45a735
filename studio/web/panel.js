// What all tools share: a form, the button that runs it, a place for the server's sentence, a place for results.
import { command, el, field, icon, input, progressText, select, values } from "./dom.js";
import { download } from "./files.js";
import { Cancelled } from "./job.js";

const NAMED = ["edit", "interpolate", "sample"]; // their models differ in what they know, so the default is chosen by its name too

/** The names of the models that can do a task, as options for a select; an empty choice takes the default, whose name may be given. */
export function modelChoice(models, task, usual) {
  const names = models.filter((model) => model.tasks?.includes(task)).map((model) => model.name);
  return field("Model", select("model", NAMED.includes(task) ? names : [["", usual || "default"], ...names.filter((name) => name !== usual)]));
}

/** What a tool shows instead of its form where it needs a model that is not there. */
export const missing = (text, name, published) => {
  const model = published.find((one) => one.name === name);
  return el("div", { class: "empty card" }, icon("models"), el("p", {}, el("strong", {}, text)),
    model && el("p", { class: "soft" }, `${model.description} (${model.licence}). Run this in a terminal:`), model && command(`zenith pull ${name}`),
    el("p", {}, el("button", { type: "button", onclick: () => dispatchEvent(new Event("zenith-models")) }, "Check again")));
};

/** The card of a result that is being made: an image to look at meanwhile, and how far it is. */
function pending(shelf, title, address) {
  const state = el("p", { class: "soft" }, "waiting"), bar = el("progress", { max: 1, "aria-label": `Progress of ${title}` });
  const img = el("img", { alt: "", hidden: !address, src: address });
  const blank = el("div", { class: "blank", hidden: Boolean(address) }, icon("picture"));
  const node = el("figure", { class: "pending" }, img, blank, el("figcaption", {}, title, bar, state));
  node.progress = (data) => {
    if (data.fraction > 0) bar.value = data.fraction; else bar.removeAttribute("value");
    state.textContent = progressText(data);
  };
  node.preview = (blob) => {
    const old = img.src;
    img.src = URL.createObjectURL(blob);
    img.hidden = false;
    blank.hidden = true;
    if (old.startsWith("blob:")) URL.revokeObjectURL(old);
  };
  shelf.prepend(node);
  const { top } = node.getBoundingClientRect();
  if (top < 0 || top > innerHeight / 2) node.scrollIntoView({ block: "start" }); // on a phone it is below the form
  return node;
}

/**
 * panel({controls, button, run, empty}): controls is a list of nodes, run(settings, place) does the work and calls
 * place(node) with each result, or place.pending(title, address) for a card to replace by it. The form stays usable meanwhile, so that several
 * jobs can wait in the queue. empty: shown until there are results.
 */
export function panel({ controls, button, run, empty }) {
  const sentence = el("p", { class: "bad", role: "alert" });
  const shelf = el("div", { class: "gallery", "aria-label": "Results" });
  const form = el("form", { onsubmit: async (event) => {
    event.preventDefault();
    sentence.textContent = "";
    const begun = [];
    const place = Object.assign((node) => shelf.prepend(node),
      { pending: (...about) => { begun.push(pending(shelf, ...about)); return begun.at(-1); } });
    try {
      await run(values(form), place);
    } catch (error) {
      if (!(error instanceof Cancelled)) sentence.textContent = error.message;
    }
    begun.forEach((node) => node.remove()); // those that a result replaced are gone already
    if (sentence.textContent) sentence.scrollIntoView({ block: "nearest" }); // a long form hides it
  } }, ...controls, el("button", { class: "main" }, button), sentence);
  const node = el("div", { class: "desk" }, form, el("div", { class: "results" }, shelf, el("div", { class: "empty" }, icon("picture"), el("p", {}, empty))));
  node.form = form;
  node.shelf = shelf;
  return node;
}

/** A result with its caption and a button that saves it. */
export const figure = (content, caption, file, ...more) =>
  el("figure", {}, content, el("figcaption", {}, caption,
    el("div", { class: "row" }, file && el("button", { type: "button", onclick: () => download(file.blob, file.name) }, "Save"), ...more)));

/** A caption with the server's remarks on a job below it, each once. */
export function withRemarks(caption, { remarks = [] }) {
  const shown = [...caption.querySelectorAll(".remark")].map((node) => node.textContent);
  caption.append(...remarks.filter((remark) => !shown.includes(remark)).map((remark) => el("span", { class: "soft remark" }, remark)));
  return caption;
}

export const number = (label, name, attributes = {}) => field(label, input(name, { type: "number", ...attributes }));
export const image = (file, alt) => el("img", { src: file.url, alt });
