// The tail: attempts are read as they happen. What came within a frame is added at once,
// as text, on top; 500 lines are kept.
const tailMost = 500;
const tailWords = { delivered: ["delivered", "delivered"], retry: ["failed, goes on", "retrying"], dead: ["dead", "dead"], back: ["given back", "ready"], cancelled: ["cancelled", "cancelled"] };

// tailEvents reads a stream of events until it ends, or nothing has come for as long as a page may be live. The connection of a
// computer that slept may be gone without a word.
async function tailEvents(url, behind, each) {
  const headers = { Accept: "text/event-stream", "X-Refresh": "1" };
  if (behind) headers["Last-Event-ID"] = behind;
  const silent = new AbortController();
  let timer = 0;
  const heard = () => { clearTimeout(timer); timer = setTimeout(() => silent.abort(), live.fresh); };
  heard();
  try {
    const answer = await fetch(url, { headers, cache: "no-store", signal: silent.signal });
    return answer.ok ? await readEvents(answer.body.pipeThrough(new TextDecoderStream()).getReader(), heard, each) : answer.status;
  } finally { clearTimeout(timer); }
}

async function readEvents(reader, heard, each) {
  for (let text = ""; ;) {
    const { value, done } = await reader.read();
    if (done) return 0;
    heard();
    text += value;
    const events = text.split("\n\n");
    text = events.pop();
    for (const one of events) {
      const e = { name: "", id: "", data: null };
      for (const line of one.split("\n")) {
        if (line.startsWith("id: ")) e.id = line.slice(4);
        if (line.startsWith("event: ")) e.name = line.slice(7);
        if (line.startsWith("data: ")) e.data = JSON.parse(line.slice(6));
      }
      await each(e);
    }
  }
}

function showTail(table) {
  const body = table.tBodies[0], rows = [], shown = new Set();
  let passed = 0, frame = 0;
  for (const tr of body.rows) shown.add(tr.dataset.line);

  function keep(tr) { rows.push(tr); if (rows.length > tailMost) shown.delete(rows.shift().dataset.line); }

  function draw() {
    frame = 0;
    if (live.paused || rows.length === 0 || !getSelection().isCollapsed) return;
    document.getElementById("tail-empty")?.remove();
    body.prepend(...rows.splice(0).reverse());
    while (body.rows.length > tailMost) { shown.delete(body.rows[body.rows.length - 1].dataset.line); body.deleteRow(-1); }
  }

  function soon() { if (!frame) frame = requestAnimationFrame(draw); }

  function add(tr) {
    shown.add(tr.dataset.line);
    const at = tr.querySelector("time");
    at.textContent = millisIn(new Date(at.dateTime));
    keep(tr);
    if (live.paused) document.getElementById("tail-passed").textContent = `${(++passed).toLocaleString("en")} passed by`;
    else soon();
  }

  function gap(text) {
    const tr = document.getElementById("tail-gap").content.firstElementChild.cloneNode(true);
    tr.cells[0].textContent = text;
    keep(tr);
    soon();
  }

  document.addEventListener("live", () => {
    passed = 0;
    document.getElementById("tail-passed").textContent = "";
    soon();
  });
  document.addEventListener("selectionchange", soon);

  return {
    gap,
    page(text) {
      const all = [...new DOMParser().parseFromString(text, "text/html").querySelectorAll("#tail tbody tr")].reverse();
      const newer = all.filter((tr) => !shown.has(tr.dataset.line));
      if (shown.size && newer.length && newer.length === all.length) gap("Attempts before this may be missing: there were more than a page has.");
      newer.forEach(add);
    },
    line(a) {
      const key = a.id + " " + a.attempt + " " + a.at;
      if (shown.has(key)) return;
      const tr = document.getElementById("tail-row").content.firstElementChild.cloneNode(true);
      const part = (name) => tr.querySelector(`[data-f=${name}]`);
      const [word, icon] = tailWords[a.outcome] || [a.outcome, "ready"];
      tr.dataset.line = key;
      part("at").dateTime = a.at;
      part("outcome").classList.add("o-" + a.outcome);
      part("outcome").title = part("word").textContent = word;
      const use = tr.querySelector("use");
      use.setAttribute("href", use.getAttribute("href").replace(/#.*/, "#" + icon));
      part("code").classList.add("c-" + a.outcome);
      part("code").textContent = a.status_code || "none";
      part("took").textContent = a.duration_ms < 1000 ? a.duration_ms + " ms" : (a.duration_ms / 1000).toFixed(1) + " s";
      part("message").textContent = a.message_id;
      part("message").href = document.body.dataset.base + "/messages/" + encodeURIComponent(a.message_id);
      const url = a.url && URL.canParse(a.url) ? new URL(a.url) : null;
      part("to").textContent = url ? url.host + url.pathname + url.search : a.destination;
      part("about").textContent = a.error || a.topic || "";
      add(tr);
    },
  };
}

async function followTail(table) {
  const show = showTail(table);
  let behind = "", last = Date.now(), wait = 1000;
  for (;;) {
    let ended = "", status = 0;
    try {
      status = await tailEvents(table.dataset.events, behind, async (e) => {
        if (!behind) { // a new stream has nothing of what was logged after the page was made
          const page = await again();
          if (page) show.page(page.text);
          else show.gap("Attempts before this may be missing: the page could not be read again.");
        }
        reached();
        last = Date.now();
        wait = 1000;
        if (e.id) behind = e.id;
        if (e.name === "attempt") show.line(e.data);
        if (e.name === "gap") show.gap(`Some attempts before this are missing: the log is whole since ${clockIn(new Date(e.data.complete_since), zone())}.`);
        if (e.name === "end") ended = e.data.reason;
      });
    } catch { status = 503; }
    if (status === 401 || ended === "key") { location.reload(); return; }
    if (status === 503) unreached("server");
    if (status === 422) behind = "";
    if (ended === "busy") wait = 10000; // other callers need the places to wait
    if (ended === "slow") show.gap("This browser read too slowly, and was cut off.");
    if (Date.now() - last > 120000) behind = ""; // not all of what came since is worth reading
    await new Promise((go) => setTimeout(go, wait * (0.5 + Math.random() / 2)));
    wait = Math.min(wait * 2, 15000);
  }
}

if (document.querySelector("#tail[data-events]")) {
  document.body.dataset.poll = "off"; // it needs no refresh
  live.fresh = 35000; // a quiet stream has a comment each 15 s
  followTail(document.getElementById("tail"));
  addEventListener("pageshow", (e) => { if (e.persisted) location.reload(); });
}
