// Builds elements without innerHTML, so that no text from the server is ever read as markup.

/** el("p", {class: "soft"}, "text", node): properties that are functions become listeners ("onclick"). */
export function el(tag, attributes = {}, ...children) {
  const node = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (value === undefined || value === null || value === false) continue;
    if (typeof value === "function") node.addEventListener(name.slice(2), value);
    else if (name in node && typeof value === "boolean") node[name] = value;
    else node.setAttribute(name, value);
  }
  node.append(...children.flat().filter((child) => child !== undefined && child !== null && child !== false));
  return node;
}

const SVG = "http://www.w3.org/2000/svg";

/** A picture of icons.svg, for the eye only. */
export function icon(name) {
  const svg = document.createElementNS(SVG, "svg"), use = document.createElementNS(SVG, "use");
  use.setAttribute("href", `icons.svg#${name}`);
  svg.setAttribute("class", "icon");
  svg.setAttribute("aria-hidden", "true");
  svg.append(use);
  return svg;
}

/** A labelled control: field("Seed", input("seed", {type: "number"})). */
export const field = (label, control, wide = false) =>
  el("label", { class: wide ? "wide" : undefined }, el("span", {}, label), control);

export const check = (label, name, checked = false) =>
  el("label", { class: "check" }, el("span", {}, label), el("input", { type: "checkbox", name, checked }));

export const input = (name, attributes = {}) => el("input", { name, ...attributes });

/** A slider that shows its value. */
export function range(label, name, attributes) {
  const value = el("b", {}, String(attributes.value)); // an output would take the label from the slider
  const control = input(name, { type: "range", ...attributes, oninput: () => { value.textContent = control.value; } });
  return el("label", { class: "wide" }, el("span", {}, label, value), control);
}

/** options: strings, or [value, label] pairs. */
export const select = (name, options, attributes = {}) =>
  el("select", { name, ...attributes },
    options.map((option) => {
      const [value, label] = Array.isArray(option) ? option : [option, option];
      return el("option", { value }, label);
    }));

/** One of a few choices, all of them visible. options: [value, label] pairs; the first is chosen. */
export const choice = (label, name, options, onchange) =>
  el("fieldset", { class: "choice wide", onchange: (event) => onchange?.(event.target.value) }, el("legend", { class: "unseen" }, label),
    options.map(([value, text], i) => el("label", {}, input(name, { type: "radio", value, checked: i === 0 }), el("span", {}, text))));

/** The filled-in values of a form: numbers as numbers, ticks as booleans, empty and hidden fields left out. */
export function values(form) {
  const out = {};
  for (const control of form.elements) {
    if (!control.name || control.disabled || control.type === "file" || control.closest("[hidden]")) continue;
    if (control.type === "checkbox") { if (control.checked) out[control.name] = true; }
    else if (control.value === "" || (control.type === "radio" && !control.checked)) continue;
    else out[control.name] = ["number", "range"].includes(control.type) ? Number(control.value) : control.value;
  }
  return out;
}

/** A line for a terminal, with a button that copies it. */
export function command(line) {
  const copy = el("button", { type: "button", class: "plain", "aria-label": `Copy: ${line}`, onclick: async () => {
    try {
      await navigator.clipboard.writeText(line);
      copy.textContent = "Copied";
    } catch { // not a secure context: the text is selected instead
      getSelection().selectAllChildren(code);
      copy.textContent = "Press Ctrl+C";
    }
    setTimeout(() => { copy.textContent = "Copy"; }, 2000);
  } }, "Copy");
  const code = el("code", {}, line);
  return el("div", { class: "command" }, code, copy);
}

/** Says something to screen readers without moving the focus. */
export function announce(text) { document.getElementById("announce").textContent = text; }

export function seconds(s) {
  if (!Number.isFinite(s)) return "";
  if (s < 60) return `${Math.max(1, Math.round(s))} s`;
  return s < 3600 ? `${Math.round(s / 60)} min` : `${(s / 3600).toFixed(1)} h`;
}

/** How far a job is, in words: "42 %, 3 of 8, 12 s left". */
export const progressText = ({ fraction, step, total, stage, image, images, seconds_left: left }) =>
  [fraction >= 0.005 ? `${Math.round(100 * fraction)} %` : "", images ? `image ${image} of ${images}` : "", total ? `step ${step} of ${total}` : "",
    !total && !images ? stage : "", left ? `${seconds(left)} left` : ""].filter(Boolean).join(", ") || "working";

export function bytes(n) {
  if (!Number.isFinite(n)) return "";
  const units = ["B", "KiB", "MiB", "GiB"];
  let unit = 0;
  while (n >= 1024 && unit < units.length - 1) { n /= 1024; unit++; }
  return `${n < 10 && unit ? n.toFixed(1) : Math.round(n)} ${units[unit]}`;
}

/** 4200000 as "4.2 million". */
export const count = (n) => (!Number.isFinite(n) ? "" : n >= 1e9 ? `${(n / 1e9).toFixed(1)} billion` : n >= 1e6 ? `${(n / 1e6).toFixed(1)} million` : n.toLocaleString("en"));
