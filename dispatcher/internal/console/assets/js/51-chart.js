// The values of a chart under the pointer.
"use strict";
function showPoint(chart, share) {
  const points = chart.dataset.points.split(" ");
  const i = Math.min(points.length - 1, Math.max(0, Math.floor(share * points.length)));
  const values = points[i].split(","), card = chart.closest(".card");
  for (let n = 0; n < 3; n++) card.querySelector(`[data-legend="${n}"]`).textContent = values[n];
  const at = new Date(Number(chart.dataset.from) + i * Number(chart.dataset.step));
  card.querySelector('[data-legend="at"]').textContent = at.toISOString().slice(11, 16);
  const line = chart.querySelector(".c-cursor"), x = (i + .5) * 100 / points.length + "%";
  line.setAttribute("visibility", "visible");
  line.setAttribute("x1", x);
  line.setAttribute("x2", x);
}
function hidePoint(chart) {
  for (const e of chart.closest(".card").querySelectorAll("[data-legend]")) e.textContent = "";
  chart.querySelector(".c-cursor").setAttribute("visibility", "hidden");
}
// A refresh clears the values, also under a pointer that rests.
let pointer = null;
function point() {
  const plot = pointer && document.elementFromPoint(pointer.clientX, pointer.clientY)?.closest(".chart-plot");
  if (plot) { const box = plot.getBoundingClientRect(); showPoint(plot.closest(".chart"), (pointer.clientX - box.left) / box.width); }
}
document.addEventListener("pointermove", (e) => { pointer = e; point(); });
document.addEventListener("refreshed", point);
document.addEventListener("pointerout", (e) => {
  const plot = e.target.closest && e.target.closest(".chart-plot");
  if (plot && !plot.contains(e.relatedTarget)) { pointer = null; hidePoint(plot.closest(".chart")); }
});
