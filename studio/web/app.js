// The desk: one tool at a time, chosen by the address after "#", so that the back button and bookmarks work.
import * as api from "./api.js";
import { announce, el, field, icon, input } from "./dom.js";
import { catchFiles } from "./files.js";
import { resume } from "./job.js";
import * as generate from "./tools/generate.js";
import * as restore from "./tools/restore.js";
import * as latents from "./tools/latents.js";
import * as edit from "./tools/edit.js";
import * as video from "./tools/video.js";
import * as train from "./tools/train.js";
import * as catalogue from "./tools/models.js";

// One tool is one file and one line here. A tool has a title, a hint, and show(models, all), which returns its node; all is the
// whole answer of /api/models.
const TOOLS = { generate, restore, latents, edit, video, train, models: catalogue };

const nav = document.getElementById("tools");
const main = document.getElementById("tool");
const shown = new Map(); // a tool's node stays, so that going to another tool loses nothing

function navigation() {
  for (const [name, tool] of Object.entries(TOOLS)) nav.append(el("a", { href: `#${name}` }, icon(name), tool.title));
}

const current = () => (location.hash.slice(1) in TOOLS ? location.hash.slice(1) : "restore");

async function build(name) {
  const tool = TOOLS[name], all = await api.models();
  return el("section", { class: name }, el("h2", {}, tool.title), el("p", { class: "hint" }, tool.hint), await tool.show(all.models, all));
}

async function show() {
  const name = current();
  for (const link of nav.children)
    if (link.getAttribute("href") === `#${name}`) link.setAttribute("aria-current", "page"); else link.removeAttribute("aria-current");
  nav.querySelector("[aria-current]").scrollIntoView({ block: "nearest", inline: "nearest" });
  document.title = `${TOOLS[name].title} · Zenith Studio`;
  main.inert = !shown.has(name); // nobody uses the old tool while the list of models is on its way
  try {
    if (!shown.has(name)) shown.set(name, await build(name));
  } catch (error) {
    main.inert = false;
    failed(error);
    return;
  }
  if (name !== current()) return; // another one was chosen meanwhile
  main.inert = false;
  main.replaceChildren(shown.get(name));
  announce(TOOLS[name].title);
}

/** Asks for the key where one is needed, and says what went wrong otherwise. */
function failed(error) {
  const again = (event) => { event.preventDefault(); if (event.target.elements.key) api.key.set(event.target.elements.key.value); show(); };
  const locked = error.status === 401;
  main.replaceChildren(el("form", { class: "notice", onsubmit: again },
    el("h2", {}, locked ? "This server needs a key" : "The studio cannot go on"), el("p", { class: locked && !api.key.get() ? "soft" : "bad", role: "alert" }, error.message),
    locked && field("Key", input("key", { type: "password", required: true, autocomplete: "current-password" })),
    el("button", { class: "main" }, locked ? "Open" : "Try again")));
  main.querySelector("input, button").focus();
}

async function status() {
  const line = document.getElementById("server");
  try {
    const { status, version } = await api.health();
    line.textContent = status === "ok" ? `zenith ${version}` : `zenith ${version}, ${status}`;
    line.className = status === "ok" ? "up" : "down";
  } catch (error) {
    line.textContent = error.message;
    line.className = "down";
  }
}

navigation();
catchFiles(document);
addEventListener("hashchange", show);
addEventListener("zenith-models", () => { shown.delete(current()); show(); }); // a tool lacked a model; it may be there now
show();
status();
setInterval(status, 5000);
resume().catch(() => {});
