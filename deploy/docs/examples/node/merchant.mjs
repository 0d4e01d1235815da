// A merchant that receives the callbacks of the shop. It accepts only callbacks with a
// valid signature, and handles each message once. It needs Node 18 or later, and no package.
//
//   WEBHOOK_SECRET=whsec_... node deploy/docs/examples/node/merchant.mjs
import { createHmac, timingSafeEqual } from "node:crypto";
import { createServer } from "node:http";

const { WEBHOOK_SECRET, LISTEN = "127.0.0.1:9000" } = process.env;
const [host, port] = LISTEN.split(":");
const largest = 1 << 20; // bytes of a body
const tolerance = 5 * 60; // seconds between the clocks of both sides

if (!WEBHOOK_SECRET?.startsWith("whsec_")) throw new Error("WEBHOOK_SECRET must begin with whsec_");
const key = Buffer.from(WEBHOOK_SECRET.slice("whsec_".length), "base64");

// genuine reports whether one of the signatures is ours. During a rotation there are two.
function genuine(headers, body) {
  const { "webhook-id": id, "webhook-timestamp": time, "webhook-signature": signatures } = headers;
  if (!id || !signatures || !/^\d+$/.test(time ?? "")) return false;
  if (Math.abs(Date.now() / 1000 - Number(time)) > tolerance) return false; // a recorded request
  const expected = createHmac("sha256", key).update(`${id}.${time}.`).update(body).digest();
  return signatures.split(" ").some((signature) => {
    const [version, text] = signature.split(",");
    const given = Buffer.from(text ?? "", "base64");
    return version === "v1" && given.length === expected.length && timingSafeEqual(given, expected);
  });
}

// read returns the bytes of the body as they came. A parsed and rewritten body has others.
async function read(req) {
  const chunks = [];
  let size = 0;
  for await (const chunk of req) {
    size += chunk.length;
    if (size > largest) return null;
    chunks.push(chunk);
  }
  return Buffer.concat(chunks);
}

const known = new Set(); // ids of handled messages; a real merchant has a table with a unique key

async function receive(req, res) {
  if (req.method !== "POST" || req.url !== "/hooks") return res.writeHead(404).end();
  const body = await read(req);
  if (body === null) return res.writeHead(413, { connection: "close" }).end();
  if (!genuine(req.headers, body)) return res.writeHead(401).end();
  const id = req.headers["webhook-id"];
  if (known.has(id)) return res.writeHead(204).end(); // a repeat is a success
  const event = JSON.parse(body);
  known.add(id);
  console.log(`order ${event.order} is ${event.state} (${id})`);
  res.writeHead(204).end();
}

const server = createServer((req, res) => {
  receive(req, res).catch((error) => {
    console.error(error);
    if (!res.headersSent) res.writeHead(400);
    res.end(); // it is retried, and ends as dead
  });
});
server.listen(Number(port), host, () => console.log(`listening on http://${host}:${server.address().port}`));
