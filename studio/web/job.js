// Jobs as cards beside the tools: progress, time left, Cancel. They survive a reload of the page,
// because the server keeps them; a card asks the server again until its job has ended.
import * as api from "./api.js";
import { announce, el, icon, progressText } from "./dom.js";
import { download } from "./files.js";

const ENDED = ["done", "failed", "cancelled"];
const MOST_OLD = 8; // finished jobs that are shown again after a reload
const shelf = () => document.getElementById("jobs");
const pause = (ms) => new Promise((resolve) => setTimeout(resolve, ms));

/** What a job throws that someone cancelled: nothing to report. */
export class Cancelled extends Error {}

document.getElementById("clear").addEventListener("click", () => shelf().querySelectorAll(".ended").forEach((node) => node.remove()));

async function saveAll({ results }) {
  for (const result of results) download(await api.fetchBlob(result.url), result.name);
}

function card(job, title) {
  const began = performance.now();
  const state = el("p", { class: "soft" }, job.state === "queued" ? "waiting" : job.state);
  const bar = el("progress", { max: 1, "aria-label": `Progress of ${title}` });
  const buttons = el("div", { class: "row" });
  const cancel = el("button", { type: "button", class: "plain", "aria-label": `Cancel ${title}`, onclick: async () => {
    cancel.disabled = true;
    await api.cancelJob(job.id).catch((error) => { state.textContent = error.message; });
  } }, "Cancel");
  const node = el("article", { class: "job" }, el("h3", { title }, title), bar, state, buttons);
  buttons.append(cancel);
  shelf().prepend(node);

  return {
    say(text) { bar.removeAttribute("value"); state.textContent = text; },
    progress(data) {
      if (data.fraction > 0) bar.value = data.fraction; else bar.removeAttribute("value");
      state.textContent = progressText(data);
    },
    /** old: the job ended before this page was opened, so its results are not in a gallery. */
    end(last, old) {
      const took = `done in ${((performance.now() - began) / 1000).toFixed(1)} s`;
      const sentence = last.error ?? (last.state !== "done" ? last.state : old ? `done, ${job.task}` : took);
      node.classList.add("ended", last.state);
      bar.remove();
      state.className = last.state === "failed" ? "bad" : "soft";
      state.textContent = sentence;
      cancel.remove();
      if (last.state === "done" && old && last.results.length)
        buttons.append(el("button", { type: "button", class: "plain", "aria-label": `Save ${title}`, onclick: () => saveAll(last) }, "Save"));
      buttons.append(el("button", { type: "button", class: "plain", "aria-label": `Remove ${title}`, onclick: () => node.remove() }, icon("close")));
      announce(`${title}: ${sentence}`);
    },
  };
}

/** Follows a job to its end. Returns its last record; throws the server's sentence where it failed. */
async function follow(job, title, { onprogress = () => {}, onpreview = () => {}, old = false } = {}) {
  const view = card(job, title);
  let last = job;
  while (!ENDED.includes(last.state)) {
    try {
      await api.events(`/api/jobs/${job.id}/events`, (name, data) => {
        if (name === "progress") { view.progress(data); onprogress(data); }
        if (name === "preview") api.fetchBlob(data.url).then(onpreview, () => {}); // the job may have ended meanwhile
        if (name === "queued") view.say(data.position ? `waiting, ${data.position} before it` : "waiting");
      });
      last = await api.getJob(job.id);
    } catch (error) {
      if (error.status) {
        view.end({ state: "failed", error: error.status === 404 ? "The server no longer knows this job." : error.message });
        throw error;
      }
      view.say("waiting for the server");
      await pause(1000);
      continue;
    }
    if (!ENDED.includes(last.state)) await pause(200);
  }
  view.end(last, old);
  if (last.state === "cancelled") throw new Cancelled();
  if (last.state === "failed") throw new api.ServerError(0, last.error);
  return last;
}

/** Sends a job and follows it. onprogress gets each report, onpreview each preview as a blob. */
export async function run(task, settings, { files = [], mask, title = task, onprogress, onpreview } = {}) {
  return follow(await api.createJob(task, settings, files, mask), title, { onprogress, onpreview });
}

/** Shows the jobs that the server knows, after a reload or in a second tab, with the results of those that are done. */
export async function resume() {
  const { jobs = [] } = await api.listJobs();
  const shown = jobs.filter((job) => !ENDED.includes(job.state) || job.results.length);
  for (const job of shown.slice(0, MOST_OLD).reverse()) follow(job, job.title || job.task, { old: true }).catch(() => {});
}

/** The results of a finished job as objects {name, type, blob, url}. */
export const results = (job) => Promise.all(job.results.map(async (result) => {
  const blob = await api.fetchBlob(result.url);
  return { ...result, blob, url: URL.createObjectURL(blob) };
}));
