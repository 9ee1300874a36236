import openapiTS, { astToString, type OpenAPI3 } from "openapi-typescript";
import ts from "typescript";
import { expect, test } from "vitest";
import { describe } from "../../../src/control/openapi.ts";
import { allEndpoints } from "../../../src/model/endpoints/table.ts";

const endpoints = allEndpoints;
const types = astToString(await openapiTS(describe("1.0.0") as OpenAPI3));

/** The compiler's errors in these files, which import the types. */
function errorsIn(programs: Readonly<Record<string, string>>): string[] {
  const files: Readonly<Record<string, string>> = { "/api.ts": types, ...programs };
  const options: ts.CompilerOptions = {
    strict: true,
    noEmit: true,
    lib: ["lib.es2022.d.ts"],
    target: ts.ScriptTarget.ES2022,
    module: ts.ModuleKind.ESNext,
    types: [],
  };
  const host = ts.createCompilerHost(options);
  const { readFile, fileExists, getSourceFile } = host;
  host.readFile = (name) => files[name] ?? readFile(name);
  host.fileExists = (name) => name in files || fileExists(name);
  host.getSourceFile = (name, languageVersion) => {
    const text = files[name];
    return text === undefined
      ? getSourceFile(name, languageVersion)
      : ts.createSourceFile(name, text, languageVersion);
  };
  const all = ts.getPreEmitDiagnostics(ts.createProgram(Object.keys(programs), options, host));
  return all.map(
    ({ file, messageText }) =>
      `${file?.fileName}: ${ts.flattenDiagnosticMessageText(messageText, "\n")}`,
  );
}

const answerOf = (operation: string, status: number, type: string) =>
  `operations[${JSON.stringify(operation)}]["responses"][${status}]["content"][${JSON.stringify(type)}]`;

function everyAnswerHasType(): string {
  const answers = endpoints.flatMap(({ name, answers }) =>
    Object.entries(answers).flatMap(([status, { types = ["application/json"] }]) =>
      types.map((type) => answerOf(name, Number(status), type)),
    ),
  );
  expect(answers.length).toBeGreaterThan(25);
  return `import type { operations } from "./api.ts";
    type IsEmpty<T> = unknown extends T ? true : T extends Record<string, never> ? true : [keyof T] extends [never] ? true : false;
    ${answers.map((answer, n) => `export const answer${n}: IsEmpty<${answer}> = false;`).join("\n")}
    // @ts-expect-error: so that the check can fail.
    export const empty: IsEmpty<Record<string, never>> = false;
    // @ts-expect-error
    export const any: IsEmpty<unknown> = false;`;
}

const consumer = `import type { components, operations, paths } from "./api.ts";
    type Schemas = components["schemas"];
    export async function read(get: <Path extends keyof paths>(path: Path) => Promise<unknown>) {
      const page = (await get("/v1/events")) as ${answerOf("listEvents", 200, "application/json")};
      const [event] = page.data as [Schemas["ListedEvent"]];
      const disposition: "routed" | "filtered" | "ignored" | "quarantined" | "parked" | "released" | "unassigned" = event.disposition;
      const subject: { type: "message" | "run"; key: string } | null = event.subject;
      const dead: number | undefined = event.deliveries.dead;
      const next: number | null = page.next;
      const story = (await get("/v1/explain/{name}")) as Schemas["Stories"];
      const attempts: Schemas["Attempt"][] | undefined = story.data[0]?.events[0]?.deliveries[0]?.attemptHistory;
      const refused = {} as operations["sendMessage"]["responses"][409]["content"]["application/json"];
      const code: "conflict" | "idempotency_conflict" | "outcome_unknown" | undefined = refused.code;
      const line = {} as ${answerOf("trackMessages", 200, "application/x-ndjson")};
      const result: "created" | "known" | "conflict" | "invalid" | number = "lines" in line ? line.lines : line.result;
      // @ts-expect-error: null while the event is quarantined.
      const id: string = event.id;
      // @ts-expect-error
      event.unknownField;
      // @ts-expect-error
      await get("/v1/nothing");
      return [disposition, subject, dead, next, attempts, code, result, id];
    }
    export const order: operations["sendMessage"]["requestBody"]["content"]["application/json"] = { to: "+5491155550100", text: "Hola" };
    export const query: operations["listDeliveries"]["parameters"]["query"] = { state: "dead", before: "1.1", limit: 5 };
    // @ts-expect-error
    export const wrong: operations["listDeliveries"]["parameters"]["query"] = { state: "lost" };`;

test("openapi-typescript generates a type for every answer, which programs can use", () => {
  expect(errorsIn({ "/answers.ts": everyAnswerHasType(), "/consumer.ts": consumer })).toEqual([]);
});
