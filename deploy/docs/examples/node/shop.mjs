// A small shop that publishes each paid order through Hookladder. It needs Node 18 or
// later, and no package.
//
//   HOOKLADDER_URL=http://127.0.0.1:8080 node deploy/docs/examples/node/shop.mjs
//   curl -X POST http://127.0.0.1:7000/merchants/7/orders/17/paid
import { createServer } from "node:http";

const { HOOKLADDER_URL, HOOKLADDER_KEY, LISTEN = "127.0.0.1:7000" } = process.env;
const [host, port] = LISTEN.split(":");

const wait = (ms) => new Promise((done) => setTimeout(done, ms));

// publish sends a message to Hookladder. It may call several times, because the id makes
// a repeated call the same message.
async function publish(message) {
  const headers = { "content-type": "application/json" };
  if (HOOKLADDER_KEY) headers.authorization = `Bearer ${HOOKLADDER_KEY}`;
  let failed;
  for (const backoff of [0, 100, 500, 2000]) {
    await wait(backoff);
    try {
      const response = await fetch(`${HOOKLADDER_URL}/v1/messages`, {
        method: "POST",
        headers,
        body: JSON.stringify(message),
        signal: AbortSignal.timeout(5000),
      });
      const answer = await response.json();
      if (response.ok) return { status: 200, text: answer.id };
      failed = { status: response.status < 500 ? 422 : 503, text: `${answer.title} ${answer.detail ?? ""}` };
      if (response.status < 500 && response.status !== 429) return failed; // it will fail again
    } catch (error) {
      failed = { status: 503, text: String(error.cause ?? error) };
    }
  }
  return failed;
}

const server = createServer(async (req, res) => {
  const path = new URL(req.url, "http://shop").pathname;
  const [, merchant, order] = path.match(/^\/merchants\/(\w+)\/orders\/(\w+)\/paid$/) ?? [];
  if (req.method !== "POST" || !order) return res.writeHead(404).end();
  // A real shop updates its database first.
  const { status, text } = await publish({
    id: `order_${order}_paid`, // the same order is never announced twice
    topic: "order.paid",
    tenant: `merchant-${merchant}`,
    subject: `order-${order}`,
    body: { order, state: "paid" },
    require_match: true, // a merchant without an endpoint is an error
  });
  res.writeHead(status, { "content-type": "text/plain" }).end(`${text}\n`);
});
server.listen(Number(port), host, () => console.log(`listening on http://${host}:${server.address().port}`));
