import { readdirSync } from "node:fs";

// Which folder of src may import which (CONTRIBUTING.md draws the tree). Every folder may import itself, model, net and npm packages.
const mayImport = {
  model: [],
  net: [],
  receive: [],
  track: [],
  route: [],
  deliver: [],
  hydrate: [],
  reconcile: [],
  send: ["service"],
  service: [],
  replay: ["store"],
  store: ["track", "route"],
  control: [],
  config: [],
  observe: [],
  inspect: ["receive", "route", "deliver", "service", "store", "control", "config"],
  client: [],
  console: ["client"],
  sandbox: [],
  app: "everything but cli and sandbox",
  cli: "everything",
};

const shared = (folder) =>
  folder === "model" ? [] : folder === "net" ? ["model"] : ["model", "net"];

for (const folder of readdirSync("src")) {
  if (!folder.includes(".") && !Object.hasOwn(mayImport, folder))
    throw new Error(`src/${folder} has no import rule in .dependency-cruiser.mjs`);
}

const folderRules = Object.entries(mayImport)
  .filter(([, others]) => Array.isArray(others))
  .map(([folder, others]) => ({
    name: `${folder}-imports`,
    comment: `src/${folder} imports ${["itself", ...shared(folder), ...others].join(", ")} only; folders meet in src/app`,
    severity: "error",
    from: { path: `^src/${folder}/` },
    to: {
      path: "^src/",
      pathNot: [
        `^src/(${[folder, ...shared(folder), ...others].join("|")})/`,
        ...(folder === "config" ? ["/settings\\.ts$"] : []),
      ],
    },
  }));

/** Plain things of src/model that the sandbox shares with the relay: time, ids and JSON; connections are in src/net. */
const sandboxMayImport = ["clock", "ids", "json", "node-version"];

/** What the package, and a worker thread, start with. */
const entries = `^src/(cli/wamid-relay\\.js|client/relay-client\\.ts|sandbox/start-sandbox\\.ts|store/sqlite/inspect-thread\\.ts|console/main\\.tsx|console/vite\\.config\\.ts)$`;

export default {
  forbidden: [
    ...folderRules,
    {
      name: "app-imports",
      severity: "error",
      from: { path: "^src/app/" },
      to: { path: "^src/(cli|sandbox)/" },
    },
    {
      name: "sandbox-independent",
      comment:
        "the sandbox signs, ranks and reads with code of its own, so that it cannot share a mistake with the relay; docs/contributing/sandbox.md",
      severity: "error",
      // The fixtures: `trigger` lists what the relay makes of a body. The service that is played never does.
      from: { path: "^src/sandbox/", pathNot: "^src/sandbox/fixtures/" },
      to: {
        path: "^src/",
        pathNot: ["^src/(sandbox|net)/", `^src/model/(${sandboxMayImport.join("|")})\\.[jt]s$`],
      },
    },
    {
      name: "no-cycles",
      comment: "imports of types count",
      severity: "error",
      from: {},
      to: { circular: true },
    },
    {
      name: "no-unused-files",
      comment: "no entry point imports this file",
      severity: "error",
      from: { path: entries },
      to: { reachable: false, path: "^src/.*\\.(tsx?|js)$", pathNot: entries },
    },
    {
      name: "client-in-browsers",
      comment: "src/client and src/console run in browsers",
      severity: "error",
      from: { path: "^src/(client|console)/", pathNot: "vite\\.config\\.ts$" },
      to: { dependencyTypes: ["core"] },
    },
    {
      name: "declared-packages",
      comment: "package.json lists it under dependencies",
      severity: "error",
      // Vite bundles what the console uses.
      from: { pathNot: "^src/console/" },
      to: { dependencyTypes: ["npm-dev", "npm-no-pkg", "npm-unknown"], pathNot: "/@types/" },
    },
  ],
  options: { tsPreCompilationDeps: true, doNotFollow: { path: "node_modules" } },
};
