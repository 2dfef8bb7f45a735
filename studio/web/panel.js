// What all tools share: a form, the button that runs it, a place for the server's sentence, a place for results.
import { el, field, input, select, values } from "./dom.js";
import { download } from "./files.js";

const NAMED = ["edit", "interpolate", "sample", "clip"]; // tasks without a default model

/** The names of the models that can do a task, as options for a select; an empty choice takes the default. */
export function modelChoice(models, task, label = "Model") {
  const names = models.filter((model) => model.tasks?.includes(task)).map((model) => model.name);
  return field(label, select("model", NAMED.includes(task) ? names : [["", "default"], ...names]));
}

/**
 * panel({controls, button, run}): controls is a list of nodes, run(settings, show) does the work and calls show(node)
 * with each result. The form stays usable meanwhile, so that several jobs can wait in the queue.
 */
export function panel({ controls, button, run }) {
  const sentence = el("p", { class: "bad", role: "alert" });
  const shelf = el("div", { class: "gallery", "aria-label": "Results" });
  const form = el("form", { onsubmit: async (event) => {
    event.preventDefault();
    sentence.textContent = "";
    try {
      await run(values(form), (node) => shelf.prepend(node));
    } catch (error) {
      sentence.textContent = error.message;
    }
  } }, ...controls, el("div", { class: "row" }, el("button", { class: "main" }, button)), sentence);
  const node = el("div", {}, form, shelf);
  node.form = form;
  return node;
}

/** A result with its caption and a button that saves it. */
export const figure = (content, caption, file, ...more) =>
  el("figure", {}, content, el("figcaption", {}, caption,
    el("div", { class: "row" }, file && el("button", { type: "button", onclick: () => download(file.blob, file.name) }, "Save"), ...more)));

export const number = (label, name, attributes = {}) => field(label, input(name, { type: "number", ...attributes }));
export const image = (file, alt) => el("img", { src: file.url, alt });
