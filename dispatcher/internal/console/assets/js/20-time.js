// Relative times go on, once a second, by the store's clock.
function span(ms) {
  const units = [[86400000, "d"], [3600000, "h"], [60000, "m"], [1000, "s"]];
  for (let i = 0; i < units.length; i++) {
    if (ms < units[i][0]) continue;
    let text = Math.floor(ms / units[i][0]) + units[i][1];
    if (i + 1 < units.length) {
      const rest = Math.floor((ms % units[i][0]) / units[i + 1][0]);
      if (rest > 0) text += rest + units[i + 1][1];
    }
    return text;
  }
  return "";
}

function tick() {
  const now = Date.now() + skew;
  for (const e of document.querySelectorAll("time[data-rel]")) {
    const ms = Date.parse(e.dateTime) - now;
    const text = ms >= 1000 ? "in " + span(ms) : ms <= -1000 ? ("due" in e.dataset ? "due " : "") + span(-ms) + " ago" : "now";
    if (e.textContent !== text) e.textContent = text;
  }
}
setInterval(() => { if (!document.hidden) tick(); }, 1000);
document.addEventListener("refreshed", tick);
