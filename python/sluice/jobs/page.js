"use strict";

// The ten steps of store.STEPS.
const STEPS = {
  image: "the image is made",
  upload: "image, code and data are where the nodes reach them",
  submit: "the job is handed over",
  queue: "it waits for its turn",
  schedule: "nodes are chosen",
  pull: "the image is fetched",
  mount: "data, code and outputs are mounted",
  limit: "limits and isolation are set",
  run: "the roles run",
  release: "everything is given back",
};
const ENDED = ["succeeded", "failed", "cancelled"];
const LOOK_MS = 1000;
const MOST_LINES = 5000; // of the log that the page keeps

const $ = (id) => document.getElementById(id);
let token = "";
let shown = {}; // the job that the page shows: id, state, previous figures, its log

function make(tag, values, ...children) {
  const one = Object.assign(document.createElement(tag), values);
  one.append(...children);
  return one;
}

function say(text, isBad = false) {
  $("message").textContent = text;
  $("message").className = isBad ? "bad" : "";
}

// --- the API ---

class Refused extends Error {
  constructor(status, answer) {
    super(answer.error || `status ${status}`);
    this.status = status;
    this.problems = answer.problems;
  }
}

async function request(method, path, body, signal) {
  const headers = { Authorization: `Bearer ${token}` };
  if (body) headers["Content-Type"] = "application/json";
  const answer = await fetch(`/api/v1${path}`, {
    method, headers, body: body && JSON.stringify(body), signal, cache: "no-store", credentials: "omit",
  });
  if (!answer.ok) throw new Refused(answer.status, await answer.json().catch(() => ({})));
  return answer;
}

async function ask(method, path, body) {
  return (await request(method, path, body)).json();
}

function failed(error) {
  if (error.status === 401) {
    token = "";
    sessionStorage.removeItem("token");
    route();
  }
  say(error instanceof Refused ? error.message : "offload_job serve does not answer", true);
}

// --- texts ---

function number(value, digits = 0) {
  return value.toLocaleString("en", { minimumFractionDigits: digits, maximumFractionDigits: digits });
}

function percent(share) {
  return `${number(100 * share)} %`;
}

function clock(seconds) {
  return new Date(1000 * seconds).toLocaleTimeString("en-GB");
}

function ago(seconds) {
  const units = [[86400, "d"], [3600, "h"], [60, "min"], [1, "s"]];
  const [size, unit] = units.find(([one]) => seconds >= one) || [1, "s"];
  return `${Math.max(0, Math.floor(seconds / size))} ${unit} ago`;
}

// --- all jobs ---

async function lookAtJobs() {
  const { jobs } = await ask("GET", "/jobs");
  $("none").hidden = jobs.length > 0;
  const focused = document.activeElement && document.activeElement.getAttribute("href");
  $("rows").replaceChildren(...jobs.reverse().map((job) => make("tr", {},
    make("td", { className: "text" }, make("a", { href: `#/jobs/${job.id}` }, job.id)),
    make("td", { className: "text" }, make("span", { className: `state ${job.state}`, title: job.problem || "" }, job.state)),
    make("td", { className: "text wide" }, job.engine),
    make("td", { className: "wide" }, String(job.attempts)),
    make("td", {}, ago(Date.now() / 1000 - job.submitted)))));
  for (const link of $("rows").querySelectorAll("a"))
    if (link.getAttribute("href") === focused) link.focus();
}

// --- one job ---

function showSteps(job) {
  const isUnderWay = ["starting", "running", "paused", "queued", "submitted"].includes(job.state);
  const next = Object.keys(STEPS).find((name) => !job.steps[name]);
  $("steps").replaceChildren(...Object.entries(STEPS).map(([name, about]) => {
    const step = job.steps[name];
    const outcome = step ? step.outcome : name === next && isUnderWay ? "current" : "open";
    const words = { current: "under way", open: "–" }[outcome] || outcome;
    return make("li", { className: outcome },
      make("span", { className: "name" }, name),
      make("span", { className: "outcome" }, words),
      make("span", { className: "time" }, step ? clock(step.time) : ""),
      make("span", { className: "about" }, (step && step.text) || about));
  }));
}

function showJob(job) {
  $("title").textContent = job.id;
  document.title = `${job.id}: ${job.state}`;
  if ($("state").textContent !== job.state) $("state").textContent = job.state; // each change is read out
  $("state").className = `state ${job.state}`;
  const states = job.events.filter((event) => event.event === "state");
  const last = states[states.length - 1] || {};
  const warnings = job.events.filter((event) => event.event === "warning").map((event) => event.text);
  $("said").textContent = [`engine ${job.engine}, attempt ${job.attempts}`, job.problem || last.text, ...warnings]
    .filter(Boolean).join("; ");
  const can = {
    freeze: job.state === "running", checkpoint: job.state === "running",
    resume: ["paused", "lost"].includes(job.state), cancel: !ENDED.includes(job.state),
  };
  for (const button of $("actions").children) button.disabled = !can[button.dataset.act] || shown.isBusy;
  showSteps(job);
}

async function act(what) {
  const mine = shown;
  const [path, body] = { freeze: ["pause", { kind: "freeze" }], checkpoint: ["pause", { kind: "checkpoint" }] }[what]
    || [what];
  if (what === "cancel" && !confirm(`Cancel ${mine.id}?`)) return;
  mine.isBusy = true;
  for (const button of $("actions").children) button.disabled = true;
  say(`${path} ...`);
  try {
    await ask("POST", `/jobs/${mine.id}/${path}`, body);
    say("");
  } catch (error) {
    failed(error);
  }
  mine.isBusy = false;
}

// --- figures ---

function list(pairs) {
  const rows = pairs.filter(([, value]) => value !== null && value !== undefined);
  return make("dl", {}, ...rows.flatMap(([name, value]) => [make("dt", {}, name), make("dd", {}, value)]));
}

function bars(shares) {
  return make("div", { className: "bars" }, ...shares.map(([name, share]) => {
    const meter = make("meter", { min: 0, max: 1, value: share });
    meter.setAttribute("aria-label", name);
    return make("div", {}, make("span", {}, name), meter, make("span", {}, percent(share)));
  }));
}

function showLoader(now, before) {
  const { trainer } = now;
  if (!trainer) {
    $("loader").replaceChildren(make("p", { className: "faint" }, now.trainer_problem));
    return;
  }
  // Over the last look, or since the trainer's start.
  const was = before && before.trainer && before.trainer.uptime_s < trainer.uptime_s ? before.trainer
    : { samples: 0, uptime_s: 0, wire_bytes: 0, stalls_s: {}, choices: [] };
  const seconds = trainer.uptime_s - was.uptime_s;
  const stalls = Object.entries(trainer.stalls_s)
    .map(([cause, s]) => [cause.replaceAll("_", " "), Math.min(1, Math.max(0, (s - (was.stalls_s[cause] || 0)) / seconds))])
    .sort((a, b) => b[1] - a[1]);
  const waits = stalls.reduce((sum, [, share]) => sum + share, 0);
  const total = trainer.choices.reduce((sum, choice) => sum + choice.samples, 0);
  const choices = trainer.choices.filter((choice) => choice.samples > 0)
    .map((choice) => [`${choice.form}@${choice.split}`, choice.samples / total]).sort((a, b) => b[1] - a[1]);
  $("loader").replaceChildren(
    make("div", {}, make("span", { className: "large" }, number((trainer.samples - was.samples) / seconds)), " samples/s"),
    list([
      ["epoch", `${number(trainer.epoch + 1)} of ${number(trainer.epochs)}`],
      ["samples", number(trainer.samples)],
      ["network", `${number(8e-6 * (trainer.wire_bytes - was.wire_bytes) / seconds, 1)} Mbit/s`],
      ["loss", trainer.loss === null ? null : number(trainer.loss, 3)],
      ["mode", trainer.mode],
      ["bad samples", trainer.errors ? number(trainer.errors) : null],
      ["server lost for", trainer.lost_s ? `${number(trainer.lost_s, 1)} s` : null],
    ]),
    make("h4", {}, `waits for batches: ${percent(Math.min(1, waits))} of the time`), bars(stalls),
    make("h4", {}, "what crosses the network"), bars(choices));
}

function showServers(now) {
  const parts = now.servers.map((server) => {
    if (server.samples_per_s === undefined)
      return make("div", {}, make("h4", {}, server.server), 
        make("p", { className: "bad" }, `${server.state}: ${server.why || ""}`));
    const errors = Object.entries(server.errors || {}).map(([name, count]) => `${name} ${count}`).join(", ");
    return make("div", {}, make("h4", {}, `${server.server}, ${server.state}`),
      make("div", {}, make("span", { className: "large" }, number(server.samples_per_s || 0)), " samples/s"),
      list([
        ["cores", `${number(server.cores_used || 0, 2)} of ${number(server.cores || 0, 1)}`],
        ["queue", number(server.queue)],
        ["network", `${number(8e-6 * (server.wire_bytes_per_s || 0), 1)} Mbit/s`],
        ["streams", number(server.streams)],
        ["samples", number(server.samples)],
        ["price of a core", server.price === null ? null : number(server.price, 3)],
        ["memory", `${number(server.memory_used / 1e6)} MB`],
        ["errors", errors || null],
      ]));
  });
  $("servers").replaceChildren(...(parts.length ? parts : [make("p", { className: "faint" }, now.servers_problem)]));
}

async function lookAtFigures(job, mine) {
  if (job.state !== "running") {
    $("figures").hidden = true;
    mine.figures = null;
    return;
  }
  const now = await ask("GET", `/jobs/${job.id}/figures`);
  if (mine !== shown) return;
  showLoader(now, mine.figures);
  showServers(now);
  mine.figures = now;
  $("figures").hidden = false;
}

// --- logs ---

function showLines(lines) {
  const log = $("logs");
  const isAtEnd = log.scrollTop + log.clientHeight >= log.scrollHeight - 8;
  const role = $("role").value;
  const text = lines.filter((line) => !role || line.startsWith(`${role}: `))
    .map((line) => `${role ? line.slice(role.length + 2) : line}\n`).join("");
  if (text) log.append(text);
  while (log.childNodes.length > MOST_LINES) log.firstChild.remove();
  if (isAtEnd) log.scrollTop = log.scrollHeight;
}

function showAllLines() {
  $("logs").replaceChildren();
  showLines(shown.lines || []);
}

function addLines(mine, lines) {
  mine.lines.push(...lines);
  mine.lines.splice(0, mine.lines.length - MOST_LINES);
  const roles = new Set(lines.map((line) => line.split(": ", 1)[0]));
  for (const option of $("role").options) roles.delete(option.value);
  $("role").append(...[...roles].map((role) => make("option", { value: role }, role)));
  showLines(lines);
}

async function follow(mine) {
  mine.lines = [];
  mine.isFollowing = true;
  showAllLines();
  let rest = "";
  try {
    const answer = await request("GET", `/jobs/${mine.id}/logs?follow=1`, undefined, mine.abort.signal);
    const reader = answer.body.pipeThrough(new TextDecoderStream()).getReader();
    for (;;) {
      const { value, done } = await reader.read();
      if (done || mine !== shown) break;
      const lines = (rest + value).split("\n");
      rest = lines.pop();
      addLines(mine, lines);
    }
  } catch (error) {
    if (mine === shown && error.name !== "AbortError") failed(error);
  }
  mine.isFollowing = false;
}

// --- a new job ---

function showProblems(problems) {
  $("text").setAttribute("aria-invalid", problems.length > 0);
  $("problems").replaceChildren(...problems.map((problem) => {
    const button = make("button", { type: "button" },
      `line ${problem.line}, column ${problem.column}: ${problem.field ? `${problem.field}: ` : ""}${problem.text}`);
    button.addEventListener("click", () => {
      const before = $("text").value.split("\n").slice(0, problem.line - 1).join("\n");
      const place = before.length + (problem.line > 1 ? 1 : 0) + problem.column - 1;
      $("text").focus();
      $("text").setSelectionRange(place, place);
    });
    return make("li", {}, button);
  }));
}

async function send(path) {
  const body = { text: $("text").value, folder: $("folder").value };
  if (path === "/jobs") body.engine = $("engine").value;
  say("");
  try {
    const answer = await ask("POST", path, body);
    showProblems(answer.problems || []);
    if (answer.id) {
      sessionStorage.setItem("folder", body.folder);
      location.hash = `#/jobs/${answer.id}`;
    } else if (!answer.problems.length) {
      say(`${answer.name}: ok`);
    }
  } catch (error) {
    showProblems(error.problems || []);
    failed(error);
  }
}

// --- which part is shown ---

async function look() {
  const mine = shown;
  try {
    if (mine.isList) await lookAtJobs();
    if (mine.id) {
      const job = await ask("GET", `/jobs/${mine.id}`);
      if (mine !== shown) return;
      showJob(job);
      const goesOn = mine.state !== job.state && !ENDED.includes(job.state);
      if (!mine.isFollowing && (!mine.state || goesOn)) follow(mine);
      mine.state = job.state;
      await lookAtFigures(job, mine);
    }
    if (mine.isSilent) say("");
    mine.isSilent = false;
  } catch (error) {
    if (mine !== shown) return;
    failed(error);
    mine.isSilent = true;
  }
  if (mine === shown && token) mine.timer = setTimeout(look, LOOK_MS);
}

function route() {
  const hash = location.hash.slice(1);
  if (hash && !hash.startsWith("/")) { // the URL that offload_job serve prints
    token = hash;
    sessionStorage.setItem("token", token);
    history.replaceState(null, "", "#/");
    return route();
  }
  clearTimeout(shown.timer);
  if (shown.abort) shown.abort.abort();
  const job = hash.match(/^\/jobs\/([a-z0-9-]+)$/);
  const part = !token ? "enter" : job ? "job" : hash === "/new" ? "new" : "jobs";
  for (const id of ["enter", "jobs", "job", "new"]) $(id).hidden = id !== part;
  shown = { isList: part === "jobs", id: part === "job" ? job[1] : "", abort: new AbortController() };
  document.title = "Jobs";
  say("");
  $("figures").hidden = true;
  $("role").replaceChildren(make("option", { value: "" }, "all roles"));
  if (part === "jobs" || part === "job") look();
  if (part === "new") $("folder").value ||= sessionStorage.getItem("folder") || "";
}

token = sessionStorage.getItem("token") || "";
window.addEventListener("hashchange", route);
$("role").addEventListener("change", showAllLines);
$("enter").addEventListener("submit", (event) => {
  event.preventDefault();
  token = $("token").value.trim();
  sessionStorage.setItem("token", token);
  $("token").value = "";
  route();
});
for (const button of $("actions").children) button.addEventListener("click", () => act(button.dataset.act));
$("validate").addEventListener("click", () => send("/validate"));
$("new").addEventListener("submit", (event) => {
  event.preventDefault();
  send("/jobs");
});
route();
