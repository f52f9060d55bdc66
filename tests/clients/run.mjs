// node run.mjs MODULE URL: calls each function that the module exports with the root URL, one after another,
// and prints what they returned, by name, as JSON. An error that a scenario did not expect is told under `unexpected`.

import { pathToFileURL } from "node:url";
import { resolve } from "node:path";

const [module, url] = process.argv.slice(2);
const results = {};
for (const [name, scenario] of Object.entries(await import(pathToFileURL(resolve(module))))) {
  try {
    results[name] = await scenario(url);
  } catch (error) {
    results[name] = { unexpected: String(error?.stack ?? error) };
  }
}
console.log(JSON.stringify(results));
