// Rows that are selected are counted; a box in the head selects all of a page.
"use strict";
function countPicked() {
  const n = document.querySelectorAll("main .pick:checked").length;
  for (const e of document.querySelectorAll("[data-picked]")) e.textContent = n + " selected:";
  const boxes = document.querySelectorAll("main .pick");
  for (const e of document.querySelectorAll("[data-pick-all]")) { e.checked = n > 0 && n === boxes.length; e.indeterminate = n > 0 && n < boxes.length; }
}
document.addEventListener("change", (e) => {
  if (e.target.matches("[data-pick-all]")) for (const box of document.querySelectorAll("main .pick")) box.checked = e.target.checked;
  if (e.target.matches(".pick, [data-pick-all]")) countPicked();
});
countPicked(); // a browser keeps ticks over a reload

// How long a job takes at a rate.
function tellTime() {
  const field = document.querySelector("[data-rate]"), told = document.querySelector("[data-takes]");
  if (!field || !told) return;
  const rate = parseFloat(field.value);
  told.textContent = rate > 0 ? span(Math.ceil(told.dataset.takes / rate) * 1000) : "as long as it takes";
}
document.addEventListener("input", (e) => { if (e.target.matches("[data-rate]")) tellTime(); });
document.addEventListener("refreshed", tellTime);

// A preview that has not counted all is fetched once more; the server counts for longer then. If that fails, a person
// may follow the link.
async function countOn(link) {
  link.hidden = true;
  try {
    const answer = await fetch(link.href, { headers: { "X-Refresh": "1" }, cache: "no-store", signal: AbortSignal.timeout(60000) });
    if (answer.ok) show({ text: await answer.text(), tag: null });
  } catch {}
  const still = document.querySelector("[data-count-on]");
  if (!still) return;
  still.hidden = false;
  still.previousElementSibling.hidden = true;
}
if (document.querySelector("[data-count-on]")) countOn(document.querySelector("[data-count-on]"));
// An open filter or question closes by Escape, or a click beside it.
function closeOthers(inside) {
  for (const e of document.querySelectorAll("details.filter[open], details.confirm[open]")) if (!inside || !e.contains(inside)) e.open = false;
}
document.addEventListener("click", (e) => closeOthers(e.target));
document.addEventListener("keydown", (e) => {
  if (e.key !== "Escape") return;
  const open = document.querySelector("details.filter[open], details.confirm[open]");
  if (open) { open.open = false; open.querySelector("summary").focus(); }
});
