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

// The server writes times in UTC. They are shown in the reader's zone, or in UTC, as the switch says, always with the zone.
function chosenZone() { try { return localStorage.getItem("zone") === "utc" ? "utc" : "local"; } catch { return "local"; } }

// zone is the chosen one in the form of Intl.
function zone() { return chosenZone() === "utc" ? "UTC" : undefined; }

// clockIn returns a time as short as its day allows.
function clockIn(at, timeZone) {
  const now = new Date(Date.now() + skew), day = (d) => d.toLocaleDateString("sv-SE", { timeZone });
  let form = { weekday: "short" };
  if (day(at) === day(now)) form = { second: "2-digit" };
  else if (Math.abs(at - now) >= 6 * 86400000) form = { day: "numeric", month: "short", year: "numeric" };
  return at.toLocaleString("en-GB", { timeZone, hour: "2-digit", minute: "2-digit", timeZoneName: "short", ...form }).replace(",", "");
}

// millisIn returns the time of day to the millisecond, as the lines of the tail have it.
let millisForm = null;
function millisIn(at) {
  millisForm ||= new Intl.DateTimeFormat("en-GB", { timeZone: zone(), hour: "2-digit", minute: "2-digit", second: "2-digit", fractionalSecondDigits: 3 });
  return millisForm.format(at);
}

function inZone() {
  millisForm = null;
  const form = new Intl.DateTimeFormat("sv-SE", { timeZone: zone(), year: "numeric", month: "2-digit", day: "2-digit", hour: "2-digit", minute: "2-digit", second: "2-digit", fractionalSecondDigits: 3, timeZoneName: "short" });
  for (const e of document.querySelectorAll("time[data-at]")) {
    const at = new Date(e.dateTime), text = form.format(at).replace(",", ".");
    e.title = at.toISOString().replace("T", " ").replace("Z", " UTC");
    if (e.textContent !== text) e.textContent = text;
  }
  for (const e of document.querySelectorAll("time[data-clock]")) {
    const text = clockIn(new Date(e.dateTime), zone());
    if (e.textContent !== text) e.textContent = text;
  }
  for (const e of document.querySelectorAll("time[data-millis]")) e.textContent = millisIn(new Date(e.dateTime));
  const name = new Intl.DateTimeFormat("en-GB", { timeZone: zone(), timeZoneName: "short" }).formatToParts(Date.now() + skew).find((p) => p.type === "timeZoneName").value;
  for (const e of document.querySelectorAll("[data-zone]")) e.textContent = name;
  for (const e of document.querySelectorAll("#zone input")) e.checked = e.value === chosenZone();
  lamp();
}
document.addEventListener("change", (e) => {
  if (!e.target.matches("#zone input")) return;
  try { localStorage.setItem("zone", e.target.value); } catch {}
  inZone();
});
document.addEventListener("refreshed", inZone);
inZone();

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
