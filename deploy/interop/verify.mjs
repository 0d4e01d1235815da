// Verifies one callback by the library of Standard Webhooks for Node. It is read
// from standard input: {"secret": "whsec_...", "headers": {"webhook-id": ...,
// "webhook-timestamp": ..., "webhook-signature": ...}, "body": "..."}.
// Prints what it is; the exit code is 0 for a genuine one, 1 for any other, and 2
// for what is no callback at all.
import { Webhook, WebhookVerificationError } from "standardwebhooks";
import { text } from "node:stream/consumers";

const read = async () => {
  const { secret, headers, body } = JSON.parse(await text(process.stdin));
  if (typeof secret !== "string" || typeof headers !== "object" || headers === null || typeof body !== "string") {
    throw new Error("want secret, headers and body");
  }
  return { webhook: new Webhook(secret), headers, body };
};

try {
  const { webhook, headers, body } = await read();
  webhook.verify(body, headers, { jsonParse: false });
  console.log("genuine");
} catch (err) {
  const forged = err instanceof WebhookVerificationError;
  console.log(forged ? `not genuine: ${err.message}` : `can't verify: ${err.message}`);
  process.exitCode = forged ? 1 : 2;
}
