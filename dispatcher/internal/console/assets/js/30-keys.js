// Keys. None does anything in a field or a dialog, or with a modifier.
const pages = { n: "", d: "deliveries", e: "endpoints", x: "dead", t: "tail", s: "system" };
let leader = 0;

function rowLinks() { return [...document.querySelectorAll("main .row-link")]; }

function step(by) {
  const links = rowLinks();
  if (links.length === 0) return;
  const at = links.findIndex((l) => l.closest("tr, li") === document.activeElement.closest("tr, li"));
  const next = at < 0 ? (by > 0 ? 0 : links.length - 1) : Math.min(Math.max(at + by, 0), links.length - 1);
  links[next].focus();
}

function currentRow() { return document.activeElement.closest("main tr, main li"); }

async function copy(text, near) {
  try { await navigator.clipboard.writeText(text); } catch { return; }
  if (near) { near.dataset.copied = ""; setTimeout(() => delete near.dataset.copied, 1200); }
}

function search() {
  const s = document.getElementById("q");
  if (s) { s.focus(); s.select(); }
}

document.addEventListener("click", (e) => {
  const b = e.target.closest("[data-copy]");
  if (b) copy(b.dataset.copy, b);
});

document.addEventListener("keydown", (e) => {
  const field = e.target.matches("input:not([type=checkbox]):not([type=radio]), textarea, select");
  if (e.key === "Escape" && field) { e.target.blur(); return; }
  if (field || e.ctrlKey || e.metaKey || e.altKey || document.querySelector("dialog[open]")) return;
  if (leader && Date.now() - leader < 1500 && e.key in pages && document.body.dataset.base.endsWith("/console")) {
    leader = 0;
    e.preventDefault();
    location.href = document.body.dataset.base + "/" + pages[e.key];
    return;
  }
  leader = 0;
  const row = currentRow();
  switch (e.key) {
    case "/": e.preventDefault(); search(); break;
    case "j": step(1); break;
    case "k": step(-1); break;
    case "x": { const box = row && row.querySelector("input[type=checkbox]"); if (box) box.click(); break; }
    case "c": { const b = (row || document).querySelector("[data-copy]"); if (b) copy(b.dataset.copy, b); break; }
    case "p": if (document.getElementById("live")) toggleLive(); break;
    case "g": leader = Date.now(); break;
    case "?": { const h = document.getElementById("help"); if (h) { e.preventDefault(); h.showModal(); } break; }
  }
});
