import { createServer } from "node:http";
import { Webhook } from "standardwebhooks";

const webhook = new Webhook(process.env.WEBHOOK_SECRET); // whsec_...

createServer(async (req, res) => {
  const chunks = [];
  for await (const chunk of req) chunks.push(chunk);
  const body = Buffer.concat(chunks).toString(); // the bytes as they came: parsed and written anew they are others
  try {
    webhook.verify(body, req.headers, { jsonParse: false }); // else it fails for a genuine body that is not JSON
  } catch {
    return res.writeHead(401).end();
  }
  console.log(req.headers["webhook-id"], body);
  res.writeHead(204).end();
}).listen(9000, "127.0.0.1");
