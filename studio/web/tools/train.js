// Training runs: start one with a preset on a folder of the server, watch its curves, stop and resume it.
import * as api from "../api.js";
import { chart } from "../chart.js";
import { el, field, input, seconds, select } from "../dom.js";
import { number, panel } from "../panel.js";

export const title = "Train";
export const hint = "Runs use folders below the one that zenith serve was started with (--runs, --data). They go on when this page is closed.";

const pause = (ms) => new Promise((resolve) => setTimeout(resolve, ms));

const CURVES = [["loss", true], ["psnr", false], ["lpips", true]]; // name, on a logarithmic scale

/** One run as a card that follows it until it ends; a stopped run keeps its curves and gets a Resume button. */
function card(run) {
  const curve = []; // lines of metrics so far
  const state = el("p", { class: "soft" });
  const charts = el("div", { class: "gallery" });
  const sample = el("img", { alt: "Newest samples", hidden: true });
  const toggle = el("button", { type: "button", hidden: true });
  let shownSample;

  function draw(now) {
    state.className = now.state === "failed" ? "bad" : "soft";
    state.textContent = [now.state, now.steps && `step ${now.step} of ${now.steps}`, now.images_per_second && `${now.images_per_second.toFixed(1)} images/s`,
      now.seconds_left && `${seconds(now.seconds_left)} left`, now.error].filter(Boolean).join(", ");
    const known = CURVES.filter(([name]) => curve.some((line) => Number.isFinite(line[name])));
    charts.replaceChildren(...known.map(([name, log]) =>
      el("figure", {}, chart(curve.filter((line) => Number.isFinite(line[name])).map((line) => [line.step, line[name]]), { label: name, log }))));
    toggle.textContent = now.state === "running" ? "Stop" : "Resume";
    toggle.hidden = now.state !== "running" && !(now.resumable && now.state !== "finished");
    toggle.onclick = async () => {
      try {
        await (now.state === "running" ? api.stopRun(run.name) : api.resumeRun(run.name));
        if (now.state !== "running") follow();
      } catch (error) { state.textContent = error.message; }
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
    for (;;) {
      try {
        const now = await api.getRun(run.name);
        curve.push(...(await api.metrics(run.name, curve.at(-1)?.step ?? -1)).metrics);
        draw(now);
        await newestSample(now);
        if (!["running", "stopping"].includes(now.state)) return;
      } catch (error) {
        state.textContent = error.message;
        if (error.status) return;
      }
      await pause(1500);
    }
  }
  follow();
  return el("article", { class: "card" }, el("h3", {}, run.name), state, charts, sample, el("div", { class: "row" }, toggle));
}

export async function show() {
  const [{ runs }, { recipes }, { folders }] = await Promise.all([api.listRuns(), api.recipes(), api.folders()]);
  const desk = panel({
    controls: [el("div", { class: "fields" },
      field("Preset", select("recipe", recipes.map(({ name, description }) => [name, `${name}: ${description}`]))),
      field("Folder with images", select("data", folders.map(({ name }) => name))),
      field("Name of the run", input("name", { required: true, pattern: "[A-Za-z0-9_\\-]+" })),
      number("Steps", "steps", { min: 1, value: 1000 }),
      number("Batch", "batch", { min: 1, placeholder: "preset" }),
      number("Size", "size", { min: 16, placeholder: "preset" }))],
    button: "Start training",
    run: async ({ batch, size, ...settings }, place) => {
      const changed = Object.entries({ batch, size }).filter(([, value]) => value).map(([name, value]) => `${name}=${value}`);
      place(card(await api.startRun({ ...settings, settings: changed })));
    },
  });
  desk.lastChild.append(...runs.map(card));
  return desk;
}
