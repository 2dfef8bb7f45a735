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

/** A labelled control: field("Seed", input("seed", {type: "number"})). */
export const field = (label, control, wide = false) =>
  el("label", { class: wide ? "wide" : undefined }, el("span", {}, label), control);

export const check = (label, name, checked = false) =>
  el("label", { class: "check" }, el("span", {}, label), el("input", { type: "checkbox", name, checked }));

export const input = (name, attributes = {}) => el("input", { name, ...attributes });

/** options: strings, or [value, label] pairs. */
export const select = (name, options, attributes = {}) =>
  el("select", { name, ...attributes },
    options.map((option) => {
      const [value, label] = Array.isArray(option) ? option : [option, option];
      return el("option", { value }, label);
    }));

/** The filled-in values of a form: numbers as numbers, ticks as booleans, empty fields left out. */
export function values(form) {
  const out = {};
  for (const control of form.elements) {
    if (!control.name || control.disabled || control.type === "file") continue;
    if (control.type === "checkbox") { if (control.checked) out[control.name] = true; }
    else if (control.value === "") continue;
    else out[control.name] = ["number", "range"].includes(control.type) ? Number(control.value) : control.value;
  }
  return out;
}

/** Says something to screen readers without moving the focus. */
export function announce(text) { document.getElementById("announce").textContent = text; }

export function seconds(s) {
  if (!Number.isFinite(s)) return "";
  if (s < 60) return `${Math.max(1, Math.round(s))} s`;
  return s < 3600 ? `${Math.round(s / 60)} min` : `${(s / 3600).toFixed(1)} h`;
}

export function bytes(n) {
  if (!Number.isFinite(n)) return "";
  const units = ["B", "KiB", "MiB", "GiB"];
  let unit = 0;
  while (n >= 1024 && unit < units.length - 1) { n /= 1024; unit++; }
  return `${n < 10 && unit ? n.toFixed(1) : Math.round(n)} ${units[unit]}`;
}
