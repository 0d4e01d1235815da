// Every case of case.go, as signed here and now, is judged by verify.mjs.
import assert from "node:assert";
import { spawnSync } from "node:child_process";
import { test } from "node:test";

const run = (command, args, input) =>
  spawnSync(command, args, { cwd: import.meta.dirname, input, encoding: "utf8", maxBuffer: 1 << 26 });

const signed = run("go", ["run", "./sign", "-all"]);
assert.strictEqual(signed.status, 0, signed.stderr);

for (const { name, genuine, callback } of JSON.parse(signed.stdout)) {
  test(`${genuine ? "genuine" : "not genuine"}: ${name}`, () => {
    const { status, stdout } = run("node", ["verify.mjs"], JSON.stringify(callback));
    assert.match(stdout, genuine ? /^genuine\n$/ : /^not genuine: /);
    assert.strictEqual(status, genuine ? 0 : 1);
  });
}

test("what is no callback is neither", () => {
  for (const input of ["", "{}", "null", '{"secret":"whsec_?","headers":{},"body":""}']) {
    assert.strictEqual(run("node", ["verify.mjs"], input).status, 2, input);
  }
});
