// Training runs: start one with a preset on a folder of the server or on photos of one's own, watch its curves, stop and resume it.
import * as api from "../api.js";
import { chart } from "../chart.js";
import { choice, el, field, input, seconds, select } from "../dom.js";
import { dropZone } from "../files.js";
import { number, panel } from "../panel.js";

export const title = "Train";
export const hint = "Train a model on your own photos. Runs go on when this page is closed, and can be stopped and resumed.";

const pause = (ms) => new Promise((resolve) => setTimeout(resolve, ms));

const CURVES = [["loss", true], ["psnr", false], ["lpips", true]]; // name, on a logarithmic scale
const ACTIVE = ["running", "stopping"];

/** One run as a card that follows it until it ends; a stopped run keeps its curves and gets a Resume button. */
function card(run, open) {
  const curve = []; // lines of metrics so far
  const state = el("p", { class: "soft" }), badge = el("span", { class: "badge" }, run.state);
  const bar = el("progress", { max: 1, "aria-label": `Progress of ${run.name}` });
  const charts = el("div", { class: "charts" });
  const sample = el("img", { alt: "Newest samples", hidden: true });
  const toggle = el("button", { type: "button", hidden: true });
  let shownSample, following = false;

  function draw(now) {
    badge.textContent = now.state;
    badge.className = `badge ${now.state}`;
    bar.value = now.steps ? now.step / now.steps : 0;
    state.className = now.state === "failed" ? "bad" : "soft";
    state.textContent = [now.steps && `step ${now.step} of ${now.steps}`, now.images_per_second && `${now.images_per_second.toFixed(1)} images/s`,
      now.seconds_left && `${seconds(now.seconds_left)} left`, now.error, now.state === "finished" && `the model run:${run.name} can be used in Latents`].filter(Boolean).join(", ");
    const known = CURVES.filter(([name]) => curve.filter((line) => Number.isFinite(line[name])).length > 1);
    charts.replaceChildren(...known.map(([name, log]) =>
      el("figure", {}, chart(curve.filter((line) => Number.isFinite(line[name])).map((line) => [line.step, line[name]]), { label: name, log }))));
    toggle.textContent = now.state === "running" ? "Stop" : "Resume";
    toggle.hidden = now.state !== "running" && !(now.resumable && now.state !== "finished");
    toggle.onclick = async () => {
      try {
        await (now.state === "running" ? api.stopRun(run.name) : api.resumeRun(run.name));
        if (now.state !== "running") follow();
      } catch (error) { state.className = "bad"; state.textContent = error.message; }
    };
  }

  async function newestSample({ samples }) {
    const newest = samples.at(-1);
    if (!newest || newest === shownSample) return;
    sample.src = URL.createObjectURL(await api.sampleOf(run.name, newest));
    sample.hidden = false;
    shownSample = newest;
  }

  async function follow() {
    if (following) return;
    following = true;
    for (let active = true; active; active && await pause(1500)) {
      try {
        const now = await api.getRun(run.name);
        curve.push(...(await api.metrics(run.name, curve.at(-1)?.step ?? -1)).metrics);
        draw(now);
        await newestSample(now);
        active = ACTIVE.includes(now.state);
      } catch (error) {
        state.textContent = error.message;
        active = !error.status;
      }
    }
    following = false;
  }
  return el("details", { class: "card run", open, ontoggle: ({ target }) => { if (target.open) follow(); } },
    el("summary", {}, el("h3", {}, run.name), badge), bar, state, charts, sample, el("div", { class: "row" }, toggle));
}

export async function show() {
  const [{ runs }, { recipes }, { folders }] = await Promise.all([api.listRuns(), api.recipes(), api.folders()]);
  const about = el("p", { class: "soft" });
  const preset = select("recipe", recipes.map(({ name }) => name), { onchange: () => explain() });
  const explain = () => { about.textContent = recipes.find(({ name }) => name === preset.value)?.description ?? ""; };
  explain();
  const zone = dropZone({ label: "Photos to train on", multiple: true, folder: true });
  const folder = field("Folder with images", select("data", folders.map(({ name }) => name)));
  zone.hidden = folders.length > 0;
  folder.hidden = !folders.length;
  const desk = panel({
    controls: [field("Preset", preset), about,
      folders.length > 0 && choice("Images", "source", [["folder", "Server folder"], ["own", "My photos"]], (source) => {
        folder.hidden = source !== "folder";
        zone.hidden = source !== "own";
      }), folder, zone,
      el("div", { class: "fields" },
        field("Name of the run", input("name", { required: true, pattern: "[A-Za-z0-9_\\-]+", title: "Letters, digits, - and _", placeholder: "first" }), true),
        number("Steps", "steps", { min: 1, value: 1000 }),
        number("Batch", "batch", { min: 1, placeholder: "preset" }),
        number("Size", "size", { min: 16, placeholder: "preset" }))],
    button: "Start training",
    empty: "Runs appear here with their curves and samples.",
    run: async ({ batch, size, source, ...settings }, place) => {
      if (!settings.data && !zone.files.length) throw new Error("Choose the photos to train on.");
      const changed = Object.entries({ batch, size }).filter(([, value]) => value).map(([name, value]) => `${name}=${value}`);
      place(card(await api.startRun({ ...settings, settings: changed }, settings.data ? [] : zone.files), true));
    },
  });
  desk.shelf.append(...runs.map((run, i) => card(run, i === 0 || ACTIVE.includes(run.state))));
  return desk;
}
