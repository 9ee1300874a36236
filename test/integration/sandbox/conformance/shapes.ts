import { createHmac, timingSafeEqual } from "node:crypto";
import { expect } from "vitest";
import type { Answer } from "./plain-http.ts";
import type { Posted } from "./receiver.ts";

export const uuid = /^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$/;

/** A sentence and not a code: several words, the first with a capital. */
const sentence = /^[A-ZÁÉÍÓÚÑ¡¿].*\S \S/;
/** Words that Spanish cannot do without, and English does not have. */
const spanish =
  /\b(el|la|los|las|de|del|que|no|por|para|una?|con|en|se|es|esta|este|ya|hay|demasiad[oa]s)\b/i;

export function expectSpanish(text: unknown): void {
  expect(text).toMatch(sentence);
  expect(text).toMatch(spanish);
}

/** `{error, cause: null}` and nothing else ("Errors", "Shape"). Gives the text. */
export function expectError(answer: Answer<unknown>, status: number): string {
  expect(answer.status, answer.text).toBe(status);
  expect(answer.headers["content-type"]).toMatch(/^application\/json/);
  expect(answer.body).toStrictEqual({ error: expect.any(String), cause: null });
  const { error } = answer.body as { error: string };
  expectSpanish(error);
  return error;
}

/** `{error}` and nothing else: the 429s that no plan mends. Gives the text. */
export function expectBareError(answer: Answer<unknown>, status: number): string {
  expect(answer.status, answer.text).toBe(status);
  expect(answer.headers["content-type"]).toMatch(/^application\/json/);
  expect(answer.body).toStrictEqual({ error: expect.any(String) });
  const { error } = answer.body as { error: string };
  expectSpanish(error);
  return error;
}

interface Problem {
  readonly path: (string | number)[];
  readonly message: string;
}

/**
 * 400 with a JSON text in `error.message` that lists problems; one of them must be about `field`.
 */
export function expectProblem(answer: Answer<unknown>, field: string): Problem[] {
  expect(answer.status, answer.text).toBe(400);
  const { error } = answer.body as { error: { message: string } };
  expect(typeof error, answer.text).toBe("object");
  expect(typeof error.message, answer.text).toBe("string");
  const problems = JSON.parse(error.message) as Problem[];
  expect(Array.isArray(problems), error.message).toBe(true);
  for (const problem of problems) {
    expect(problem).toMatchObject({ path: expect.any(Array), message: expect.any(String) });
    expect(problem.message).not.toBe("");
  }
  expect(
    problems.some(({ path }) => path.join(".") === field || path[0] === field),
    error.message,
  ).toBe(true);
  return problems;
}

/**
 * 400 in whichever of its two shapes: the document does not say which one a rule of the service
 * has. Gives the text.
 */
export function expectInvalid(answer: Answer<unknown>): string {
  expect(answer.status, answer.text).toBe(400);
  const { error } = answer.body as { error: unknown };
  if (typeof error === "string") return expectError(answer, 400);
  const problems = JSON.parse((error as { message: string }).message) as Problem[];
  expect(problems.length).toBeGreaterThan(0);
  return problems.map(({ message }) => message).join("; ");
}

/**
 * The cause of an error that a plan would mend ("Errors", "Plan error detail"), with its `error`
 * text.
 */
export function expectUpgrade(
  answer: Answer<unknown>,
  status: 402 | 429,
  cause: Readonly<Record<string, unknown>>,
): void {
  expect(answer.status, answer.text).toBe(status);
  const body = answer.body as { error: string; cause: Record<string, unknown> };
  expect(Object.keys(body).sort()).toStrictEqual(["cause", "error"]);
  expectSpanish(body.error);
  expect(Object.keys(body.cause).sort()).toStrictEqual([
    "limit",
    "plan",
    "reason",
    "resource",
    "suggested",
    "type",
    "used",
  ]);
  expect(body.cause).toMatchObject({ type: "upgrade", ...cause });
}

/** Header names of the form `x-<service>-signature`. */
export function signatureHeaders(posted: Posted): string[] {
  return Object.keys(posted.headers).filter((name) => /^x-[a-z0-9-]+-signature$/.test(name));
}

/**
 * Whether the post is signed by this secret over its raw bytes: HMAC-SHA256, hex, bare or after
 * `sha256=`. The document shows neither algorithm nor encoding; this is what the sandbox chooses.
 */
export function isSignedBy(secret: string, posted: Posted): boolean {
  const [name] = signatureHeaders(posted);
  if (name === undefined) return false;
  const given = Buffer.from(String(posted.headers[name]).replace(/^sha256=/, ""), "hex");
  const right = createHmac("sha256", secret).update(posted.raw).digest();
  return given.length === right.length && timingSafeEqual(given, right);
}
