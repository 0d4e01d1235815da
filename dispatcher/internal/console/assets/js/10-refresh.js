// A page refreshes itself in place: it is fetched again and what differs is changed, so
// that focus, selection, scroll, open details and dialogs stay.
"use strict";
const every = 5000, patience = 4000;
// skew is how far the store's clock is ahead of this one.
const servedAt = Date.parse(document.querySelector("meta[name=now]").content);
const skew = Number.isNaN(servedAt) ? 0 : servedAt - Date.now();
// at is when the server last gave this page; trouble is why it gave no newer one; fresh is how old a live page may be.
const live = { paused: false, busy: false, at: Date.now(), trouble: "", fresh: 10000 };

function nothingOpen() {
  return !document.hidden && !live.paused && !live.busy && document.body.dataset.poll !== "off" && !held();
}

// held tells what a person does that a refresh would disturb.
function held() {
  if (document.querySelector("dialog[open], :popover-open")) return "while this is open";
  if (document.querySelector("main input[type=checkbox]:checked[data-select]")) return "while you select";
  const at = document.activeElement;
  if (at && at.matches("main input:not([type=checkbox]):not([type=radio]), main select, main textarea")) return "while you type";
  const selected = getSelection();
  return !selected || selected.isCollapsed ? "" : "while you select";
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
  // What an action has answered stays until the page is left.
  beforeNodeRemoved(node) { return node.nodeType !== 1 || !node.matches("[data-stays]"); },
};

// typed tells whether a person changed a field. A refresh that was slow must not take that back.
function typed(node) {
  if (node.matches("main select")) return [...node.options].some((o) => o.defaultSelected && !o.selected);
  return node.matches("main input, main textarea, #q") && node.value !== node.defaultValue;
}

async function refresh() {
  live.busy = true;
  const at = live.at;
  try {
    const answer = await again();
    if (answer && !live.paused && !held()) show(answer);
    else if (answer) live.at = at; // what a person began meanwhile holds the page as it is
  } finally { live.busy = false; }
}

// again fetches the page once more; without an answer it is as it was.
async function again() {
  const headers = { "X-Refresh": "1" };
  if (live.tag) headers["If-None-Match"] = live.tag;
  try {
    const answer = await fetch(document.body.dataset.url || location.href, { headers, cache: "no-store", redirect: "follow", signal: AbortSignal.timeout(patience) });
    if (answer.status === 401) { location.reload(); return null; }
    const text = answer.status === 304 ? "" : await answer.text();
    if (answer.ok || answer.status === 304) reached();
    else unreached(answer.status === 503 ? whyAway(text) : "old");
    if (answer.status === 304 || !answer.ok && !(answer.status === 503 && document.querySelector("[data-away]"))) return null;
    return { text, tag: answer.headers.get("ETag") };
  } catch { unreached("server"); return null; }
}

function whyAway(text) {
  const away = new DOMParser().parseFromString(text, "text/html").querySelector("[data-away]");
  return away ? away.dataset.away : "server"; // a proxy in front of the server answered
}

function reached() { live.at = Date.now(); live.trouble = ""; lamp(); }
function unreached(why) { live.trouble = why; lamp(); }

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

// The lamp says how old the page is. It is green only for a page that the server gave within the last ten seconds.
const troubles = { server: "the server is not reached", store: "Redis is away", slow: "the store is too slow", refused: "nothing can be read" };

function lamp() {
  const chip = document.getElementById("live");
  if (!chip) return;
  const old = Date.now() - live.at > live.fresh, holds = held();
  const asOf = "As of " + clockIn(new Date(live.at + skew), zone());
  let state = "on", word = "Live";
  if (live.paused) [state, word] = ["held", "Paused"];
  else if (live.trouble === "old") [state, word] = ["old", "Not live"];
  else if (live.trouble) [state, word] = ["away", asOf + ": " + (live.trouble === "store" && document.body.dataset.base.endsWith("/link") ? troubles.refused : troubles[live.trouble])];
  else if (holds) [state, word] = ["held", "Paused " + holds];
  else if (old) [state, word] = ["old", asOf];
  chip.dataset.state = state;
  chip.title = asOf;
  chip.setAttribute("aria-pressed", String(!live.paused));
  const text = chip.querySelector(".live-word");
  if (text.textContent !== word) text.textContent = word;
  chip.querySelector(".live-at").textContent = state === "on" ? clockIn(new Date(Date.now() + skew), zone()) : "";
}

function toggleLive() { live.paused = !live.paused; lamp(); document.dispatchEvent(new Event("live")); if (!live.paused && document.body.dataset.poll !== "off") refresh(); }

// What the server leaves hidden for those without scripts is shown again.
function restore() {
  for (const id of ["live", "theme", "zone", "help-open"]) { const e = document.getElementById(id); if (e) e.hidden = false; }
  for (const e of document.querySelectorAll("[data-script]")) e.hidden = false;
  const chosen = document.documentElement.dataset.theme || "auto";
  for (const e of document.querySelectorAll("#theme input")) e.checked = e.value === chosen;
  lamp();
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
// The result of an action belongs to the page that it led to: a reload shows the page without it.
if (new URLSearchParams(location.search).has("told")) {
  const plain = new URL(location.href);
  plain.searchParams.delete("told");
  history.replaceState(history.state, "", plain);
}
restore();
setInterval(lamp, 1000);
for (const event of ["change", "focusin", "focusout", "selectionchange"]) document.addEventListener(event, () => setTimeout(lamp));
setInterval(() => { if (nothingOpen() && (document.getElementById("live") || document.querySelector("[data-away]"))) refresh(); }, every);
document.addEventListener("visibilitychange", () => { if (nothingOpen() && document.getElementById("live")) refresh(); });
