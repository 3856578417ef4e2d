// The description at /openapi.json, as those see it who only have that: a validator finds nothing wrong with it, and a client
// that a generator made of it starts a run, is handed it again, resumes it and gets its result.
//
//   node check.mjs PATH-TO-SEMEL      in a directory where `npm ci` was run
import assert from "node:assert/strict";
import { execFileSync, spawn } from "node:child_process";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { pathToFileURL } from "node:url";
import { Validator } from "@seriousme/openapi-schema-validator";

/// Starts `semel serve --demo`; the address is the first line it prints.
async function serve(semel) {
  const server = spawn(semel, ["serve", "--demo", "--store", "memory:", "--listen", "127.0.0.1:0"], {
    stdio: ["ignore", "pipe", "inherit"],
  });
  for await (const line of createInterface({ input: server.stdout })) {
    const url = line.match(/http:\/\/\S+/);
    if (url) return { server, url: url[0] };
  }
  throw new Error("semel serve ended without saying where it is");
}

async function validate(description) {
  const { valid, errors } = await new Validator().validate(description);
  assert.ok(valid, JSON.stringify(errors, null, 2));
}

/// Generates a client in TypeScript and compiles it, types and all.
async function generate(description, directory) {
  const input = join(directory, "openapi.json");
  writeFileSync(input, JSON.stringify(description));
  const run = (program, ...rest) =>
    execFileSync(join("node_modules", ".bin", program), rest, { stdio: "inherit" });
  run("openapi-ts", "-i", input, "-o", join(directory, "source"), "-c", "@hey-api/client-fetch", "--silent");
  writeFileSync(join(directory, "package.json"), '{"type":"commonjs"}');
  run("tsc", "--outDir", join(directory, "made"), "--target", "es2022", "--module", "commonjs",
      "--moduleResolution", "node10", "--strict", "--skipLibCheck", "--lib", "es2022,dom,dom.iterable",
      join(directory, "source", "index.ts"));
  const load = async (name) =>
    (await import(pathToFileURL(join(directory, "made", name)).href)).default;
  return { calls: await load("sdk.gen.js"), client: (await load("client.gen.js")).client };
}

async function useIt({ calls, client }, baseUrl) {
  client.setConfig({ baseUrl });
  const start = {
    body: { workflow: "process-order", input: "789", token: "order:789" },
    headers: { "Idempotency-Key": "start-789" },
  };
  const started = await calls.runsStart(start);
  assert.equal(started.response.status, 201, JSON.stringify(started.error));
  assert.equal(started.data.created, true);
  const id = started.data.run.id;

  const again = await calls.runsStart(start);
  assert.deepEqual(again.data, started.data);
  assert.equal(again.response.headers.get("idempotency-replayed"), "true");

  const resumed = await calls.hooksResume({
    path: { token: "order:789" },
    body: { confirmed: true },
    headers: { "Idempotency-Key": "confirm-789" },
  });
  assert.equal(resumed.response.status, 200, JSON.stringify(resumed.error));
  assert.equal(resumed.data.runId, id);

  const result = await calls.runsResult({ path: { id }, query: { wait: "30s" } });
  assert.equal(result.data.status, "completed");
  assert.equal(result.data.output.status, "processed");

  const missing = await calls.runsGet({ path: { id: "nobody" } });
  assert.equal(missing.response.status, 404);
  assert.equal(missing.error.code, "RUN_NOT_FOUND");
}

const directory = mkdtempSync(join(process.cwd(), "client-"));
const { server, url } = await serve(process.argv[2]);
try {
  const description = await (await fetch(`${url}/openapi.json`)).json();
  await validate(description);
  await useIt(await generate(description, directory), url);
  const ended = new Promise((resolve) => server.once("exit", resolve));
  server.kill("SIGTERM");
  assert.equal(await ended, 0);
  console.log("the description is valid, and a client made of it works");
} finally {
  server.kill("SIGKILL");
  rmSync(directory, { recursive: true, force: true });
}
