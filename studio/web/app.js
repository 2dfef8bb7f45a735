// The desk: one tool at a time, chosen by the address behind "#", so that the back button and bookmarks work.
import * as api from "./api.js";
import { announce, el } from "./dom.js";
import { resume } from "./job.js";
import * as generate from "./tools/generate.js";
import * as restore from "./tools/restore.js";
import * as latents from "./tools/latents.js";
import * as edit from "./tools/edit.js";
import * as video from "./tools/video.js";
import * as train from "./tools/train.js";
import * as catalogue from "./tools/models.js";

// One tool is one file and one line here. A tool has a title, a hint, and show(models), which returns its node.
const TOOLS = { generate, restore, latents, edit, video, train, models: catalogue };

const nav = document.getElementById("tools");
const main = document.getElementById("tool");
const shown = new Map(); // a tool's node stays, so that going to another tool loses nothing

function navigation() {
  for (const [name, tool] of Object.entries(TOOLS)) nav.append(el("a", { href: `#${name}` }, tool.title));
}

async function show() {
  const name = location.hash.slice(1) in TOOLS ? location.hash.slice(1) : "restore";
  const tool = TOOLS[name];
  for (const link of nav.children)
    if (link.getAttribute("href") === `#${name}`) link.setAttribute("aria-current", "page"); else link.removeAttribute("aria-current");
  document.title = `${tool.title} · Zenith Studio`;
  if (!shown.has(name)) {
    try {
      const { models } = await api.models();
      shown.set(name, el("section", {}, el("h2", {}, tool.title), el("p", { class: "soft" }, tool.hint), await tool.show(models)));
    } catch (error) {
      failed(error);
      return;
    }
  }
  main.replaceChildren(shown.get(name));
  announce(tool.title);
}

function failed(error) {
  document.getElementById("key").hidden = error.status !== 401;
  main.replaceChildren(el("p", { class: "bad" }, error.message),
    el("button", { type: "button", onclick: show }, "Try again"));
}

async function status() {
  const line = document.getElementById("server");
  try {
    const { status, version } = await api.health();
    line.textContent = status === "ok" ? `zenith ${version}` : `zenith ${version}, ${status}`;
  } catch (error) {
    line.textContent = error.message;
  }
}

document.getElementById("key").addEventListener("click", () => {
  const value = prompt("The key that zenith serve was started with");
  if (value !== null) { api.key.set(value); show(); }
});
navigation();
addEventListener("hashchange", show);
show();
status();
setInterval(status, 5000);
resume().catch(() => {});
