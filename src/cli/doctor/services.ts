import { randomInt } from "node:crypto";
import { z } from "zod";
import type { AccountSettings, Settings } from "../../config/schema.ts";
import { systemClock } from "../../model/system-clock.ts";
import { createServiceClient } from "../../service/client.ts";
import { ServiceError } from "../../service/errors.ts";
import { createLimiter } from "../../service/limits/limiter.ts";
import { connectRelay, probeListener } from "../control-client.ts";
import { CommandFailed } from "../io.ts";
import { type Finding, fail, ok, warn } from "./finding.ts";

/** A stop of an account's calls, as `/readyz` shows it. */
const stopsSchema = z.array(z.object({ account: z.string(), reason: z.string(), resource: z.string().nullable(), until: z.string() }));
export type SeenStop = z.infer<typeof stopsSchema>[number];

/** Whether the relay of the settings answers, and is ready. `url` is null when its port is any free one. `stops` receives what it shows. */
export async function checkRelay(url: string | null, isHeld: boolean, stops: (seen: readonly SeenStop[]) => void): Promise<Finding> {
  const check = "relay";
  if (url === null) {
    return isHeld ? ok(check, "runs; server.port is 0, so it was not asked") : warn(check, "does not run", "wamid-relay serve");
  }
  try {
    const found = await probeListener(url);
    if (found === "stranger")
      return fail(check, `what listens at ${url} is no wamid-relay`, "give server.port another port, or stop the other one");
    if (found === "nobody") {
      return isHeld
        ? fail(
            check,
            `a process holds the store, and nothing answers at ${url}`,
            "does it run with other settings? Else end it and start it again",
          )
        : warn(check, `does not run: nothing listens at ${url}`, "wamid-relay serve");
    }
    const { status, json } = await connectRelay(url, null).request("GET", "/readyz");
    const seen = stopsSchema.safeParse((json as { stops?: unknown }).stops);
    if (seen.success) stops(seen.data);
    if (status === 200) return ok(check, `ready at ${url}`);
    const { reason, draining } = json as { reason?: unknown; draining?: unknown };
    if (draining === true) return warn(check, `is stopping (${url})`, "wait for its end, or start it again");
    return fail(
      check,
      `not ready at ${url}: ${typeof reason === "string" ? reason : `status ${status}`}`,
      "it answers 503 until that is repaired",
    );
  } catch (error) {
    if (error instanceof CommandFailed) return fail(check, error.message, "see whether the process hangs");
    throw error;
  }
}

/** Timeout of the service. All accounts are checked at once. */
const withinMs = 5_000;

/**
 * Whether the key of each account works: one `GET /me`, which changes nothing, and counts as one call against cap and
 * quota. Accounts without base URL or key are skipped (the settings' warnings cover half a pair).
 */
export async function checkServices(settings: Settings): Promise<Finding[]> {
  const checks = Object.entries(settings.accounts).map(([name, account]) => checkService(name, account));
  return (await Promise.all(checks)).flat();
}

const stoppedCalls: Readonly<Record<string, string>> = {
  quota: "makes no call",
  "quota-messages": "sends no message",
  "quota-runs": "starts no automation run",
  "quota-contacts": "writes no contact",
  "quota-reads": "reads nothing",
};

function quotaName(resource: string | null | undefined): string {
  if (resource == null) return "a monthly quota";
  return resource === "apiCalls" ? "the month's quota of calls" : `the monthly quota ${resource.slice(0, 40)}`;
}

/** Calls that the relay has stopped because a quota is used up; doctor's own call does not show them. */
export function judgeStops(stops: readonly SeenStop[]): Finding[] {
  return stops.flatMap(({ account, reason, resource, until }) => {
    const what = stoppedCalls[reason];
    if (what === undefined) return [];
    const quota = resource === null ? "a monthly quota" : `the monthly quota ${resource}`;
    return [
      warn(
        "service",
        `${account}: the relay ${what} until ${until}, then one call tries: the service said that ${quota} is used up (${reason})`,
        `after a change of plan, or if the service answers: wamid-relay resume --account ${account}`,
      ),
    ];
  });
}

async function checkService(name: string, account: AccountSettings): Promise<Finding[]> {
  const { baseUrl, apiKey } = account;
  if (baseUrl === undefined || apiKey === undefined) return [];
  const client = createServiceClient({
    baseUrl,
    apiKey,
    admission: createLimiter({ ...account, clock: systemClock }),
    clock: systemClock,
    random: () => randomInt(2 ** 32) / 2 ** 32,
    retry: { attempts: 1 },
    timeoutMs: withinMs,
  });
  const startedAt = performance.now();
  try {
    await client.me();
    return [ok("service", `${name}: the key works at ${baseUrl} (${Math.round(performance.now() - startedAt)} ms)`)];
  } catch (error) {
    if (!(error instanceof ServiceError)) throw error;
    return [judgeService(name, baseUrl, error)];
  } finally {
    await client.close();
  }
}

/** What an error of `GET /me` says about the settings of an account. */
function judgeService(name: string, baseUrl: string, { failure, status }: ServiceError): Finding {
  const check = "service";
  const key = `accounts.${name}.apiKey`;
  const url = `accounts.${name}.baseUrl`;
  switch (failure.kind) {
    case "unauthenticated":
      return fail(
        check,
        `${name}: ${baseUrl} refuses the API key (401): misspelled or revoked`,
        `correct ${key}; the account's settings at the service (API and webhooks) make a new one`,
      );
    case "blocked":
      return fail(
        check,
        `${name}: ${baseUrl} has blocked this address for a minute: too many calls with a bad key`,
        `find out what sends a bad key from here (see ${key}), and look again in a minute`,
      );
    case "plan":
      return fail(
        check,
        `${name}: the account's plan does not permit the API (402)`,
        `${failure.cause?.suggested ?? "another plan"} would; ask for it at the service`,
      );
    case "quota":
      return warn(
        check,
        `${name}: the key works, but ${quotaName(failure.cause?.resource)} is used up until ${new Date(failure.until).toISOString()}`,
        "wait, or change the plan at the service",
      );
    case "rate-limited":
      return warn(
        check,
        `${name}: the key works, but the cap per minute is used up`,
        `who else calls for this account? accounts.${name}.share says how much of the cap is the relay's`,
      );
    case "unexpected":
    case "rejected":
      return warn(check, `${name}: ${baseUrl} failed (${status}); whether the key works is not known`, "look again later");
    case "network":
      return fail(check, `${name}: no answer from ${baseUrl} (${failure.code})`, `check ${url}, the name, and the network`);
    case "timeout":
      return fail(check, `${name}: no answer from ${baseUrl} within ${failure.timeoutMs / 1000} s`, `check ${url} and the network`);
    case "malformed":
      return stranger(`${status}: ${failure.problem}`);
    default:
      return stranger(`${status}`);
  }

  function stranger(what: string): Finding {
    return fail(
      check,
      `${name}: what answers at ${baseUrl} is not the service (${what})`,
      `check ${url}: the root of its API is {baseUrl}/api/v1`,
    );
  }
}
