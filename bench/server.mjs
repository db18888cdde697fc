// server.mjs - a running server for the scripts beside this file, and for tests.
import { spawn } from "node:child_process";

// Starts the program and waits until it is ready: { process, url, log() }. Nobody
// stops it but the caller.
export async function startServer(program, args) {
  const process = spawn(program, args, { stdio: ["ignore", "pipe", "pipe"] });
  let log = "";
  const url = await new Promise((resolve, reject) => {
    const gather = (data) => {
      log += data;
      const ready = /server is ready on (\S+)/.exec(log);
      if (ready) resolve(ready[1]);
    };
    process.stdout.on("data", gather);
    process.stderr.on("data", gather);
    process.on("error", reject);
    process.on("exit", () => reject(new Error(`the server ended:\n${log}`)));
  });
  return { process, url, log: () => log };
}
