// Uses the types that are generated from the document, as a user would.
import createClient from "openapi-fetch";
import type { components, paths } from "./api.js";

declare const process: { argv: string[] };

const [, , baseUrl, key] = process.argv;
const client = createClient<paths>({ baseUrl, headers: { authorization: `Bearer ${key}` } });

function check(ok: boolean, what: string, value: unknown): asserts ok {
  if (!ok) throw new Error(`${what}: ${JSON.stringify(value)}`);
}

const message: components["schemas"]["Message"] = {
  id: "from-typescript", topic: "payment.paid", tenant: "m7", subject: null,
  url: "https://shop.example/hooks", delay: 3600, ladder: ["15s", 180], body: { order: 4711 },
};
const published = await client.POST("/v1/messages", { body: message });
check(published.data?.id === "from-typescript", "publish", published.error);

const page = await client.GET("/v1/deliveries", { params: { query: { tenant: ["m7"], status: ["scheduled"], limit: 10 } } });
check(typeof page.data === "object" && page.data.data[0]?.status === "scheduled", "list", page.error); // it may be CSV

const missing = await client.GET("/v1/messages/{id}", { params: { path: { id: "missing" } } });
check(missing.error?.type === "/problems/not-found", "a missing message is not found", missing.error);

// @ts-expect-error: the words of a status are closed
await client.POST("/v1/deliveries/retry", { body: { status: "in_flight", dry_run: true } });

const survey = await client.POST("/v1/deliveries/retry", { body: { dead_reason: ["gone"], dry_run: true, rate: 5 } });
check(survey.response.status === 200, "survey", survey.error);
console.log(published.data.deliveries[0].status);
