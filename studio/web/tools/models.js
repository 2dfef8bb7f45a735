// What the server can use, what it lacks, and where the time of a model goes.
import { bytes, el } from "../dom.js";

export const title = "Models";
export const hint = "Models that the server found, what they can do, and what they lack.";

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

export function show(models) {
  return table("Models", ["Name", "Kind", "Does", "Parameters", "Size", "In memory", "Remark"],
    models.map((model) => row(model.name, model.kind, model.tasks.join(", "), model.parameters?.toLocaleString(), bytes(model.bytes),
      model.loaded ? "yes" : "no", lacks(model) || model.description)));
}
