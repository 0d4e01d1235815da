// A page refreshes itself in place: it is fetched again and what differs is changed, so
// that focus, selection, scroll, open details and dialogs stay.
"use strict";
const every = 5000;
const live = { paused: false, busy: false, failures: 0 };

function nothingOpen() {
  if (document.hidden || live.paused || live.busy || document.body.dataset.poll === "off") return false;
  if (document.querySelector("dialog[open], :popover-open")) return false;
  if (document.querySelector("main input[type=checkbox]:checked[data-select]")) return false;
  const at = document.activeElement;
  if (at && at.matches("main input:not([type=checkbox]):not([type=radio]), main select, main textarea")) return false;
  const selected = getSelection();
  return !selected || selected.isCollapsed;
}

const keep = {
  // What a person opened, ticked or chose stays as it is.
  beforeAttributeUpdated(name, node) {
    if (name === "open" && node.matches("details, dialog")) return false;
    if (name === "hidden" && node.hasAttribute("data-keep")) return false;
  },
  beforeNodeMorphed(node) {
    if (node.nodeType !== 1) return true;
    return !node.matches("[data-keep], main input[type=radio], main input[type=checkbox]") && !typed(node);
  },
};

// typed tells whether a person changed a field. A refresh that was slow must not take that back.
function typed(node) {
  if (node.matches("main select")) return [...node.options].some((o) => o.defaultSelected && !o.selected);
  return node.matches("main input, main textarea") && node.value !== node.defaultValue;
}

async function refresh() {
  live.busy = true;
  try {
    const answer = await again();
    if (answer) show(answer);
  } finally { live.busy = false; }
}

// again fetches the page once more; without an answer it is as it was.
async function again() {
  const headers = { "X-Refresh": "1" };
  if (live.tag) headers["If-None-Match"] = live.tag;
  try {
    const answer = await fetch(location.href, { headers, cache: "no-store", redirect: "follow" });
    if (answer.status === 401) { location.reload(); return null; }
    setLive(answer.status === 503 ? "away" : answer.ok || answer.status === 304 ? "on" : "old");
    if (answer.status === 304) return null;
    const text = await answer.text();
    if (!answer.ok && !(answer.status === 503 && document.querySelector("[data-away]"))) return null;
    return { text, tag: answer.headers.get("ETag") };
  } catch { setLive("away"); return null; }
}

function show(answer) {
  const next = new DOMParser().parseFromString(answer.text, "text/html");
  for (const id of ["main", "side"]) {
    const from = document.getElementById(id), to = next.getElementById(id);
    if (from && to) Idiomorph.morph(from, [...to.childNodes], { morphStyle: "innerHTML", restoreFocus: true, callbacks: keep });
    else if (id === "main" || from || to) { location.reload(); return; }
  }
  live.tag = answer.tag;
  document.title = next.title;
  restore();
  document.dispatchEvent(new Event("refreshed"));
}

function setLive(state) {
  const chip = document.getElementById("live");
  if (!chip) return;
  chip.dataset.state = state;
  chip.setAttribute("aria-pressed", String(!live.paused));
  chip.querySelector(".live-word").textContent = live.paused ? "Paused" : state === "old" ? "Not live" : state === "away" ? (document.body.dataset.base.endsWith("/link") ? "Away" : "Redis is away") : "Live";
}

function toggleLive() { live.paused = !live.paused; setLive("on"); document.dispatchEvent(new Event("live")); if (!live.paused && document.body.dataset.poll !== "off") refresh(); }

// What the server leaves hidden for those without scripts is shown again.
function restore() {
  for (const id of ["live", "theme", "help-open"]) { const e = document.getElementById(id); if (e) e.hidden = false; }
  for (const e of document.querySelectorAll("[data-script]")) e.hidden = false;
  const chosen = document.documentElement.dataset.theme || "auto";
  for (const e of document.querySelectorAll("#theme input")) e.checked = e.value === chosen;
  setLive("on");
}

document.addEventListener("click", (e) => {
  if (e.target.closest("#live")) toggleLive();
  if (e.target.closest("#help-open")) document.getElementById("help").showModal();
  const back = e.target.closest("[data-back]");
  if (back && history.length > 1 && document.referrer === "") { e.preventDefault(); history.back(); }
});
document.addEventListener("change", (e) => {
  if (!e.target.matches("#theme input")) return;
  if (e.target.value === "auto") delete document.documentElement.dataset.theme; else document.documentElement.dataset.theme = e.target.value;
  try { localStorage.setItem("theme", e.target.value); } catch {}
});
restore();
setInterval(() => { if (nothingOpen() && (document.getElementById("live") || document.querySelector("[data-away]"))) refresh(); }, every);
document.addEventListener("visibilitychange", () => { if (nothingOpen() && document.getElementById("live")) refresh(); });
