// The receiver that deploy/docs/receive.md shows for Node judges every case of case.go as it
// should, whatever the body is.
import assert from "node:assert";
import { spawn, spawnSync } from "node:child_process";
import { once } from "node:events";
import { readFileSync } from "node:fs";
import { createInterface } from "node:readline";
import { test } from "node:test";

const code = readFileSync(new URL("../docs/examples/receivers/receiver.mjs", import.meta.url), "utf8");
const listen = 'listen(9000, "127.0.0.1")';
assert.ok(code.includes(listen));
const receiver = code.replace(listen, 'listen(0, "127.0.0.1", function () { console.error(this.address().port); })');

const signed = spawnSync("go", ["run", "./sign", "-all"], { cwd: import.meta.dirname, encoding: "utf8", maxBuffer: 1 << 26 });
assert.strictEqual(signed.status, 0, signed.stderr);

for (const { name, genuine, callback } of JSON.parse(signed.stdout)) {
  test(`${genuine ? "204" : "401"}: ${name}`, async () => {
    const child = spawn("node", ["--input-type=module", "--eval", receiver], {
      cwd: import.meta.dirname,
      env: { ...process.env, WEBHOOK_SECRET: callback.secret },
      stdio: ["ignore", "ignore", "pipe"],
    });
    try {
      const [port] = await once(createInterface({ input: child.stderr }), "line");
      const { status } = await fetch(`http://127.0.0.1:${port}`, { method: "POST", headers: callback.headers, body: callback.body });
      assert.strictEqual(status, genuine ? 204 : 401);
    } finally {
      child.kill();
    }
  });
}
