import { onTestFinished } from "vitest";
import { Secret } from "../../../../src/model/secret.ts";
import {
  createServiceClient,
  type ServiceClient,
  type ServiceClientSettings,
} from "../../../../src/service/client.ts";
import type { Admission, CallOutcome, CallRequest } from "../../../../src/service/endpoints.ts";
import { ServiceError } from "../../../../src/service/errors.ts";
import { createHurriedClock, type HurriedClock } from "./hurried-clock.ts";
import { startScripted } from "./scripted-service.ts";

export const apiKey = "live_key_that_nobody_may_see";

/** An admission that lets everything through and keeps what it was asked and told. */
export interface RecordingAdmission extends Admission {
  readonly entered: CallRequest[];
  /** How often each permit was settled, and with what. */
  readonly settled: CallOutcome[][];
}

export function recordingAdmission(): RecordingAdmission {
  const entered: CallRequest[] = [];
  const settled: CallOutcome[][] = [];
  return {
    entered,
    settled,
    async enter(request) {
      request.signal?.throwIfAborted();
      entered.push(request);
      const outcomes: CallOutcome[] = [];
      settled.push(outcomes);
      return { settle: (outcome) => void outcomes.push(outcome) };
    },
  };
}

export interface OpenedClient {
  readonly client: ServiceClient;
  readonly admission: RecordingAdmission;
  readonly clock: HurriedClock;
}

/**
 * A client, closed at the test's end; fails the test when a permit was not settled exactly once.
 */
export function openClient(
  baseUrl: string,
  settings: Partial<ServiceClientSettings> = {},
): OpenedClient {
  const admission = recordingAdmission();
  const clock = createHurriedClock(settings.timeoutMs ?? 10_000);
  const client = createServiceClient({
    baseUrl,
    apiKey: new Secret(apiKey),
    admission,
    clock,
    random: () => 0.5,
    ...settings,
  });
  onTestFinished(async () => {
    const closed = client.close();
    // What still hangs would hold the closing until its deadline.
    clock.expire();
    await closed;
    const times = admission.settled.map((outcomes) => outcomes.length);
    if (times.some((count) => count !== 1))
      throw new Error(`permits settled ${times.join(", ")} times`);
  });
  return { client, admission, clock };
}

/** A scripted service, and a client of it. */
export async function openScripted(
  answer: Parameters<typeof startScripted>[0],
  settings: Partial<ServiceClientSettings> = {},
) {
  const service = await startScripted(answer);
  return { service, ...openClient(service.baseUrl, settings) };
}

/** The error of a call that must fail. */
export async function failureOf(call: Promise<unknown>): Promise<ServiceError> {
  const error = await call.then(
    (value) => new Error(`succeeded: ${JSON.stringify(value)}`),
    (reason: unknown) => reason,
  );
  if (error instanceof ServiceError) return error;
  throw error;
}

export const noRetry = { attempts: 1 };
